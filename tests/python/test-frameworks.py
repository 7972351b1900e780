"""Django, Starlette, limits, Celery and others. Those that are not installed are skipped.

    test-frameworks.py TSLABD TSLABCTL [unittest arguments]
"""

import errno
import importlib.util
import math
import os
import struct
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])


def needs(*packages):
    missing = [name for name in packages if not importlib.util.find_spec(name)]
    return unittest.skipIf(missing, f'there is no {", ".join(missing)}')


class Fixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(daemon.Daemon(TSLABD, '--size=64M'))
        os.environ['TSLAB_POOL'] = cls.daemon.socket
        cls.pool = cls.enterClassContext(tslab.open())


@needs('django')
class Django(Fixture):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import django
        from django.conf import settings
        if not settings.configured:
            settings.configure(CACHES={'default': {'BACKEND': 'tslab.django.Cache', 'LOCATION': ''}}, SECRET_KEY='x',
                               SESSION_ENGINE='tslab.django')
            django.setup()
        from django.core.cache import cache
        cls.cache = cache
        cls.settings = settings

    def test_calls(self):
        cache = self.cache
        self.assertIsNone(cache.set('a', [1]))
        self.assertEqual((cache.get('a'), cache.get('b', 7), 'a' in cache), ([1], 7, True))
        self.assertTrue(cache.add('n', 1))
        self.assertEqual((cache.incr('n', 4), cache.decr('n')), (5, 4))
        self.assertRaises(ValueError, cache.incr, 'none')
        self.assertEqual(cache.set_many({'x': 1, 'y': 2, 'z': b'x' * (2 << 20)}), ['z'])
        self.assertEqual(cache.get_many(['x', 'y', 'z']), {'x': 1, 'y': 2})
        cache.set('x', 1, 0)
        self.assertIsNone(cache.get('x'))
        self.assertEqual(cache.get_or_set('made', lambda: 7), 7)
        self.assertEqual(cache.get_or_set('made', self.fail), 7)
        cache.clear()
        self.assertIsNone(cache.get('a'))

    def test_refused_set(self):
        self.cache.set('a', 'apple')
        self.cache.set('a', b'x' * (2 << 20))
        self.assertIsNone(self.cache.get('a'))

    def test_one_makes_it(self):
        made, go = [], threading.Event()

        def make():
            made.append(1)
            go.wait()
            return 7

        threads = [threading.Thread(target=self.cache.get_or_set, args=('one', make)) for _ in range(8)]
        for thread in threads:
            thread.start()
        daemon.wait_for(lambda: made)
        go.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(made), 1)

    def sessions(self, conflict):
        from tslab.django import SessionStore
        self.settings.TSLAB_SESSIONS = {'conflict': conflict}
        first = SessionStore()
        first['a'] = first['b'] = 1
        first.save()
        one, two = SessionStore(first.session_key), SessionStore(first.session_key)
        one['a'], two['b'] = 2, 2       # each has read the session before the other saves
        one.save()
        return SessionStore, first.session_key, two

    def test_sessions(self):
        from tslab.django import SessionStore
        session = SessionStore()
        session['user'] = 'ann'
        session.save()
        key = session.session_key
        self.assertEqual(SessionStore(key)['user'], 'ann')
        self.assertTrue(SessionStore(key).exists(key))
        session.cycle_key()
        self.assertNotEqual(session.session_key, key)
        self.assertIsNone(SessionStore(key).get('user'))
        session.flush()
        self.assertIsNone(SessionStore(session.session_key).get('user'))
        unknown = SessionStore('x' * 32)
        self.assertIsNone(unknown.get('user'))
        self.assertIsNone(unknown.session_key, 'an id that nobody gave out is not taken over')

    def test_sessions_that_two_requests_change(self):
        from django.contrib.sessions.backends.base import UpdateError
        kind, key, late = self.sessions('last')
        late.save()
        self.assertEqual((kind(key)['a'], kind(key)['b']), (1, 2))
        kind, key, late = self.sessions('merge')
        late.save()
        self.assertEqual((kind(key)['a'], kind(key)['b']), (2, 2))
        kind, key, late = self.sessions('fail')
        self.assertRaises(UpdateError, late.save)
        self.assertEqual((kind(key)['a'], kind(key)['b']), (2, 1))
        for conflict in 'last', 'merge', 'fail':        # a logout stays one
            kind, key, late = self.sessions(conflict)
            kind(key).delete()
            self.assertRaises(UpdateError, late.save)
            self.assertIsNone(kind(key).get('a'))


