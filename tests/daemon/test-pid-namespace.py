"""A daemon in a pid namespace of its own, where /proc still shows the processes of another by their numbers there."""

import ctypes
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))

import daemon  # noqa: E402

CLONE_NEWPID = 0x20000000
TSLABD, = sys.argv[1:]
del sys.argv[1:]


class PidNamespace(unittest.TestCase):
    def test_serves(self):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWPID):
            self.skipTest(f'no pid namespace: {os.strerror(ctypes.get_errno())}')
        with daemon.Daemon(TSLABD) as served:   # its number is 1 there
            self.assertTrue(served.answers())


if __name__ == '__main__':
    unittest.main()
