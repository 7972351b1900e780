"""Calls that Python interrupts: by signal handlers, by finalizers, and by exceptions that either raises.

    test-reentrancy.py TSLABD TSLABCTL [unittest arguments]
"""

import concurrent.futures
import contextlib
import gc
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import unittest.mock

import tslab

SECONDS = 1.0


@contextlib.contextmanager
def interrupted(handler, every=0.0001):
    """SIGALRM comes all the time, and `handler` serves it."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Reading(unittest.TestCase):
    """A lookup in the middle of another one must not change the result of the outer one."""

    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.map = tslab.Map(self.pool, 'sessions')
        self.map[b'alice'] = b'a' * 300
        self.map[b'bob'] = b'b' * 300

    def read_alice(self):
        self.assertEqual(self.map.get(b'alice'), b'a' * 300)
        self.assertEqual(self.map.get_epoch(b'alice'), (b'a' * 300, self.epochs[0]))
        self.assertEqual(self.map.get_version(b'alice'), (b'a' * 300, self.versions[0]))

    def look_up_bob(self):
        self.assertEqual(self.map.get(b'bob'), b'b' * 300)
        self.assertEqual(self.map.get_epoch(b'bob'), (b'b' * 300, self.epochs[1]))
        self.assertEqual(self.map.get_version(b'bob'), (b'b' * 300, self.versions[1]))

    def remember(self):
        self.pool.epoch_advance()
        self.map[b'bob'] = b'b' * 300
        self.epochs = [self.map.get_epoch(k)[1] for k in (b'alice', b'bob')]
        self.versions = [self.map.get_version(k)[1] for k in (b'alice', b'bob')]

    def test_signal_handler_reads(self):
        self.remember()
        handled = []
        with interrupted(lambda *_: handled.append(self.look_up_bob())):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end or len(handled) < 100:
                self.read_alice()

    def test_finalizer_reads(self):
        self.remember()
        test = self

        class Finalized:
            """Part of a cycle, so that the collector ends it, wherever that runs."""

            def __init__(self):
                self.me = self

            def __del__(self):
                test.look_up_bob()

        before = gc.get_threshold()
        gc.set_threshold(7)
        try:
            for _ in range(20000):
                Finalized()
                self.read_alice()
        finally:
            gc.set_threshold(*before)
            gc.collect()

    def test_threads_read(self):
        self.remember()
        failures = []

        def look(read):
            try:
                for _ in range(3000):
                    read()
            except Exception as e:  # noqa: BLE001 (shown below)
                failures.append(e)

        threads = [threading.Thread(target=look, args=(read,)) for read in (self.read_alice, self.look_up_bob) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Closing(unittest.TestCase):
    """Another thread closes a pool or a map in the middle of a call."""

    def call_and_close(self, where, call, check='check'):
        """The call's result, of a pool that is closed when the call looks whether libtslab returned an error."""
        pool = tslab.create(size=16 << 20)
        handle = pool.put(b'x' * 100)

        def close(*arguments):
            pool.close()
            return next(a for a in arguments if isinstance(a, int))

        with unittest.mock.patch(f'tslab.{where}.{check}', close):
            return call(pool, handle)

    def test_pool_while_a_view_is_made(self):
        """The view keeps the memory of the pool."""
        for call in tslab.Pool.get, lambda pool, _: pool.alloc(100)[1]:
            view = self.call_and_close('pool', call)
            view[:] = b'y' * len(view)
            self.assertEqual(bytes(view), b'y' * len(view))

    def test_pool_while_a_map_is_opened(self):
        map_ = self.call_and_close('map', lambda pool, _: tslab.Map(pool, 'm'), 'check_control')
        self.assertRaises(tslab.ClosedError, map_.get, b'a')

    def test_near_pool_while_it_is_opened(self):
        near = self.call_and_close('near', lambda pool, _: tslab.near._Opened(pool, 'n'))
        self.assertIsNotNone(near.owner)

    def test_map_while_it_is_looked_at(self):
        map_ = tslab.Map(tslab.create(size=16 << 20), 'm')
        map_[b'a'] = b'1'

        class Pool:
            @property
            def _native(self):
                map_.close()
                return True

        with unittest.mock.patch.object(map_, 'pool', Pool()):
            self.assertEqual(map_.get(b'a'), b'1')
            self.assertRaises(tslab.ClosedError, map_.get, b'a')

    def test_pool_while_a_thread_waits(self):
        map_ = tslab.Map(tslab.create(size=16 << 20), 'm')
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            claim = threads.submit(map_.claim, b'a').result()
        closing = threading.Timer(0.05, map_.pool.close)
        closing.start()
        self.assertRaises(tslab.ClosedError, map_.wait, b'a', claim.version, 25)
        closing.join()


class Limit(Exception):
    pass


def is_before_exit(e):
    """Whether __exit__() was called and had not begun its first statement: no code of it can catch such an exception."""
    *_, (frame, line), _ = traceback.walk_tb(e.__traceback__)
    return frame.f_code.co_name == '__exit__' and line == frame.f_code.co_firstlineno