@needs('starlette', 'httpx')
class Starlette(Fixture):
    def client(self, **options):
        import tslab.starlette
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route
        from starlette.testclient import TestClient

        async def change(request):
            """Reads, and changes in between if it is told to, as another request would."""
            for name, value in request.query_params.items():
                if name == 'other':
                    key = request.cookies['session']
                    data, version = self.store.get_version(key)
                    self.store.replace(key, version, data.replace(b'}', b', "other": "%s"}' % value.encode()))
                elif name == 'clear':
                    request.session.clear()
                elif name == 'login':
                    request.session.regenerate()
                    assert request.session.id == request.cookies['session'], 'until the request ends'
                else:
                    request.session[name] = value
            return JSONResponse(dict(request.session))

        self.store = tslab.SessionStore(self.pool, 'starlette')
        app = Starlette(routes=[Route('/', change)])
        app.add_middleware(tslab.starlette.SessionMiddleware, make_store=lambda: self.store, **options)
        return TestClient(app)

    def test_sessions(self):
        client = self.client()
        self.assertEqual(client.get('/').json(), {})
        self.assertNotIn('session', client.cookies)
        self.assertEqual(client.get('/?a=1').json(), {'a': '1'})
        key = client.cookies['session']
        self.assertGreater(self.store.map.ttl(key), 13 * 86400)
        self.assertEqual(client.get('/').json(), {'a': '1'})
        client.get('/?login=1')
        self.assertNotEqual(client.cookies['session'], key)
        self.assertIsNone(self.store.get(key))
        self.assertEqual(client.get('/').json(), {'a': '1'})
        client.get('/?clear=1')
        self.assertNotIn('session', client.cookies)
        planted = self.client().get('/?a=2', headers={'cookie': f'session={"x" * 43}'})
        self.assertNotEqual(planted.cookies['session'], 'x' * 43, 'an id that nobody gave out is not taken over')

    def test_conflicts(self):
        client = self.client()
        client.get('/?a=1')
        client.get('/?b=2&other=3')
        self.assertEqual(client.get('/').json(), {'a': '1', 'b': '2', 'other': '3'})
        client = self.client(conflict='fail')
        client.get('/?a=1')
        with self.assertLogs('tslab', 'ERROR'):
            client.get('/?b=2&other=3')
        self.assertEqual(client.get('/').json(), {'a': '1', 'other': '3'})

    def test_cookies_of_others(self):
        """Beside which the session is found."""
        client = self.client()
        client.get('/?a=1')
        key = client.cookies['session']
        client.cookies.clear()
        for before in '', 'a={"x": 1}; ', 'two words; ', 'secure; ', 'path=/; ', 'a@b=1; ', 'a=\xc3\xa9; ', 'a="b;c"; ', 'asession=1; ', '=;;':
            for cookie in f'{before}session={key}', f'{before}session="{key}"; b=[":", 1]':
                self.assertEqual(client.get('/', headers={'cookie': cookie.encode('latin-1')}).json(), {'a': '1'}, cookie)
        self.assertEqual(client.get('/', headers={'cookie': f'session={key}; session'}).json(), {'a': '1'})
        self.assertEqual(client.get('/', headers={'cookie': f'Session={key}; sessions={key}'}).json(), {})

    def test_delete_that_fails(self):
        """The browser has no session of that id any more."""
        client = self.client()
        client.get('/?a=1')
        key = client.cookies['session']
        with unittest.mock.patch.object(self.store, 'delete', side_effect=tslab.Error(errno.EIO, 'none')), \
                self.assertLogs('tslab', 'ERROR'):
            client.get('/?login=1')
            self.assertNotEqual(client.cookies['session'], key)
            self.assertEqual(client.get('/').json(), {'a': '1'})
            client.get('/?clear=1')
            self.assertNotIn('session', client.cookies)


