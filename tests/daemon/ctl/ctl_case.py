"""The parts that tests of verbs share: a daemon, clients with objects, and daemons that the test plays.

Each test file is run as: test-VERB.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from wire import field

TSLABCTL, TSLABD, CTL_CLIENT, SOURCE = map(os.path.abspath, sys.argv[1:5])
VERB_CLIENT = os.environ.get('VERB_CLIENT', '')
DEADLINE = 60


def environment(folder, **more):
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith('TSLAB_') and k not in ('NO_COLOR', 'PAGER', 'LESS', 'COLUMNS', 'LINES')}
    return {**keep, 'TSLAB_RUNTIME_DIR': folder, 'TERM': 'xterm', 'TZ': 'UTC', 'LC_ALL': 'C.UTF-8',
            'MEMORY_PRESSURE_WATCH': '/dev/null', **more}


class Daemon:
    """A tslabd of its own, in a runtime directory of its own."""

    def __init__(self, folder, pool='default', *arguments, **env):
        self.folder, self.path = folder, f'{folder}/{pool}.sock'
        self.process = subprocess.Popen([TSLABD, f'--pool={pool}', '--size=16M', '--log-level=err', *arguments],
                                        env=environment(folder, **env))
        wait_for(self.answers)

    def answers(self):
        assert self.process.poll() is None, 'tslabd has ended'
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.path) == 0

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(DEADLINE)


class Client:
    """A process that has objects. Only VERB_CLIENT, which is slower to start, has caches."""

    def __init__(self, path, program=CTL_CLIENT):
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == 'attached\n'

    def do(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def end(self, number=0):
        if number:
            self.process.send_signal(number)
        self.process.stdin.close()
        self.process.wait(DEADLINE)
        self.process.stdout.close()


def reply(number, *, error=0, message='', more=False, progress=None, body=None, body_number=0):
    out = field(2, number)
    if error:
        out += field(3, (error << 1) - 1)       # zigzag of -error
    if message:
        out += field(4, message)
    if more:
        out += field(5, 1)
    if progress is not None:
        out += field(6, progress)
    return out + (field(body_number, body) if body is not None else b'')


def hello(version=1):
    return reply(1, body_number=16, body=field(1, version) + field(3, bytes(16)) + field(7, 3))


class Played:
    """A daemon that sends each connection these datagrams, one batch for each request; None hangs up."""

    def __init__(self, path, *batches, kind=socket.SOCK_SEQPACKET):
        self.path, self.batches, self.connections = path, batches, []
        self.listener = socket.socket(socket.AF_UNIX, kind)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(connection)
                self.serve(connection)
        except OSError:
            pass                                # the test is over

    def serve(self, connection):
        try:
            for batch in self.batches:
                connection.recv(65536)
                if batch is None:
                    connection.close()
                    return
                for datagram in batch:
                    connection.send(datagram)
        except OSError:
            pass                                # it has seen enough

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            connection.close()
        os.unlink(self.path)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < deadline, 'timeout'
        time.sleep(0.005)
    return value


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='tslab-ctl-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, pool='default', *arguments, **env):
        daemon = Daemon(self.folder, pool, *arguments, **env)
        self.addCleanup(daemon.stop)
        return daemon

    def play(self, *batches, pool='default', **how):
        played = Played(f'{self.folder}/{pool}.sock', *batches, **how)
        self.addCleanup(played.close)
        return played

    def client(self, daemon, program=CTL_CLIENT):
        client = Client(daemon.path, program)
        self.addCleanup(client.end)
        return client

    def run_ctl(self, *arguments, env=None, program=None, **how):
        return subprocess.run([program or TSLABCTL, *arguments], env=environment(self.folder, **(env or {})),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=DEADLINE, check=False, **how)

    def text(self, *arguments, code=0, **env):
        result = self.run_ctl(*arguments, env=env)
        self.assertEqual((result.returncode, result.stderr), (code, ''), arguments)
        self.assertNotIn('\033', result.stdout)
        return result.stdout

    def json(self, *arguments, code=0):
        text = self.text('--json', *arguments, code=code)
        self.assertEqual(text.count('\n'), 1, 'one line')
        return json.loads(text)

    def refused(self, code, parts, *arguments, **how):
        """Fails with one line that has all the parts."""
        result = self.run_ctl(*arguments, **how)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        self.assertRegex(result.stderr, r'\Atslabctl: [^\n]+\n\Z', arguments)
        for part in [parts] if isinstance(parts, str) else parts:
            self.assertIn(part, result.stderr, arguments)
        self.assertEqual(result.stdout, '', arguments)

    def assert_members(self, value, members):
        for name, kind in members.items():
            self.assertIn(name, value)
            self.assertIs(type(value[name]), kind, name)


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