class Exceptions(unittest.TestCase):
    """An exception of a signal handler reaches the program, and leaves nothing behind."""

    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)

    def test_while_views_end(self):
        handle = self.pool.put(b'x')
        raised = caught = 0

        def stop(*_):
            nonlocal raised
            raised += 1
            raise Limit

        # Python 3.13 may raise it at the end of a loop's round as if that were outside of the try statement around it.
        def get_until_raised():
            end = time.monotonic() + 60
            while not raised > caught:
                self.assertLess(time.monotonic(), end)
                self.pool.get(handle)

        for _ in range(400):
            before = signal.signal(signal.SIGALRM, stop)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                get_until_raised()
                self.fail('a time limit was lost')
            except Limit:
                caught += 1
            finally:
                signal.signal(signal.SIGALRM, before)
        self.assertEqual((raised, caught), (400, 400))

    def exceptions(self, call, n=300):
        """Yields whenever a signal handler has interrupted one of many calls by an exception: is_before_exit() of it."""
        def stop(*_):
            raise Limit

        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for i in range(n):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + i * 1e-6)
                while True:
                    call()
            except Limit as e:
                was_before_exit = is_before_exit(e)
            yield was_before_exit

    def check_no_object_is_lost(self, call):
        """`call` returns a handle."""
        handle = 0

        def call_and_free():
            nonlocal handle
            handle = 0
            handle = call()
            self.pool.free(handle)

        objects = self.pool.stats().live_objects
        for _ in self.exceptions(call_and_free):
            if handle:
                with contextlib.suppress(tslab.StaleError):
                    self.pool.free(handle)
            self.assertEqual(self.pool.stats().live_objects, objects)

    def test_put_loses_nothing(self):
        for _ in range(200):
            self.assertRaises(TypeError, self.pool.put, [1, 2, 3])
        self.check_no_object_is_lost(lambda: self.pool.put(b'x' * 64))

    def test_alloc_loses_nothing(self):
        self.check_no_object_is_lost(lambda: self.pool.alloc(64)[0])

    def test_alloc_pending_loses_nothing(self):
        self.check_no_object_is_lost(lambda: self.pool.alloc_pending(64)[0])
        for _ in range(64):
            self.pool.alloc_pending(64)

    def check_no_claim_stays(self, cache, call):
        for _ in self.exceptions(call):
            claim = cache.map.claim(b'k')
            self.assertTrue(claim is None or claim.mine)
            cache.map.clear()

    def test_get_or_compute_leaves_no_claim(self):
        cache = tslab.Cache(self.pool)
        self.check_no_claim_stays(cache, lambda: (cache.get_or_compute('k', lambda: b'x'), cache.delete('k')))

    def test_claim_leaves_none_that_is_unknown(self):
        cache = tslab.Cache(self.pool)
        known = 0

        def claim_and_clear():
            nonlocal known
            known = 0
            known = cache.map.claim(b'k').version
            cache.map.clear()

        for _ in self.exceptions(claim_and_clear):
            claim = cache.map.claim(b'k')
            self.assertTrue(claim.mine or claim.version == known)
            cache.map.clear()

    def test_acquire_leaves_no_lock_that_is_unknown(self):
        cache = tslab.Cache(self.pool)
        lock = cache.lock('k')

        def lock_and_clear():
            lock._version = 0
            lock.acquire()
            cache.clear()

        for _ in self.exceptions(lock_and_clear):
            self.assertTrue(lock._version or not lock.locked())
            cache.clear()

    def check_is_left(self, scope, leave, is_inside):
        def enter_and_leave():
            with scope:
                pass

        for was_before_exit in self.exceptions(enter_and_leave):
            if was_before_exit:
                leave()
            self.assertFalse(is_inside())

    def test_domain_is_left(self):
        domain = self.pool.domain()
        self.check_is_left(domain, domain.leave, lambda: self.pool.epoch_refs(domain.epoch))

    def test_lock_is_free(self):
        lock = tslab.Cache(self.pool).lock('k')
        self.check_is_left(lock, lock.release, lock.locked)

    def test_lock_is_free_if_it_comes_after_acquiring(self):
        """As Python 3.10 may raise it: __enter__() has the lock, and has not returned."""
        lock = tslab.Cache(self.pool).lock('k')
        acquire = lock._acquire

        def acquire_and_raise(*arguments):
            acquire(*arguments)
            self.assertTrue(lock.locked())
            raise Limit

        with unittest.mock.patch.object(lock, '_acquire', acquire_and_raise):
            with self.assertRaises(Limit):
                with lock:
                    self.fail()
        self.assertFalse(lock.locked())

    def test_create_leaves_no_pool(self):
        gc.collect()
        descriptors = len(os.listdir('/proc/self/fd'))
        for _ in self.exceptions(lambda: tslab.create(size=1 << 20, threads=8)):
            gc.collect()
            self.assertEqual(len(os.listdir('/proc/self/fd')), descriptors)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