@needs('limits')
class Limits(Fixture):
    """Workers that hit a limit at once: it lets as many through as it says, and no more."""

    WORKERS, HITS, LIMIT = 8, 40, 100

    def setUp(self):
        import limits
        import tslab.limits     # noqa: F401 (its scheme)
        self.limits = limits
        self.storage = self.make()
        self.storage.reset()

    def make(self):
        return self.limits.storage.storage_from_string(f'tslab://{self.daemon.socket}')

    def strategies(self):
        for name in 'FixedWindow', 'MovingWindow', 'SlidingWindowCounter':
            strategy = getattr(self.limits.strategies, f'{name}RateLimiter', None)
            if strategy:        # the last one came with limits 4
                yield strategy

    def count(self, strategy):
        """How many hits of a process of its own get through."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                storage = self.make()       # a strategy has a weak reference
                limiter, item = strategy(storage), self.limits.parse(f'{self.LIMIT}/day')
                os.write(writer, bytes([sum(limiter.hit(item, 'user') for _ in range(self.HITS))]))
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writer)
        return pid, reader

    def test_workers(self):
        for strategy in self.strategies():
            with self.subTest(strategy.__name__):
                self.storage.reset()
                while time.time() % 86400 > 86340:      # a day must not end in the middle
                    time.sleep(1)
                workers = [self.count(strategy) for _ in range(self.WORKERS)]
                n = sum(os.read(reader, 1)[0] for _, reader in workers)
                for pid, reader in workers:
                    os.close(reader)
                    self.assertEqual(os.waitpid(pid, 0)[1], 0)
                self.assertEqual(n, self.LIMIT)
                limiter, item = strategy(self.storage), self.limits.parse(f'{self.LIMIT}/day')
                self.assertFalse(limiter.hit(item, 'user') or limiter.test(item, 'user'))
                self.assertTrue(limiter.hit(item, 'another'))
                reset, remaining = limiter.get_window_stats(item, 'user')
                self.assertEqual(remaining, 0)
                self.assertTrue(time.time() - 5 <= reset <= time.time() + 2 * 86400 + 5)
                limiter.clear(item, 'user')
                self.assertTrue(limiter.hit(item, 'user'))

    def test_windows_end(self):
        for strategy in self.strategies():
            with self.subTest(strategy.__name__):
                limiter, item = strategy(self.storage), self.limits.parse('2/second')
                while limiter.hit(item, 'a'):
                    pass
                daemon.wait_for(lambda limiter=limiter, item=item: limiter.hit(item, 'a'))

    def test_costs(self):
        for strategy in self.strategies():
            with self.subTest(strategy.__name__):
                limiter, item = strategy(self.storage), self.limits.parse('10/day')
                self.assertEqual([limiter.hit(item, 'c', cost=cost) for cost in (6, 4, 1)], [True, True, False])

    def test_strategies_of_one_limit(self):
        """Each counts for itself."""
        item = self.limits.parse('2/day')
        limiters = [strategy(self.storage) for strategy in self.strategies()]
        for _ in range(2):
            self.assertTrue(all(limiter.hit(item, 'd') for limiter in limiters))
        self.assertFalse(any(limiter.hit(item, 'd') for limiter in limiters))
        self.storage.clear(item.key_for('d'))
        self.assertTrue(all(limiter.hit(item, 'd') for limiter in limiters[:2]))

    def test_values_of_others(self):
        """They count as absent: bytes of a former version, which kept the times alone, and of any other program."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        times = [struct.pack(f'{n}d', *(now - i / 3 for i in range(n))) for n in (1, 2, 3, 4)]
        doubles = [struct.pack('2d', now, n) for n in (math.nan, math.inf, -math.inf, -5, 0, 1e300)]
        windows = [struct.pack('dqq', begin, before, current) for begin, before, current in (
            (math.nan, 1, 1), (-math.inf, 1, 1), (now, -5, 1), (now, 1, -5), (now, 2 ** 62, 2 ** 62))]
        for data in b'', b'x', b'x' * 16, b'x' * 24, b'[1, 2]', *times, *doubles, *windows:
            for strategy in self.strategies():
                limiter, item = strategy(self.storage), self.limits.parse('2/day')
                key = item.key_for('f')
                with self.subTest(strategy=strategy.__name__, data=data):
                    for name in key.encode(), b'moving ' + key.encode(), b'sliding ' + key.encode():
                        self.storage._cache.map.put(name, data, ttl=100)
                    limiter.get_window_stats(item, 'f')
                    self.assertTrue(limiter.test(item, 'f'))
                    self.assertEqual([limiter.hit(item, 'f') for _ in range(3)], [True, True, False])
                    self.assertEqual(limiter.get_window_stats(item, 'f')[1], 0)

    def test_more_entries_than_a_value_has_room_for(self):
        limiter, item = self.limits.strategies.MovingWindowRateLimiter(self.storage), self.limits.parse('2000000/day')
        begin, times = time.clock_gettime(time.CLOCK_BOOTTIME), iter(range(10 ** 9))
        with unittest.mock.patch('tslab.limits._now', lambda: begin + next(times)):     # a second for each look
            for _ in range(19999):
                self.assertTrue(limiter.hit(item, 'e', cost=100))
            self.assertFalse(limiter.hit(item, 'e', cost=101))
            self.assertTrue(limiter.hit(item, 'e', cost=100))
            self.assertFalse(limiter.hit(item, 'e'))
        with unittest.mock.patch('tslab.limits._now', lambda: begin + 86400):
            self.assertFalse(limiter.hit(item, 'e'))
        with unittest.mock.patch('tslab.limits._now', lambda: begin + 86400 + 86400 / 4096):
            self.assertTrue(limiter.hit(item, 'e'))

    def test_clock_that_is_set_back(self):
        for strategy in self.strategies():
            limiter, item, now = strategy(self.storage), self.limits.parse('10/hour'), time.time()
            with self.subTest(strategy.__name__):
                self.assertTrue(limiter.hit(item, 'f', cost=10))
                with unittest.mock.patch('time.time', lambda now=now: now - 7200):
                    self.assertFalse(limiter.hit(item, 'f'))
        limiter, then = self.limits.strategies.MovingWindowRateLimiter(self.storage), time.clock_gettime(time.CLOCK_BOOTTIME)
        self.assertTrue(limiter.hit(item, 'g', cost=9))
        with unittest.mock.patch('time.time', lambda: now - 7200):
            self.assertTrue(limiter.hit(item, 'g'))
            reset, remaining = limiter.get_window_stats(item, 'g')
            self.assertEqual((round((now - 7200 + 3600 - reset) / 60), remaining), (0, 0))
            with unittest.mock.patch('tslab.limits._now', lambda: then + 3660):      # an hour later
                self.assertTrue(limiter.hit(item, 'g', cost=10))

    def test_storage(self):
        self.assertTrue(self.storage.check())
        self.assertEqual(self.storage.incr('n', 60), 1)
        self.assertEqual(self.storage.incr('n', 60, amount=4), 5)
        self.assertEqual(self.storage.get('n'), 5)
        self.assertTrue(0 < self.storage.get_expiry('n') - time.time() <= 61)
        self.assertEqual(self.storage.reset(), 1)
        self.assertEqual(self.storage.get('n'), 0)

    @needs('flask_limiter')
    def test_flask_limiter(self):
        import flask
        import flask_limiter
        app = flask.Flask('app')
        limiter = flask_limiter.Limiter(lambda: 'somebody', app=app, storage_uri=f'tslab://{self.daemon.socket}')
        app.get('/')(limiter.limit('3/day')(lambda: 'hello'))
        client = app.test_client()
        self.assertEqual([client.get('/').status_code for _ in range(4)], [200, 200, 200, 429])


    @needs('slowapi', 'starlette', 'httpx')
    def test_slowapi(self):
        import slowapi
        import slowapi.util
        from starlette.applications import Starlette
        from starlette.responses import PlainTextResponse
        from starlette.routing import Route
        from starlette.testclient import TestClient
        limiter = slowapi.Limiter(slowapi.util.get_remote_address, storage_uri=f'tslab://{self.daemon.socket}')

        @limiter.limit('3/day')
        async def index(request):
            return PlainTextResponse('hello')

        app = Starlette(routes=[Route('/', index)])
        app.state.limiter = limiter
        app.add_exception_handler(slowapi.errors.RateLimitExceeded, slowapi._rate_limit_exceeded_handler)
        client = TestClient(app)
        self.assertEqual([client.get('/').status_code for _ in range(4)], [200, 200, 200, 429])


