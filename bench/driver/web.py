"""Stores of sessions, run in turn: see bench/web/web.c and apcu.php."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import service

APCU = pathlib.Path(__file__).resolve().parent.parent / 'web' / 'apcu.php'
CASE = 'web'


def ask(runner, contender, run, command, quick):
    try:
        done = subprocess.run(command + (quick if runner.arguments.quick else []), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        if done.returncode != 0:
            runner.note(f'{CASE}, {contender}: left out: {done.stderr.strip()[-200:]}')
            return
        runner.add(CASE, contender, run, json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        runner.note(f'{CASE}, {contender}: left out: {e}')


def servers(stack, folder):
    """name -> socket of each installed server, which this starts."""
    found = {}
    for name, command in {
        'redis': ['redis-server', '--port', '0', '--unixsocket', '{}', '--save', '', '--appendonly', 'no',
                  '--dir', folder],
        'memcached': ['memcached', '-u', pwd.getpwuid(os.getuid()).pw_name, '-s', '{}'],
    }.items():
        path = os.path.join(folder, name + '.sock')
        if shutil.which(command[0]):
            stack.enter_context(service.server([path if part == '{}' else part for part in command], path))
            found[name] = path
    return found


def run(runner):
    program = str(runner.build / 'bench' / 'bench-web')
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='tslab-bench-'))
        found = servers(stack, folder)
        for name in 'redis', 'memcached':
            if name not in found:
                runner.note(f'{CASE}, {name}: left out: it is not installed')
        for n in range(1 if runner.arguments.quick else 3):
            ask(runner, 'tslab', n, [program, 'tslab'], ['-', '20000'])
            for name, path in found.items():
                ask(runner, name, n, [program, name, path], ['1000'])
            ask(runner, 'apcu', n, ['php', '-d', 'apc.enable_cli=1', str(APCU)], ['20000'])
