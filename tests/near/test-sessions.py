"""tslab.SessionStore with a real redis-server behind it: two hosts, lost pools, an engine that is away.

    test-sessions.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE [unittest arguments]
"""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import flask  # noqa: E402
import redis  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
import tslab.flask  # noqa: E402
from daemon import Daemon, free_port, wait_for  # noqa: E402
from proxy import Proxy  # noqa: E402
from redis.backoff import NoBackoff  # noqa: E402
from redis.retry import Retry  # noqa: E402
from servers import Counted, Near, Redis  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])
MARKS = itertools.count()
STEPS = 100 if side.FULL else 25
TIMEOUT = 3         # seconds, of the engine's client
# As docs/near-cache.md has it, for programs.
ACL = ['+get', '+pttl', '+set', '+sadd', '+smembers', '+srem', '+pexpire', '+del', '+eval']
KEYS = ['session:*', '{session:*']
ACL_CLUSTER = ['+cluster|slots', '+command', '+info']


def followed(engine, name, event):
    """Has something happen between a call's effect in the engine and its return."""
    call = getattr(engine, name)

    def made(*arguments, **more):
        result = call(*arguments, **more)
        event()
        return result

    setattr(engine, name, made)


class Host:
    """A pool, its tslab-near, and a store of sessions in an engine."""

    def __init__(self, test, server, bound_ms, **options):
        self.daemon = test.enterContext(Daemon(TSLABD, '--size=16M'))
        self.near = Near(self.daemon, server, '--bound', str(bound_ms), '--prefix', 'session:')
        test.addCleanup(self.near.end)
        self.engine = Counted(server.client(socket_timeout=TIMEOUT))
        pool = test.enterContext(tslab.open(self.daemon.socket))
        self.store = tslab.SessionStore(pool, behind=self.engine, **options)
        wait_for(self.is_covered)

    def is_covered(self, session='probe'):
        """Whether a second get of one session asks nobody."""
        self.store.get(session)
        n = self.engine.n
        self.store.get(session)
        return self.engine.n == n

    def replace_pool(self):
        """Another daemon, with another arena, as after a crash without systemd."""
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.process.wait()
        self.daemon.process = subprocess.Popen([*self.daemon.command, '--fresh'], env=self.daemon.environment)
        wait_for(self.daemon.answers)
        self.near.wait()        # it ends, for systemd to begin it anew
        self.near.start()


class Fixture(unittest.TestCase):
    BOUND_MS = 5000
    SERVER = ()
    OPTIONS = {'lifetime': 1000}

    def setUp(self):
        self.redis = Redis(*self.SERVER)
        self.addCleanup(self.redis.end)
        self.host = self.make_host()
        self.store = self.host.store

    def make_host(self, **options):
        return Host(self, self.redis, self.BOUND_MS, **{**self.OPTIONS, **options})


