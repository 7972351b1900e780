"""tslab-near beside a real redis-server: hits, changes, lost servers, kills, bad settings."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import itertools
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

TSLABD, TSLABCTL, TSLAB_NEAR = map(os.path.abspath, sys.argv[1:4])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))

import redis  # noqa: E402
import redis.asyncio  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
from daemon import SECONDS, Daemon, free_port, wait_for  # noqa: E402
from proxy import Proxy  # noqa: E402
from servers import TSLAB_NEAR, Counted, Near, Redis  # noqa: E402

BOUND_MS = 5000      # longer than this process may have to wait beside others


class NearFixture(unittest.TestCase):
    BOUND_MS = BOUND_MS

    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.redis = Redis()
        self.addCleanup(self.redis.end)
        self.near = Near(self.daemon, self.redis, '--bound', str(self.BOUND_MS))
        self.addCleanup(self.near.end)
        self.engine = Counted(self.redis.client())
        self.cache = tslab.NearCache(self.engine, self.enterContext(tslab.open(self.daemon.socket)), prefix='p:')
        wait_for(self.is_covered)

    def is_covered(self, key='probe'):
        """Whether a second get of one key asks nobody."""
        self.cache.get(key)
        n = self.engine.n
        self.cache.get(key)
        return self.engine.n == n

    def eventually(self, key, value):
        wait_for(lambda: self.cache.get(key) == value)


class NearTest(NearFixture):
    def test_a_hit_asks_nobody(self):
        self.engine.set('p:a', b'one')

        def asks_nobody():
            n = self.engine.n
            self.assertEqual([self.cache.get('a') for _ in range(100)], [b'one'] * 100)
            return self.engine.n == n

        wait_for(asks_nobody)       # when the server has told of the set()

    def metrics(self):
        done = subprocess.run([TSLABCTL, 'metrics', '--socket', self.daemon.socket], stdout=subprocess.PIPE, text=True,
                              check=True, timeout=SECONDS)
        return [line for line in done.stdout.splitlines() if line.startswith('tslab_near_covered')]

    def test_operators_see_the_cover(self):
        with tslab.open(self.daemon.socket) as pool:
            tslab.Map(pool, 'another')['k'] = b'v'  # no near cache has this name
        self.assertEqual(self.metrics(), ['tslab_near_covered{pool="default",map="near"} 1'])
        self.assertEqual({m['map']: m['near'] for m in self.daemon.ctl(TSLABCTL, 'maps')},
                         {'near': 'covered', 'another': 'none'})
        self.near.end()
        with tslab.open(self.daemon.socket) as pool:
            tslab.NearCache(self.redis.client(), pool, name='never', prefix='n:')   # and no tslab-near has covered it
        self.assertEqual(set(self.metrics()), {'tslab_near_covered{pool="default",map="near"} 0',
                                               'tslab_near_covered{pool="default",map="never"} 0'})
        self.daemon.ctl(TSLABCTL, 'maps', 'remove', 'never', '--yes')
        self.assertEqual(self.metrics(), ['tslab_near_covered{pool="default",map="near"} 0'])
        self.near.start()
        wait_for(lambda: self.metrics() == ['tslab_near_covered{pool="default",map="near"} 1'])
        self.redis.kill()
        wait_for(lambda: self.metrics() == ['tslab_near_covered{pool="default",map="near"} 0'])
        self.redis.start()

    def test_half_of_the_pool(self):
        """Copies leave half of the pool to others, whoever made the near cache; --limit=0 takes that back."""
        tslab.NearCache(self.engine, self.cache.pool, prefix='q:', name='program').get('x')

        def limits():
            return {m['map']: m['limit_bytes'] for m in self.daemon.ctl(TSLABCTL, 'maps')}

        half = self.cache.pool.capacity // 2
        self.assertEqual((limits()['near'], limits()['program']), (half, half))
        pipe = self.redis.client().pipeline()
        for i in range(3000):
            pipe.set(f'p:{i}', bytes(4000))
        pipe.execute()
        for i in range(3000):
            self.assertEqual(self.cache.get(i), bytes(4000))
        stats = tslab.Map(self.cache.pool, 'near', existing=True).stats()
        self.assertTrue(half * 9 // 10 < stats.bytes <= half, stats)
        self.near.end()
        self.near = Near(self.daemon, self.redis, '--limit=0')
        self.addCleanup(self.near.end)
        wait_for(lambda: limits()['near'] == 0)

    def test_an_absent_key_is_known(self):
        self.assertIsNone(self.cache.get('none'))
        wait_for(lambda: self.is_covered('none'))
        n = self.engine.n
        self.assertIsNone(self.cache.get('none'))
        self.assertEqual(self.engine.n, n)
        self.engine.set('p:none', b'')
        self.eventually('none', b'')

    def test_keys_that_are_numbers(self):
        """As redis-py takes them, and never for so many zeros."""
        self.engine.set('p:5', 'five')
        for key in 5, '5', b'5', bytearray(b'5'):
            self.eventually(key, b'five')
        self.cache.set(7, 'seven')
        self.assertEqual(self.engine.get('p:7'), b'seven')
        self.assertEqual(self.cache.mget([7, 4_000_000_000, 1.5]), [b'seven', None, None])
        self.cache.delete(7)
        self.assertIsNone(self.engine.get('p:7'))
        for bad in None, True, ('a',):
            self.assertRaises(TypeError, self.cache.get, bad)

    def test_several_keys_one_of_which_is_a_hash(self):
        """As MGET answers; it is no copy of an absent key, either."""
        self.engine.set('p:s', 'v')
        self.engine.hset('p:h', 'f', 'v')
        for _ in range(2):
            self.assertEqual(self.cache.mget(['s', 'h', 'no']), [b'v', None, None])
            self.assertRaises(redis.ResponseError, self.cache.get, 'h')
        self.engine.delete('p:h')
        self.cache.set('h', 'now text')
        self.assertEqual(self.cache.mget(['h']), [b'now text'])

    def asks_nobody(self, call, value):
        def is_so():
            self.assertEqual(call(), value)
            n = self.engine.n
            self.assertEqual(call(), value)
            return self.engine.n == n

        wait_for(is_so)

    def test_hashes_and_sets(self):
        large = {os.urandom(8): os.urandom(100) for _ in range(1000)}
        small = {b'f': b'v', b'': b'', b'g': b'\0'}
        for key, value in (('h', small), ('large', large)):
            self.engine.hset(f'p:{key}', mapping=value)
            self.engine.sadd(f'p:{key} set', *value)
            self.asks_nobody(lambda key=key: (self.cache.hgetall(key), self.cache.smembers(f'{key} set')), (value, set(value)))
        self.asks_nobody(lambda: (self.cache.hgetall('none'), self.cache.smembers('none')), ({}, set()))
        self.engine.hdel('p:h', 'f')
        wait_for(lambda: b'f' not in self.cache.hgetall('h'))
        self.engine.delete('p:h')
        wait_for(lambda: self.cache.hgetall('h') == {})

    def test_keys_of_another_type(self):
        """As the engine answers, whichever kind has a copy. A string that looks like a copy of another kind is none."""
        self.engine.hset('p:h', 'f', 'v')
        self.engine.sadd('p:s', 'f', 'v')
        self.engine.set('p:t', tslab.near._HASH.mark + b'\0\0\0\1x')
        self.asks_nobody(lambda: (self.cache.hgetall('h'), self.cache.smembers('s')), ({b'f': b'v'}, {b'f', b'v'}))
        for call, keys in (self.cache.get, 'hs'), (self.cache.hgetall, 'st'), (self.cache.smembers, 'ht'):
            for key in keys:
                for _ in range(2):
                    with self.assertRaisesRegex(redis.ResponseError, 'WRONGTYPE'):
                        call(key)
        for _ in range(3):
            self.assertEqual(self.cache.mget('hst'), [None, None, tslab.near._HASH.mark + b'\0\0\0\1x'])

    def test_close(self):
        self.engine.set('p:a', '1')
        with tslab.NearCache(self.engine, self.cache.pool, prefix='p:') as cache:
            self.assertEqual(cache.get('a'), b'1')
        for call in cache.get, cache.hgetall, cache.drop, lambda key: cache.mget([key]):
            self.assertRaises(tslab.ClosedError, call, 'a')
        self.assertRaises(tslab.ClosedError, cache.set, 'a', '2')
        self.assertRaises(tslab.ClosedError, cache.delete, 'a')
        self.assertEqual((self.cache.get('a'), self.engine.get('p:a')), (b'1', b'1'))
        cache.close()

    def test_a_socket_of_the_file_system(self):
        path = os.path.join(self.daemon.dir, 'redis.sock')
        server = Redis('--unixsocket', path)
        self.addCleanup(server.end)
        cache = tslab.NearCache(f'unix://{path}?db=0', self.cache.pool, prefix='q:')
        cache.set('a', '1')
        self.assertEqual((cache.get('a'), server.client().get('q:a')), (b'1', b'1'))

        async def act():
            cache = tslab.AsyncNearCache(f'unix://{path}?db=0', self.cache.pool, prefix='q:')
            await cache.set('a', '2')
            self.assertEqual(await cache.get('a'), b'2')
            await (cache.engine.aclose if hasattr(cache.engine, 'aclose') else cache.engine.close)()

        asyncio.run(act())

    def test_pickled(self):
        """One that was made from a URL; a client cannot be."""
        url = f'redis://127.0.0.1:{self.redis.port}'
        cache = tslab.NearCache(url, self.cache.pool, prefix='p:', ttl=7, wait=0.5)
        copy = pickle.loads(pickle.dumps(cache))
        self.engine.set('p:a', '1')
        self.eventually('a', b'1')
        self.assertEqual((copy.get('a'), copy._ttl_ms, copy._wait_ms), (b'1', 7000, 500))

    def test_lifetimes_that_are_none(self):
        self.cache.set('a', 'v')
        for bad in 0, -1, float('nan'), datetime.timedelta():
            self.assertRaises(ValueError, self.cache.set, 'a', 'x', ttl=bad)
        self.assertEqual(self.engine.get('p:a'), b'v')
        for good, pttl in (float('inf'), -1), (None, -1), (datetime.timedelta(days=60), 86400_000 * 60), (1e9, 10 ** 12):
            self.cache.set('a', 'v', ttl=good)
            self.assertTrue(pttl - SECONDS * 1000 <= self.engine.pttl('p:a') <= pttl)

    def test_answers_of_interrupted_calls(self):
        """That come later are nobody else's, as where a time limit of a task raises an exception."""
        class OverError(Exception):
            pass

        def interrupt(*_):
            raise OverError

        proxy = Proxy(self.redis.port)
        self.addCleanup(proxy.end)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        with redis.Redis(port=proxy.port) as engine:
            cache = tslab.NearCache(engine, self.cache.pool, prefix='p:')
            for call in (cache.get, cache.hgetall, lambda key: cache.set(key, key), cache.delete) * 2:
                for key in '0', '1', '2':
                    self.engine.set(f'p:{key}', key)
                cache.get('2')          # it is connected
                proxy.delay = 0.05
                cache.drop('0', '1', '2')
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with self.assertRaises(OverError):
                    call('0')
                for key in '1', '2':
                    cache.drop(key)
                    self.assertEqual(cache.get(key), key.encode(), call)
                proxy.delay = 0

    def test_changes_of_others_are_seen(self):
        for i in range(50):
            self.engine.set('p:a', str(i))
            self.eventually('a', str(i).encode())
        self.engine.delete('p:a')
        self.eventually('a', None)

    def test_a_program_reads_its_own_change(self):
        for i in range(200):
            self.cache.set('a', str(i))
            self.assertEqual(self.cache.get('a'), str(i).encode())
        self.cache.delete('a')
        self.assertIsNone(self.cache.get('a'))

    def test_mget(self):
        self.engine.mset({f'p:{i}': str(i) for i in range(20)})
        expected = [str(i).encode() for i in range(20)] + [None]
        keys = [*range(20), 'none']

        def asks_nobody():
            n = self.engine.n
            self.assertEqual(self.cache.mget(map(str, keys)), expected)
            return self.engine.n == n

        wait_for(asks_nobody)       # when the server has told of the mset()

    def test_sizes(self):
        for size in 0, 1, 100, 4096, 5000, 200_000:
            value = os.urandom(size)
            self.engine.set('p:a', value)
            self.eventually('a', value)
            wait_for(lambda: self.is_covered('a'))
            self.assertEqual(self.cache.get('a'), value)

    def test_lifetimes_of_the_engine(self):
        self.engine.set('p:a', b'short', px=3000)
        end = time.monotonic() + 3
        self.assertEqual(self.cache.get('a'), b'short')
        time.sleep(max(0, end - time.monotonic()) + 0.05)
        self.assertIsNone(self.cache.get('a'))

    def test_flushall(self):
        self.engine.set('p:a', b'one')
        self.assertEqual(self.cache.get('a'), b'one')
        self.engine.flushall()
        self.eventually('a', None)
        wait_for(self.is_covered)

    def test_a_cut_connection_revokes_all(self):
        self.engine.set('p:a', b'one')
        self.assertEqual(self.cache.get('a'), b'one')
        for client in self.engine.client_list():
            if client['name'] == 'tslab-near':
                self.engine.client_kill_filter(_id=client['id'])
        self.engine.set('p:a', b'two')
        self.eventually('a', b'two')
        wait_for(self.is_covered)

    def test_kills_of_the_near_daemon(self):
        for i in range(10):
            self.engine.set('p:a', str(i))
            self.eventually('a', str(i).encode())
            self.near.kill()
            self.engine.set('p:a', f'{i} after')
            self.eventually('a', f'{i} after'.encode())
            self.near.start()
            wait_for(self.is_covered)

    def test_an_old_answer_does_not_come_in_behind_a_change(self):
        self.engine.set('p:a', b'old')
        known, _, claim = self.cache._look(b'p:a', 0)
        self.assertFalse(known)
        self.assertNotEqual(claim.claim.copy, 0)
        self.engine.set('p:a', b'new')

        def is_free():      # the server has told of the set(), and another program may ask
            other = self.cache._look(b'p:a', 0)[2]
            self.cache._give_up(b'p:a', other)
            return other.claim.copy != 0

        wait_for(is_free)
        self.cache._fill(b'p:a', claim, self.engine.info('server')['run_id'].encode(), b'old', -1)
        self.assertEqual(self.cache.get('a'), b'new')

    def test_a_second_daemon_waits(self):
        other = Near(self.daemon, self.redis, '--check')
        status, text = other.wait()
        self.assertEqual(status, 1)
        self.assertIn('another tslab-near', text)


