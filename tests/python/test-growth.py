"""Each public method, many times over: neither the process nor the pool grows, and no object gains references.

    test-growth.py TSLABD TSLABCTL [unittest arguments]
"""

import asyncio
import contextlib
import functools
import gc
import inspect
import os
import pickle
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
N_CALLS = 1000000 if os.environ.get('TSLAB_TEST_FULL') else 20000
KEY, VALUE = b'1', b'x' * 100
N_SLOW = N_CALLS // 50          # calls that enter the daemon, or walk through the pool
GROWTH_MAX = 1 << 20            # a leak of 64 bytes in each of 20,000 calls is more
BLOCKS_MAX = 500                # of Python's allocator; a leak of one object in each call is more

CLASSES = tslab.Pool, tslab.Map, tslab.Cache, tslab.cache.Lock, tslab.SessionStore, tslab.Domain
called = set()                  # code of the functions that were called


def record(frame, event, _):
    if event == 'call':
        called.add(frame.f_code)


def public_methods():
    """By name: the code of each method and property of the package that has no underscore."""
    for cls in CLASSES:
        for name in dir(cls):
            method = getattr(cls, name)
            method = inspect.unwrap(method.fget if isinstance(method, property) else method)
            if not name.startswith('_') and inspect.isfunction(method) and method.__module__.startswith('tslab'):
                yield f'{cls.__name__}.{name}', method.__code__