class Values(Fixture):
    def test_calls(self):
        self.assertIsNone(self.store.get('a'))
        self.store.set('a', b'1')
        self.store.set(b'a', bytearray(b'2'))
        self.assertEqual(self.store.get('a'), b'2')
        self.assertIn('a', self.store)
        self.assertEqual(self.redis.client().get('session:a'), b'2')
        self.assertAlmostEqual(self.redis.client().pttl('session:a'), 1000_000, delta=20_000)
        self.assertTrue(self.store.delete('a'))
        self.assertFalse(self.store.delete('a'))
        self.assertFalse(self.store.touch('a'))
        self.assertIsNone(self.store.get('a'))
        self.assertTrue(self.store)
        self.assertRaises(TypeError, len, self.store)
        self.assertRaises(TypeError, self.store.set, 'a', 'text')
        self.assertRaises(ValueError, self.make_host, while_away='wait')

    def test_own_changes_are_read_at_once(self):
        for i in range(200):
            self.store.set('a', f'{i}'.encode())
            self.assertEqual(self.store.get('a'), f'{i}'.encode())
        self.store.delete('a')
        self.assertIsNone(self.store.get('a'))

    def n_touches(self):
        """That the engine was asked for."""
        return self.redis.client().info('commandstats').get('cmdstat_pexpire', {'calls': 0})['calls']

    def test_reads_ask_nobody(self):
        self.store.set('a', b'1')
        for session, value in ('a', b'1'), ('absent', None):
            def asks_nobody(session=session, value=value):
                n = self.host.engine.n, self.n_touches()
                self.assertEqual([self.store.get(session) for _ in range(100)], [value] * 100)
                self.assertEqual({self.store.touch(session) for _ in range(100)}, {value is not None})
                return (self.host.engine.n, self.n_touches()) == n

            wait_for(asks_nobody)       # when the server has told of the set()

    def test_a_touch_reaches_the_engine_before_the_session_is_over(self):
        self.store.set('a', b'1')
        self.redis.client().pexpire('session:a', 800_000)
        wait_for(lambda: self.host.is_covered('a') and (self.store._behind._copies.map.ttl(b'session:a') or 999) < 800)
        self.assertTrue(self.store.touch('a'))
        self.assertGreater(self.redis.client().pttl('session:a'), 900_000)
        self.assertEqual(self.store.get('a'), b'1')

    def test_lifetime(self):
        self.store.lifetime = 3
        self.store.set('a', b'1')
        self.assertEqual(self.store.get('a'), b'1')
        wait_for(lambda: self.store.get('a') is None)
        self.assertFalse(self.store.touch('a'))

    def test_versions(self):
        self.assertIsNone(self.store.get_version('a'))
        self.store.replace('a', 0, b'1')
        self.assertRaises(tslab.ChangedError, self.store.replace, 'a', 0, b'2')
        value, version = self.store.get_version('a')
        self.store.replace('a', version, b'2')
        self.assertRaises(tslab.ChangedError, self.store.replace, 'a', version, b'3')
        self.assertEqual((value, self.store.get('a')), (b'1', b'2'))
        self.store.delete('a')
        self.assertRaises(tslab.ChangedError, self.store.replace, 'a', self.store.get_version('a') or version, b'4')

    def test_the_maps_are_revoked(self):
        """By an operator: sessions are in the engine, and copies are made again."""
        self.store.set('a', b'1')
        self.store.pool.epoch_close(next(e.epoch for e in self.store.pool.epochs() if e.label == 'maps'), revoke=True)
        self.assertEqual(self.store.get('a'), b'1')
        self.host.near.kill()
        self.host.near.start()
        wait_for(self.host.is_covered)
        self.assertEqual(self.store.get('a'), b'1')

    def test_a_change_is_made_once(self):
        """Also where the maps are revoked after the engine has made it."""
        def revoke():
            self.store.pool.epoch_close(next(e.epoch for e in self.store.pool.epochs() if e.label == 'maps'), revoke=True)

        self.store.set('a', b'1')
        version = self.store.get_version('a')[1]
        followed(self.host.engine, 'eval', revoke)
        self.store.replace('a', version, b'2')
        self.assertEqual(self.store.get('a'), b'2')

    def test_sessions_of_a_user_that_end_by_themselves(self):
        """Their ids do not stay for ever."""
        for i in range(300):
            self.store.set(f'{i}', b'1')
            self.store.assign(f'{i}', 'ann')
            self.host.engine.delete(f'session:{i}')
        self.assertLess(len(self.host.engine.smembers('{session:user:ann}:sessions')), 50)
        self.assertEqual(self.store.end_sessions('ann'), 0)
        self.assertEqual(self.host.engine.smembers('{session:user:ann}:sessions'), set())

    def test_no_session_is_missed_that_cannot_be_read(self):
        """To a reader of stale values it seems to have ended. Here the engine refuses, as the value is a list."""
        store = tslab.SessionStore(self.store.pool, behind=self.host.engine, near='other', while_away='stale')
        self.host.engine.rpush('session:a', b'1')
        store.assign('a', 'ann')
        self.assertIsNone(store.get('a'))
        self.assertEqual(store.end_sessions('ann'), 1)
        self.assertFalse(self.host.engine.exists('session:a'))

    def test_the_programs_need_no_more_rights_than_the_page_says(self):
        self.redis.client().acl_setuser('web', enabled=True, passwords=['+word'], commands=ACL, keys=KEYS,
                                        reset=True)
        store = tslab.SessionStore(self.store.pool, behind=self.redis.client(username='web', password='word'))
        self.assertIsNone(store.get('a'))
        store.set('a', b'1')
        store.replace('a', store.get_version('a')[1], b'2')
        store.lifetime = 5000
        self.assertTrue(store.touch('a'))
        self.assertEqual(store.get('a'), b'2')
        store.assign('a', 'ann')
        store.set('b', b'1')
        store.assign('b', 'ann')
        self.assertEqual(self.store.sessions_of('ann'), [b'a', b'b'])
        self.assertEqual((store.end_sessions('ann', but='a'), store.sessions_of('ann')), (1, [b'a']))
        self.assertTrue(store.delete('a'))


