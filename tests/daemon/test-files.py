"""A daemon that ends leaves no file behind, unless a program goes on with the memory.

A daemon that opened the lock file just before it was removed does not take it for the pool's lock.

    test-files.py TSLABD TSLABCTL
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIP = 77
SECONDS = 60
TSLABD, TSLABCTL = sys.argv[1:]
FILES = {'default.sock', 'default.lock', 'default.run', 'default.settings'}


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Pool:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_') and k != 'NOTIFY_SOCKET'}
        self.environment['TSLAB_RUNTIME_DIR'] = folder

    def start(self, *words):
        return subprocess.Popen([*words, TSLABD, '--size=16M', '--log-level=err'], env=self.environment,
                                stderr=subprocess.PIPE, text=True)

    def answers(self):
        done = subprocess.run([TSLABCTL, 'status'], env=self.environment, capture_output=True, check=False)
        return done.returncode == 0

    def files(self):
        return FILES & set(os.listdir(self.folder))


def end(daemon):
    daemon.terminate()
    text = daemon.communicate(timeout=SECONDS)[1]
    assert daemon.returncode == 0, text


def leaves_files(pool):
    daemon = pool.start()
    wait_for(pool.answers)
    assert pool.files() == FILES
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as user:
        user.connect(f'{pool.folder}/default.sock')
        assert pool.answers()  # so it has met the user, too
        end(daemon)
    assert pool.files() == {'default.lock', 'default.settings'}
    daemon = pool.start()
    wait_for(pool.answers)
    end(daemon)
    assert not pool.files()


def loses_no_race(pool):
    first = pool.start()
    wait_for(pool.answers)
    trace = f'{pool.folder}/trace'
    second = pool.start('strace', '-D', '-qq', '-o', trace, '-P', f'{pool.folder}/default.lock',
                        '-e', 'inject=openat:signal=SIGSTOP:when=1')
    os.link(f'{pool.folder}/default.lock', f'{pool.folder}/copy')
    wait_for(lambda: os.path.exists(trace) and 'stopped by SIGSTOP' in open(trace, encoding='ascii').read())
    end(first)
    assert not pool.files()
    os.kill(second.pid, signal.SIGCONT)
    wait_for(pool.answers)
    assert pool.files() == FILES
    third = pool.start()
    text = third.communicate(timeout=SECONDS)[1]
    assert third.returncode == 1 and 'is served by another tslabd already' in text, text
    end(second)
    assert not pool.files()


def leaves_files_of_the_next(pool):
    """The next one starts when the lock's file is gone, before the end of the first."""
    trace = f'{pool.folder}/trace-unlink'
    first = pool.start('strace', '-D', '-qq', '-o', trace, '-P', f'{pool.folder}/default.lock',
                       '-e', 'inject=/^unlink:signal=SIGSTOP:when=1')
    wait_for(pool.answers)
    first.terminate()
    wait_for(lambda: 'stopped by SIGSTOP' in open(trace, encoding='ascii').read())
    second = pool.start()
    wait_for(pool.answers)
    first.send_signal(signal.SIGCONT)
    end(first)
    assert pool.files() == FILES
    end(second)
    assert not pool.files()


with tempfile.TemporaryDirectory(prefix='tslab-test-') as directory:
    leaves_files(Pool(directory))
    if not shutil.which('strace') or subprocess.run(['strace', '-o', os.devnull, 'true'], stderr=subprocess.DEVNULL).returncode:
        sys.exit(SKIP)
    loses_no_race(Pool(directory))
    leaves_files_of_the_next(Pool(directory))