class AsyncTest(NearFixture):
    """Engines of redis.asyncio."""

    def run_with(self, act, make=lambda url: url, **options):
        async def run():
            engine = make(f'redis://127.0.0.1:{self.redis.port}')
            cache = tslab.AsyncNearCache(engine, self.cache.pool, prefix='p:', **options)
            try:
                await act(cache)
            finally:
                await (cache.engine.aclose if hasattr(cache.engine, 'aclose') else cache.engine.close)()

        asyncio.run(run())

    def n_asked(self, command):
        return self.engine.info('commandstats').get(f'cmdstat_{command}', {'calls': 0})['calls']

    async def eventually_async(self, call, value):
        end = time.monotonic() + SECONDS
        while await call() != value:
            self.assertLess(time.monotonic(), end)

    def test_hits_and_changes(self):
        self.engine.set('p:a', b'one')
        self.engine.hset('p:h', mapping={'f': 'v', 'g': ''})
        self.engine.sadd('p:s', 'f', 'v')
        everything = [b'one', {b'f': b'v', b'g': b''}, {b'f', b'v'}, None]

        async def act(cache):
            async def read():
                return [await cache.get('a'), await cache.hgetall('h'), await cache.smembers('s'), await cache.get('none')]

            async def asks_nobody():
                n = self.n_asked('pttl')
                self.assertEqual([await read() for _ in range(10)], [everything] * 10)
                return self.n_asked('pttl') == n

            for _ in range(2):
                self.assertEqual(await cache.mget(['a', 'h', 's', 'none']), [b'one', None, None, None])
            await self.eventually_async(asks_nobody, True)
            self.engine.set('p:a', b'two')
            await self.eventually_async(lambda: cache.get('a'), b'two')
            await cache.set('a', b'three', ttl=100)
            self.assertEqual((await cache.get('a'), 0 < self.engine.ttl('p:a') <= 100), (b'three', True))
            await cache.delete('a', 'h')
            self.assertEqual((await cache.get('a'), await cache.hgetall('h')), (None, {}))
            for call, key in (cache.get, 's'), (cache.hgetall, 's'):
                with self.assertRaisesRegex(redis.ResponseError, 'WRONGTYPE'):
                    await call(key)

        self.run_with(act, make=redis.asyncio.Redis.from_url)   # which waits for as long as it takes

    def test_event_loops(self):
        """One after the other, and at once in threads, beside a cache that was made before any of them."""
        cache = tslab.AsyncNearCache(f'redis://127.0.0.1:{self.redis.port}', self.cache.pool, prefix='p:')
        barrier = threading.Barrier(4)

        async def act(number, is_beside):
            for i in range(20):
                if is_beside:
                    await asyncio.get_running_loop().run_in_executor(None, barrier.wait)
                await cache.set(f'{number}', str(i))
                self.assertEqual(await cache.get(f'{number}'), b'%d' % i)
            await (cache.engine.aclose if hasattr(cache.engine, 'aclose') else cache.engine.close)()

        for number in range(3):
            asyncio.run(act(number, False))
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(asyncio.run, act(number, True)) for number in range(4)]:
                done.result()

    def test_a_storm_of_misses(self):
        """One of the tasks asks; the loop goes on meanwhile, and a task that is cancelled leaves no claim."""
        keys = itertools.count()

        async def act(cache):
            async def asks_once():
                """While the near cache is covered."""
                key, n = next(keys), self.n_asked('get')
                self.engine.set(f'p:{key}', b'one')
                self.assertEqual(await asyncio.gather(*(cache.get(key) for _ in range(100))), [b'one'] * 100)
                return self.n_asked('get') == n + 1

            await self.eventually_async(asks_once, True)
            self.engine.set('p:b', b'two')
            self.redis.process.send_signal(signal.SIGSTOP)
            try:
                task = asyncio.ensure_future(cache.get('b'))
                await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            finally:
                self.redis.process.send_signal(signal.SIGCONT)
            self.assertEqual(await cache.get('b'), b'two')

        self.run_with(act, make=redis.asyncio.Redis.from_url, wait=SECONDS)     # which waits for as long as it takes

    def test_a_server_that_gives_no_answer(self):
        """After half a second an error, as of a client that waits for itself."""
        async def act(cache):
            self.redis.process.send_signal(signal.SIGSTOP)
            try:
                for _ in range(4):
                    with self.assertRaises((redis.TimeoutError, redis.ConnectionError)):
                        await cache.get('unknown')
            finally:
                self.redis.process.send_signal(signal.SIGCONT)
            await self.eventually_async(lambda: self.tried(cache.get('unknown')), None)

        self.run_with(act)

    def test_a_server_that_is_down_at_first(self):
        """An error at once, and the server's values as soon as it is there."""
        async def act(cache):
            begin = time.monotonic()
            for call, *arguments in [(cache.get, 'a'), (cache.mget, 'ab'), (cache.hgetall, 'h'), (cache.smembers, 's'),
                                     (cache.set, 'a', '1'), (cache.delete, 'a')] * 3:
                with self.assertRaises(redis.RedisError):
                    await call(*arguments)
            self.assertLess(time.monotonic() - begin, SECONDS / 4)
            for results in await asyncio.gather(*(cache.get('a') for _ in range(50)), return_exceptions=True):
                self.assertIsInstance(results, redis.RedisError)
            self.redis.start()
            self.redis.client().set('p:a', b'one')
            await self.eventually_async(lambda: self.tried(cache.get('a')), b'one')

        self.redis.kill()
        self.run_with(act)

    @staticmethod
    async def tried(call):
        try:
            return await call
        except redis.RedisError as e:
            return e

    def test_a_server_that_is_killed_in_the_middle(self):
        """Tasks get its errors or right values, none waits for long, and no claim stays."""
        async def act(cache):
            async def read(i):
                while not is_over:
                    key = f'{i % 10}'
                    found = await self.tried(cache.get(key))
                    self.assertTrue(found is None or found == key.encode() or isinstance(found, redis.RedisError), found)
                    cache.drop(key)
                    counts[type(found)] = counts.get(type(found), 0) + 1
                    await asyncio.sleep(0)

            for _ in range(3):
                is_over, counts = False, {}
                self.fill()
                tasks = [asyncio.ensure_future(read(i)) for i in range(30)]
                while counts.get(bytes, 0) < 50:
                    await asyncio.sleep(0.01)
                self.redis.kill()
                while sum(n for kind, n in counts.items() if issubclass(kind, redis.RedisError)) < 50:
                    await asyncio.sleep(0.01)
                self.redis.start()
                self.fill()
                counts.clear()
                while counts.get(bytes, 0) < 50:
                    await asyncio.sleep(0.01)
                is_over = True
                await asyncio.wait_for(asyncio.gather(*tasks), SECONDS)
                for i in range(10):
                    await self.eventually_async(lambda i=i: self.tried(cache.get(f'{i}')), b'%d' % i)

        self.run_with(act)

    def fill(self, n=10):
        for i in range(n):
            self.redis.client().set(f'p:{i}', f'{i}')

    def test_tasks_that_are_cancelled(self):
        """At any moment: no other task gets the answer that theirs was, and none waits for their claims."""
        async def act(cache):
            async def use(i):
                key = f'{i}'
                cache.drop(key)
                found = await kinds.choice((cache.get, lambda key: cache.mget([key]), lambda key: cache.set(key, key)))(key)
                if found is not None:
                    self.assertIn(found, (key.encode(), [key.encode()]))

            async def cancel(i):
                task = asyncio.ensure_future(use(i))
                for _ in range(kinds.randrange(12)):
                    await asyncio.sleep(0)
                if i % 2:
                    task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    cancelled.append(i)

            for _ in range(20):
                await asyncio.gather(*(cancel(i) for i in range(50)))
                begin = time.monotonic()
                for i in range(50):
                    self.assertEqual(await cache.get(f'{i}'), b'%d' % i)
                self.assertLess(time.monotonic() - begin, SECONDS / 2)
            self.assertGreater(len(cancelled), 50)

        cancelled, kinds = [], random.Random(7)
        self.fill(50)
        self.run_with(act, make=redis.asyncio.Redis.from_url, wait=SECONDS)     # 50 connections at once may take a second

    def test_answers_of_cancelled_tasks(self):
        """That come later are nobody else's: neither those to questions, nor to changes, nor of a new connection."""
        proxy = Proxy(self.redis.port)
        self.addCleanup(proxy.end)
        self.fill()

        async def act(cache):
            calls = cache.get, cache.hgetall, lambda key: cache.set(key, key), cache.delete
            for call, is_new, after in itertools.product(calls, (True, False), (0, 0.02, 0.07, 0.12)):
                if is_new:
                    await cache.engine.connection_pool.disconnect()
                proxy.delay = 0.05
                task = asyncio.ensure_future(call('0'))
                await asyncio.sleep(after)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                for key in '1', '2':
                    cache.drop(key)
                    self.assertEqual(await cache.get(key), key.encode(), (call, is_new, after))
                proxy.delay = 0

        self.run_with(act, make=lambda _: redis.asyncio.Redis(port=proxy.port, db=0, client_name='a'))

    @unittest.skipIf(redis.__version__.startswith('4.3'), 'which waits by itself until a server takes all of a value')
    def test_cancelled_while_a_server_takes_nothing(self):
        """The task ends at once, and does not wait for the server to take the rest of a large value."""
        async def act(cache):
            await cache.get('0')            # it is connected
            self.redis.process.send_signal(signal.SIGSTOP)
            try:
                task = asyncio.ensure_future(cache.set('0', b'x' * (20 << 20)))
                await asyncio.sleep(0.2)
                task.cancel()
                done, _ = await asyncio.wait([task], timeout=SECONDS)
            finally:
                self.redis.process.send_signal(signal.SIGCONT)
            self.assertTrue(done)
            await asyncio.gather(task, return_exceptions=True)

        self.run_with(act, make=redis.asyncio.Redis.from_url)

    def test_clients_of_another_kind(self):
        self.assertRaisesRegex(TypeError, 'AsyncNearCache', tslab.NearCache, redis.asyncio.Redis(), self.cache.pool, prefix='p:')
        self.assertRaisesRegex(TypeError, 'NearCache', tslab.AsyncNearCache, redis.Redis(), self.cache.pool, prefix='p:')
        self.assertRaisesRegex(ValueError, 'decode', tslab.AsyncNearCache, redis.asyncio.Redis(decode_responses=True),
                               self.cache.pool, prefix='p:')

        async def cluster():
            self.assertRaisesRegex(TypeError, 'cluster', tslab.AsyncNearCache,
                                   redis.asyncio.RedisCluster('127.0.0.1', 1), self.cache.pool, prefix='p:')

        asyncio.run(cluster())


