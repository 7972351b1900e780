"""What the tests of verbs share: a daemon, clients with objects, and daemons that are played.

Each test file is run as: test-VERB.py TSLABCTL TSLABD CTL-CLIENT [unittest arguments]
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

TSLABCTL, TSLABD, CTL_CLIENT = map(os.path.abspath, sys.argv[1:4])
DEADLINE = 30


def environment(folder, **more):
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith('TSLAB_') and k not in ('NO_COLOR', 'PAGER', 'LESS', 'COLUMNS', 'LINES')}
    return {**keep, 'TSLAB_RUNTIME_DIR': folder, 'TERM': 'xterm', 'TZ': 'UTC', 'LC_ALL': 'C.UTF-8', **more}


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < deadline, 'timeout'
        time.sleep(0.01)
    return value


class Daemon:
    """A tslabd of its own, in a runtime directory of its own."""

    def __init__(self, folder, size):
        self.folder, self.path = folder, f'{folder}/default.sock'
        self.process = subprocess.Popen([TSLABD, '--pool=default', f'--size={size}', '--log-level=err'],
                                        env=environment(folder))
        wait_for(self.answers)

    def answers(self):
        assert self.process.poll() is None, 'tslabd has ended'
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.path) == 0

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(DEADLINE)


class Client:
    """A process that has objects."""

    def __init__(self, path):
        self.process = subprocess.Popen([CTL_CLIENT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


class Played:
    """A daemon that says hello, and answers all else with the bytes that `answer` makes of a request's id."""

    def __init__(self, path, answer):
        self.path, self.answer = path, answer
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    self.serve(connection)
        except OSError:
            pass                                # the test is over

    def serve(self, connection):
        number = 0
        while connection.recv(65536):
            number += 1
            connection.send(hello() if number == 1 else self.answer(number))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def field(number, value):
    """Of protobuf: a small int, or bytes."""
    if isinstance(value, int):
        return bytes([number << 3 & 0x7f | 0x80, number >> 4]) + bytes([value]) if number > 15 else \
            bytes([number << 3, value])
    head = number << 3 | 2
    return (bytes([head & 0x7f | 0x80, head >> 7]) if number > 15 else bytes([head])) + bytes([len(value)]) + value


def hello():
    return field(2, 1) + field(16, field(1, 1) + field(3, bytes(16)) + field(7, 3))


def unknown(number):
    """What a daemon says that does not know a request: -EOPNOTSUPP, zigzag."""
    return field(2, number) + bytes([3 << 3, 0xbd, 0x01]) + field(4, b'tslabd 0.0.9 does not know this request')


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='tslab-ctl-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, size='16M'):
        daemon = Daemon(self.folder, size)
        self.addCleanup(daemon.stop)
        return daemon

    def play(self, answer):
        played = Played(f'{self.folder}/default.sock', answer)
        self.addCleanup(played.close)

    def client(self, daemon):
        client = Client(daemon.path)
        self.addCleanup(client.end)
        return client

    def run_ctl(self, *arguments, **env):
        return subprocess.run([TSLABCTL, *arguments], env=environment(self.folder, **env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def text(self, *arguments, code=0, **env):
        result = self.run_ctl(*arguments, **env)
        self.assertEqual((result.returncode, result.stderr), (code, ''), arguments)
        self.assertNotIn('\033', result.stdout)
        return result.stdout

    def json(self, *arguments):
        return json.loads(self.text('--json', *arguments))

    def refused(self, code, part, *arguments):
        result = self.run_ctl(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ''), result.stderr)
        self.assertRegex(result.stderr, r'\Atslabctl: [^\n]+\n\Z')
        self.assertIn(part, result.stderr)


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