class Cluster(Fixture):
    """One primary that has all slots is a cluster, too."""

    def test_calls(self):
        server = Redis('--cluster-enabled', 'yes', '--cluster-port', str(free_port()))
        self.addCleanup(server.end)
        subprocess.run(['redis-cli', '-p', str(server.port), 'cluster', 'addslotsrange', '0', '16383'],
                       stdout=subprocess.DEVNULL, check=True)
        wait_for(lambda: server.client().cluster('info')['cluster_state'] == 'ok')
        server.client().acl_setuser('web', enabled=True, passwords=['+word'], commands=ACL + ACL_CLUSTER,
                                    keys=KEYS, reset=True)
        engine = redis.RedisCluster('127.0.0.1', server.port, username='web', password='word')
        self.addCleanup(engine.close)
        store = tslab.SessionStore(self.store.pool, behind=engine, near='other')
        store.replace('a', 0, b'1')
        self.assertRaises(tslab.ChangedError, store.replace, 'a', 0, b'2')
        store.replace('a', store.get_version('a')[1], b'2')
        self.assertEqual(store.get('a'), b'2')
        self.assertTrue(store.touch('a'))
        self.assertTrue(store.delete('a'))
        other = tslab.SessionStore(self.store.pool, behind=server.client(), near='other', prefix='')
        for name in '', 'a', '{', '}', '{}', 'a{}b}', 'a{b}c', '{b}', 'a}b', '{{b}}', 'a{b':
            other.replace(name, 0, b'1')
            self.assertEqual(other.get(name), b'1')
            self.assertTrue(other.delete(name))

    def test_a_slot_moves(self):
        """Then a cluster refuses calls of several keys, unless one server has all of them."""
        servers = [Redis('--cluster-enabled', 'yes', '--cluster-node-timeout', '60000', '--cluster-port', str(free_port()))
                   for _ in range(2)]
        for server in servers:
            self.addCleanup(server.end)
        here, there = (server.client() for server in servers)
        here.execute_command('CLUSTER ADDSLOTSRANGE', 1, 16383)
        there.execute_command('CLUSTER ADDSLOTS', 0)
        here.execute_command('CLUSTER MEET', '127.0.0.1', servers[1].port, there.config_get('cluster-port')['cluster-port'])
        wait_for(lambda: all(one.cluster('info')['cluster_state'] == 'ok' and len(one.cluster('nodes')) == 2
                             for one in (here, there)))
        engine = redis.RedisCluster('127.0.0.1', servers[0].port)
        self.addCleanup(engine.close)
        store = tslab.SessionStore(self.store.pool, behind=engine, near='other')
        store.replace('a', 0, b'1')
        slot, ids = engine.keyslot('session:a'), [one.execute_command('CLUSTER MYID') for one in (here, there)]
        there.execute_command('CLUSTER SETSLOT', slot, 'IMPORTING', ids[0])
        here.execute_command('CLUSTER SETSLOT', slot, 'MIGRATING', ids[1])
        logging.getLogger('redis').setLevel(logging.CRITICAL)       # redis-py logs each of its tries
        store.replace('a', store.get_version('a')[1], b'2')
        self.assertRaises(tslab.ChangedError, store.replace, 'a', 0, b'3')
        self.assertEqual(here.get('session:a'), b'2')
        self.assertTrue(store.delete('a'))
        store.replace('a', 0, b'4')                                 # a new key goes to the other server
        self.assertEqual(store.get('a'), b'4')
        self.assertTrue(store.delete('a'))
        self.assertFalse(store.delete('a'))


