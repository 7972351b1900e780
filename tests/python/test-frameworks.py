"""Django and Starlette. Those that are not installed are skipped.

    test-frameworks.py TSLABD TSLABCTL [unittest arguments]
"""

import importlib.util
import os
import sys
import threading
import unittest

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


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
