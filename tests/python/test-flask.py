"""Flask's sessions in a pool, through Flask's own test client.

    test-flask.py TSLABD TSLABCTL [unittest arguments]
"""

import concurrent.futures
import contextlib
import gc
import os
import subprocess
import sys
import time
import unittest
import unittest.mock

import flask

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402
import tslab.flask  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
HAS_PARTITIONED = hasattr(flask.sessions.SessionInterface, 'get_cookie_partitioned')

SNIPPET = '''
import flask, tslab
app = flask.Flask('x')
app.session_interface = tslab.flask.SessionInterface(
    lambda: tslab.SessionStore(tslab.create(size=1 << 20), lifetime=1800))
@app.get('/')
def index():
    flask.session['n'] = flask.session.get('n', 0) + 1
    return str(flask.session['n'])
client = app.test_client()
assert [client.get('/').text for _ in range(3)] == ['1', '2', '3']
'''


def make_app(interface=None, **config):
    app = flask.Flask('test')
    app.secret_key = 'x'
    app.config.update(config)
    if interface is not None:
        app.session_interface = interface

    @app.post('/set/<int:n>')
    def set_value(n):
        flask.session['value'] = 'x' * n
        return {}

    @app.get('/length')
    def length():
        return str(len(flask.session.get('value', '')))

    @app.get('/keys')
    def keys():
        return ','.join(sorted(flask.session))

    @app.post('/damage')
    def damage():
        return {}

    @app.post('/clear')
    def clear():
        flask.session.clear()
        return {}

    @app.post('/login')
    def log_in():
        app.session_interface.regenerate(flask.session)
        return {}

    @app.post('/login/<user>')
    def log_in_as(user):
        flask.session['user'] = user
        app.session_interface.regenerate(flask.session, user)
        return {}

    @app.post('/other/<int:value>')
    def set_other(value):
        flask.session['other'] = value
        return {}

    @app.post('/add')
    def add():
        n = flask.session.get('n', 0)
        time.sleep(0.001)       # others may run
        flask.session['n'] = n + 1
        return {}

    @app.post('/beside/<path:other>')
    def beside(other):
        """Another request of the session is served in the middle of this one."""
        flask.session['value'] = 'x' * 10
        app.test_client(use_cookies=False).post('/' + other, headers={'Cookie': flask.request.headers['Cookie']})
        return {}

    @app.post('/login-beside/<path:other>')
    def log_in_beside(other):
        app.session_interface.regenerate(flask.session)
        app.test_client(use_cookies=False).post('/' + other, headers={'Cookie': flask.request.headers['Cookie']})
        return {}

    @app.post('/twice/<path:meanwhile>')
    def save_twice(meanwhile):
        """Before a long answer, say, and after it."""
        flask.session['value'] = 'x' * 10
        response = flask.make_response('')
        app.session_interface.save_session(app, flask.session, response)
        if meanwhile == 'cleared':
            flask.session.clear()
            app.session_interface.save_session(app, flask.session, response)
        elif meanwhile == 'login':
            app.session_interface.regenerate(flask.session)
        elif meanwhile != 'alone':
            saved = response.headers['Set-Cookie'].split(';')[0]
            app.test_client(use_cookies=False).post('/' + meanwhile, headers={'Cookie': saved})
        flask.session['value'] = 'x' * 20
        return {}

    @app.post('/logout/<how>')
    def log_out(how):
        """Beside another request, which is saved first."""
        flask.session.clear()
        if how == 'regenerate':
            flask.session['bye'] = True
            app.session_interface.regenerate(flask.session)
        app.test_client(use_cookies=False).post('/set/200', headers={'Cookie': flask.request.headers['Cookie']})
        return {}

    @app.get('/nothing')
    def nothing():
        return {}

    return app


def cookie(response):
    """The attributes of the session's cookie, without its value and the moment at which it ends."""
    header = response.headers.get('Set-Cookie')
    if header is None:
        return None
    name, *attributes = header.split('; ')
    return name.split('=')[0], sorted(a if not a.startswith('Expires') else 'Expires' for a in attributes)