class LostAnswer(Fixture):
    """The engine makes a change, and its answer is lost. Its client asks again by itself, as redis-py 6 always does."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.redis.port)
        self.addCleanup(self.proxy.end)
        engine = redis.Redis('127.0.0.1', self.proxy.port, retry=Retry(NoBackoff(), 3),
                             retry_on_error=[redis.ConnectionError])
        self.addCleanup(engine.close)
        self.client = tslab.SessionStore(self.store.pool, behind=engine, near='other', **self.OPTIONS)
        self.n_lost = 0

    def lose(self, event=lambda: None):
        def lost():
            event()
            self.n_lost += 1

        self.proxy.lost = b'EVAL', lost

    def test_a_change_is_made_once(self):
        self.lose()
        self.client.replace('a', 0, b'1')
        version = self.client.get_version('a')[1]
        self.lose()
        self.client.replace('a', version, b'2')
        self.assertEqual(self.store.get('a'), b'2')
        self.lose()
        self.assertTrue(self.client.delete('a'))
        self.assertEqual(self.n_lost, 3)
        engine = self.redis.client()
        self.assertNotIn(-1, [engine.pttl(key) for key in engine.keys('{session:a}*')])     # none stays for good

    def test_another_change_comes_between(self):
        """Also one that takes the first back."""
        for value in b'1', b'3', None:
            self.store.set('a', b'1')
            version = self.client.get_version('a')[1]
            self.lose(lambda value=value: self.store.set('a', value) if value else self.store.delete('a'))
            self.client.replace('a', version, b'2')
            self.assertEqual(self.redis.client().get('session:a'), value)
        self.assertEqual(self.n_lost, 3)

    def test_the_same_bytes_of_another(self):
        """Two that count on from one value do not both succeed."""
        self.store.set('n', b'1')
        version = self.client.get_version('n')[1]
        self.store.set('n', b'2')
        self.lose()
        self.assertRaises(tslab.ChangedError, self.client.replace, 'n', version, b'2')
        self.lose()
        self.assertFalse(self.client.delete('absent'))
        self.assertEqual(self.n_lost, 2)

    def test_a_change_that_is_refused_leaves_no_receipt(self):
        engine = self.redis.client()
        engine.rpush('session:list', 'x')
        self.assertRaises(tslab.EngineError, self.client.replace, 'list', 0, b'1')
        self.assertRaises(tslab.ChangedError, self.client.replace, 'a', 7, b'1')
        self.assertFalse(self.client.delete('a'))
        self.assertEqual(engine.keys('{*'), [])

    def test_a_login(self):
        app = flask.Flask('test')
        app.session_interface = tslab.flask.SessionInterface(lambda: self.client)
        app.add_url_rule('/set', 'set', lambda: flask.session.update(user='alice') or {})
        app.add_url_rule('/login', 'login', lambda: app.session_interface.regenerate(flask.session) or {})
        app.add_url_rule('/', 'index', lambda: flask.session.get('user', 'nobody'))
        client = app.test_client()
        for path, command in ('/set', b'SET'), ('/login', b'SET'), ('/login', b'DEL'):
            self.lose()
            self.proxy.lost = b"redis.call('" + command, self.proxy.lost[1]
            client.get(path)
            self.assertEqual(client.get('/').text, 'alice')
        self.assertEqual(self.n_lost, 3)


class TwoHosts(Fixture):
    def setUp(self):
        super().setUp()
        self.other = self.make_host()

    def test_changes_are_seen(self):
        for i in range(20):
            self.store.set('a', f'{i}'.encode())
            wait_for(lambda i=i: self.other.store.get('a') == f'{i}'.encode())
        self.other.store.delete('a')
        wait_for(lambda: self.store.get('a') is None)

    def test_no_save_is_lost(self):
        """Whatever copy a request has read."""
        def count(host):
            store = host.store
            for _ in range(STEPS):
                while True:
                    value, version = store.get_version('n')
                    try:
                        store.replace('n', version, f'{int(value) + 1}'.encode())
                        break
                    except tslab.ChangedError:
                        pass

        self.store.set('n', b'0')
        wait_for(lambda: self.other.store.get('n') == b'0')
        threads = [threading.Thread(target=count, args=(host,)) for host in (self.host, self.other) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.redis.client().get('session:n'), f'{4 * STEPS}'.encode())

    def test_survive_the_pool(self):
        self.store.set('a', b'1')
        self.assertEqual(self.store.get('a'), b'1')
        with self.assertLogs('tslab', 'WARNING'):
            self.host.replace_pool()
            wait_for(lambda: self.store.get('a') == b'1' and not self.store.pool.stale)
        wait_for(self.host.is_covered)
        self.other.store.set('a', b'2')
        wait_for(lambda: self.store.get('a') == b'2')


class Away(Fixture):
    """The engine is killed and comes back with its data, or stops and goes on."""

    BOUND_MS = 500
    SERVER = ('--appendonly', 'yes', '--appendfsync', 'always')

    def lose(self):
        self.redis.kill()
        self.addCleanup(lambda: self.redis.process.poll() is None or self.redis.start())

    def wait_heard(self):
        """This host's tslab-near has heard of all changes until now: a server tells of them in their order."""
        mark = f'mark{next(MARKS)}'
        wait_for(lambda: self.host.is_covered(mark))        # that there is none is kept, until the next line is heard
        self.redis.client().set(f'session:{mark}', b'1')
        wait_for(lambda: self.store.get(mark) == b'1')

    def know(self, **sessions):
        """This host heard these values last. A change that it made itself is read back only if it is heard of soon."""
        self.wait_heard()
        last = self.store._behind._copies.last
        wait_for(lambda: all(self.store.get(s) == last(s.encode()) == v for s, v in sessions.items()))

    def away(self, **known):
        self.know(**known)
        self.lose()
        time.sleep(self.BOUND_MS / 1000)

    def regain(self):
        """Also the data, which it loads while it answers to say so."""
        def is_loaded():
            try:
                return self.redis.client().ping()
            except redis.BusyLoadingError:
                return False

        self.redis.start()
        wait_for(is_loaded)


