"""tslab.SessionStore where something is in its way: other stores, operators, a new daemon, a full pool.

    test-store.py TSLABD TSLABCTL [unittest arguments]
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])


@contextlib.contextmanager
def limit(seconds=daemon.SECONDS):
    """A call that spins is ended."""
    def stop(*_):
        raise AssertionError('it does not end')

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def restart(d):
    """Another daemon, with another arena."""
    d.process.send_signal(signal.SIGKILL)
    d.process.wait()
    d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
    daemon.wait_for(d.answers)


class Lifetimes(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)

    def store(self, name='sessions', **options):
        return tslab.SessionStore(self.pool, name, **options)

    def test_of_two_stores(self):
        long, short = self.store('long', lifetime=1000), self.store('short', lifetime=0.05)
        long.set('kept', b'1')
        for _ in range(40):
            short.set('a', b'1')
            daemon.wait_for(lambda: short.get('a') is None)
            self.assertEqual(long.get('kept'), b'1')
            self.assertTrue(long.touch('kept'))
        self.assertEqual(long.get('kept'), b'1')

    def test_of_two_stores_of_one_name(self):
        long, short = self.store(lifetime=1000), self.store(lifetime=0.05)
        long.set('kept', b'1')
        short.set('gone', b'1')
        daemon.wait_for(lambda: short.get('gone') is None)
        self.assertIsNone(long.get('gone'))
        self.assertEqual(short.get('kept'), b'1')
        self.assertGreater(self.map().ttl(b'kept'), 900)

    def map(self):
        return tslab.Map(self.pool, 'sessions')

    def test_however_the_ring_is_turned(self):
        """Also of entries that are in an era whose id was opened anew: they live as long as they should, no longer, and
        their memory goes back."""
        long, short = self.store(lifetime=1000), self.store(lifetime=1)
        long.set('kept', b'1')
        end = daemon.expected_end(short.lifetime)
        short.set('a', b'1')
        for _ in range(40):
            self.pool.epoch_advance()
            long.set('other', b'1')
        self.assertEqual(long.get('kept'), b'1')
        self.assertTrue(short.get('a') == b'1' or time.monotonic() > end)
        daemon.wait_for(lambda: short.get('a') is None)
        daemon.wait_for(lambda: long.set('other', b'1') or self.map().stats().entries == 2)
        self.assertEqual(long.get('kept'), b'1')

    def test_the_ring_stays_as_it_is(self):
        """Epochs are the program's: no store turns them."""
        current = self.pool.epoch_current()
        store = self.store(lifetime=0.02)
        for i in range(20):
            store.set(str(i), b'1')
            daemon.wait_for(lambda: store.get('0') is None)
        self.assertEqual(self.pool.epoch_current(), current)


class Closed(unittest.TestCase):
    """An operator closes the current epoch."""

    def test_private(self):
        with tslab.create(size=16 << 20) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            store.set('a', b'1')
            for _ in range(3):
                pool.epoch_close(pool.epoch_current())
                with limit():
                    store.set('a', b'2')
                    pool.epoch_close(pool.epoch_current())
                    self.assertTrue(store.touch('a'))
                self.assertEqual(store.get('a'), b'2')

    def test_by_tslabctl(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d, tslab.open(d.socket) as pool:
            stores = [tslab.SessionStore(pool, lifetime=1000) for _ in range(2)]
            for i in range(5):
                d.ctl(TSLABCTL, 'epoch', 'close', '--yes', str(pool.epoch_current() & 0xff))
                with limit():
                    for store in stores:
                        store.set('a', str(i).encode())
                self.assertEqual(stores[0].get('a'), str(i).encode())

    def test_where_no_other_can_be_opened(self):
        """The daemon is gone as well: an error, soon."""
        with daemon.Daemon(TSLABD, '--size=16M') as d, tslab.open(d.socket) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            store.set('a', b'1')
            pool.epoch_close(pool.epoch_current())
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            with limit():
                self.assertRaises(tslab.Error, store.set, 'a', b'2')
            self.assertEqual(store.get('a'), b'1')
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)


