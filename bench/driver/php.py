"""PHP: calls of tslab beside APCu's and phpredis's, and sessions under php-fpm behind nginx, beside files and phpredis.

    calls      256 bytes fetched and stored, a counter, an array of 1000 entries, a route table of 5 MiB, by one worker of
               php-fpm; without php-fpm and nginx on the command line, where each call looks at the clock, too
    sessions   requests a second for a page that reads and writes a session of 2 KiB, with 4 workers; a worker's memory

Prints a table of medians of alternating runs with its targets. bench-php.json in the build folder has each result as soon as it
is there: an interrupted run keeps the results that it had."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from app import HOST, UNITS, free_port, running, wait_for  # noqa: E402

SOURCES = pathlib.Path(__file__).resolve().parent.parent / 'php'
WORKERS, SECONDS = 4, 4
CALLS = ['tslab', 'cache', 'apcu', 'redis']
HANDLERS = ['tslab', 'files', 'redis', 'redis-locked']
# (figure, store, its peer, bound of the ratio); for a bound below 1 less is better
TARGETS = [('fetch_ns', 'tslab', 'apcu', 0.9), ('store_ns', 'tslab', 'apcu', 0.6), ('inc_ns', 'tslab', 'apcu', 0.5),
           ('array_ns', 'tslab', 'apcu', 0.1)]
SESSION_TARGETS = [('requests_per_s', 'tslab', 'files', 1.0), ('requests_per_s', 'tslab', 'redis', 1.3)]


class Php:
    """The PHP of Debian, which reads no php.ini, and extensions for it."""

    def __init__(self, build):
        self.tslab = build / 'bindings' / 'php' / 'tslab.so'
        self.folder = pathlib.Path(subprocess.run(['php-config', '--extension-dir'], stdout=subprocess.PIPE, text=True,
                                                  check=True).stdout.strip())
        version = subprocess.run(['php-config', '--version'], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.fpm = shutil.which('php-fpm' + '.'.join(version.split('.')[:2]), path='/usr/sbin:/usr/local/sbin')
        self.nginx = shutil.which('nginx', path='/usr/sbin:/usr/local/sbin')
        # nginx and php-fpm need these names in the configuration, as workers of root run as somebody else
        self.is_root = os.geteuid() == 0

    def has(self, store):
        return (self.tslab if store in ('tslab', 'cache', 'files') else self.folder / f'{store.split("-")[0]}.so').exists()

    def options(self, store, sockets):
        ini = {
            'tslab': {'extension': self.tslab, 'tslab.pool': sockets['tslab'], 'tslab.apcu_compat': 1},
            'cache': {'extension': self.tslab, 'tslab.pool': sockets['tslab']},
            'apcu': {'extension': self.folder / 'apcu.so', 'apc.enable_cli': 1, 'apc.shm_size': '256M'},
            'redis': {},
        }[store]
        return self.words(store, ini)

    def words(self, store, ini):
        # Debian's phpredis needs igbinary.
        more = ['igbinary.so', 'redis.so'] if store.startswith('redis') else []
        return ['-n', *(f'-dextension={self.folder / name}' for name in more),
                *(f'-d{name}={value}' for name, value in ini.items())]

    def session_options(self, handler, sockets, folder):
        ini = {
            'tslab': {'extension': self.tslab, 'tslab.pool': sockets['tslab'], 'session.save_handler': 'tslab',
                      'session.save_path': '"map=sessions"'},
            'files': {'session.save_handler': 'files', 'session.save_path': folder, 'session.gc_probability': 0},
            'redis': {'session.save_handler': 'redis', 'session.save_path': f'"unix://{sockets["redis"]}"'},
        }
        ini['redis-locked'] = {**ini['redis'], 'redis.session.locking_enabled': 1, 'redis.session.lock_wait_time': 2000,
                               'redis.session.lock_retries': 1000}
        return self.words(handler, ini[handler])


@contextlib.contextmanager
def servers(build, folder):
    """Sockets of a pool and of a Redis server."""
    sockets = {'tslab': folder / 'default.sock', 'redis': folder / 'redis.sock'}
    with contextlib.ExitStack() as stack:
        stack.enter_context(running([build / 'daemon' / 'tslabd', '--size=256M'],
                                    env={**os.environ, 'TSLAB_RUNTIME_DIR': str(folder)}))
        if shutil.which('redis-server'):
            stack.enter_context(running(['redis-server', '--port', 0, '--unixsocket', sockets['redis'], '--save', '',
                                         '--appendonly', 'no', '--dir', folder]))
            wait_for(sockets['redis'].exists)
        wait_for(sockets['tslab'].exists)
        yield sockets


def calls(php, store, sockets, n):
    options = php.options(store, sockets)
    if not (php.fpm and php.nginx):
        done = subprocess.run(['php', *options, SOURCES / 'calls.php', store, str(n), sockets['redis']],
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)
    with serving(php, options, 'calls.php', 1) as port:
        return json.loads(ask(port, f'/?store={store}&n={n}&redis={sockets["redis"]}', 'none')[0])


def write_settings(php, folder, port, page, workers):
    user = 'user = root\ngroup = root' if php.is_root else ''
    (folder / 'fpm.conf').write_text(f'''[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
{user}
listen = {folder}/fpm.sock
pm = static
pm.max_children = {workers}
''')
    temporary = ' '.join(f'{kind}_temp_path {folder}/{kind};'
                         for kind in ('client_body', 'fastcgi', 'proxy', 'uwsgi', 'scgi'))
    (folder / 'nginx.conf').write_text(f'''pid {folder}/nginx.pid; daemon off; error_log {folder}/nginx.log;
{'user root;' if php.is_root else ''} events {{ }}
http {{ access_log off; {temporary}
server {{ listen {HOST}:{port}; location / {{ fastcgi_pass unix:{folder}/fpm.sock;
fastcgi_param SCRIPT_FILENAME {SOURCES}/{page}; fastcgi_read_timeout 600; fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param QUERY_STRING $query_string; fastcgi_param HTTP_COOKIE $http_cookie; }} }} }}
''')


@contextlib.contextmanager
def serving(php, options, page, workers):
    """The port of nginx, before php-fpm with the page."""
    with tempfile.TemporaryDirectory(prefix='tslab-bench-') as name, contextlib.ExitStack() as stack:
        folder, port = pathlib.Path(name), free_port()
        write_settings(php, folder, port, page, workers)
        stack.enter_context(running([php.fpm, '-R', '-y', folder / 'fpm.conf', *options]))
        stack.enter_context(running([php.nginx, '-c', folder / 'nginx.conf', '-p', folder]))
        wait_for((folder / 'fpm.sock').exists)
        wait_for((folder / 'nginx.pid').exists)
        yield port


def ask(port, path, cookie):
    connection = http.client.HTTPConnection(HOST, port, timeout=600)
    with contextlib.closing(connection):
        connection.request('GET', path, headers={'Cookie': f'PHPSESSID={cookie}'})
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise OSError(f'{response.status}: {text}')
        return text, response.headers


def worker_memory(port):
    """KiB that a worker has for itself, the median of them."""
    found = {}
    for i in range(50 * WORKERS):
        headers = ask(port, '/?memory', f'memory{i}')[1]
        found[headers['X-Worker']] = int(headers['X-Private-KiB'])
    return statistics.median(found.values())


def sessions(php, handler, sockets, seconds):
    with tempfile.TemporaryDirectory(prefix='tslab-bench-') as folder, serving(
            php, php.session_options(handler, sockets, folder), 'session.php', WORKERS) as port:
        cookie = os.urandom(13).hex()
        wait_for(lambda: ask(port, '/', cookie)[0] == '1')
        if ask(port, '/', cookie)[0] != '2':
            sys.exit(f'bench: {handler} keeps no sessions')
        done = subprocess.run(['wrk', '-t1', '-c8', f'-d{seconds}s', '--latency', '-s', SOURCES / 'sessions.lua',
                               f'http://{HOST}:{port}/'], stdout=subprocess.PIPE, text=True, check=True)
        if 'Non-2xx' in done.stdout:
            sys.exit(f'bench: {handler}: {done.stdout}')
        number, unit = re.search(r'99%\s+([0-9.]+)(us|ms|s)', done.stdout).groups()
        return {'requests_per_s': float(re.search(r'Requests/sec:\s*([0-9.]+)', done.stdout)[1]),
                'p99_ms': float(number) * UNITS[unit], 'worker_kib': worker_memory(port)}


def table(results, stores):
    names = list(next(iter(results.values()))[0])
    print(f'{"":16}' + ''.join(f'{store:>14}' for store in stores))
    for name in names:
        print(f'{name:16}' + ''.join(f'{statistics.median(r[name] for r in results[store]):14.1f}' for store in stores))


def write(path, results):
    """By a new file in place of the old one, so that there is a whole one at any time."""
    fresh = path.with_suffix('.new')
    fresh.write_text(json.dumps(results, indent=1))
    fresh.replace(path)


def ratio(results, figure, store, peer):
    """The median of the ratios within runs."""
    return statistics.median(a[figure] / b[figure] for a, b in zip(results[store], results[peer]))


def judge(text, value, bound, at_most):
    print(f'{text}: {value:.2f}, {"at most" if at_most else "at least"} {bound} is asked: '
          + ('met' if (value <= bound if at_most else value >= bound) else 'MISSED'))


def main():
    parser = argparse.ArgumentParser(prog='./dev bench php', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('case', nargs='*', help='calls, sessions (all)')
    parser.add_argument('--runs', type=int, default=5, help='alternating runs of each (5)')
    parser.add_argument('--quick', action='store_true', help='one short run: does every program work?')
    arguments = parser.parse_args()
    unknown = set(arguments.case) - {'calls', 'sessions'}
    if unknown:
        parser.error(f'no such case: {" ".join(sorted(unknown))}')
    build = pathlib.Path(os.environ['TSLAB_BUILD'])
    php = Php(build)
    if not php.has('tslab'):
        sys.exit(f'bench: {php.tslab} is missing: "ninja -C {build} bindings/php/tslab.so" makes it, with php-dev and '
                 'php-parser of Debian')
    runs, n, seconds = (1, 20000, 1) if arguments.quick else (arguments.runs, 300000, SECONDS)
    results = {}
    with tempfile.TemporaryDirectory(prefix='tslab-bench-') as folder, servers(build, pathlib.Path(folder)) as sockets:
        for case, stores, measure in (
                ('calls', CALLS, lambda store: calls(php, store, sockets, n)),
                ('sessions', HANDLERS, lambda store: sessions(php, store, sockets, seconds))):
            if arguments.case and case not in arguments.case:
                continue
            stores = [store for store in stores if php.has(store)]
            if case == 'sessions' and not (php.fpm and php.nginx and shutil.which('wrk')):
                print('bench: no sessions: php-fpm, nginx and wrk are needed', file=sys.stderr)
                continue
            results[case] = {store: [] for store in stores}
            for i in range(runs):
                for store in stores:
                    print(f'bench: {case}, {store}, {i + 1} of {runs}', file=sys.stderr)
                    results[case][store].append(measure(store))
                    write(build / 'bench-php.json', results)
            table(results[case], stores)
    for figure, store, peer, bound in TARGETS:
        if peer in results.get('calls', {}):
            judge(f'{figure} / {peer}', ratio(results['calls'], figure, store, peer), bound, True)
    if 'calls' in results:
        judge('routes_us', statistics.median(r['routes_ns'] for r in results['calls']['tslab']) / 1000, 2, True)
    for figure, store, peer, bound in SESSION_TARGETS:
        if peer in results.get('sessions', {}):
            judge(f'{figure} / {peer}', ratio(results['sessions'], figure, store, peer), bound, False)
    if 'sessions' in results:
        more = statistics.median(a['worker_kib'] - b['worker_kib'] for a, b in
                                 zip(results['sessions']['tslab'], results['sessions']['files']))
        judge('memory of a worker beside files, MiB', more / 1024, 1, True)


if __name__ == '__main__':
    main()