@needs('flask_caching')
class FlaskCaching(Fixture):
    def test_memoize(self):
        import flask
        import flask_caching
        app = flask.Flask('app')
        cache = flask_caching.Cache(app, config={'CACHE_TYPE': 'tslab.flask.cache', 'CACHE_OPTIONS': {
            'pool': self.daemon.socket, 'name': 'flask', 'evict': 'sieve'}})
        calls = []

        @cache.memoize(60)
        def double(x):
            calls.append(x)
            return 2 * x

        with app.app_context():
            self.assertEqual([double(1), double(1), double(2)], [2, 2, 4])
            self.assertEqual(calls, [1, 2])
            cache.delete_memoized(double)
            self.assertEqual((double(1), calls), (2, [1, 2, 1]))
            self.assertTrue(cache.set('a', 1))
        self.assertEqual(tslab.cachelib.Cache(self.daemon.socket, 'flask').get('a'), 1)


@needs('celery')
class Celery(Fixture):
    def test_results(self):
        import celery
        from celery.contrib.testing.worker import start_worker
        app = celery.Celery('app', broker='memory://', backend=f'tslab.celery.Backend+tslab://{self.daemon.socket}')
        app.conf.update(result_expires=60, broker_transport_options={'polling_interval': 0.05})

        @app.task(name='add')
        def add(x, y):
            return x + y

        @app.task(name='total')
        def total(numbers):
            return sum(numbers)

        @app.task(name='fail')
        def fail():
            raise ValueError('no')

        with start_worker(app, perform_ping_check=False, shutdown_timeout=daemon.SECONDS):
            self.assertEqual(add.delay(2, 3).get(timeout=daemon.SECONDS), 5)
            self.assertEqual(celery.group(add.s(i, i) for i in range(5))().get(timeout=daemon.SECONDS), [0, 2, 4, 6, 8])
            if celery.__version__ >= '5.3':      # before that, no chord ended with a broker in memory
                self.assertEqual(celery.chord(add.s(i, i) for i in range(5))(total.s()).get(timeout=daemon.SECONDS),
                                 20)
            self.assertRaisesRegex(ValueError, 'no', fail.delay().get, timeout=daemon.SECONDS)
            result = add.delay(1, 1)
            result.get(timeout=daemon.SECONDS)
            entries = tslab.Cache(self.pool, 'celery')
            self.assertTrue(0 < entries.ttl(f'celery-task-meta-{result.id}') <= 60)
            result.forget()
            self.assertIsNone(entries.get(f'celery-task-meta-{result.id}'))

    def test_results_that_stay(self):
        """As those of a chord, whose counter is told its lifetime with each task."""
        import celery
        app = celery.Celery('app', broker='memory://', backend=f'tslab.celery.Backend+tslab://{self.daemon.socket}')
        app.conf.update(result_expires=0)
        app.backend.set('key', 'value')
        app.backend.expire('key', app.backend.expires)
        self.assertEqual(tslab.Cache(self.pool, 'celery').ttl('key'), float('inf'))