class NewDaemon(unittest.TestCase):
    """The pool's memory ended with its daemon, and there is a new one."""

    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=16M'))
        self.store = tslab.SessionStore(tslab.open(self.daemon.socket), lifetime=1000)
        self.store.set('a', b'1')

    def assert_one_pool(self):
        with tslab.open(self.daemon.socket) as pool:
            fresh = tslab.SessionStore(pool, lifetime=1000)
            daemon.wait_for(lambda: self.store.set('b', b'2') or fresh.get('b') == b'2')
            fresh.set('c', b'3')
            self.assertEqual(self.store.get('c'), b'3')

    def test_is_found_by_writing(self):
        with self.assertLogs('tslab', 'WARNING') as logs:
            restart(self.daemon)
            self.assert_one_pool()
            self.assertIsNone(self.store.get('a'))
            for _ in range(20):
                self.store.set('d', b'4')
        self.assertEqual(len(logs.records), 1, logs.output)
        self.assertRegex(logs.output[0], 'arena.*sessions')

    def test_is_found_by_reading(self):
        with self.assertLogs('tslab', 'WARNING'):
            restart(self.daemon)
            daemon.wait_for(lambda: self.store.get('a') is None)
            self.assert_one_pool()

    def test_is_found_by_threads_once(self):
        failures, old, is_found = [], self.store.pool, threading.Event()

        def work():
            n = 100     # rounds after it was found
            try:
                while n > 0:
                    self.store.set('t', b'1')
                    self.store.touch('t')
                    self.store.get('t')
                    n -= is_found.is_set()
            except Exception as e:  # noqa: BLE001 (shown below)
                failures.append(e)

        with self.assertLogs('tslab', 'WARNING') as logs:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                restart(self.daemon)
                daemon.wait_for(lambda: self.store.pool is not old)
            finally:
                is_found.set()
                for thread in threads:
                    thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(logs.records), 1, logs.output)
        self.assert_one_pool()

    def test_two_threads_reopen_at_once(self):
        """They share one pool, and the log has one message."""
        restart(self.daemon)
        both, real, opened = threading.Barrier(2), tslab.Pool.reopen, []

        def reopen(pool):
            both.wait(daemon.SECONDS)
            opened.append(real(pool))
            both.wait(daemon.SECONDS)
            return opened[-1]

        old, winners = self.store._opened, []
        daemon.wait_for(lambda: old.pool.stale)
        with unittest.mock.patch.object(tslab.Pool, 'reopen', reopen), self.assertLogs('tslab', 'WARNING') as logs:
            threads = [threading.Thread(target=lambda: winners.append(self.store._reopen(old))) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertIs(winners[0], winners[1])
        self.assertEqual([pool.closed for pool in opened].count(True), 1)
        self.assertEqual(len(logs.records), 1, logs.output)

    def test_is_found_by_children(self):
        """Children of a preloading server find it, which attach only after the daemon was replaced."""
        restart(self.daemon)
        with self.assertLogs('tslab', 'WARNING'):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    self.store.set('child', b'1')
                    self.store.touch('child')
                    code = self.store.get('child') != b'1'
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            self.assert_one_pool()
        self.assertEqual(self.store.get('child'), b'1')

    def test_new_arena_cannot_be_opened(self):
        """There is no entry left in it: the old memory will do, and the log says why."""
        self.daemon.command = [*self.daemon.command, '--threads=2']
        restart(self.daemon)
        others = contextlib.ExitStack()
        with contextlib.suppress(tslab.Error):
            while True:
                others.enter_context(tslab.open(self.daemon.socket))
        with others, self.assertLogs('tslab', 'WARNING') as logs:
            for _ in range(3):
                self.store._next_look = 0
                self.assertEqual(self.store.get('a'), b'1')
                self.store.set('b', b'2')
        self.assertEqual(len(logs.records), 1, logs.output)
        self.assertIn('cannot be opened', logs.output[0])
        daemon.wait_for(lambda: self.store.set('b', b'2') or self.store.get('a') is None)

    def test_no_daemon(self):
        """Nothing changes while there is none."""
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.process.wait()
        for _ in range(3):
            self.store.set('b', b'2')
            self.assertTrue(self.store.touch('a'))
            self.assertEqual((self.store.get('a'), self.store.get('b')), (b'1', b'2'))
            self.store._next_look = 0
        self.daemon.process = subprocess.Popen([*self.daemon.command, '--fresh'], env=self.daemon.environment)
        daemon.wait_for(self.daemon.answers)

    def test_map_is_revoked(self):
        """An operator revoked the epoch of all maps: they are empty, and usable."""
        maps = next(e.epoch for e in self.store.pool.epochs() if e.label == 'maps')
        with self.assertLogs('tslab', 'WARNING'):
            self.store.pool.epoch_close(maps, revoke=True)
            with limit():
                self.assertIsNone(self.store.get('a'))
                self.store.set('a', b'2')
        self.assertEqual(self.store.get('a'), b'2')


class Full(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=1 << 20)
        self.addCleanup(self.pool.close)

    def fill(self):
        """Leaves room for nothing."""
        for size in 4096, 2048, 1360, 1024, 816, 672, 576, 512, 400, 336, 256, 192, 128, 96, 64:
            with contextlib.suppress(tslab.FullError):
                while True:
                    self.pool.put(b'x' * size)

    def test_sessions_are_read(self):
        store = tslab.SessionStore(self.pool, lifetime=1000)
        store.set('a', b'1')
        self.fill()
        self.pool.epoch_advance()
        store.lifetime = 2000
        self.assertTrue(store.touch('a'))
        self.assertEqual(store.get('a'), b'1')
        self.assertGreater(store.map.ttl(b'a'), 1900)
        self.assertRaises(tslab.FullError, store.set, 'b', b'x' * 100)
        self.assertEqual(store.get('a'), b'1')
        self.assertTrue(store.delete('a'))

    def test_too_large_of_other_items_than_bytes(self):
        store = tslab.SessionStore(self.pool)
        with self.assertRaisesRegex(tslab.TooLargeError, 'a session id of 65536 bytes: it may have 4056'):
            store.set('i' * 65536, b'x')
        with self.assertRaisesRegex(tslab.TooLargeError, 'a session of 8000000 bytes'):
            store.set('a', memoryview(bytes(8000000)).cast('d'))

    def test_what_is_over_makes_room(self):
        store = tslab.SessionStore(self.pool, lifetime=0.1)
        for i in range(5000):
            try:
                store.set(f'old{i}', b'x' * 500)
            except tslab.FullError:
                break
        self.assertGreater(i, 500)
        daemon.wait_for(lambda: store.get(f'old{i - 1}') is None)

        def fits():
            with contextlib.suppress(tslab.FullError):
                store.set('new', b'x' * 500)
                return True

        daemon.wait_for(fits)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