class AwayFail(Away):
    def test_killed(self):
        self.store.set('a', b'1')
        self.assertEqual(self.store.get('a'), b'1')
        self.lose()
        time.sleep(self.BOUND_MS / 1000)
        for call in (self.store.get, self.store.get_version, self.store.delete, self.store.touch):
            with self.assertRaises(tslab.EngineError) as caught:
                call('a')
            self.assertIsInstance(caught.exception.__cause__, redis.ConnectionError)
        self.assertRaises(tslab.EngineError, self.store.set, 'a', b'2')
        self.assertRaises(tslab.EngineError, self.store.replace, 'a', 0, b'2')
        self.regain()
        self.assertEqual(self.store.get('a'), b'1')

    def test_stopped(self):
        self.store.set('a', b'1')
        self.assertEqual(self.store.get('a'), b'1')
        self.redis.process.send_signal(signal.SIGSTOP)
        time.sleep(self.BOUND_MS / 1000)
        self.assertRaises(tslab.EngineError, self.store.get, 'a')
        self.redis.process.send_signal(signal.SIGCONT)
        wait_for(self.host.is_covered)
        self.assertEqual(self.store.get('a'), b'1')


class AwayStale(Away):
    OPTIONS = {'lifetime': 1000, 'while_away': 'stale'}

    def test_killed(self):
        for session in 'abc':
            self.store.set(session, b'1')
        self.redis.client().set('session:read', b'2', ex=1000)
        self.away(a=b'1', read=b'2')
        with self.assertLogs('tslab', 'WARNING'):
            self.assertEqual([self.store.get(s) for s in ('a', 'read', 'unknown')], [b'1', b'2', None])
        self.assertTrue(self.store.touch('a'))
        self.assertEqual(self.store.get_version('a')[0], b'1')
        self.assertRaises(tslab.EngineError, self.store.set, 'a', b'3')
        self.assertRaises(tslab.EngineError, self.store.delete, 'b')
        self.assertEqual([self.store.get(s) for s in 'ab'], [b'1', None])
        self.regain()
        wait_for(lambda: [self.store.get(s) for s in 'abc'] == [b'1', b'1', b'1'])
        self.store.set('a', b'4')
        self.assertEqual(self.store.get('a'), b'4')

    def test_stopped(self):
        """Reads wait for the client's time limit once a second, and not each."""
        self.store.set('a', b'1')
        self.know(a=b'1')
        self.redis.process.send_signal(signal.SIGSTOP)
        time.sleep(self.BOUND_MS / 1000)
        n = self.host.engine.n
        begin = time.monotonic()
        with self.assertLogs('tslab', 'WARNING'):
            self.assertEqual([self.store.get('a') for _ in range(1000)], [b'1'] * 1000)
        self.assertLessEqual(self.host.engine.n - n, 1 + int(time.monotonic() - begin))
        self.redis.process.send_signal(signal.SIGCONT)
        wait_for(self.host.is_covered)

    def test_an_ended_session_stays_ended(self):
        """By another host, or by its lifetime."""
        self.store.set('gone', b'1')
        self.assertEqual(self.store.get('gone'), b'1')
        self.redis.client().delete('session:gone')
        wait_for(lambda: self.store.get('gone') is None)
        self.store.lifetime = 0.5
        self.store.set('short', b'1')
        self.away()
        self.assertEqual([self.store.get(s) for s in ('gone', 'short')], [None, None])

    def test_in_other_processes(self):
        """One process of the host was told, and the others know."""
        self.store.set('a', b'1')
        self.away(a=b'1')
        pid = os.fork()
        if pid == 0:
            os._exit(self.store.get('a') != b'1')
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def make_store(self, engine, **more):
        """In the pool, with a near cache that nobody covers: it asks the engine."""
        return tslab.SessionStore(self.store.pool, behind=engine, near='other', **self.OPTIONS, **more)

    def test_other_prefixes_have_other_sessions(self):
        other = self.make_store(self.host.engine, prefix='other:')
        self.store.set('a', b'1')
        self.away(a=b'1')
        self.assertIsNone(other.get('a'))
        self.assertRaises(tslab.EngineError, other.delete, 'a')
        self.assertEqual(self.store.get('a'), b'1')

    def test_an_engine_that_refuses_changes_is_asked(self):
        self.store.set('a', b'1')
        self.redis.client().config_set('maxmemory', 1)
        self.assertRaises(tslab.EngineError, self.store.set, 'a', b'2')
        self.redis.client().delete('session:a')
        self.assertIsNone(self.store.get('a'))

    def test_a_key_that_is_refused_does_not_stop_other_reads(self):
        engine, rights = self.redis.client(), ['~session:a', '~session:list', '+@all']
        engine.execute_command('ACL', 'SETUSER', 'some', 'on', '>word', *rights)
        engine.rpush('session:list', 'x')
        store = self.make_store(self.redis.client(username='some', password='word'))
        for turn, refused in enumerate(['list', 'other'] * 2):
            self.assertIsNone(store.get(refused))
            engine.set('session:a', str(turn))
            self.assertEqual(store.get('a'), str(turn).encode())

    def test_a_touch_does_not_ask_an_engine_that_gave_no_answer(self):
        touches = []
        call = self.host.engine.pexpire
        self.host.engine.pexpire = lambda *arguments: touches.append(arguments) or call(*arguments)
        self.store.set('a', b'1')
        self.away(a=b'1')
        begin = time.monotonic()
        for _ in range(100):
            self.assertEqual((self.store.get('a'), self.store.touch('a')), (b'1', True))
        self.assertLessEqual(len(touches), 1 + int(time.monotonic() - begin))

    def test_a_logout_beside_a_save(self):
        engine = self.redis.client()
        store = self.make_store(engine)
        followed(engine, 'eval', lambda: self.store.delete('a'))
        store.replace('a', 0, b'1')
        self.store.set('a', b'2')
        store.replace('a', store.get_version('a')[1], b'3')
        self.away()
        self.assertIsNone(self.store.get('a'))

    def test_a_logout_beside_a_read(self):
        class Engine(redis.Redis):
            def pipeline(engine, **more):       # noqa: N805
                pipeline = super().pipeline(**more)
                followed(pipeline, 'execute', lambda: self.store.delete('a'))
                return pipeline

        store = self.make_store(Engine('127.0.0.1', self.redis.port))
        self.redis.client().set('session:a', b'1', ex=1000)
        self.assertEqual(store.get('a'), b'1')
        self.store.set('a', b'2')
        self.assertEqual(store.get('a'), b'2')
        self.away()
        self.assertIsNone(self.store.get('a'))

    def test_a_worker_is_killed_while_it_ends_a_session(self):
        self.store.set('a', b'1')
        pid = os.fork()
        if pid == 0:
            try:
                followed(self.host.engine, 'eval', lambda: os.kill(os.getpid(), signal.SIGKILL))
                self.store.delete('a')
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
        self.assertEqual(self.redis.client().exists('session:a'), 0)
        self.away()
        self.assertIsNone(self.store.get('a'))


