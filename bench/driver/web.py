"""Stores of values by key, measured in turn: see bench/web/web.c. A server runs for as long as a case does."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import urllib.parse

import service

SOURCES = pathlib.Path(__file__).resolve().parent.parent / 'web'
NGINX_MODULES = pathlib.Path('/usr/lib/nginx/modules')
NOT_APPLICABLE = 77
TIMEOUT = 120   # seconds for one program

# contender -> operations of a round; with --quick. A process asks the others over a socket, which takes longer.
OPERATIONS = {'tslab-map': (1000000, 20000), 'memory': (1000000, 20000), 'apcu': (300000, 20000),
              'shdict': (300000, 20000), 'memcached': (10000, 500), 'redis': (10000, 500)}


def user():
    return pwd.getpwuid(os.getuid()).pw_name


def nginx(folder):
    """nginx's command, or None where it lacks Lua."""
    if not shutil.which('nginx') or not (NGINX_MODULES / 'ngx_http_lua_module.so').exists():
        return None
    text = (SOURCES / 'shdict.conf').read_text(encoding='utf-8')
    for name, value in {'FOLDER': folder, 'MODULES': NGINX_MODULES, 'SCRIPT': SOURCES / 'shdict.lua',
                        'USER': user()}.items():
        text = text.replace(name, str(value))
    path = os.path.join(folder, 'nginx.conf')
    pathlib.Path(path).write_text(text, encoding='utf-8')
    return ['nginx', '-p', folder, '-e', os.path.join(folder, 'error.log'), '-c', path]


def server(contender, folder, path):
    """The command of a contender's server; None where it needs none, or is not installed."""
    if contender == 'shdict':
        return nginx(folder)
    command = {
        'redis': ['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no', '--dir', folder],
        'memcached': ['memcached', '-u', user(), '-m', '256', '-I', '2m', '-s', path],
    }.get(contender)
    return command if command and shutil.which(command[0]) else None


def programs(runner, stack, case, socket):
    """contender -> the command that measures it, where it can be had. Starts servers."""
    workload, folder = case.options[0], stack.enter_context(tempfile.TemporaryDirectory(prefix='tslab-bench-'))
    program = str(runner.build / 'bench' / 'bench-web')
    found = {}
    for contender in case.contenders:
        path = os.path.join(folder, f'{contender}.sock')
        if contender in ('redis', 'memcached', 'shdict'):
            command = server(contender, folder, path)
            if not command:
                runner.note(f'{contender}: left out: it is not installed')
                continue
            stack.enter_context(service.server(command, path))
        if contender == 'apcu':
            found[contender] = ['php', '-d', 'apc.enable_cli=1', '-d', 'apc.shm_size=256M', str(SOURCES / 'apcu.php'),
                                workload]
        elif contender == 'shdict':
            found[contender] = ['curl', '--silent', '--show-error', '--fail', '--unix-socket', path,
                                f'http://bench/{urllib.parse.quote(workload)}?n=']
        elif contender in ('redis', 'memcached'):
            found[contender] = [program, workload, contender, path]
        else:
            found[contender] = [program, workload, contender.removesuffix('-map'), socket or '-']
    return found


def ask(runner, case, contender, run, command):
    n, quick = OPERATIONS[contender]
    n = quick if runner.arguments.quick or case.whole else max(int(n * runner.arguments.scale), 100)
    # The program knows the number of `whole` cases itself.
    n = '' if case.whole and not runner.arguments.quick else str(n)
    command = [*command[:-1], command[-1] + n] if contender == 'shdict' else [*command, n] if n else command
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT,
                              check=False)
        if done.returncode == NOT_APPLICABLE:
            runner.note(f'{case.name}, {contender}: left out: {done.stderr.strip()[-200:] or "it has no such calls"}')
        elif done.returncode != 0:
            runner.note(f'{case.name}, {contender}: exit code {done.returncode}: {done.stderr.strip()[-200:]}')
            runner.failed |= contender in ('tslab-map', 'memory')
        else:
            runner.add(case.name, contender, run, json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        runner.note(f'{case.name}, {contender}: left out: {e}')


def run(runner, case, socket=None):
    wanted = case._replace(contenders=[c for c in case.contenders if c in runner.arguments.contenders])
    with contextlib.ExitStack() as stack:
        found = programs(runner, stack, wanted, socket)
        for n in range(min(runner.runs, case.runs or runner.runs)):
            for contender in found if n % 2 == 0 else reversed(found):
                ask(runner, case, contender, n, found[contender])
