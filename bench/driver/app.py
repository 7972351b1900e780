"""The Python package's example web application under gunicorn with 4 workers, its sessions in tslab, Redis and
memcached in turn; wrk sends the requests. Prints requests a second and the 99th percentile, medians of alternating runs."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOST, WORKERS, SECONDS, START = '127.0.0.1', 4, 4, 20
STORES = ['tslab', 'redis', 'memcached']
PATHS = {'read': '/read', 'change': '/'}
UNITS = {'us': 1e-3, 'ms': 1, 's': 1e3}


def free_port():
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


def ask(port, path, cookie=None):
    connection = http.client.HTTPConnection(HOST, port, timeout=START)
    with contextlib.closing(connection):
        connection.request('GET', path, headers={'Cookie': cookie} if cookie else {})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise OSError(f'{path}: {response.status}')
        return (response.getheader('Set-Cookie') or '').split(';')[0]


def wait_for(condition):
    end = time.monotonic() + START
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if condition():
                return
        if time.monotonic() > end:
            sys.exit('bench: nothing answers')
        time.sleep(0.05)


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def server_of(store, build, folder):
    """The server's command, and the socket that it creates."""
    path = folder / f'{"default" if store == "tslab" else store}.sock'
    return {
        'tslab': [build / 'daemon' / 'tslabd', '--size=256M'],
        'redis': ['redis-server', '--port', 0, '--unixsocket', path, '--save', '', '--appendonly', 'no'],
        'memcached': ['memcached', '-s', path, '-u', 'root' if os.geteuid() == 0 else 'nobody'],
    }[store], path


def measure(port, path):
    """Requests for an existing session."""
    cookie = ask(port, '/')
    done = subprocess.run(['wrk', '-t1', '-c8', f'-d{SECONDS}s', '--latency', '-H', f'Cookie: {cookie}',
                           f'http://{HOST}:{port}{path}'], stdout=subprocess.PIPE, text=True, check=True)
    number, unit = re.search(r'99%\s+([0-9.]+)(us|ms|s)', done.stdout).groups()
    return {'requests_per_s': float(re.search(r'Requests/sec:\s*([0-9.]+)', done.stdout)[1]),
            'p99_ms': float(number) * UNITS[unit]}


def run_store(store, build, folder):
    command, path = server_of(store, build, folder)
    environment = {**os.environ, 'TSLAB_RUNTIME_DIR': str(folder), 'STORE': store, 'STORE_SOCKET': str(path),
                   'PYTHONPATH': f'{build / "bindings" / "python"}:{ROOT / "bindings" / "python" / "examples"}'}
    port = free_port()
    with running(command, env=environment):
        wait_for(path.exists)
        with running(['/usr/bin/python3', '-m', 'gunicorn', '--workers', WORKERS, '--bind', f'{HOST}:{port}',
                      '--log-level', 'error', 'sessions_app:app'], env=environment, cwd=folder):
            wait_for(lambda: ask(port, '/read') is not None)
            return {name: measure(port, p) for name, p in PATHS.items()}


def main():
    parser = argparse.ArgumentParser(prog='./dev bench app', description=__doc__)
    parser.add_argument('--runs', type=int, default=5, help='alternating runs of each (5)')
    arguments = parser.parse_args()
    build = pathlib.Path(os.environ['TSLAB_BUILD'])
    stores = [s for s in STORES if s == 'tslab' or shutil.which('redis-server' if s == 'redis' else s)]
    results = {s: [] for s in stores}
    for i in range(arguments.runs):
        for store in stores:
            print(f'bench: {store}, {i + 1} of {arguments.runs}', file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix='tslab-bench-') as folder:
                results[store].append(run_store(store, build, pathlib.Path(folder)))
    print(f'{"":12}' + ''.join(f'{name + " req/s":>16}{name + " p99 ms":>16}' for name in PATHS))
    for store, runs in results.items():
        print(f'{store:12}' + ''.join(f'{statistics.median(r[name][figure] for r in runs):16.2f}'
                                      for name in PATHS for figure in ('requests_per_s', 'p99_ms')))
    (build / 'bench-app.json').write_text(json.dumps(results, indent=1))


if __name__ == '__main__':
    main()