class EndedElsewhere(Away):
    """Another host ends or changes sessions, of which this host hears, or is away from the engine meanwhile. When the engine
    goes away later, they do not come back."""

    OPTIONS = AwayStale.OPTIONS

    def setUp(self):
        super().setUp()
        self.other = self.make_host()
        for session in 'ended', 'changed', 'kept':
            self.other.store.set(session, b'alice')
            self.assertEqual(self.store.get(session), b'alice')
        self.know(ended=b'alice', changed=b'alice', kept=b'alice')

    def change(self):
        self.assertTrue(self.other.store.delete('ended'))
        self.other.store.replace('changed', self.other.store.get_version('changed')[1], b'bob')

    def read(self):
        return [self.store.get(session) for session in ('ended', 'changed', 'kept')]

    def test_heard(self):
        self.change()
        self.away(kept=b'alice')
        self.assertEqual(self.read(), [None, None, b'alice'])

    def test_one_question_without_an_answer(self):
        """The engine is there: it is asked, or nothing is known."""
        self.change()
        self.wait_heard()
        self.host.engine.connection_pool.connection_kwargs['socket_timeout'] = 0.2
        self.host.engine.connection_pool.disconnect()
        self.redis.client().execute_command('CLIENT', 'PAUSE', 400, 'ALL')
        self.store.get('unknown')
        self.assertIsNone(self.store.get('ended'))
        self.assertNotEqual(self.store.get('changed'), b'alice')
        wait_for(lambda: self.read() == [None, b'bob', b'alice'])

    def test_all_keys_go(self):
        self.redis.client().flushall()
        self.away()
        self.assertEqual(self.read(), [None] * 3)

    def test_the_near_daemon_was_away(self):
        """Nothing is known of what happened meanwhile."""
        self.host.near.kill()
        self.change()
        wait_for(lambda: not self.host.is_covered())    # the cover lasts on for its bound
        self.host.near.start()
        wait_for(self.host.is_covered)
        self.away(kept=b'alice')
        self.assertEqual(self.read(), [None, None, b'alice'])

    def test_nothing_was_read_since(self):
        """The near daemon goes, and comes back, while the engine is away: the sessions are those from before."""
        self.away()
        self.host.near.kill()
        self.host.near.start()
        time.sleep(self.BOUND_MS / 1000)
        self.assertEqual(self.read(), [b'alice'] * 3)

    def test_a_change_of_this_host(self):
        self.store.replace('kept', self.store.get_version('kept')[1], b'carol')
        self.store.touch('changed')
        self.away(ended=b'alice', changed=b'alice', kept=b'carol')
        self.assertEqual(self.read(), [b'alice', b'alice', b'carol'])