class Sessions(unittest.TestCase):
    SIZE = 16 << 20

    def setUp(self):
        self.pool = tslab.create(size=self.SIZE)
        self.addCleanup(self.pool.close)
        self.store = tslab.SessionStore(self.pool, lifetime=1000)
        self.app = make_app(tslab.flask.SessionInterface(lambda: self.store))
        self.client = self.app.test_client()

    def length(self):
        response = self.client.get('/length')
        self.assertEqual(response.status_code, 200)
        return int(response.text)

    def fill(self):
        for size in 4096, 2048, 1360, 1024, 816, 672, 576, 512, 400, 336, 256, 192, 128, 96, 64:
            with contextlib.suppress(tslab.FullError):
                while True:
                    self.pool.put(b'x' * size)

    def test_snippet_of_the_readme(self):
        subprocess.run([sys.executable, '-c', SNIPPET], check=True)

    def test_permanent_lifetime(self):
        """A permanent session lives in the store as long as its cookie, or as long as the store says if that is less."""
        for given, permanent, expected in (None, 90, 90), (60, 90, 60), (90, 60, 60), (None, 86400 * 31, 86400 * 31):
            with self.subTest(given=given, permanent=permanent), tslab.create(size=1 << 20) as pool:
                store = tslab.SessionStore(pool, lifetime=given)
                app = make_app(tslab.flask.SessionInterface(lambda store=store: store), PERMANENT_SESSION_LIFETIME=permanent)

                @app.get('/<int:is_permanent>')
                def index(is_permanent):
                    flask.session['n'] = 1
                    flask.session.permanent = bool(is_permanent)
                    return {}

                for is_permanent, lifetime in (1, expected), (0, given or 1800):
                    app.test_client().get(f'/{is_permanent}')
                    (key,) = store.map
                    self.assertTrue(lifetime * 0.5 < store.map.ttl(key) <= lifetime)
                    store.map.clear()

    def test_too_large_keeps_the_old_one(self):
        self.assertEqual(self.client.post('/set/100').status_code, 200)
        with self.assertLogs(self.app.logger, 'ERROR') as logs:
            response = self.client.post('/set/2000000')
        self.assertEqual((response.status_code, cookie(response)), (200, None))
        self.assertRegex(logs.output[0], r'a session of 20000\d\d bytes')
        self.assertEqual(self.length(), 100)

    def test_contents_of_another_kind(self):
        """Another program put them there: the session begins anew, and the request is answered."""
        for data in (b'7', b'[1, 2]', b'"text"', b'\xff', b'{" b": 7}', b'{"a": {" b": 7}}', b'{"a": {" t": 5}}',
                     b'[' * 100000):
            self.store.map.clear()
            self.client.post('/set/100')
            session, = self.store.map
            self.store.set(session, data)
            with self.subTest(data[:20]), self.assertLogs(self.app.logger, 'ERROR'):
                self.assertEqual(self.length(), 0)

    def test_login_where_the_pool_is_full(self):
        """The session is not lost: it keeps its id, until it has the new one."""
        self.client.post('/set/100')
        old, = self.store.map
        self.fill()
        with self.assertLogs(self.app.logger, 'ERROR'):
            self.assertEqual(self.client.post('/login').status_code, 200)
        self.assertEqual((list(self.store.map), self.length()), ([old], 100))

    def test_login_where_the_old_session_cannot_be_deleted(self):
        self.client.post('/set/100')
        with unittest.mock.patch.object(tslab.SessionStore, 'delete', side_effect=tslab.DaemonError(111, 'x')), \
                self.assertLogs(self.app.logger, 'ERROR'):
            self.assertEqual(self.client.post('/login').status_code, 200)
        self.assertEqual(self.length(), 100)

    def test_changed_by_two_requests(self):
        """The one that is saved first counts, also where it ends the session."""
        for other, length in ('set/200', 200), ('clear', 0):
            self.client.post('/set/100')
            with self.assertLogs(self.app.logger, 'ERROR'):
                self.assertEqual(self.client.post(f'/beside/{other}').status_code, 200)
            self.assertEqual(self.length(), length)
        self.assertEqual(len(self.store), 0)

    def test_requests_that_merge(self):
        """The second time, the outer request sets the value that was there, which is no change."""
        self.app.session_interface = tslab.flask.SessionInterface(lambda: self.store, conflict='merge')
        self.client.post('/set/100')
        for other, expected in ('other/7', {'value': 'x' * 10, 'other': 7}), ('set/200', {'value': 'x' * 200, 'other': 7}):
            self.assertEqual(self.client.post(f'/beside/{other}').status_code, 200)
            value, = self.store.map.values()
            self.assertEqual(self.app.session_interface.serializer.loads(value.decode()), expected)
        with self.assertLogs(self.app.logger, 'ERROR'):     # a logout counts
            self.client.post('/beside/clear')
        self.assertEqual((self.length(), len(self.store)), (0, 0))
        self.assertEqual(self.client.post('/twice/other/9').status_code, 200)

    def test_bytes_of_somebody_else_beside_a_merge(self):
        self.app.session_interface = tslab.flask.SessionInterface(lambda: self.store, conflict='merge')
        for data in b'\xff', b'no JSON', b'[1]':
            self.client.post('/set/100')
            self.app.view_functions['damage'] = lambda data=data: self.store.set(next(iter(self.store.map)), data) or {}
            with self.assertLogs(self.app.logger, 'ERROR') as logs:
                self.assertEqual(self.client.post('/beside/damage').status_code, 200)
            self.assertIn('not those of one', logs.output[0])
            self.store.map.clear()

    def test_requests_that_wait_for_each_other(self):
        """Each adds to the session. Without the lock, most of these changes are lost."""
        self.app.session_interface = tslab.flask.SessionInterface(lambda: self.store, conflict='lock')
        self.client.post('/set/100')
        id_ = next(iter(self.store.map)).decode()

        def add():
            client = self.app.test_client(use_cookies=False)
            for _ in range(20):
                self.assertEqual(client.post('/add', headers={'Cookie': f'session={id_}'}).status_code, 200)

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(add) for _ in range(4)]:
                done.result()
        value, = self.store.map.values()
        self.assertEqual(self.app.session_interface.serializer.loads(value.decode())['n'], 80)
        self.assertFalse(self.store.lock(id_).locked())

    def test_a_lock_that_is_not_given_back(self):
        """The request goes on, and says so."""
        self.app.session_interface = tslab.flask.SessionInterface(lambda: self.store, conflict='lock', lock_seconds=0.1)
        self.client.post('/set/100')
        id_, = self.store.map
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            threads.submit(self.store.lock(id_, 1000).acquire).result()
        with self.assertLogs(self.app.logger, 'ERROR') as logs:
            self.assertEqual(self.length(), 100)
        self.assertIn('is locked', logs.output[0])

    def test_a_lock_after_an_error_behind_the_request(self):
        """Flask does not save then, and the lock goes all the same."""
        app = make_app(tslab.flask.SessionInterface(lambda: self.store, conflict='lock', lock_seconds=1000))

        @app.after_request
        def fail(response):
            if flask.request.path == '/length':
                raise ValueError
            return response

        client = app.test_client()
        client.post('/set/100')
        id_ = next(iter(self.store.map)).decode()
        with self.assertLogs(app.logger, 'ERROR'):
            self.assertEqual(client.get('/length').status_code, 500)
        gc.collect()
        self.assertFalse(self.store.lock(id_).locked())

    def test_a_child_that_is_forked_within_a_request(self):
        """It does not end the lock."""
        app = make_app(tslab.flask.SessionInterface(lambda: self.store, conflict='lock', lock_seconds=1000))
        client = app.test_client()
        client.post('/set/100')
        id_ = next(iter(self.store.map)).decode()
        context = app.test_request_context(headers={'Cookie': f'session={id_}'})
        context.push()
        child = os.fork()
        if child == 0:
            try:
                context.pop()
                del context
                gc.collect()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertTrue(self.store.lock(id_).locked())
        context.pop()
        del context
        gc.collect()
        self.assertFalse(self.store.lock(id_).locked())

    def test_sessions_of_a_user(self):
        clients = [self.app.test_client() for _ in range(3)]
        for client in clients:
            client.post('/login/ann')
            client.post('/set/7')
        self.assertEqual(len(self.store.sessions_of('ann')), 3)
        clients[0].post('/login/ann')       # another id, of the same user
        clients[1].post('/login')           # and so where nobody names the user again
        self.assertEqual(len(self.store.sessions_of('ann')), 3)
        self.assertEqual(clients[1].get('/keys').text, 'user,value')
        clients[2].post('/logout/alone')
        clients[2].post('/login')
        self.assertEqual(len(self.store.sessions_of('ann')), 2)
        clients[2].post('/login/ann')
        self.assertEqual(self.store.end_sessions('ann'), 3)
        self.assertEqual([client.get('/length').text for client in clients], ['0'] * 3)

    def in_request(self, id_, act):
        """Calls act() with the session of this id, or a new one: its result, and the id that the session has then."""
        app = make_app(tslab.flask.SessionInterface(lambda: self.store))
        with app.test_request_context(headers={'Cookie': f'session={id_}'} if id_ else {}):
            result = act(flask.session, app.session_interface.regenerate)
            response = app.response_class()
            app.session_interface.save_session(app, flask.session, response)
            return result, flask.session.id

    def test_a_user_of_a_session_that_is_cleared(self):
        def login(session, regenerate):
            session['left'] = 'over'
            regenerate(session, user='ann')
            session.clear()
            session['value'] = 'x'

        _, id_ = self.in_request(None, login)
        self.assertEqual(self.store.sessions_of('ann'), [id_.encode()])
        self.in_request(id_, lambda session, _: session.clear())
        self.assertEqual(self.store.sessions_of('ann'), [])

    def test_a_new_id_and_the_end_of_other_sessions(self):
        """In one request, in either order, as where the user has a new password: this session stays."""
        def renew(session, regenerate):
            session['value'] = 'x'
            regenerate(session, user='ann')

        def end(session, _):
            self.assertEqual(self.store.end_sessions('ann', but=session.id), 1)

        for acts in (renew, end), (end, renew):
            (_, mine), (_, other) = self.in_request(None, renew), self.in_request(None, renew)
            _, id_ = self.in_request(mine, lambda *with_: [act(*with_) for act in acts])    # noqa: B023 (called at once)
            self.assertNotEqual(id_, mine)
            self.assertEqual((self.store.sessions_of('ann'), list(self.store.map)), ([id_.encode()],) * 2)
            self.store.end_sessions('ann')

    def test_a_new_id_that_cannot_be_given_to_its_user(self):
        """The old session stays as it was, and there is none that nobody can end."""
        def renew(session, regenerate):
            session['value'] = 'x'
            regenerate(session, user='ann')

        _, id_ = self.in_request(None, renew)
        with unittest.mock.patch.object(self.store, 'assign', side_effect=tslab.FullError(12, 'full')), \
                self.assertLogs('test', 'ERROR'):
            self.assertEqual(self.in_request(id_, renew)[1], id_)
        self.assertEqual((self.store.sessions_of('ann'), list(self.store.map)), ([id_.encode()],) * 2)

    def test_foreign_users_and_keys(self):
        for user in b'5', b'[1]', b'{"a": 1}', b'true':
            self.store.set('foreign', b'{"a": 1, "_tslab_user": ' + user + b'}')
            _, id_ = self.in_request('foreign', lambda session, regenerate: regenerate(session))
            self.assertNotEqual(id_, 'foreign')

        def number(session, regenerate):
            session[42] = 'x'
            regenerate(session, user='ann')

        _, id_ = self.in_request(None, number)
        self.assertEqual(self.in_request(id_, lambda session, _: dict(session))[0], {'42': 'x'})

    def test_a_new_id_beside_a_logout(self):
        """The session that was ended does not live on by its new id; nor does one become two."""
        for other, left in ('clear', 0), ('login', 1):
            self.client.post('/set/100')
            with self.assertLogs(self.app.logger, 'ERROR'):
                response = self.client.post(f'/login-beside/{other}')
            self.assertEqual((response.status_code, cookie(response), len(self.store)), (200, None, left))

    def test_a_session_is_saved_twice(self):
        for _ in range(2):
            for meanwhile in 'alone', 'login', 'cleared':
                self.assertEqual(self.client.post(f'/twice/{meanwhile}').status_code, 200)
                self.assertEqual((self.length(), len(self.store)), (20, 1))

    def test_another_request_between_two_saves(self):
        for other, length in ('set/7', 7), ('clear', 0):
            with self.assertLogs(self.app.logger, 'ERROR'):
                self.client.post(f'/twice/{other}')
            lengths = [len(self.app.session_interface.serializer.loads(value)['value']) for value in self.store.map.values()]
            self.assertEqual(lengths, [length] if length else [])
            self.store.map.clear()
            self.client = self.app.test_client()

    def test_a_logout_beside_a_change(self):
        for how, left in ('clear', 0), ('regenerate', 1):
            self.client.post('/set/100')
            old, = self.store.map
            self.assertEqual(self.client.post(f'/logout/{how}').status_code, 200)
            self.assertNotIn(old, self.store.map)
            self.assertEqual((self.length(), len(self.store)), (0, left))

    def test_too_large_from_the_beginning(self):
        with self.assertLogs(self.app.logger, 'ERROR'):
            response = self.client.post('/set/2000000')
        self.assertEqual((response.status_code, cookie(response)), (200, None))
        self.assertEqual(self.length(), 0)

    def test_large(self):
        for size in 700, 10000, 500000, 10:
            self.assertEqual(self.client.post(f'/set/{size}').status_code, 200)
            self.assertEqual(self.length(), size)

    def test_full_pool(self):
        self.client.post('/set/100')
        self.fill()
        with self.assertLogs(self.app.logger, 'ERROR'):
            self.assertEqual(self.client.post('/set/500').status_code, 200)
        self.assertEqual(self.length(), 100)
        self.client.post('/clear')
        self.assertEqual(self.length(), 0)

    def test_bytes_of_somebody_else(self):
        self.client.post('/set/100')
        for id, _ in self.store.map.entries():      # noqa: A001
            self.store.set(id, b'\xff no JSON')
        with self.assertLogs(self.app.logger, 'ERROR'):
            self.assertEqual(self.length(), 0)
        self.assertEqual(self.client.post('/set/7').status_code, 200)
        self.assertEqual(self.length(), 7)

    def test_damaged_by_a_stray_write(self):
        self.client.post('/set/2100')
        id, = self.store.map        # noqa: A001
        handle = self.store.get_version(id)[1]
        self.pool.get(handle)[32 + len(id) + 8] ^= 0x20     # see test-maps.py
        self.assertRaises(tslab.Error, self.store.get, id)
        with self.assertLogs(self.app.logger, 'ERROR'):
            self.assertEqual(self.length(), 0)
            self.assertEqual(self.client.post('/set/7').status_code, 200)
        self.assertEqual(self.length(), 7)

    def test_regenerate(self):
        self.client.post('/set/100')
        before = self.client.get('/length').headers.get('Set-Cookie')
        old, = self.store.map
        self.client.post('/login')
        new, = self.store.map
        self.assertNotEqual(old, new)
        self.assertEqual(self.length(), 100)
        self.assertNotIn(new.decode(), before or '')

    def test_no_daemon_yet(self):
        """A worker that cannot open the pool answers without a session, and ends none."""
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            path = d.socket
            make_interface = lambda: tslab.flask.SessionInterface(        # noqa: E731
                lambda: tslab.SessionStore(tslab.open(path), lifetime=1000))
            client = make_app(make_interface()).test_client()
            client.post('/set/100')
            late = make_app(make_interface())
            path = '/nonexistent'
            client.application = late
            for method, where in ('GET', '/length'), ('POST', '/set/7'), ('POST', '/clear'):
                with self.assertLogs(late.logger, 'ERROR'):
                    response = client.open(where, method=method)
                self.assertEqual((response.status_code, cookie(response)), (200, None))
            path = d.socket
            self.assertEqual(client.get('/length').text, '100')

    def test_new_daemon(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            app = make_app(tslab.flask.SessionInterface(lambda: tslab.SessionStore(tslab.open(d.socket))))
            client = app.test_client()
            client.post('/set/100')
            self.assertEqual(client.get('/length').text, '100')
            d.process.kill()
            d.process.wait()
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            with self.assertLogs('tslab', 'WARNING'):
                def is_new():
                    response = client.get('/length')
                    self.assertEqual(response.status_code, 200)
                    return response.text == '0'

                daemon.wait_for(is_new)
            self.assertEqual(client.post('/set/50').status_code, 200)
            self.assertEqual(client.get('/length').text, '50')


class Cookies(unittest.TestCase):
    """As Flask's own cookies, which have the settings of Flask's users."""

    CONFIGS = ({}, {'SESSION_COOKIE_SECURE': True, 'SESSION_COOKIE_SAMESITE': 'Lax'},
               {'SESSION_COOKIE_HTTPONLY': False, 'SESSION_COOKIE_PATH': '/', 'SESSION_COOKIE_NAME': 'sid'},
               {'SESSION_COOKIE_SAMESITE': 'Strict', 'SESSION_REFRESH_EACH_REQUEST': False},
               {'SESSION_COOKIE_DOMAIN': 'localhost.test'},
               *([{'SESSION_COOKIE_PARTITIONED': True, 'SESSION_COOKIE_SECURE': True}] if HAS_PARTITIONED else ()))
    REQUESTS = (('GET', '/nothing'), ('GET', '/length'), ('POST', '/set/10'), ('GET', '/length'), ('GET', '/nothing'),
                ('POST', '/clear'), ('GET', '/length'))

    def answers(self, app, scheme):
        client = app.test_client()
        base = f'{scheme}://localhost.test'
        return [(method, path, cookie(r), sorted(r.headers.getlist('Vary')))
                for method, path in self.REQUESTS for r in [client.open(path, method=method, base_url=base)]]

    def test_as_flask(self):
        with tslab.create(size=16 << 20) as pool:
            for config in self.CONFIGS:
                store = tslab.SessionStore(pool, lifetime=1000)
                ours = make_app(tslab.flask.SessionInterface(lambda s=store: s), **config)
                for scheme in 'http', 'https':
                    with self.subTest(config=config, scheme=scheme):
                        self.assertEqual(self.answers(ours, scheme), self.answers(make_app(**config), scheme))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