class BoundTest(NearFixture):
    """Nothing is covered for longer than the bound where the server is not heard."""

    BOUND_MS = 400

    def test_a_lost_server_is_not_answered_for(self):
        self.engine.set('p:a', b'one')
        self.assertEqual(self.cache.get('a'), b'one')
        self.redis.kill()
        time.sleep(self.BOUND_MS / 1000 + 0.2)
        with self.assertRaises(redis.ConnectionError):
            self.cache.get('a')
        self.redis.start()
        self.assertIsNone(self.cache.get('a'))
        wait_for(self.is_covered)
        self.engine.set('p:a', b'two')
        self.eventually('a', b'two')

    def test_a_server_that_stops_is_not_answered_for(self):
        self.engine.set('p:a', b'one')
        self.assertEqual(self.cache.get('a'), b'one')
        self.redis.process.send_signal(signal.SIGSTOP)
        time.sleep(self.BOUND_MS / 1000 + 0.2)
        known, value, claim = self.cache._look(b'p:a', 0)
        self.assertEqual((known, value, claim.claim.copy, claim.claim.cover), (False, None, 0, 0))
        self.redis.process.send_signal(signal.SIGCONT)
        wait_for(self.is_covered)
        self.assertEqual(self.cache.get('a'), b'one')


class ClusterTest(unittest.TestCase):
    """Three primaries with a replica each, on loopback."""

    @classmethod
    def setUpClass(cls):
        cls.servers = []
        cls.addClassCleanup(lambda: [server.end() for server in cls.servers])
        for _ in range(6):
            cls.servers.append(Redis('--cluster-enabled', 'yes', '--cluster-node-timeout', '60000',
                                     '--cluster-port', str(free_port()), '--cluster-allow-replica-migration', 'no'))
        subprocess.run(['redis-cli', '--cluster', 'create', *(f'127.0.0.1:{s.port}' for s in cls.servers),
                        '--cluster-replicas', '1', '--cluster-yes'], stdout=subprocess.DEVNULL, check=True, timeout=SECONDS)
        for server in cls.servers:
            wait_for(lambda server=server: server.client().cluster('info')['cluster_state'] == 'ok')

    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.near = Near(self.daemon, self.servers[0], '--bound', str(BOUND_MS))
        self.addCleanup(self.near.end)
        self.engine = redis.RedisCluster('127.0.0.1', self.servers[0].port)
        self.addCleanup(self.engine.close)
        self.counted = Counted(self.engine)
        self.cache = tslab.NearCache(self.counted, self.enterContext(tslab.open(self.daemon.socket)), prefix='p:')

    def is_covered(self):
        """Whether second gets of keys of all primaries ask nobody."""
        n = None
        for _ in range(2):
            n = self.counted.n
            for i in range(30):
                self.cache.get(str(i))
        return self.counted.n == n

    def write(self, values):
        for i, value in values.items():
            self.engine.set(f'p:{i}', value)

    def expect(self, values):
        for i, value in values.items():
            wait_for(lambda i=i, value=value: self.cache.get(str(i)) == value)

    def test_changes_of_all_primaries(self):
        wait_for(self.is_covered)
        for turn in range(3):
            values = {i: f'{i} {turn}'.encode() for i in range(30)}
            self.write(values)
            self.expect(values)
        wait_for(self.is_covered)


    def replica_readers(self):
        """Clients that read from replicas: by the options that this version has, and by a method and a function of the user's."""
        class Own(redis.RedisCluster):
            def on_connect(self, connection):
                super().on_connect(connection)
                connection.send_command('READONLY')
                connection.read_response()

        def read_only(connection):
            connection.send_command(b'READONLY')
            connection.read_response()

        yield Own, {}
        yield redis.RedisCluster, {'redis_connect_func': read_only}
        yield redis.RedisCluster, {'read_from_replicas': True}
        strategies = getattr(redis.cluster, 'LoadBalancingStrategy', ())
        for strategy in strategies:
            yield redis.RedisCluster, {'load_balancing_strategy': strategy}

    def test_clients_that_read_from_replicas(self):
        for kind, options in self.replica_readers():
            engine = kind('127.0.0.1', self.servers[0].port, **options)
            self.addCleanup(engine.close)
            with self.subTest(kind=kind.__name__, **options), self.assertRaisesRegex(ValueError, 'replicas'):
                tslab.NearCache(engine, self.cache.pool, prefix='p:')
        plain = redis.RedisCluster('127.0.0.1', self.servers[0].port, redis_connect_func=lambda connection: connection.pid + 1)
        self.addCleanup(plain.close)
        tslab.NearCache(plain, self.cache.pool, prefix='p:')

    def test_a_client_that_reads_from_replicas_later(self):
        """Primaries are asked, and nothing where the client looks for servers by itself."""
        engine = redis.RedisCluster('127.0.0.1', self.servers[0].port)
        self.addCleanup(engine.close)
        cache = tslab.NearCache(engine, self.cache.pool, prefix='p:')
        engine.readonly(target_nodes='all')
        self.write({'later': b'1'})
        self.assertEqual(cache.get('later'), b'1')
        cache.drop('later')
        with unittest.mock.patch('tslab._engine._client_at', return_value=None):
            self.assertRaisesRegex(tslab.EngineError, 'replica', cache.get, 'later')
        self.assertEqual(cache.get('later'), b'1')


