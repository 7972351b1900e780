"""Many clients send the same request at once: by the log, closes share a count, trims a pass, and advances take turns."""

import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(sys.argv[2], 'tests/util'))
from daemon import Daemon
from wire import Raw, field

ADVANCE, CLOSE, TRIM = 25, 26, 34
N_CONNECTIONS = 50
N_CALLS = 8  # as many as a connection may have under way


class Crowd(unittest.TestCase):
    def setUp(self):
        self.log = tempfile.TemporaryFile()
        stderr = os.dup(2)
        os.dup2(self.log.fileno(), 2)
        self.daemon = Daemon(sys.argv[1], '--size=16M', '--log-level=debug')
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        os.dup2(stderr, 2)
        os.close(stderr)

    def count(self, text):
        self.log.seek(0)
        return self.log.read().count(text)

    def ask(self, number, body):
        """All requests are there before the daemon reads the first one. How many it answered."""
        connections = [Raw(self.daemon.socket) for _ in range(N_CONNECTIONS)]
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        for _ in range(N_CALLS):
            for connection in connections:
                connection.send(number, body)
        os.kill(self.daemon.process.pid, signal.SIGCONT)
        for connection in connections:
            for _ in range(N_CALLS):
                self.assertTrue(connection.receive())
            connection.socket.close()

    def test_closes_share_a_count(self):
        self.ask(CLOSE, field(1, 0) + field(3, 60000))
        self.assertIn(self.count(b'are counted for'), range(1, N_CONNECTIONS))

    def test_advances_take_turns(self):
        self.ask(ADVANCE, b'')
        self.assertEqual(self.count(b'is drained for an advance'), N_CONNECTIONS * N_CALLS)

    def test_trims_share_a_pass(self):
        self.ask(TRIM, b'')
        self.assertIn(self.count(b'given back by a trim'), range(1, N_CONNECTIONS))


unittest.main(argv=sys.argv[:1], verbosity=2)