@needs('aiocache')
class Aiocache(unittest.IsolatedAsyncioTestCase, Fixture):
    async def test_calls(self):
        import tslab.aiocache
        cache = tslab.aiocache.Cache(pool=self.daemon.socket, namespace='n:', ttl=60)
        self.assertTrue(await cache.set('a', [1, 2]))
        self.assertEqual(await cache.multi_get(['a', 'b']), [[1, 2], None])
        self.assertTrue(await cache.exists('a'))
        with self.assertRaises(ValueError):
            await cache.add('a', 1)
        self.assertTrue(await cache.add('n', 1))
        self.assertEqual([await cache.increment('n', 4), await cache.increment('m')], [5, 1])
        with self.assertRaises(TypeError):
            await cache.increment('a')
        self.assertTrue(await cache.expire('a', 0.01))
        while await cache.get('a'):
            pass
        self.assertFalse(await cache.set('b', b'x' * (2 << 20)))
        self.assertTrue(await cache.multi_set([('b', 1), ('c', 2)]))
        self.assertEqual(await cache.delete('b'), 1)
        await cache.clear(namespace='n:')
        self.assertIsNone(await cache.get('c'))

    async def test_locks(self):
        import aiocache.lock
        import tslab.aiocache
        cache, other = (tslab.aiocache.Cache(pool=self.daemon.socket) for _ in range(2))
        async with aiocache.lock.RedLock(cache, 'key', lease=60):
            self.assertIsNotNone(await other.get('key-lock'))
        self.assertIsNone(await other.get('key-lock'))
        await cache.set('v', 1)
        async with aiocache.lock.OptimisticLock(cache, 'v') as lock:
            await lock.cas(2)
        with self.assertRaises(aiocache.lock.OptimisticLockError):
            async with aiocache.lock.OptimisticLock(cache, 'v') as lock:
                await other.set('v', 7)
                await lock.cas(3)
        self.assertEqual(await cache.get('v'), 7)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
