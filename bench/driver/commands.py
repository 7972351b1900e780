"""Whole commands as a user starts them, by hyperfine; and the demo's own figures."""

import json
import os
import shutil
import subprocess
import tempfile

import runner as programs
import service


def commands(runner, socket, log):
    ctl = [str(runner.build / 'daemon' / 'ctl' / 'tslabctl'), '--socket', socket]
    demo = [str(runner.build / 'examples' / 'tslab-demo')]
    return {
        'tslabctl --version': [ctl[0], '--version'],
        'tslabctl status': [*ctl, 'status'],
        'tslabctl stats --json': [*ctl, '--json', 'stats'],
        'tslabctl epoch list': [*ctl, 'epoch', 'list'],
        'tslabctl epoch advance': [*ctl, 'epoch', 'advance'],
        'tslabctl clients': [*ctl, 'clients'],
        'tslabctl check': [*ctl, 'check'],
        'attach, allocate, share, end': [str(runner.build / 'examples' / 'first')],
        'tslab-demo, 300,000 requests': demo,
        **({'tslab-demo, the log': [*demo, '--log', log]} if log else {}),
    }


def measure(runner, name, command, environment):
    with tempfile.NamedTemporaryFile(prefix='tslab-bench-', suffix='.json') as out:
        once = 'demo' in name or runner.arguments.quick
        done = subprocess.run(['hyperfine', '--shell=none', '--style=none', '--warmup', '1', '--runs',
                               '3' if once else '30', '--export-json', out.name, ' '.join(command)],
                              env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            runner.note(f'{name}: {done.stderr.strip()[-200:]}')
            runner.failed = True
            return
        found = json.load(out)['results'][0]
    runner.add('commands', name, 0, {f'{key}_ms': found[key] * 1000 for key in ('mean', 'min', 'median', 'max')})


def session_workload(runner):
    """Four workers serve the sessions of a web server: made-up requests, and with --log an access log's."""
    demo = [str(runner.build / 'examples' / 'tslab-demo'), '--json']
    log = runner.arguments.log
    for name, options in ('made up', []), *([('the log', ['--log', log])] if log else []):
        try:
            said, _ = runner.execute(demo + options)
        except (programs.Failed, ValueError) as e:
            runner.note(f'demo, {name}: {e}')
            runner.failed = True
            continue
        runner.add('sessions', name, 0, {
            **{k: said[k] for k in ('requests', 'requests_per_second')},
            **{f'{k}_ns': said['latency_ns'][k] for k in ('p50', 'p99', 'p999', 'max')}})


def run(runner):
    session_workload(runner)
    if not shutil.which('hyperfine'):
        runner.note('whole commands are not measured: there is no hyperfine')
        return
    with service.Daemon(runner.build) as daemon:
        environment = dict(os.environ, TSLAB_POOL=daemon.path,
                           LD_LIBRARY_PATH=str(runner.build / 'libclient'))
        for name, command in commands(runner, daemon.path, runner.arguments.log).items():
            measure(runner, name, command, environment)