class Flask(Away):
    """Requests while something is away."""

    def make_client(self, **options):
        app = flask.Flask('test')
        host = self.make_host(**options)
        app.session_interface = tslab.flask.SessionInterface(lambda: host.store)
        app.add_url_rule('/login', 'login', lambda: flask.session.update(user='alice') or {})
        app.add_url_rule('/', 'index', lambda: flask.session.get('user', 'nobody'))
        client = app.test_client()
        client.get('/login')
        self.assertEqual(client.get('/').text, 'alice')
        return host, app, client

    def test_logged_in_still_with_another_pool(self):
        host, _, client = self.make_client()
        with self.assertLogs('tslab', 'WARNING'):
            host.replace_pool()
            for _ in range(20):
                self.assertEqual(client.get('/').text, 'alice')
                time.sleep(0.1)
            wait_for(lambda: not host.store.pool.stale)
        self.assertEqual(client.get('/').text, 'alice')

    def test_while_away(self):
        _, strict, client = self.make_client()
        _, mild, other = self.make_client(while_away='stale')
        self.lose()
        time.sleep(self.BOUND_MS / 1000)
        with self.assertLogs(strict.logger, 'ERROR'):
            self.assertEqual(client.get('/').text, 'nobody')
        self.assertEqual(other.get('/').text, 'alice')
        with self.assertLogs(mild.logger, 'ERROR'):
            self.assertEqual(other.get('/login').status_code, 200)
        self.regain()
        wait_for(lambda: (client.get('/').text, other.get('/').text) == ('alice', 'alice'))


side.main()
