"""A daemon whose system call fails at its start either goes on, or ends and says why.

test-start-fails.py TSLABD
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
SECONDS = 60
TSLABD = sys.argv[1]
# The loader makes none of these before main().
CALLS = ['bind', 'chmod', 'epoll_create1', 'epoll_ctl', 'fcntl', 'flock', 'ftruncate', 'getsockopt', 'listen',
         'memfd_create', 'mkdir', 'setsockopt', 'signalfd4', 'socket', 'timerfd_create']
N_MAX = 40


def run_daemon(directory, *options):
    """Starts the daemon under strace with `options`, until it is ready or ends; exit status and output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}
    environment['TSLAB_RUNTIME_DIR'] = directory
    command = ['strace', '-D', '-f', '-qq', '-o', f'{directory}/trace', *options, TSLABD, '--size=1M', '--log-level=info']
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
        try:
            while process.poll() is None and b' is ready: ' not in os.pread(log.fileno(), 1 << 16, 0):
                try:
                    process.wait(0.005)
                except subprocess.TimeoutExpired:
                    pass
            process.terminate()
            status = process.wait(SECONDS)
        finally:
            process.kill()
        text = os.pread(log.fileno(), 1 << 16, 0).decode()
    return status, text


def count_calls(directory):
    """How often the daemon makes each call until it is ready."""
    run_daemon(directory, '-e', 'trace=' + ','.join(CALLS))
    with open(f'{directory}/trace', encoding='ascii', errors='replace') as trace:
        names = re.findall(r'^\d+ +(\w+)\(', trace.read(), re.M)
    return {name: min(names.count(name), N_MAX) for name in CALLS}


def main():
    if not shutil.which('strace') or subprocess.run(['strace', '-o', os.devnull, 'true'],
                                                    stderr=subprocess.DEVNULL).returncode:
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix='tslab-test-') as directory:
        counts = count_calls(directory)
        assert counts['fcntl'] > 0 and counts['memfd_create'] > 0, counts
        for name, n in counts.items():
            for i in range(1, n + 1):
                status, text = run_daemon(directory, '-e', f'inject={name}:error=EIO:when={i}')
                if ' is ready: ' in text:
                    continue
                assert status in (1, 2), f'{name} {i}: ended with {status}: {text}'
                assert re.search(r'^tslabd: err: ', text, re.M), f'{name} {i}: ended without a reason: {text!r}'


main()