def resident():
    gc.collect()
    with open('/proc/self/statm', encoding='ascii') as statm:
        return int(statm.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def ignore(kind, call, *arguments):
    """A call that fails; the exception must not stay either."""
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError('it did not fail')


class Growth(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        if len(sys.argv) == 3:
            assert not (missing := [name for name, code in public_methods() if code not in called]), missing

    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=64M'))
        self.pool = self.enterContext(tslab.open(self.daemon.socket))
        self.map = tslab.Map(self.pool, 'm')
        self.map.update((str(i).encode(), b'x' * 100) for i in range(10))
        self.store = tslab.SessionStore(self.pool, lifetime=1000)
        self.store.set('a', b'1')
        self.handle = self.pool.put(b'x' * 100)
        self.stale = self.pool.put(b'x')
        self.pool.free(self.stale)
        self.pool.root_set('r', self.handle)

    def repeat(self, name, call, n=N_CALLS):
        with self.subTest(name):
            sys.setprofile(record)
            call()
            sys.setprofile(None)
            for _ in range(n // 10 + 100):
                call()
            # Python's free lists and caches fill once, and do not grow again; a leak grows each time.
            for _ in range(3):
                objects, memory, before = self.pool.stats().live_objects, resident(), self.references()
                for _ in range(n):
                    call()
                self.assertEqual(self.pool.stats().live_objects, objects)
                grown, after = resident() - memory, self.references()
                n_blocks = after.pop() - before.pop()
                self.assertEqual(after, before)
                if n_blocks < min(BLOCKS_MAX, max(50, n // 2)) and grown < GROWTH_MAX:
                    break
            self.assertLess(grown, GROWTH_MAX)
            self.assertLess(n_blocks, min(BLOCKS_MAX, max(50, n // 2)))

    def references(self):
        """To objects that all calls share; and how many blocks Python has allocated."""
        gc.collect()
        shared = (self.pool, self.pool._native, self.map, self.map._native, KEY, VALUE, None)
        return [*(sys.getrefcount(one) for one in shared[:-1]), sys.getallocatedblocks()]

    def test_objects(self):
        pool = self.pool
        self.repeat('alloc', lambda: pool.free(pool.alloc(100)[0]))
        self.repeat('put', lambda: pool.free(pool.put(b'x' * 100)))
        self.repeat('put a view', lambda: pool.free(pool.put(memoryview(bytearray(100)))))
        self.repeat('put too much', lambda: ignore(tslab.TooLargeError, pool.put, b'x' * 5000))
        self.repeat('get', lambda: pool.get(self.handle))
        self.repeat('get a stale one', lambda: ignore(tslab.StaleError, pool.get, self.stale))
        self.repeat('read', lambda: pool.read(self.handle))
        self.repeat('free a stale one', lambda: ignore(tslab.StaleError, pool.free, self.stale))
        self.repeat('batch', lambda: pool.free_batch(pool.alloc_batch(64, 10)))
        self.repeat('root_get', lambda: pool.root_get('r'))
        self.repeat('root_set', lambda: pool.root_set('r', self.handle, self.handle))
        self.repeat('map_remove', lambda: ignore(tslab.NotFoundError, pool.map_remove, 'none'))

        def pending():
            with pool.pending(64) as (handle, _):
                pass
            pool.free(handle)

        def shared():
            handle, _ = pool.alloc_pending(64)
            pool.share_pending(handle)
            pool.publish(handle)
            pool.free(handle)

        self.repeat('pending', pending)
        self.repeat('share_pending', shared)

    def test_epochs(self):
        pool = self.pool
        current = pool.epoch_current()
        self.repeat('epoch_current', pool.epoch_current)
        self.repeat('epoch_info', lambda: pool.epoch_info(current))
        self.repeat('epochs', lambda: list(pool.epochs()), N_SLOW)
        self.repeat('references', lambda: (pool.epoch_ref(current), pool.epoch_unref(current)))
        self.repeat('epoch_refs', lambda: pool.epoch_refs(current))
        self.repeat('stats', pool.stats, N_SLOW)
        self.repeat('class_stats', lambda: pool.class_stats(64), N_SLOW)
        self.repeat('epoch_stats', lambda: pool.epoch_stats(current), N_SLOW)
        self.repeat('thread_stats', pool.thread_stats)
        self.repeat('sizes', lambda: (pool.stale, pool.closed, pool.size_max, pool.capacity))
        self.repeat('drain', pool.drain, min(N_SLOW, 100))
        self.repeat('epoch_label', lambda: pool.epoch_label(current, 'x'), N_SLOW)
        self.repeat('epoch_reserve', lambda: pool.epoch_close(pool.epoch_reserve('x')), N_SLOW)
        self.repeat('epoch_lease', lambda: pool.epoch_close(pool.epoch_lease('x')), min(N_SLOW, 5))
        self.repeat('epoch_advance', pool.epoch_advance, N_SLOW)
        self.repeat('epoch_advance_from', lambda: pool.epoch_advance_from(pool.epoch_current()), N_SLOW)

        def domain():
            found = pool.domain()
            with found:
                pass
            found.enter()
            found.leave()

        self.repeat('domain', domain)

    @contextlib.contextmanager
    def claim_elsewhere(self, key):
        """A claim of another process: of a thread's pools something would stay for a second after they are closed."""
        (claimed, tell), (ended, end) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            os.write(tell, b'%d' % self.map.claim(key).version)
            os.read(ended, 1)
            os._exit(0)
        try:
            yield int(os.read(claimed, 100))
        finally:
            for fd in claimed, tell, ended, end:
                os.close(fd)
            os.waitpid(child, 0)

    def test_maps(self):
        m = self.map
        self.repeat('get', lambda: m.get(KEY))
        self.repeat('get none', lambda: m.get(b'none'))
        self.repeat('get_epoch', lambda: m.get_epoch(b'1'))
        self.repeat('get_version', lambda: m.get_version(b'1'))
        self.repeat('put', lambda: m.put(KEY, VALUE))
        self.repeat('put with a lifetime', lambda: m.put(KEY, VALUE, ttl=1000))
        self.repeat('tags', lambda: (m.put(KEY, VALUE, tags=('t', m.tag('u'))), m.invalidate('t')))
        m.invalidate('u')
        m.put(KEY, VALUE)
        self.repeat('touch and ttl', lambda: (m.touch(KEY, 1000), m.ttl(KEY)))
        self.repeat('put and get much', lambda: (m.put(b'much', bytes(10000)), m.get(b'much')))
        self.repeat('add', lambda: m.add(b'counter', ttl=1000))
        self.repeat('set_counter', lambda: m.set_counter(b'counter', 7))
        self.repeat('limit', lambda: m.limit(b'bucket', 1, 1000000000))     # which is not full again meanwhile
        self.repeat('statistics', m.stats)
        self.repeat('get_stale', lambda: m.get_stale(KEY))
        self.repeat('claim', lambda: m.replace(b'claimed', m.claim(b'claimed').version, VALUE) or m.delete(b'claimed'))
        self.repeat('give up', lambda: m.delete(b'claimed', m.claim(b'claimed').version))
        self.repeat('wait for none', lambda: m.wait(b'claimed', 77))
        version = self.enterContext(self.claim_elsewhere(b'claimed'))
        self.repeat('wait', lambda: m.wait(b'claimed', version, 0.0001), N_SLOW)
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            self.repeat('wait_async', lambda: loop.run_until_complete(m.wait_async(b'claimed', version, 0.0001)),
                        N_SLOW)

        def extend():
            nonlocal version
            version = m.extend(b'claimed', version)

        self.repeat('extend', extend)
        m.delete(b'claimed', version)
        for key in b'much', b'counter', b'bucket':
            m.delete(key)
        self.repeat('insert and delete', lambda: (m.insert(b'new', b'x'), m.delete(b'new')))
        self.repeat('change', lambda: m.change(b'1', b'x' * 100))
        self.repeat('replace', lambda: m.replace(b'1', m.get_version(b'1')[1], b'x' * 100))
        self.repeat('replace another', lambda: ignore(tslab.ChangedError, m.replace, b'1', 77, b'x'))
        self.repeat('pop', lambda: (m.setdefault(b'new', b'x'), m.pop(b'new')))
        self.repeat('popitem', lambda: m.put(*m.popitem()))
        self.repeat('walk', lambda: (dict(m.items()), list(m.values()), list(m.entries()), len(m), bool(m)), N_SLOW)
        self.repeat('expire', lambda: m.expire(7), N_SLOW)
        self.repeat('half a walk', lambda: next(iter(m)))
        self.repeat('clear', lambda: (m.clear(), m.update({b'1': b'x'})), N_SLOW)
        self.repeat('open', lambda: tslab.Map(self.pool, 'm').close(), N_SLOW)
        self.repeat('pickle', lambda: pickle.loads(pickle.dumps(m)), N_SLOW)

    def test_stores(self):
        s = self.store
        self.repeat('get', lambda: s.get('a'))
        self.repeat('set', lambda: s.set('a', b'1'))
        self.repeat('touch', lambda: s.touch('a'))
        self.repeat('lifetime_of', lambda: s.lifetime_of(1000))
        self.repeat('replace', lambda: s.replace('a', s.get_version('a')[1], b'3'))
        self.repeat('replace another', lambda: ignore(tslab.ChangedError, s.replace, 'a', 0, b'4'))
        self.repeat('delete', lambda: (s.set('b', b'1'), s.delete('b')))
        self.repeat('others', lambda: ('a' in s, len(s), s.pool, s.map, s.size_max))
        self.repeat('assign', lambda: (s.set('b', b'1'), s.assign('b', 'ann'), s.sessions_of('ann'), s.end_sessions('ann')), N_SLOW)

        def lock():
            with s.lock('a'):
                pass

        self.repeat('lock', lock)
        self.repeat('too large', lambda: ignore(tslab.TooLargeError, s.set, 'a', bytes(2 << 20)))

    @staticmethod
    def extend_lock(cache):
        with cache.lock('lock') as held:
            held.extend(1000)

    @staticmethod
    async def use_async(cache):
        async def make():
            return 1

        await cache.get_or_compute_async('new', make)
        cache.delete('new')
        lock = cache.lock('lock')
        await lock.acquire_async()
        lock.release()

    def test_caches(self):
        c = tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads)
        c.set('a', [1, 2])
        c.set('n', 1)
        self.repeat('get', lambda: c.get('a'))
        self.repeat('get_multi', lambda: c.get_multi(['a', 'b']))
        self.repeat('others', lambda: ('a' in c, len(c), c.pool, c.map, c.size_max))
        self.repeat('set', lambda: c.set('a', [1, 2], ttl=1000))
        self.repeat('add', lambda: c.add('a', 1))
        self.repeat('incr', lambda: (c.incr('counter'), c.incr('n')))
        self.repeat('get_or_compute', lambda: (c.get_or_compute('new', list), c.delete('new')))
        self.repeat('get_or_compute with an error', lambda: ignore(TypeError, c.get_or_compute, 'new', lambda: len(1)))

        def lock():
            with c.lock('lock') as held:
                held.locked()
                held.release()
                held.acquire()

        self.repeat('lock', lock)
        self.repeat('set_many', lambda: c.set_many({'a': 1, 'b': 2}))
        self.repeat('replace', lambda: c.replace('a', [1, 2]))
        self.repeat('touch', lambda: (c.touch('a', 1000), c.get_and_touch('a', 1000)))
        self.repeat('pop', lambda: (c.set('new', 1), c.pop('new')))
        self.repeat('stats', c.stats)
        self.repeat('extend', functools.partial(self.extend_lock, c))

        @c.memoize(ttl=1000)
        def double(x):
            return 2 * x

        self.repeat('memoize', lambda: (double(1), double.forget(1)))
        self.repeat('tags of a cache', lambda: (c.set('tagged', 1, tags=['t']), c.invalidate('t')))
        c.delete('tagged')
        self.repeat('make with memoize', lambda: c.memoize(len, ttl=1), N_SLOW)
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            self.repeat('async', lambda: loop.run_until_complete(self.use_async(c)), N_SLOW)
        self.repeat('delete_many', lambda: c.delete_many(['b', 'c']))
        self.repeat('clear', lambda: (c.clear(), c.set('a', 1)), N_SLOW)

    def test_pools(self):
        def private():
            with tslab.create(size=1 << 20, threads=8) as pool:
                pool.put(b'x')
                pool.reap()
                pool.control_owner()

        def opened():
            with tslab.open(self.daemon.socket) as pool:
                pool.free(pool.put(b'x'))
                pool.reopen().close()

        self.repeat('create', private, N_SLOW)
        self.repeat('open', opened, N_SLOW)
        self.repeat('open none', lambda: ignore(tslab.DaemonError, tslab.open, '/nonexistent'), N_SLOW)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