class TroubleTest(unittest.TestCase):
    """--check ends with what is wrong."""

    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))

    def check(self, server, *arguments):
        return Near(self.daemon, server, '--check', *arguments).wait()

    def run_near(self, *arguments):
        done = subprocess.run([TSLAB_NEAR, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stderr

    def server(self, *arguments):
        server = Redis(*arguments)
        self.addCleanup(server.end)
        return server

    def test_all_is_well(self):
        self.assertEqual(self.check(self.server())[0], 0)

    def test_password(self):
        server = self.server('--requirepass', 'secret')
        status, text = self.check(server)
        self.assertEqual(status, 1)
        self.assertIn('NOAUTH', text)
        for word, expected in ('wrong', 1), ('secret', 0):
            with tempfile.NamedTemporaryFile('w') as file:
                file.write(word + '\n')
                file.flush()
                status, text = self.check(server, '--password-file', file.name)
            self.assertEqual(status, expected, text)
            if expected:
                self.assertIn('the password is refused', text)

    def test_nobody_listens(self):
        server = self.server()
        server.kill()
        status, text = self.check(server)
        self.assertEqual(status, 1)
        self.assertIn('Connection refused', text)

    def test_a_pool_that_comes_late(self):
        """It is waited for: restarts would be many, and each an error in the journal."""
        path = os.path.join(self.daemon.dir, 'late.sock')
        server = self.server()
        process = subprocess.Popen([TSLAB_NEAR, '--pool', path, '--server', f'127.0.0.1:{server.port}', '--prefix='],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.addCleanup(process.stderr.close)
        self.assertIn('cannot open pool', process.stderr.readline())
        os.symlink(self.daemon.socket, path)
        self.assertIn('covered: 1 server', process.stderr.readline())

    def test_a_misspelt_setting(self):
        done = subprocess.run([TSLAB_NEAR, '--server=127.0.0.1', '--prefix='], capture_output=True, text=True, check=False,
                              env=os.environ | {'TSLAB_NEAR_LIMITS': '1M'})
        self.assertEqual(done.returncode, 2)
        self.assertIn('there is no setting TSLAB_NEAR_LIMITS', done.stderr)

    def test_a_manager_that_reads_nothing(self):
        """Copies are covered, although systemd takes no message."""
        path = os.path.join(self.daemon.dir, 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            manager.bind(path)
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    filler.sendto(b'X=1', path)
            server = self.server()
            process = subprocess.Popen([TSLAB_NEAR, '--pool', self.daemon.socket, '--server', f'127.0.0.1:{server.port}',
                                        '--prefix='], stderr=subprocess.PIPE, text=True,
                                       env=os.environ | {'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '400000'})
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.addCleanup(process.stderr.close)
            self.assertIn('covered: 1 server', process.stderr.readline())
            said = b''
            manager.settimeout(20)
            while b'WATCHDOG=1' not in said or b'STATUS=covered' not in said or b'READY=1' not in said:
                said += manager.recv(4096)

    def test_no_such_host(self):
        status, text = self.run_near('--pool', self.daemon.socket, '--prefix=', '--check', '--server', 'nowhere.invalid')
        self.assertEqual(status, 1)
        self.assertIn('nowhere.invalid:6379', text)

    def test_a_user_that_may_not_track(self):
        server = self.server()
        server.client().acl_setuser('weak', enabled=True, passwords=['+word'], commands=['+@all', '-client'], keys=['*'])
        with tempfile.NamedTemporaryFile('w') as file:
            file.write('word')
            file.flush()
            status, text = self.check(server, '--user', 'weak', '--password-file', file.name)
        self.assertEqual(status, 1)
        self.assertIn('NOPERM', text)

    def test_the_port_of_a_killed_server_stays_its_own(self):
        server = self.server()
        server.kill()
        with socket.socket() as other:
            self.assertRaises(OSError, other.bind, ('127.0.0.1', server.port))
        server.start()

    def test_a_replica_is_refused(self):
        server, replica = self.server(), self.server()
        replica.client().slaveof('127.0.0.1', server.port)
        status, text = self.check(replica)
        self.assertEqual(status, 1)
        self.assertIn('is a replica', text)

    def test_settings(self):
        for arguments, expected in (
                (['--prefix=p'], 'no server is given'),
                (['--server=a'], 'no keys are given'),
                (['--server=a', '--prefix=a', '--prefix=ab'], 'overlaps'),
                (['--server=a:0', '--prefix=a'], 'HOST:PORT'),
                (['--server=a', '--prefix=a', '--bound=1'], '100 to 60000'),
                (['--server=a', '--prefix=a', '--password-file=/nonexistent'], 'No such file'),
                (['--server=a', '--prefix=a', 'more'], 'no operands'),
        ):
            status, text = self.run_near(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn(expected, text)

    def test_no_such_pool(self):
        status, text = self.run_near('--pool', '/nonexistent/pool.sock', '--server=127.0.0.1', '--prefix=a', '--check')
        self.assertEqual(status, 1)
        self.assertIn('cannot open pool', text)


side.main()
