"""tslab.Cache, in one process and in several.

    test-cache.py TSLABD TSLABCTL [unittest arguments]
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import datetime
import enum
import errno
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
ROUNDS = 100 if os.environ.get('TSLAB_TEST_FULL') else 10


def beside(call, *arguments, **options):
    """The call's result, in a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(call, *arguments, **options).result()


class Alone(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.cache = self.open()

    def open(self, **options):
        return tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads, **options)

    def test_values(self):
        for value in None, 0, True, 'text', [1, {'a': (2, 3.5)}], b'x' * 100000:
            self.cache.set('a', value)
            self.assertIn('a', self.cache)
            self.assertEqual(self.cache.get('a', 'nothing'), value)
        self.assertEqual(self.cache.get(b'a'), value)
        self.assertIsNone(self.cache.get('b'))
        self.assertEqual(self.cache.get('b', 7), 7)
        self.assertNotIn('b', self.cache)
        self.assertTrue(self.cache)
        with self.assertRaises(tslab.TooLargeError):
            self.cache.set('a', bytes(self.cache.size_max))
        self.assertEqual(self.cache.get('a'), value)

    def damaged(self):
        self.cache.set('a', b'x' * 2100)
        self.pool.get(self.cache.map.get_version(b'a')[1])[32 + 8 + 1] ^= 0x20      # see test-maps.py
        return 'a'

    def test_damaged_value(self):
        """It is none, and can be made again."""
        with self.assertLogs('tslab'):
            self.assertIsNone(self.cache.get(self.damaged()))
        self.assertNotIn('a', self.cache)
        self.assertEqual(self.cache.get_multi([self.damaged()]), {})
        self.assertEqual(self.cache.get_or_compute(self.damaged(), lambda: 7), 7)
        self.assertEqual(self.cache.get('a'), 7)
        self.assertEqual(self.cache.incr(self.damaged()), 1)

    def refused(self, cache):
        """A key with a pickle of a class that is gone, as after a deploy."""
        cache.set('a', b'cno_such_module\nPrice\n.')
        return 'a'

    def test_value_that_loads_refuses(self):
        """It counts as none, is made again, and is logged once."""
        plain, made = tslab.Cache(self.pool), []
        with self.assertLogs('tslab') as logs:
            self.assertEqual(self.cache.get(self.refused(plain), 7), 7)
            self.cache.set('b', 1)
            self.assertEqual(self.cache.get_multi(['a', 'b']), {'b': 1})
            for _ in range(3):
                self.assertEqual(self.cache.get_or_compute('a', lambda: made.append(1) or 'new'), 'new')
            self.assertEqual(len(made), 1)
            self.assertEqual(self.cache.pop(self.refused(plain), 7), 7)
            self.assertNotIn('a', self.cache)
            self.assertEqual(self.cache.incr(self.refused(plain)), 1)
        self.assertEqual(len(logs.records), 1)
        self.assertIn('no_such_module', logs.output[0])

    def test_more_calls(self):
        self.cache.set_many({'a': 1, 'b': 2}, ttl=1000)
        self.assertTrue(900 < self.cache.ttl('a') <= 1000)
        self.assertIsNone(self.cache.ttl('c'))
        self.assertTrue(self.cache.touch('a', datetime.timedelta(seconds=10)))
        self.assertLessEqual(self.cache.ttl('a'), 10)
        self.assertFalse(self.cache.touch('c'))
        self.assertEqual(self.cache.get_and_touch('a', 5000), 1)
        self.assertGreater(self.cache.ttl('a'), 4000)
        self.assertEqual(self.cache.get_and_touch('c', default=7), 7)
        self.assertTrue(self.cache.replace('a', 3))
        self.assertFalse(self.cache.replace('c', 3))
        self.assertEqual([self.cache.pop('a'), self.cache.pop('a'), self.cache.pop('a', 7)], [3, None, 7])
        self.assertEqual(self.cache.stats().inserts, 2)
        for bad in 0, -1, math.nan, datetime.timedelta():
            self.assertRaises(ValueError, self.cache.set, 'a', 1, ttl=bad)

    def test_keys(self):
        for bad in 5, None, 1.5, ('a',):
            for call in self.cache.get, self.cache.delete, self.cache.incr, self.cache.lock, self.cache.touch:
                self.assertRaisesRegex(TypeError, 'a key is text or bytes', call, bad)
            self.assertRaisesRegex(TypeError, 'a key is text or bytes', self.cache.get_or_compute, bad, self.fail)
        self.cache.set(bytearray(b'a'), 1)
        self.assertEqual(self.cache.get_multi(['a']), {'a': 1})

    def test_memoize(self):
        made = []

        @self.cache.memoize
        def price(product, *more, currency='EUR', **others):
            made.append(product)
            return [product, currency]

        class Shop:
            name = 'corner'

            @self.cache.memoize(ttl=60, key=lambda shop, n: f'{shop.name} {n}')
            def stock(shop, n):         # noqa: N805
                made.append(n)
                return n

        self.assertEqual([price(7), price(7, currency='EUR'), price(product=7)], [[7, 'EUR']] * 3)
        self.assertEqual(len(made), 1)
        different = [(7, 'x'), (7.0,), ('7',), (b'7',), (True,), ((7,),), ([7],), ({7: 1},), (None,)]
        for arguments in different * 2:
            price(*arguments)
        self.assertEqual(len(made), 1 + len(different))
        price(7, a=1, b={2, 3})
        price(7, b={3, 2}, a=1)
        price('x' * 5000)
        price('x' * 5000)
        self.assertEqual(len(made), 3 + len(different))
        self.assertRaisesRegex(TypeError, '`key`', price, object())
        self.assertEqual((price.__name__, price.forget(7), price.forget(7)), ('price', True, False))
        self.assertEqual([Shop().stock(3), Shop().stock(n=3)], [3, 3])
        self.assertEqual(made.count(3), 1)
        self.assertLessEqual(self.cache.ttl(Shop.stock.key_of(Shop(), 3)), 60)

    def test_arguments_that_differ(self):
        """Have results of their own, whatever their text is."""
        class Flag(enum.IntFlag):
            A, B = 1, 2

        class Hidden(str):
            def __repr__(self):
                return '***'

        class Fine(datetime.datetime):
            more = 0

            def __repr__(self):
                return f'{super().__repr__()}.{self.more}'

        class Local(datetime.tzinfo):
            def __init__(self, hours):
                self.hours = hours

            def utcoffset(self, _):
                return datetime.timedelta(hours=self.hours)

            def __repr__(self):
                return 'Local()'

        fine = [Fine(2026, 1, 2), Fine(2026, 1, 2), Fine(2026, 1, 2, 3)]
        fine[1].more = 1
        made = []
        number = self.cache.memoize(lambda value: made.append(value) or len(made), name='number')
        different = [*map(Flag, (0, 1, 2, 3, 8, 16)), Hidden('a'), Hidden('b'), 'a', '***', *fine, datetime.date(2026, 1, 2),
                     datetime.datetime(2026, 1, 2, 3), True, 1, collections.Counter(a=1), {'a': 1},
                     *(collections.OrderedDict.fromkeys(keys) for keys in ('ab', 'ba')),
                     *(datetime.datetime(2026, 1, 2, tzinfo=Local(hours)) for hours in (1, 2)),
                     *(enum.Enum('Size', {'S': 1}, module=module).S for module in ('shoes', 'shirts')),
                     *(collections.namedtuple('Size', 'n', module=module)(1) for module in ('shoes', 'shirts'))]
        for _ in range(2):
            self.assertEqual([number(value) for value in different], [*range(1, len(different) + 1)])
        self.assertRaisesRegex(TypeError, '`name`', self.cache.memoize, lambda: 1)

    def test_tags(self):
        c = self.cache
        made = []
        c.set('a', 1, tags=['t', 'u'])
        c.set('b', 2, tags=('u',))
        c.set('c', 3)
        self.assertTrue(c.invalidate('t'))
        self.assertFalse(c.invalidate('t'))
        self.assertEqual([c.get(k) for k in 'abc'], [None, 2, 3])

        @c.memoize(tags=lambda n: [f'product {n}'])
        def page(n):
            made.append(n)
            return f'page {n}'

        self.assertEqual([page(1), page(2), page(1)], ['page 1', 'page 2', 'page 1'])
        c.invalidate('product 1')
        self.assertEqual([page(1), page(2)], ['page 1', 'page 2'])
        self.assertEqual(made, [1, 2, 1])

        def make_of_old_data():
            c.invalidate('old')
            return 'old'

        self.assertEqual(c.get_or_compute('k', make_of_old_data, tags=['old']), 'old')
        self.assertIsNone(c.get('k'))
        self.assertEqual(c.get_or_compute('k', lambda: 'new', tags=['old']), 'new')
        self.assertEqual(c.get('k'), 'new')
        with self.assertRaises(ValueError):
            c.set('a', 1, tags='abcde'.split() * 5)
        with self.assertRaises(TypeError):
            c.set('a', 1, tags='one')

    def test_bytes(self):
        plain = tslab.Cache(self.pool, 'plain')
        plain.set('a', bytearray(b'1'))
        self.assertEqual(plain.get('a'), b'1')
        self.assertRaises(TypeError, plain.set, 'a', 'text')
        self.assertRaises(TypeError, plain.set, 'a', 7)

    def test_lifetimes(self):
        cache = self.open(ttl=0.05)
        end = daemon.expected_end(0.05)
        cache.set('a', 1)
        cache.set('b', 2, ttl=math.inf)
        cache.set('c', 3, ttl=1000)
        cache.add('d', 4)
        cache.incr('e')
        self.cache.set('f', 6)
        self.assertTrue(0 < (cache.map.ttl(b'a') or 1) <= 0.05 or time.monotonic() > end)
        daemon.wait_for(lambda: cache.get_multi('abcdef') == {'b': 2, 'c': 3, 'f': 6})
        self.assertEqual(len(cache), 3)
        self.assertTrue(cache.add('a', 1))

    def test_add(self):
        self.assertTrue(self.cache.add('a', 1))
        self.assertFalse(self.cache.add('a', 2))
        self.assertEqual(self.cache.get('a'), 1)

    def test_incr(self):
        self.assertEqual([self.cache.incr('n'), self.cache.incr('n', 5), self.cache.incr('n', -10)], [1, 6, -4])
        self.assertEqual(self.cache.get('n'), -4)
        self.assertEqual(self.cache.incr('m', 2, initial=40), 42)

    def test_incr_out_of_range(self):
        self.cache.incr('n', 2 ** 63 - 1)
        with self.assertRaises(tslab.CounterRangeError) as caught:
            self.cache.incr('n')
        self.assertIsInstance(caught.exception, OverflowError)
        self.assertEqual(self.cache.get('n'), 2 ** 63 - 1)
        self.assertRaises(OverflowError, self.cache.incr, 'm', 2 ** 63)
        self.cache.map.set_counter('n', -5)
        self.assertEqual((self.cache.incr('n'), self.cache.map.set_counter('new', 7), self.cache.get('new')), (-4, None, 7))

    def test_incr_of_a_number_that_was_set(self):
        self.cache.set('n', 5, ttl=1000)
        self.assertEqual(self.cache.incr('n', 3), 8)
        self.assertEqual(self.cache.get('n'), 8)
        self.assertTrue(900 < self.cache.map.ttl(b'n') <= 1000)
        self.cache.set('half', 0.5)
        self.assertEqual(self.cache.incr('half'), 1.5)
        self.cache.set('list', [1])
        self.assertRaises(TypeError, self.cache.incr, 'list')
        self.cache.set('tagged', 5, tags=['tag'])
        self.assertRaises(TypeError, self.cache.incr, 'tagged')
        self.assertTrue(self.cache.invalidate('tag'))
        self.assertIsNone(self.cache.get('tagged'), 'it has its tag still')
        self.assertEqual(self.cache.incr('tagged'), 1)
        self.cache.map.limit(b'bucket', 1, 1)
        self.assertRaises(tslab.Error, self.cache.incr, 'bucket')

    def test_many(self):
        for key in 'abc':
            self.cache.set(key, key.upper())
        self.assertEqual(self.cache.get_multi(['a', 'x', 'c']), {'a': 'A', 'c': 'C'})
        self.assertEqual(self.cache.get_multi([b'a']), {b'a': 'A'})
        self.assertEqual(self.cache.delete_many(['a', 'x', 'b']), 2)
        self.assertTrue(self.cache.delete('c'))
        self.assertFalse(self.cache.delete('c'))
        self.assertEqual(len(self.cache), 0)

    def test_clear(self):
        other = tslab.Cache(self.pool, 'other')
        other.set('a', b'1')
        for i in range(1000):
            self.cache.set(str(i), i)
        self.cache.clear()
        self.assertEqual((len(self.cache), other.get('a')), (0, b'1'))

    def test_clear_beside_a_computation(self):
        """Nothing that was made of the old data comes back: neither the value that is computed now, nor the stale one."""
        cache = tslab.Cache(self.pool, 'stale', stale=60)

        def make():
            cache.clear()
            return b'old'

        self.assertEqual(cache.get_or_compute('a', make), b'old')
        self.assertIsNone(cache.get('a'))
        cache.set('a', b'old', ttl=0.001)
        daemon.wait_for(lambda: 'a' not in cache)
        self.assertEqual(cache.map.get_stale(b'a'), (b'old', True))
        cache.clear()
        self.assertIsNone(cache.map.get_stale(b'a'))

    def test_get_or_compute(self):
        made = []

        def make():
            made.append(1)

        self.assertEqual([self.cache.get_or_compute('a', make) for _ in range(3)], [None] * 3)
        self.assertEqual(len(made), 1)
        self.assertEqual(self.cache.get_or_compute('b', lambda: 7, ttl=1000), 7)
        self.assertTrue(900 < self.cache.map.ttl(b'b') <= 1000)
        with self.assertRaises(ZeroDivisionError):
            self.cache.get_or_compute('c', lambda: 1 // 0)
        self.assertTrue(self.cache.lock('c').acquire(False), 'the claim was given up')

    def test_get_or_compute_beside_changes(self):
        """A value that was put while another was computed is newer; after a deletion nothing is kept."""
        self.assertEqual(self.cache.get_or_compute('a', lambda: self.cache.set('a', 'new') or 'old'), 'old')
        self.assertEqual(self.cache.get('a'), 'new')
        self.assertEqual(self.cache.get_or_compute('b', lambda: self.cache.delete('b') or 'old'), 'old')
        self.assertIsNone(self.cache.get('b'))

    def test_get_or_compute_what_does_not_fit(self):
        with self.assertLogs('tslab', 'WARNING') as logs:
            for _ in range(3):
                self.assertEqual(len(self.cache.get_or_compute('a', lambda: bytes(2 << 20))), 2 << 20)
            with contextlib.suppress(tslab.FullError):
                while True:
                    self.pool.alloc_batch(64, 1000)
            self.assertEqual(self.cache.get_or_compute('b', lambda: bytes(100000)), bytes(100000))
        self.assertEqual(len(logs.records), 1, 'the log is not flooded')
        self.assertNotIn('a', self.cache)

    def test_stale_values_while_one_computes(self):
        cache = self.open(name='stale', stale=1000)
        cache.set('a', 'old', ttl=0.05)
        daemon.wait_for(lambda: cache.get('a') is None)

        def make():
            self.assertEqual(cache.get_or_compute('a', self.fail), 'old')
            return 'new'

        with self.assertRaises(ZeroDivisionError):      # the stale value stays for the next ones
            cache.get_or_compute('a', lambda: 1 / 0)
        self.assertEqual(cache.get_or_compute('a', lambda: 1 / 0, stale_on_error=True), 'old')
        self.assertEqual(cache.get_or_compute('a', make), 'new')
        self.assertEqual(cache.get('a'), 'new')
        with self.assertRaises(ZeroDivisionError):
            cache.get_or_compute('b', lambda: 1 / 0, stale_on_error=True)
        with self.assertRaises(KeyboardInterrupt):
            cache.get_or_compute('b', self.interrupt, stale_on_error=True)

    def test_refreshes_early(self):
        cache = self.open(name='early', ttl=100)
        cache.set('a', 'old')
        self.assertEqual(cache.get_or_compute('a', self.interrupt, early=1), 'old')

        def make():
            self.assertEqual(cache.get_or_compute('a', self.interrupt, early=1000), 'old')       # one computes
            self.assertEqual(cache.get('a'), 'old')
            return 'new'

        self.assertEqual(cache.get_or_compute('a', make, early=1000), 'new')
        self.assertEqual(cache.get('a'), 'new')
        with self.assertRaises(KeyboardInterrupt):
            cache.get_or_compute('a', self.interrupt, early=1000)
        self.assertEqual(cache.get_or_compute('a', lambda: cache.delete('a'), early=1000), True)
        self.assertIsNone(cache.get('a'), 'a deletion is newer than what was computed before it')
        cache.set('b', 'endless', ttl=math.inf)
        self.assertEqual(cache.get_or_compute('b', self.interrupt, early=1000), 'endless')
        self.assertEqual(cache.get_or_compute('c', lambda: 'first', early=1000, tags=['t']), 'first')
        self.assertEqual(cache.get_or_compute('c', lambda: cache.invalidate('t'), early=1000, tags=['t']), True)
        self.assertIsNone(cache.get('c'))

    def test_refreshes_early_that_fail(self):
        """They are tried once a second, by all callers together, and not at each call."""
        def fail():
            failed.append(time.monotonic())
            raise ZeroDivisionError

        async def fail_async():
            fail()

        failed = []
        for name, make in ('sync', fail), ('async', fail_async), ('unkept', lambda: failed.append(time.monotonic()) or b'x' * (2 << 20)):
            failed.clear()
            cache = self.open(name=f'early {name}', ttl=100)
            cache.set('a', 'old')
            begin, n = time.monotonic(), 0
            with self.assertLogs('tslab', 'WARNING'):
                while len(failed) < 3:
                    if name == 'async':
                        asyncio.run(cache.get_or_compute_async('a', make, early=1000))
                    else:
                        self.assertIn(beside(cache.get_or_compute, 'a', make, early=1000), ('old', b'x' * (2 << 20)))
                    n += 1
            self.assertGreater(failed[-1] - begin, 1.9)
            self.assertGreater(n, 3)
            self.assertEqual(cache.get('a'), 'old')
        cache.set('a', 'older')
        daemon.wait_for(lambda: cache.get_or_compute('a', lambda: 'new', early=1000) == 'new')

    def test_refreshes_early_once(self):
        """A caller that has found a value that was due looks again: another may have computed it since."""
        def loads(data):
            if calls:
                self.assertEqual(beside(cache.get_or_compute, 'a', calls.pop(), ttl=100, early=50), 'new')
            return pickle.loads(data)

        calls = []
        cache = tslab.Cache(self.pool, name='early', dumps=pickle.dumps, loads=loads)
        cache.set('a', 'old', ttl=40)
        calls.append(lambda: 'new')
        self.assertEqual(cache.get_or_compute('a', self.interrupt, ttl=100, early=datetime.timedelta(seconds=50)), 'old')
        self.assertEqual(cache.get('a'), 'new')
        cache.touch('a', 40)
        self.assertEqual(cache.get_or_compute('a', lambda: 'newer', early=50), 'newer', 'the claim was given up')

    def test_refreshes_no_value_without_an_end(self):
        self.cache.set('a', 'endless', ttl=math.inf)
        self.assertEqual(self.cache.get_or_compute('a', self.interrupt, early=math.inf), 'endless')
        self.assertEqual(self.cache.incr('n', 5, ttl=10), 5)
        self.assertEqual(self.cache.get_or_compute('n', self.interrupt, early=1000), 5)

    def test_refused_arguments_before_the_end_of_a_value(self):
        self.cache.set('a', 'old', ttl=10)
        for tags, error in (list('abcde'), ValueError), ('tag', TypeError), ([5], TypeError):
            with self.assertRaises(error):
                self.cache.get_or_compute('a', self.interrupt, early=1000, tags=tags)
            with self.assertRaises(error):
                asyncio.run(self.cache.get_or_compute_async('a', self.interrupt, early=1000, tags=tags))

        async def make():
            return 'new'

        with self.assertLogs('tslab', 'WARNING'):
            self.assertEqual(self.cache.get_or_compute('a', lambda: make(), early=1000), 'old')

    def test_refresh_in_a_forked_child(self):
        """The child of a fork in `make` leaves the value to its parent."""
        self.cache.set('a', 'old', ttl=10)
        parent = os.getpid()

        def make():
            child = os.fork()
            if child:
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                self.assertEqual(self.cache.get('a'), 'old')
            return os.getpid()

        self.assertIn(self.cache.get_or_compute('a', make, ttl=100, early=1000), (parent, os.getpid()))
        if os.getpid() != parent:
            os._exit(0)
        self.assertEqual(self.cache.get('a'), parent)

    def test_refreshes_early_in_a_task(self):
        cache = self.open(name='early', ttl=100)
        cache.set('a', 'old')

        async def make():
            made.append(1)
            await asyncio.sleep(0)
            return 'new'

        async def main():
            values = [await cache.get_or_compute('a', make, early=1000) for _ in range(2)]
            self.assertEqual(values, ['old', 'old'])
            await asyncio.gather(*tslab.cache._tasks)

        made = []
        asyncio.run(main())
        self.assertEqual((cache.get('a'), len(made)), ('new', 1))
        self.assertFalse(tslab.cache._tasks)

    @staticmethod
    def interrupt():
        """Ends a test, also where an Exception is logged instead."""
        raise KeyboardInterrupt

    def test_evicts_where_the_pool_is_full(self):
        cache = tslab.Cache(self.pool, 'evicts', evict='sieve')
        for i in range(5000):
            cache.set(str(i), bytes(5000))
            self.assertEqual(cache.get('0'), bytes(5000))
        self.assertGreater(cache.map.stats().evictions, 1000)
        self.assertEqual(cache.get('4999'), bytes(5000))

    def test_the_time_to_wait_has_no_end(self):
        claim = beside(self.cache.map.claim, b'a')
        timer = threading.Timer(0.05, self.cache.map.delete, (b'a', claim.version))
        timer.start()
        self.assertEqual(self.cache.get_or_compute('a', lambda: 7, timeout=math.inf), 7)
        timer.join()

    def test_a_claim_of_this_thread(self):
        """It is not waited for: who has a limit goes on at once, and who has none is told."""
        claim = self.cache.map.claim(b'a')
        with self.assertRaises(tslab.Error) as caught:
            self.cache.map.wait(b'a', claim.version, 1000)
        self.assertEqual(caught.exception.errno, errno.EDEADLK)
        self.assertFalse(self.cache.map.wait(b'a', claim.version, 0))
        self.assertFalse(self.cache.lock('a').acquire(timeout=1000))
        self.assertRaises(tslab.Error, self.cache.lock('a').acquire)
        self.assertRaises(tslab.Error, self.cache.get_or_compute, 'a', lambda: 7, timeout=math.inf)
        self.assertEqual(self.cache.get_or_compute('a', lambda: 7, timeout=1000), 7)

    def test_the_time_to_wait_is_over(self):
        def make():
            self.assertEqual(beside(self.cache.get_or_compute, 'a', lambda: 'mine', timeout=0.01), 'mine')
            return 'late'

        self.assertEqual(self.cache.get_or_compute('a', make), 'late')
        self.assertEqual(self.cache.get('a'), 'mine')

        def make_again():
            with self.assertRaises(ZeroDivisionError):
                beside(self.cache.get_or_compute, 'b', lambda: 1 // 0, timeout=0.01)
            return 'kept'

        self.assertEqual((self.cache.get_or_compute('b', make_again), self.cache.get('b')), ('kept', 'kept'))

    def test_lock(self):
        lock, other = self.cache.lock('l'), self.cache.lock('l')
        self.assertFalse(lock.locked())
        with lock:
            self.assertTrue(other.locked())
            self.assertFalse(other.acquire(False))
            other.release()
            self.assertTrue(lock.locked())
        self.assertFalse(lock.locked())
        self.assertTrue(other.acquire(False))
        other.release()
        self.cache.set('l', 1)
        self.assertRaises(tslab.Error, lock.acquire)

    def test_clear_beside_a_lock(self):
        """It is free, as the docstrings say; its owner, which does not know, takes it from nobody."""
        lock, other = self.cache.lock('l'), self.cache.lock('l')
        lock.acquire()
        self.cache.clear()
        self.assertTrue(other.acquire(False))
        self.assertFalse(lock.release(), 'it tells')
        self.assertTrue(other.locked())
        other.release()
        self.assertFalse(other.locked())

    def test_lock_with_a_lifetime(self):
        """It is free when that is over, unless it is extended."""
        lock, other = self.cache.lock('l', ttl=0.01), self.cache.lock('l')
        self.assertTrue(lock.acquire())
        self.assertTrue(beside(other.acquire, timeout=1000))
        self.assertRaises(tslab.LockLostError, lock.extend)
        self.assertFalse(lock.release())
        self.assertTrue(other.release())
        self.assertRaises(tslab.LockLostError, other.extend)

        with lock:
            for ttl in 1000, datetime.timedelta(days=1):
                lock.extend(ttl)
                self.assertFalse(beside(other.acquire, timeout=0.02))
            with self.assertRaises(RuntimeError):
                other.acquire()
        self.assertFalse(lock.locked())
        with self.assertRaises(tslab.LockLostError):
            with lock:
                beside(other.acquire)
                lock.extend()
        self.assertRaises(ValueError, self.cache.lock, 'l', ttl=0)

    def test_extended_lock_of_a_waiter(self):
        """A thread that waits for the lock goes on waiting, and gets it in the end."""
        lock = self.cache.lock('l')
        self.assertTrue(lock.acquire())
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(self.cache.lock('l').acquire, timeout=1000)
            for _ in range(50):
                lock.extend()
                time.sleep(0.001)
            self.assertFalse(waiting.done())
            self.assertTrue(lock.release())
            self.assertTrue(waiting.result())

    def test_lost_lock(self):
        """A `with` block that goes on without its lock is told, unless it raises something itself."""
        lock = self.cache.lock('l')
        with self.assertRaises(tslab.LockLostError):
            with lock:
                self.cache.clear()
        with self.assertRaises(ZeroDivisionError):
            with lock:
                self.cache.clear()
                1 // 0      # noqa: B018
        self.assertFalse(lock.release())
        with lock:
            pass

    def test_acquire(self):
        """Its arguments are those of threading.Lock."""
        lock, other = self.cache.lock('l'), self.cache.lock('l')
        self.assertTrue(lock.acquire(blocking=True, timeout=5))
        self.assertFalse(beside(other.acquire, timeout=0.01))
        self.assertFalse(other.acquire(True, 0))
        self.assertFalse(other.acquire(blocking=False))
        self.assertRaises(ValueError, other.acquire, False, 1)
        self.assertRaises(ValueError, other.acquire, timeout=-2)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(other.acquire, timeout=1000)
            self.assertTrue(lock.release())
            self.assertTrue(waiting.result())
        self.assertTrue(other.release())

    def test_look_at_a_lock(self):
        """It is free meanwhile, also for a caller that does not wait."""
        lock, other = self.cache.lock('l'), self.cache.lock('l')
        ended = threading.Event()

        def look():
            while not ended.is_set():
                other.locked()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            for _ in range(20000):
                self.assertTrue(lock.acquire(False))
                lock.release()
        finally:
            ended.set()
            thread.join()

    def test_epoch_is_closed(self):
        for i in range(3):
            self.pool.epoch_close(self.pool.epoch_current())
            with self.assertLogs('tslab', 'WARNING'):
                self.cache.set('a', i)
            self.pool.epoch_close(self.pool.epoch_current())
            self.assertEqual(self.cache.incr(f'n{i}'), 1)
            self.assertEqual(self.cache.get('a'), i)

    def test_map_of_its_own(self):
        """`exclusive` and `existing` are of the first opening alone: not of copies, nor of maps in a new arena."""
        for option in 'exclusive', 'existing':
            with self.subTest(option), daemon.Daemon(TSLABD, '--size=16M') as d:
                pool = tslab.open(d.socket)
                if option == 'existing':
                    tslab.Map(pool, 'own')
                cache = tslab.Cache(pool, 'own', **{option: True})
                cache.set('a', b'1')
                self.assertEqual(pickle.loads(pickle.dumps(cache)).get('a'), b'1')
                others = pickle.dumps(cache)
                d.process.send_signal(signal.SIGKILL)
                d.process.wait()
                d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
                daemon.wait_for(d.answers)
                with self.assertLogs('tslab', 'WARNING'):
                    daemon.wait_for(lambda: cache.get('a') is None)
                cache.set('b', b'2')    # not before: it may go to the old arena
                self.assertEqual(pickle.loads(others).get('b'), b'2')

    def test_new_daemon_while_some_wait(self):
        """They wait no longer for a claim and a lock that are in the old arena."""
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            cache = tslab.Cache(tslab.open(d.socket))
            lock = cache.lock('lock')
            lock.acquire()
            cache.map.claim(b'a')
            waiting = [threading.Thread(target=call, daemon=True) for call in (
                lambda: cache.get_or_compute('a', lambda: b'1', timeout=300), cache.lock('lock').acquire)]
            for thread in waiting:
                thread.start()
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            with self.assertLogs('tslab', 'WARNING'):
                for thread in waiting:
                    thread.join(daemon.SECONDS)
            self.assertFalse(any(thread.is_alive() for thread in waiting))

    def test_maps_that_go_while_tasks_wait(self):
        """They go on in the new one, as threads do, and none gets the error of the old one."""
        pool, entered = self.pool, asyncio.Event()

        async def slow():
            entered.set()
            await is_gone.wait()
            return b'one'

        async def act():
            cache = tslab.Cache(pool, 'cache')
            first = asyncio.ensure_future(cache.get_or_compute('k', slow))
            await entered.wait()
            others = [tslab.Cache(pool, 'cache') for _ in range(2)]
            lock = cache.lock('l')
            lock.acquire()
            tasks = [asyncio.ensure_future(others[0].get_or_compute('k', slow)),
                     asyncio.ensure_future(others[1].lock('l').acquire_async(timeout=60))]
            await asyncio.sleep(0.05)
            pool.map_remove('cache')
            has_lock = await tasks[1]
            is_gone.set()
            return await asyncio.gather(first, tasks[0]), has_lock

        is_gone = asyncio.Event()
        self.assertEqual(asyncio.run(act()), ([b'one', b'one'], True))

    def test_get_or_compute_of_a_child_without_a_daemon(self):
        """A forked child cannot attach: it has the value all the same, which is not kept."""
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            cache = tslab.Cache(tslab.open(d.socket))
            cache.set('a', b'1')
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    with self.assertLogs('tslab', 'WARNING'):
                        code = (cache.get_or_compute('a', bytes), cache.get_or_compute('b', lambda: b'2')) != (b'1', b'2')
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)

    def test_child_of_a_computation(self):
        """A forked child that ends inside of it, or leaves it, leaves the claim to its parent."""
        def fails():
            raise LookupError

        cache, parent = self.open(), os.getpid()
        for key, end in ('exit', sys.exit), ('exception', fails), ('value', lambda: 'of the child'):
            def make(key=key, end=end):
                pid = os.fork()
                if pid == 0:
                    return end()
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
                self.assertFalse(cache._use(tslab.Map.wait, key, 0, 0))     # others wait
                return 'of the parent'

            try:
                value = cache.get_or_compute(key, make)
            finally:
                if os.getpid() != parent:
                    os._exit(0)
            self.assertEqual((value, cache.get(key)), ('of the parent', 'of the parent'))

    def test_child_beside_a_lock(self):
        """It does not have its parent's lock, however it leaves the block."""
        lock, parent = self.open().lock('lock'), os.getpid()
        try:
            with lock:
                pid = os.fork()
                if pid == 0:
                    raise LookupError
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
                self.assertTrue(lock.locked())
                pid = os.fork()
                if pid == 0:
                    os._exit(lock.release() or lock.acquire(False))
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
                lock.extend()
        finally:
            if os.getpid() != parent:
                os._exit(0)

    def test_child_that_waits_for_its_parent(self):
        """It is another process, which waits for its parent's claim as for any: it is not told that it would wait for
        itself."""
        cache, lock = self.open(), self.open().lock('lock')

        def child(ask):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.write(write, repr(ask()).encode())
                except Exception as e:  # noqa: BLE001 (the parent shows it)
                    os.write(write, repr(e).encode())
                finally:
                    os._exit(0)
            os.close(write)
            return pid, os.fdopen(read)

        def end(pid, answer):
            with answer:
                text = answer.read()
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            return text

        def make(key, timeout):
            children.append(child(lambda: cache.get_or_compute(key, lambda: b'of the child', timeout=timeout)))
            if timeout == 0:
                self.assertEqual(end(*children.pop()), repr(b'of the child'))
            return b'of the parent'

        children = []
        cache.get_or_compute('late', lambda: make('late', 0))
        cache.get_or_compute('value', lambda: make('value', daemon.SECONDS))
        self.assertEqual(end(*children.pop()), repr(b'of the parent'))
        with lock:
            children.append(child(lambda: lock.acquire() and lock.release()))
        self.assertEqual(end(*children.pop()), 'True')
        with lock:
            children.append(child(lambda: cache.get_or_compute('lock', lambda: b'of the child', timeout=daemon.SECONDS)))
        self.assertEqual(end(*children.pop()), repr(b'of the child'))

    def test_get_or_compute_raises_its_own_exception(self):
        """Also where its claim cannot be given up."""
        def fail():
            self.pool.close()
            raise KeyError('its own')

        self.assertRaises(KeyError, self.cache.get_or_compute, 'a', fail)

    def test_new_daemon(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            cache = tslab.Cache(tslab.open(d.socket), dumps=lambda v: json.dumps(v).encode(), loads=json.loads)
            cache.set('a', [1])
            d.process.kill()
            d.process.wait()
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            with self.assertLogs('tslab', 'WARNING'):
                daemon.wait_for(lambda: cache.get('a') is None)
            cache.set('a', [2])
            with tslab.open(d.socket) as pool:
                self.assertEqual(tslab.Cache(pool).get('a'), b'[2]')

    def test_new_daemons_while_a_thread_opens_a_pool(self):
        """It comes to an end after others have gone one arena further."""
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            pool = tslab.open(d.socket)
            pool.__class__, pool.goes_on, pool.slow = SlowPool, threading.Event(), None
            cache = tslab.Cache(pool)
            self.replace(d)
            pool.slow = thread = threading.Thread(target=cache.get, args=('a',))
            thread.start()
            daemon.wait_for(lambda: cache._next_look > 0)
            with self.assertLogs('tslab', 'WARNING'):
                for i in range(5):
                    daemon.wait_for(lambda: not cache.pool.stale or cache.get('a'))
                    if i == 2:
                        pool.goes_on.set()
                        thread.join()
                    self.replace(d)
                daemon.wait_for(lambda: not cache.pool.stale or cache.get('a'))

    def replace(self, d):
        d.process.kill()
        d.process.wait()
        d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
        daemon.wait_for(d.answers)

    def test_pickled_subclass(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            for kind in CacheOfOurs, SessionsOfOurs, MapOfOurs:
                copy = pickle.loads(pickle.dumps(kind(tslab.open(d.socket), 'x')))
                self.assertIs(type(copy), kind)


class SlowPool(tslab.Pool):
    def reopen(self):
        fresh = super().reopen()
        if threading.current_thread() is self.slow:
            self.goes_on.wait(daemon.SECONDS)
        return fresh


class CacheOfOurs(tslab.Cache):
    pass


class SessionsOfOurs(tslab.SessionStore):
    pass


class MapOfOurs(tslab.Map):
    pass


class Beside(unittest.TestCase):
    """Workers on a daemon's pool, some of which are killed."""

    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=16M'))
        self.pool = self.enterContext(tslab.open(self.daemon.socket))
        self.cache = tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads)

    def worker(self, function):
        """Forked: its pid, and a file with the lines that it writes."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function(lambda line: os.write(write, f'{line}\n'.encode()) and None)
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        return pid, os.fdopen(read)

    def end(self, pid, lines, kill=False):
        if kill:
            self.assertTrue(lines.readline())
            os.kill(pid, signal.SIGKILL)
        with lines:
            text = lines.read()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGKILL if kill else 0)
        return text.splitlines()

    def test_incr_of_many(self):
        """Counters, and numbers that were set, while a worker is killed in a change: its last step may be done or not."""
        for key in 'counter', 'number':
            if key == 'number':
                self.cache.set(key, 0)
            for _ in range(ROUNDS):
                before = self.cache.get(key, 0)

                def count(tell, n=300, key=key):
                    for _ in range(n):
                        self.cache.incr(key)
                        tell('done')

                others = [self.worker(count) for _ in range(2)]
                n = 1 + len(self.end(*self.worker(lambda tell, key=key: count(tell, 10 ** 9, key)), kill=True))
                for other in others:
                    n += len(self.end(*other))
                self.assertIn(self.cache.get(key) - before - n, (0, 1))
        self.check()

    def test_add_has_one_winner(self):
        def add(tell):
            for i in range(500):
                if self.cache.add(f'{i}', os.getpid()):
                    tell(i)

        won = [int(line) for worker in [self.worker(add) for _ in range(4)] for line in self.end(*worker)]
        self.assertEqual(sorted(won), list(range(500)))

    def test_one_computes(self):
        """All processes that miss a key get the value that one of them computes."""
        def ask(tell):
            for i in range(50):
                value = self.cache.get_or_compute(f'{i}', lambda i=i: tell(f'made {i}') or (time.sleep(0.002), os.getpid())[1])
                tell(f'{i} {value}')

        lines = [line for worker in [self.worker(ask) for _ in range(4)] for line in self.end(*worker)]
        made = [line for line in lines if line.startswith('made')]
        self.assertEqual(len(made), 50)
        self.assertEqual(len({line for line in lines if not line.startswith('made')}), 50)

    def test_the_one_that_computes_is_killed(self):
        """The others go on at once, and one of them computes."""
        for i in range(ROUNDS):
            def hang(tell, i=i):
                self.cache.get_or_compute(f'{i}', lambda: tell('made') or time.sleep(100))

            def ask(tell, i=i):
                tell(self.cache.get_or_compute(f'{i}', lambda: tell('made') or 'value'))

            pid, lines = self.worker(hang)
            self.assertTrue(lines.readline())
            others, begun = [self.worker(ask) for _ in range(3)], time.monotonic()
            os.kill(pid, signal.SIGKILL)
            told = [line for other in others for line in self.end(*other)]
            os.waitpid(pid, 0)
            lines.close()
            self.assertEqual(sorted(told), ['made'] + ['value'] * 3)
            self.assertLess(time.monotonic() - begun, 20, 'not only because the claim was over')
        self.check()

    def test_lock_of_many(self):
        """No step is lost, though each is two calls; a worker that is killed with the lock leaves it."""
        self.cache.set('n', 0)

        def count(tell, n=50):
            for _ in range(n):
                with self.cache.lock('lock'):
                    self.cache.set('n', self.cache.get('n') + 1)
                tell('done')

        n = 0
        for _ in range(ROUNDS // 5):
            others = [self.worker(count) for _ in range(3)]
            n += 1 + len(self.end(*self.worker(lambda tell: count(tell, 10 ** 9)), kill=True))
            n += sum(len(self.end(*other)) for other in others)
        self.assertTrue(n <= self.cache.get('n') <= n + ROUNDS // 5)
        self.check()

    def check(self):
        daemon.wait_for(lambda: self.daemon.ctl(TSLABCTL, 'stats')['clients'] <= 1)
        check = self.daemon.ctl(TSLABCTL, 'check')
        self.assertTrue(check['ok'], check)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
