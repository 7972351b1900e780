"""Runs the bench's programs, and keeps their results."""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import time

import plan
import service
import soak
import summary
import web

NOT_APPLICABLE = 77
TIMEOUT = 600   # seconds for one program
PEER_TIMEOUT = 15   # for a peer's program: some peers spin until a thread runs that does not
COUNTED = 4000  # pairs under callgrind


class Failed(Exception):
    pass


class TooLong(Failed):
    pass


def machine():
    def read(path):
        try:
            return pathlib.Path(path).read_text(encoding='utf-8', errors='replace')
        except OSError:
            return ''

    source = pathlib.Path(__file__).resolve().parent.parent.parent
    commit = subprocess.run(['git', '-c', 'safe.directory=*', '-C', str(source), 'describe', '--always', '--dirty'],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip() \
        if shutil.which('git') else ''
    def processor():
        """With its numbers, as a virtual machine often gives no name that says more than the vendor's."""
        found = dict(re.findall(r'^(model name|cpu family|model|stepping)\s*:\s*(.*)$', read('/proc/cpuinfo'),
                                re.MULTILINE))
        if 'model name' not in found:
            return platform.machine()
        numbers = [f'{key.split()[-1]} {found[key]}' for key in ('cpu family', 'model', 'stepping') if key in found]
        return f'{found["model name"]} ({", ".join(numbers)})' if numbers else found['model name']

    return {
        'cpu': processor(),
        'n_cpus': len(os.sched_getaffinity(0)),
        'kernel': platform.release(),
        'libc': ' '.join(platform.libc_ver()),
        'governor': read('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor').strip(),
        'load_before': os.getloadavg()[0],
        'commit': commit,
        'date': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'),
    }


class Runner:
    def __init__(self, build, arguments, keep):
        """keep(self) is called when there are more results."""
        self.build, self.arguments, self.keep = build, arguments, keep
        self.results, self.notes = [], []
        self.seconds = {}       # case -> what it took
        self.daemon_socket = None
        self.failed = False
        self.crowded = []       # cases, once for each program that had to share its processors
        self.too_long = set()   # (workload, contender)
        self.runs = 1 if arguments.quick else arguments.runs
        missing = [c for c in arguments.contenders if not self.program(c)]
        if missing:
            self.note(f'left out, as their libraries were not found: {", ".join(missing)}')

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            print(f'bench: {text}', file=sys.stderr)

    def program(self, contender):
        name, options = plan.CONTENDERS[contender]
        path = self.build / 'bench' / f'bench-{name}'
        return [str(path), *options] if path.exists() else None

    def execute(self, command, timeout=TIMEOUT):
        """The program's output, as JSON (None: the workload does not apply), and its messages."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=timeout, check=False)
        except subprocess.TimeoutExpired as e:
            raise TooLong(f'left out: no end after {timeout} s') from e
        if done.returncode == NOT_APPLICABLE:
            return None, done.stderr
        if done.returncode != 0:
            raise Failed(f'exit code {done.returncode}: {done.stderr.strip()[-300:]}')
        return json.loads(done.stdout), done.stderr

    def command(self, case, contender):
        command = self.program(contender) + [str(o) for o in case.options]
        if self.arguments.quick:
            command += ['--scale', '0.005', '--live', '5000']
        elif not case.whole:
            command += ['--scale', str(self.arguments.scale)]
        if case.daemon is not None:
            command += ['--pool', self.daemon_socket]
        return command + [case.workload]

    def measure(self, case, contender):
        is_peer = contender in plan.SHARED and case.workload not in plan.LONG
        result, _ = self.execute(self.command(case, contender), PEER_TIMEOUT if is_peer else TIMEOUT)
        return result

    def count(self, case, contender):
        """Instructions of a hit: the difference that N more of them make, in the functions themselves and in all."""
        valgrind = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null']

        def collected(n, symbol):
            options = [f'--toggle-collect={symbol}'] if symbol else []
            result, said = self.execute(valgrind + options + self.program(contender) + ['--ops', str(n), case.workload])
            found = re.search(r'Collected *: *(\d+)', said)
            if not found:
                raise Failed('callgrind counted nothing')
            return int(found.group(1)), result

        def difference(symbol):
            (first, result), (second, _) = collected(COUNTED, symbol), collected(2 * COUNTED, symbol)
            return (second - first) / COUNTED, result

        pair, result = difference('')
        result['metrics'] = {'pair_instructions': pair}
        for operation in 'alloc', 'free':
            if result[f'{operation}_symbol']:
                result['metrics'][f'{operation}_instructions'] = difference(result[f'{operation}_symbol'])[0]
        return result

    def add(self, case, contender, run, metrics, series=None):
        """Keeps a result that no workload gave."""
        self.results.append({'case': case, 'contender': contender, 'run': run, 'metrics': metrics,
                             **({'series': series} if series else {})})

    def run_once(self, case, contender, run):
        if (case.workload, contender) in self.too_long:
            return
        try:
            result = self.count(case, contender) if case.counted else self.measure(case, contender)
        except TooLong as e:
            self.too_long.add((case.workload, contender))
            self.note(f'{case.name}, {contender}: {e}')
            self.failed |= contender not in plan.SHARED
            return
        except (Failed, ValueError) as e:
            self.note(f'{case.name}, {contender}: {e}')
            self.failed = True
            return
        if result is not None:
            self.check_cache(case, contender, result['metrics'])
            self.results.append({'case': case.name, 'contender': contender, 'run': run, **result})

    def check_cache(self, case, contender, metrics):
        """Notes a library that ignores the cache option, as its three variants are the same; and busy processors."""
        hits = metrics.get('alloc_hit_rate')
        if metrics.get('processor_share', 1) < 0.9 and not self.arguments.quick:
            self.crowded.append(case.name)
        if case.workload == 'pair' and hits is not None:
            if contender == 'tslab-on' and hits == 0:
                self.note('this library has no handle caches: on, off and adaptive are the same')
            if contender == 'tslab-off' and hits > 0:
                self.note('this library does not turn its handle caches off')

    def run_case(self, case):
        if case.store:
            web.run(self, case, self.daemon_socket if case.daemon is not None else None)
            return
        contenders = [c for c in case.contenders if c in self.arguments.contenders and self.program(c)]
        if self.arguments.quick and case.counted:
            contenders = [c for c in contenders if c == 'tslab-adaptive']
        runs = min(self.runs, case.runs or self.runs)
        for run in range(runs):
            # Every other run goes backwards, so that a contender does not always follow the same other one.
            for contender in contenders if run % 2 == 0 else reversed(contenders):
                self.run_once(case, contender, run)

    @contextlib.contextmanager
    def timed(self, name):
        """Keeps the time that a case takes, and its programs' own: the rest is sleep, and other programs' work."""
        print(f'bench: {name}', file=sys.stderr, flush=True)
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = self.seconds[name] = {
            'wall': round(time.monotonic() - begin, 1),
            'processors': round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)}
        print(f'bench: {name}: {took["wall"]} s, {took["processors"]} s of them on a processor', file=sys.stderr)

    def run_all(self, cases):
        for case in cases:
            with self.timed(case.name):
                self.run_any(case)
            self.show(case)
            self.keep(self)
        if self.crowded:
            names = ', '.join(dict.fromkeys(self.crowded))
            self.note(f'something else ran on the processors of {len(self.crowded)} programs, of these cases: {names}')
            self.crowded = []

    def run_any(self, case):
        if case.counted and not shutil.which('valgrind'):
            self.note('there is no valgrind: instructions are not counted')
        elif case.workload == 'soak':
            if 'tslab-map' in self.arguments.contenders:
                soak.run(self, case)
        elif case.daemon is not None:
            self.run_with_daemon(case)
        else:
            self.run_case(case)

    def show(self, case):
        """A case's figures as it ends: all of them come once more in the table."""
        found = summary.Summary([r for r in self.results if r['case'] == case.name])
        for line in summary.table(found, [case], self.arguments.contenders):
            print(line, file=sys.stderr, flush=True)

    def run_with_daemon(self, case):
        try:
            with service.Daemon(self.build, *case.daemon) as daemon:
                self.daemon_socket = daemon.path
                self.run_case(case)
        except service.Failed as e:
            self.note(f'{case.name}: {e}')
            self.failed = True
