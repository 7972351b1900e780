"""When the daemon hangs up before its answer, tslabctl asks once more; after a request for a change, it says what it knows.

Two things hang up: a daemon that ends, and the stand-in that answers while the daemon's loop is busy.
"""

import contextlib
import os
import socket
import threading

import ctl_case
import wire
from ctl_case import Case, field, reply

HELLO = 16
QUESTIONS = ('status', 'stats', 'epoch list', 'clients', 'slabs', 'maps', 'roots', 'check', 'leaks', 'metrics', 'suggest',
             'top --once -d 0.1')
CHANGES = {'epoch advance': 'epoch list', 'epoch close 3 --yes': 'epoch list', 'epoch reserve': 'epoch list',
           'epoch label 4 x': 'epoch list', 'maps set m --ttl 1': 'maps'}
PARTS = ('trim', 'check --repair')


def kind(request):
    """The number of a request's body, after its id of one byte."""
    return (request[2] & 0x7f | request[3] << 7) >> 3


class Between:
    """Stands between tslabctl and a daemon. Hangs up on one connection, in answer to its hello or to the next request."""

    def __init__(self, path, real, at_hello=False, waits=False, every=False, which=1):
        self.real, self.at_hello, self.waits, self.every, self.which = real, at_hello, waits, every, which
        self.n_connections = 0
        self.requests = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.begin(connection)
        except OSError:
            pass                                # the test is over

    def begin(self, connection):
        self.n_connections += 1
        hangs_up = self.every or self.n_connections == self.which
        threading.Thread(target=self.serve, args=(connection, hangs_up), daemon=True).start()

    def serve(self, connection, hangs_up):
        # an OSError: tslabctl has seen enough
        with connection, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon, contextlib.suppress(OSError):
            daemon.connect(self.real)
            daemon.settimeout(wire.SECONDS)
            while request := connection.recv(65536):
                is_hello = kind(request) == HELLO
                if not is_hello:
                    self.requests.append(kind(request))
                if hangs_up and is_hello == self.at_hello:
                    return
                daemon.send(request)
                self.answer(connection, daemon, hangs_up and is_hello and self.waits)

    def answer(self, connection, daemon, waits):
        more = True
        while more:
            data, fds, _, _ = socket.recv_fds(daemon, 65536, 4)
            more = data[2:4] == field(5, 1)     # after the id, where there is no error
            if waits:                           # for the lock of the pool's memory
                data = reply(1, body_number=HELLO, body=field(1, 1) + field(3, bytes(16)) + field(7, 3) + field(9, 3))
            socket.send_fds(connection, [data], fds)
            for fd in fds:
                os.close(fd)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Again(Case):
    def between(self, **how):
        self.n = getattr(self, 'n', 0) + 1
        between = Between(f'{self.folder}/b{self.n}.sock', self.daemon.path, **how)
        self.addCleanup(between.close)
        self.pool = ('--pool', f'b{self.n}')
        return between

    def setUp(self):
        super().setUp()
        self.daemon = self.start()
        ctl_case.wait_for(lambda: self.json('stats')['peaks']['looks'] > 0)

    def test_questions(self):
        for verb in QUESTIONS:
            for at_hello in (False, True):
                between = self.between(at_hello=at_hello)
                self.text(*verb.split(), *self.pool)
                self.assertGreaterEqual(between.n_connections, 2, verb)

    def test_pools(self):
        self.between()
        self.assertEqual({p['pool']: p['state'] for p in self.json('list')}, {'b1': 'running', 'default': 'running'})

    def test_once(self):
        """A daemon that hangs up each time is not asked for ever."""
        for verb in QUESTIONS:
            between = self.between(every=True)
            self.refused(1, 'the daemon is gone' if 'top' in verb else 'hung up', *verb.split(), *self.pool)
            self.assertLessEqual(len(between.requests), 4 if 'top' in verb else 2, verb)

    def test_changes(self):
        """The daemon may have made them: tslabctl does not repeat them, and says what shows whether it has."""
        for verb, shows in CHANGES.items():
            between = self.between()
            self.refused(1, ['hung up before it answered', f"'tslabctl --pool b{self.n} {shows}' shows", 'journalctl'],
                         *verb.split(), *self.pool)
            self.assertEqual(len(between.requests), 1, verb)
        for verb in PARTS:
            between = self.between()
            self.refused(1, ['hung up before it was done; to repeat the command does no harm', 'journalctl'],
                         *verb.split(), *self.pool)
            self.assertEqual(len(between.requests), 1, verb)

    def test_stand_in(self):
        """It has changed nothing, so that changes are repeated, too."""
        for verb in ('trim', 'check --repair', 'epoch close 3 --yes', 'epoch reserve'):
            between = self.between(waits=True)
            self.text(*verb.split(), *self.pool)
            self.assertEqual(len(between.requests), 2, verb)

    def test_entries(self):
        """The library has a connection of its own, beside that of tslabctl."""
        for verb in ('get m k', 'put m k v', 'delete m k', 'keys m'):
            for at_hello in (False, True):
                between = self.between(which=2, at_hello=at_hello)
                self.refused(1, "there is no map 'm'", *verb.split(), *self.pool)
                self.assertEqual(between.n_connections, 3, verb)

    def test_several(self):
        """tslabctl sends the requests that it had not sent yet over another connection."""
        between = self.between()
        result = self.run_ctl('epoch', 'close', '3', '4', '5', '--yes', *self.pool)
        self.assertEqual((result.returncode, result.stdout.count('closed'), len(between.requests)), (1, 2, 3))
        self.assertEqual(result.stderr.count('hung up'), 1)


ctl_case.main()
