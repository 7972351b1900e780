"""Which of the three was short, of a real pool in a real cgroup: the pool, the system or the cgroup's limit.

    test-limit.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from cgroup import into, limited
from daemon import Daemon, wait_for
from verb import TSLABD, VERB_CLIENT, VerbTest, main

MIB = 1 << 20
LIMIT = 48 * MIB
CAN_TRACE = shutil.which('strace') and not subprocess.run(['strace', '-o', os.devnull, 'true'], check=False,
                                                          stderr=subprocess.DEVNULL).returncode


class LimitedDaemon(Daemon):
    def __init__(self, folder, *arguments):
        super().__init__(TSLABD, *arguments)
        self.command = [*into(folder), *self.command]


@contextlib.contextmanager
def no_fallocate(process):
    """fallocate() of the process fails as it does where the system has no memory."""
    strace = subprocess.Popen(['strace', '-o', os.devnull, '-e', 'trace=fallocate', '-e',
                               'inject=fallocate:error=ENOSPC', '-p', str(process.pid)], stderr=subprocess.PIPE)
    try:
        assert b'attached' in strace.stderr.readline()
        yield
    finally:
        strace.terminate()
        strace.communicate()


@contextlib.contextmanager
def stopped(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class Limit(VerbTest):
    ARGUMENTS = ('--size=1M',)

    def fill(self, *before):
        """A client that allocates until it gets -ENOMEM."""
        client = subprocess.run([*before, VERB_CLIENT, self.daemon.socket], input='session 768 200000\n', check=False,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(client.stderr, 'verb-client: -12\n')

    def hints(self):
        return '\n'.join(self.json('status')['hints'])

    def failures(self):
        counters = self.json('stats')['counters']
        return [counters[name] > 0 for name in ('failures', 'failures_limit', 'failures_system')]

    def test_pool(self):
        self.fill()
        self.assertEqual(self.failures(), [True, False, False])
        self.assertIn('failed since the pool began because it was full', self.hints())

    def test_cgroup(self):
        with limited(LIMIT) as folder, LimitedDaemon(folder, '--size=256M') as self.daemon:
            stats = self.json('stats')
            self.assertEqual((stats['limit_bytes'], stats['limit_cgroup'].split('/')[-1]), (LIMIT, folder.name))
            self.assertLess(stats['limit_used_bytes'], LIMIT // 2)
            self.assertIn(f'{folder.name}, used ', self.text('status'))
            self.assertNotIn('memory limit', self.hints())
            self.fill(*into(folder))
            self.assertEqual(self.failures(), [True, True, False])
            self.assertIn('because the memory limit of a control group was reached; raise it', self.hints())
            stats = self.json('stats')
            self.assertLess(stats['limit_left_bytes'], MIB)
            self.assertGreater(stats['limit_used_bytes'], LIMIT - 10 * MIB)
            self.assertRegex(self.hints(), 'are left for the pool; raise the limit')
            self.assertIn(f'tslab_limit_bytes{{pool="default"}} {LIMIT}\n', self.text('metrics'))

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_system(self):
        """The daemon is stopped, and the client finds no memory for the slabs that it then commits by itself."""
        with Daemon(TSLABD, '--size=16M') as self.daemon:
            client = self.client()
            with no_fallocate(client.process), stopped(self.daemon.process):
                print('session 768 20000', file=client.process.stdin, flush=True)
                self.assertEqual(client.process.stdout.readline(), '')
            self.assertEqual(self.failures(), [True, False, True])
            self.assertIn('because the system had no memory', self.hints())


if __name__ == '__main__':
    main()
