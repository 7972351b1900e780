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
KEYS = SOURCES.parent / 'keys'
NGINX_MODULES = pathlib.Path('/usr/lib/nginx/modules')
NOT_APPLICABLE = 77
TIMEOUT = 300   # seconds for one program

# contender -> operations of a round; with --quick. A process asks the others over a socket, which takes longer.
OPERATIONS = {'tslab-map': (1000000, 20000), 'memory': (1000000, 20000), 'apcu': (300000, 20000),
              'shdict': (300000, 20000), 'memcached': (10000, 500), 'redis': (10000, 500), 'lmdb': (20000, 20000),
              'tslab-huge': (20000, 20000)}
MISSES_QUICK = 1000     # requests: the same for all
PYTHON_SHARE = 0.1      # of the operations that a program in C does
SERVER_SHARE = 0.4      # of a server's operations in rounds: each takes some 60 us where a processor sleeps in between
SERVERS = {'redis', 'memcached', 'shdict'}
SERVER_MIB = 256        # enough for all cases but those that evict


def user():
    return pwd.getpwuid(os.getuid()).pw_name


def nginx(folder):
    """nginx's command, or None where it lacks Lua."""
    if not shutil.which('nginx') or not (NGINX_MODULES / 'ngx_http_lua_module.so').exists():
        return None
    text = (SOURCES / 'shdict' / 'shdict.conf').read_text(encoding='utf-8')
    for name, value in {'FOLDER': folder, 'MODULES': NGINX_MODULES, 'SCRIPT': SOURCES / 'shdict' / 'shdict.lua',
                        'USER': user()}.items():
        text = text.replace(name, str(value))
    path = os.path.join(folder, 'nginx.conf')
    pathlib.Path(path).write_text(text, encoding='utf-8')
    return ['nginx', '-p', folder, '-e', os.path.join(folder, 'error.log'), '-c', path]


def server(contender, folder, path, mib):
    """The command of a contender's server; None where it is not installed. With `mib` it evicts: memcached always does."""
    if contender == 'shdict':
        return nginx(folder)
    command = {
        'redis': ['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no', '--dir', folder,
                  *(['--maxmemory', f'{mib}mb', '--maxmemory-policy', 'allkeys-lru'] if mib else [])],
        'memcached': ['memcached', '-u', user(), '-m', str(mib or SERVER_MIB), '-I', '2m', '-s', path],
    }.get(contender)
    return command if command and shutil.which(command[0]) else None


class Contender:
    """A contender in a case, its server started."""

    def __init__(self, runner, case, name, path, pid):
        self.runner, self.name, self.path = runner, name, path
        self.workload, *self.arguments = map(str, case.options)
        if self.workload == 'misses':
            self.arguments += [str(pid), *([runner.arguments.log] if runner.arguments.log else [])]
        self.is_whole = case.whole
        self.environment = dict(os.environ)

    def n(self):
        """Operations; 0: the program knows the number itself."""
        n, quick = OPERATIONS[self.name]
        if self.runner.arguments.quick:
            return MISSES_QUICK if self.workload == 'misses' else quick
        share = SERVER_SHARE if self.name in SERVERS and self.workload != 'evict-limit' else 1
        return 0 if self.is_whole else max(int(n * share * self.runner.arguments.scale), 100)

    def growth_command(self, kind, n):
        if kind == 'apcu':
            return ['php', '-d', 'apc.enable_cli=1', '-d', 'apc.shm_size=1G', '-d', 'apc.entries_hint=1000000',
                    str(KEYS / 'apcu-keys.php'), str(n)]
        return [str(self.runner.build / 'bench' / 'bench-keys'), kind, str(n)]

    def command(self):
        n, kind = self.n(), self.name.removesuffix('-map')
        if self.workload == 'growth':
            return self.growth_command(kind, n)
        if kind == 'apcu':
            return ['php', '-d', 'apc.enable_cli=1', '-d', 'apc.shm_size=256M', str(SOURCES.parent / 'php' / 'apcu.php'), self.workload,
                    str(n)]
        if kind == 'shdict':
            return ['curl', '--silent', '--show-error', '--fail', '--unix-socket', self.path,
                    f'http://bench/{urllib.parse.quote(self.workload)}?n={n}']
        if self.workload == 'python':
            package = self.runner.build / 'bindings' / 'python'
            examples = SOURCES.parent.parent / 'bindings' / 'python' / 'examples'
            self.environment['PYTHONPATH'] = f'{package}:{examples}'
            n = n if kind in SERVERS else max(int(n * PYTHON_SHARE), 100)
            return ['/usr/bin/python3', str(SOURCES / 'python.py'), kind, self.path or '-', str(n)]
        program = str(self.runner.build / 'bench' / 'bench-web')
        return [program, self.workload, kind, self.path or '-', str(n), *self.arguments]


def contenders(runner, stack, case, socket):
    """The contenders that can be had. Starts their servers."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='tslab-bench-'))
    found = []
    for name in case.contenders:
        path, pid = socket, 0
        if name in SERVERS:
            path = os.path.join(folder, f'{name}.sock')
            command = server(name, folder, path, case.mib)
            if not command:
                runner.note(f'{name}: left out: it is not installed')
                continue
            if case.workload == 'map-misses':
                # On the processor of bench-web: one that sleeps between any two requests takes ten times as long to
                # answer, and time does not matter here.
                command = ['taskset', '-c', str(max(os.sched_getaffinity(0))), *command]
            pid = stack.enter_context(service.server(command, path)).pid
        found.append(Contender(runner, case, name, path, pid))
    return found


def ask(runner, case, contender, run):
    name = contender.name
    try:
        done = subprocess.run(contender.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT, env=contender.environment, check=False)
        if done.returncode == NOT_APPLICABLE:
            runner.note(f'{case.name}, {name}: left out: {done.stderr.strip()[-200:] or "it has no such calls"}')
        elif done.returncode != 0:
            runner.note(f'{case.name}, {name}: exit code {done.returncode}: {done.stderr.strip()[-200:]}')
            runner.failed |= name in ('tslab-map', 'memory')
        else:
            metrics = json.loads(done.stdout)
            series = metrics.pop('series', None)
            runner.add(case.name, name, run, metrics, series)
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        runner.note(f'{case.name}, {name}: left out: {e}')


def run(runner, case, socket=None):
    wanted = case._replace(contenders=[c for c in case.contenders if c in runner.arguments.contenders])
    with contextlib.ExitStack() as stack:
        found = contenders(runner, stack, wanted, socket)
        for n in range(min(runner.runs, case.runs or runner.runs)):
            for contender in found if n % 2 == 0 else reversed(found):
                ask(runner, case, contender, n)
