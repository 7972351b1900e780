"""An allocation fails in a real cgroup: tslabctl says which was short, the pool, the system's memory or the cgroup's limit.

    test-limit.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from cgroup import into, limited, lower
from daemon import Daemon, wait_for
from verb import TSLABD, VERB_CLIENT, VerbTest, main

MIB = 1 << 20
MADVISE = '28'
USERFAULTFD = 323
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


def write_for_ever(path):
    """Writes to a file from a page that never comes, since nobody serves its userfaultfd. Keeps the lock of the file."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    page = libc.mmap(None, 4096, 3, 0x22, -1, 0)            # to read and write, private and anonymous
    fault = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
    fcntl.ioctl(fault, 0xc018aa3f, bytearray(struct.pack('QQQ', 0xAA, 0, 0)))       # UFFDIO_API
    fcntl.ioctl(fault, 0xc020aa00, bytearray(struct.pack('QQQQ', page, 4096, 1, 0)))     # UFFDIO_REGISTER
    libc.write(os.open(path, os.O_WRONLY), page, 1)


def call_of(pid):
    """The number of the system call that the process is in."""
    return pathlib.Path(f'/proc/{pid}/syscall').read_text(encoding='ascii').split()[0]


@contextlib.contextmanager
def hanging_write(path):
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            write_for_ever(path)
        os._exit(1)
    try:
        wait_for(lambda: call_of(pid) == '1' or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise unittest.SkipTest('no userfaultfd')
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Limit(VerbTest):
    ARGUMENTS = ('--size=1M',)

    def fill(self, *before):
        """A client that allocates until it gets -ENOMEM."""
        client = subprocess.run([*before, VERB_CLIENT, self.daemon.socket], input='session 768 200000\n', check=False,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(client.stderr, 'verb-client: -12\n')

    def wait_for_rest(self):
        """A daemon that is killed while it makes or drops pages leaves that to the next one, before that answers."""
        before = None
        while before != (before := self.json('stats')['committed_bytes']):
            time.sleep(0.5)

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

    def test_start_beside_writer(self):
        """A daemon that starts at the limit, and gives memory back first, does not wait for a writer that hangs."""
        with limited(4 * LIMIT) as folder, LimitedDaemon(folder, '--size=128M', '--retain=64M') as self.daemon:
            client = self.client()
            client.do('session 768 40000')
            client.do('free')
            self.wait_for_rest()
            self.daemon.process.kill()
            self.daemon.process.wait()
            descriptors = pathlib.Path(f'/proc/{client.process.pid}/fd').iterdir()
            arena = next(path for path in descriptors if path.stat().st_size >= 128 * MIB)
            lower(folder, 2 * MIB)
            with hanging_write(arena):
                self.daemon.process = subprocess.Popen([*self.daemon.command, f'--adopt={client.process.pid}'],
                                                       env=self.daemon.environment)
                wait_for(self.daemon.answers)
                time.sleep(3)
                if call_of(self.daemon.process.pid) != MADVISE:
                    self.skipTest('the kernel counted down late, and there was room as the daemon started')
                self.assertIn('is inside a write', self.json('stats')['page_wait_cause'])
                committed = self.json('stats')['committed_bytes']
            wait_for(lambda: self.json('stats')['committed_bytes'] < committed - MIB)

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
