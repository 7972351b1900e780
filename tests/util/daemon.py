"""A real tslabd in a runtime directory of its own, for tests in Python."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

SECONDS = 60    # for a state to come, while other tests run and on slower machines
PLACES = []     # sockets that keep ports for servers
CLOCK_MONOTONIC_COARSE = 6    # of Linux; `time` has no name for it


class Daemon:
    """`with Daemon(tslabd, '--size=16M') as daemon:`; the pool is "default"."""

    def __init__(self, tslabd, *arguments):
        self.command = [tslabd, '--log-level=warning', *arguments]

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix='tslab-test-')
        self.socket = os.path.join(self.dir, 'default.sock')
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}
        self.environment['TSLAB_RUNTIME_DIR'] = self.dir
        # It would give back memory whenever any other test on this machine has to wait for some.
        self.environment['MEMORY_PRESSURE_WATCH'] = '/dev/null'
        self.process = subprocess.Popen(self.command, env=self.environment)
        wait_for(self.answers)
        return self

    def __exit__(self, kind, value, traceback):
        self.process.terminate()
        try:
            status = self.process.wait(SECONDS)
        finally:
            self.process.kill()
            shutil.rmtree(self.dir, ignore_errors=True)
        if kind is None and status != 0:
            raise AssertionError(f'tslabd ended with {status}')

    def answers(self):
        assert self.process.poll() is None, f'tslabd ended with {self.process.returncode}'
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.socket) == 0

    def ctl(self, tslabctl, *arguments):
        """The output of tslabctl as JSON; it must succeed."""
        done = subprocess.run([tslabctl, '--json', '--socket', self.socket, *arguments], stdout=subprocess.PIPE,
                              check=True, timeout=SECONDS)
        return json.loads(done.stdout)


def free_port():
    """For a server. The kernel gives it to no other program while this process lives, also between two lives of a server.

    A server that allows the reuse of addresses, as most do, may listen there all the same.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(('127.0.0.1', 0))
    PLACES.append(place)
    return place.getsockname()[1]


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.005)


def expected_end(lifetime):
    """An entry that is put now is there until then. The clock of lifetimes stands still between two ticks, however late
    these come, and counts milliseconds."""
    return time.clock_gettime(CLOCK_MONOTONIC_COARSE) + lifetime - 0.001
