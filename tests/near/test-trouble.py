"""tslab-near in trouble: servers that are no Redis, that refuse, change their role or hide changes; pools that are full or
without a daemon; and itself stopped. Each time there is a clear message, or no message is needed, and no stale value."""

import concurrent.futures
import contextlib
import functools
import itertools
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))

import redis.asyncio  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
from daemon import SECONDS, Daemon, free_port, wait_for  # noqa: E402
from engine import Node  # noqa: E402
from servers import TSLAB_NEAR, Counted, Near, Redis  # noqa: E402
from stepper import CAN_STEP, Stepper, instructions  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
BOUND_MS = 400
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs/near-cache.md')
# As that page has it, for tslab-near.
RIGHTS = ['+info', '+subscribe', '+ping', '+role', '+client|id', '+client|tracking', '+client|setname', '+cluster|slots',
          '+cluster|info', '+cluster|nodes']
LONG_MS = 20_000        # a cover that is not over by itself while a test runs


class Fake:
    """Speaks as a primary that stands alone, but for the command that it is to answer otherwise."""

    ANSWERS = {
        b'CLIENT SETNAME': b'+OK\r\n', b'CLIENT ID': b':7\r\n', b'CLIENT TRACKING': b'+OK\r\n',
        b'INFO server': b'$47\r\nrun_id:%s\r\n' % (b'f' * 40),
        b'CLUSTER SLOTS': b'-ERR This instance has cluster support disabled\r\n',
        b'ROLE': b'*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n',
        b'SUBSCRIBE': b'*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n',
        b'PING': b'*2\r\n$4\r\npong\r\n$0\r\n\r\n',
    }

    def __init__(self, command=None, answer=None, ping_seconds=0.0):
        self.ping_seconds = ping_seconds
        self.answers = {**self.ANSWERS, **({command: answer} if command else {})}
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=[connection], daemon=True).start()

    def talk(self, connection):
        with connection:
            try:
                while True:
                    request = connection.recv(65536)
                    if not request:
                        return
                    for words in re.findall(rb'\*\d+\r\n((?:\$\d+\r\n[^\r]*\r\n)+)', request):
                        words = re.findall(rb'\$\d+\r\n([^\r]*)\r\n', words)
                        answer = next(a for c, a in self.answers.items() if b' '.join(words).startswith(c))
                        if answer is None:
                            return
                        if words[0] == b'PING':
                            time.sleep(self.ping_seconds)
                        connection.sendall(answer)
                        self.answered(connection, words)
            except OSError:
                pass

    def answered(self, connection, words):
        pass

    def end(self):
        self.socket.close()


class Deaf(Fake):
    """On a socket of this path. Takes no more on a connection after its first PING, and closes it later."""

    def __init__(self, path):
        super().__init__()
        self.n_deaf = 0
        self.socket.close()
        self.socket = socket.create_server(path, family=socket.AF_UNIX)
        threading.Thread(target=self.serve, daemon=True).start()

    def answered(self, connection, words):
        if words[0] == b'PING':
            connection.shutdown(socket.SHUT_RD)
            time.sleep(1)
            self.n_deaf += 1


class Resetting(Fake):
    """Says that it has too many clients, and resets the connection, whenever it is told to."""

    def __init__(self):
        self.come, self.go, self.gone = (threading.Semaphore(0) for _ in range(3))
        self.n_connections = 0
        super().__init__()

    def talk(self, connection):
        with connection:
            self.n_connections += 1
            if self.n_connections == 1:         # the next write of the client is on its next connection then
                connection.recv(1, socket.MSG_PEEK)
            self.come.release()
            self.go.acquire()
            connection.sendall(b'-ERR max number of clients reached\r\n')
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.gone.release()


class Forgetful(Fake):
    """Tells its role once."""

    def answered(self, connection, words):
        if words[0] == b'ROLE':
            self.answers[b'ROLE'] = b''


class Flushed(Fake):
    """After some PINGs all its keys go, and it says no more."""

    def __init__(self):
        super().__init__()
        self.n_pings = 0

    def answered(self, connection, words):
        is_ping = words[0] == b'PING'
        self.n_pings += is_ping
        if is_ping and self.n_pings == 5:
            self.answers.update({b'PING': b'', b'ROLE': b''})
            connection.sendall(b'*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*-1\r\n')


def slots_answer(*servers, n_slots=16384):
    """To CLUSTER SLOTS: each of the servers has as many."""
    n = n_slots // len(servers)
    ranges = (b'*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\n%d\r\n' % (n * i, n * i + n - 1, server.port, i)
              for i, server in enumerate(servers))
    return b'*%d\r\n' % len(servers) + b''.join(ranges)


class TroubleFixture(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))

    def server(self, *arguments):
        server = Redis(*arguments)
        self.addCleanup(server.end)
        return server

    def server_at(self, port):
        """A server whose port was another one's until now."""
        with unittest.mock.patch('servers.free_port', lambda: port):
            return Redis()

    def open(self):
        return self.enterContext(tslab.open(self.daemon.socket))

    def check(self, server, *arguments):
        return Near(self.daemon, server, '--check', *arguments).wait()

    def expect(self, server, *texts, arguments=()):
        status, text = self.check(server, *arguments)
        self.assertEqual(status, 1, text)
        for expected in texts:
            self.assertIn(expected, text)

    def near(self, server, *arguments, bound_ms=BOUND_MS):
        near = Near(self.daemon, server, '--bound', str(bound_ms), *arguments)
        self.addCleanup(near.end)
        return near

    def cache(self, engine, **more):
        engine = Counted(engine)
        return engine, tslab.NearCache(engine, self.open(), prefix='p:', **more)

    def is_covered(self, cache, key='probe'):
        cache.get(key)
        n = cache.engine.n
        cache.get(key)
        return cache.engine.n == n

    def wait_covered(self, cache):
        wait_for(lambda: self.is_covered(cache))

    def leases(self, pool):
        return [e.epoch for e in pool.epochs() if e.label == 'near.near' and e.state == 'open']

    def put_password(self, word):
        file = self.enterContext(tempfile.NamedTemporaryFile('w'))
        file.write(word)
        file.flush()
        return file.name


class HostileTest(TroubleFixture):
    """Whatever the server says, tslab-near says why nothing is covered, and does not crash."""

    ANSWERS = {
        'nothing': b'$-1\r\n', 'no list': b'*-1\r\n', 'an empty list': b'*0\r\n', 'a list of nothing': b'*1\r\n*-1\r\n',
        'nothing and nothing': b'*3\r\n$-1\r\n$-1\r\n$-1\r\n', 'lists': b'*1\r\n' * 50, 'text': b'$2\r\nhi\r\n',
        'another protocol': b'HTTP/1.1 400 Bad Request\r\n\r\n', 'zeros': bytes(100), 'no number': b':\r\n',
        'a long list': b'*4294967296\r\n', 'a list of negative length': b'*-7\r\n', 'negative text': b'$-7\r\n',
        'long text': b'$99999999999999999999\r\n',
        'ranges': b'*2\r\n*3\r\n:-5\r\n:99999999\r\n*3\r\n$1\r\na\r\n:1\r\n$1\r\ni\r\n*3\r\n:0\r\n:5\r\n*0\r\n',
        'other ranges': b'*2\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$1\r\na\r\n:70000\r\n$1\r\ni\r\n*2\r\n:0\r\n:5\r\n',
        'an error': b'-ERR \x1b]0;title\x07 \n\x7f "%s%n"\r\n', 'a long error': b'-ERR ' + b'x' * 100_000 + b'\r\n',
        'the end': None,
    }

    def test_a_sound_server(self):
        server = Fake()
        self.addCleanup(server.end)
        status, text = self.check(server)
        self.assertEqual(status, 0, text)

    def test_answers(self):
        """To four commands at once, each in a near cache of its own."""
        with concurrent.futures.ThreadPoolExecutor(4) as executor:
            faults = executor.map(self.find_fault, Fake.ANSWERS, itertools.count())
        self.assertEqual(list(faults), [None] * len(Fake.ANSWERS))

    def find_fault(self, command, number):
        for name, answer in self.ANSWERS.items():
            if command in (b'CLIENT SETNAME', b'CLIENT TRACKING') and answer and answer[:4] != b'-ERR':
                continue        # whether it is an error is all that counts
            server = Fake(command, answer)
            try:
                status, text = self.check(server, '--bound=400', f'--name=near{number}')
            finally:
                server.end()
            if (status != 1 or 'not covered: 127.0.0.1:' not in text or text.count('\n') != 1
                    or re.search(r'[\x00-\x09\x0b-\x1f\x7f]', text)):
                return command, name, status, text
        return None

    def test_an_answer_for_a_terminal(self):
        """The words of an engine go to terminals, the journal and systemd: nothing in them moves a cursor or turns text."""
        hostile = '\x1b]0;title\x07 \x9b2J \u202eevil \u200f\u061c\ufeff \u2066x'
        for encoded in (hostile.encode(), hostile.encode('latin-1', 'ignore')):
            server = Fake(b'ROLE', b'-ERR ' + encoded + b' end\r\n')
            self.addCleanup(server.end)
            status, text = self.check(server, '--bound=400')
            self.assertEqual(status, 1)
            self.assertRegex(text, r'not covered: .*end')
            self.assertFalse(set(text) & (set(hostile) - set(' ]0;title2Jevilx')) or '\udc9b' in text, ascii(text))

    def test_an_endless_answer(self):
        server = Fake(b'CLUSTER SLOTS', b'$400000000\r\n' + bytes(280 << 20))
        self.addCleanup(server.end)
        self.expect(server, 'more than 256 MiB', arguments=['--bound=10000'])

    def test_silence(self):
        """From the first question on, or from a later one."""
        servers = [Fake(command, b'') for command in (b'CLUSTER SLOTS', b'SUBSCRIBE', b'PING')] + [Forgetful()]
        nears = []
        for i, server in enumerate(servers):
            self.addCleanup(server.end)
            nears.append(Near(self.daemon, server, '--check', f'--name={i}'))
            self.addCleanup(nears[-1].kill)
        for near in nears:
            status, text = near.wait()
            self.assertEqual(status, 1, text)
            self.assertIn('no answer for seconds', text)


class AnswerTest(TroubleFixture):
    """An answer counts from its question on, and one of each primary is needed."""

    def test_an_answer_that_comes_late(self):
        """It covers until one bound after the question, not after the answer."""
        server = Fake(ping_seconds=0.8)
        self.addCleanup(server.end)
        self.near(server, bound_ms=1000)
        _, cache = self.cache(redis.Redis())
        n, n_covered = 0, 0
        wait_for(lambda: self.claims(cache))
        end = time.monotonic() + 3
        while time.monotonic() < end:
            n += 1
            n_covered += self.claims(cache)
            time.sleep(0.01)
        self.assertLess(n_covered, n / 2)

    def claims(self, cache):
        """Whether a program that misses is to fill: something is covered."""
        claim = cache._look(b'p:none', 0)[2]
        cache._give_up(b'p:none', claim)
        return claim.claim.copy != 0

    def test_all_primaries_have_to_answer(self):
        servers = Fake(b'PING', b''), Fake()
        for server in servers:
            self.addCleanup(server.end)
            server.answers.update({b'CLUSTER SLOTS': slots_answer(*servers), b'CLUSTER NODES': b'$1\r\n\n\r\n',
                                   b'CLUSTER INFO': b'$16\r\ncluster_state:ok\r\n'})
        self.expect(servers[1], f'127.0.0.1:{servers[0].port}: no answer for seconds')
        servers[0].answers[b'PING'] = Fake.ANSWERS[b'PING']
        status, text = self.check(servers[1])
        self.assertEqual(status, 0, text)


class AdviceTest(TroubleFixture):
    """Messages name the trouble and the remedy."""

    def test_no_command_client(self):
        self.expect(self.server('--rename-command', 'CLIENT', ''), 'CLIENT SETNAME is refused', 'was renamed')

    def test_a_server_without_tracking(self):
        server = Fake(b'CLIENT TRACKING', b"-ERR Unknown subcommand or wrong number of arguments for 'TRACKING'\r\n")
        self.addCleanup(server.end)
        self.expect(server, 'Redis 6 or later')

    def test_users_that_may_not(self):
        server = self.server()
        for rule in ('-client', '-client|tracking', '-subscribe', '-ping', '-role', '-cluster', '-info', 'resetchannels'):
            kind = {'channels': []} if rule == 'resetchannels' else {'commands': ['+@all', rule]}
            server.client().acl_setuser('weak', enabled=True, reset=True, passwords=['+word'], keys=['*'],
                                        **{'channels': ['*'], 'commands': ['+@all'], **kind})
            with self.subTest(rule=rule):
                self.expect(server, 'NOPERM', f'give the user {" ".join(RIGHTS)} ',
                            arguments=['--user', 'weak', '--password-file', self.put_password('word')])

    def test_the_user_of_the_page(self):
        """Its rights are enough, and it can neither read, nor change, nor pause the engine or its cluster."""
        with open(PAGE, encoding='utf-8') as file:
            rights = re.search(r'SETUSER tslab-near on [^+]*((?:[\'+\\\s]+[a-z|]+\'?)+)', file.read())[1]
        self.assertEqual(re.findall(r'\+[a-z|]+', rights), RIGHTS)
        server = self.server()
        server.client().execute_command('ACL', 'SETUSER', 'near', 'on', '>word', 'resetchannels', '&__redis__:invalidate',
                                        *RIGHTS)
        status, text = self.check(server, '--user', 'near', '--password-file', self.put_password('word'))
        self.assertEqual(status, 0, text)
        near = server.client(username='near', password='word')
        for command in ('CLIENT PAUSE 60000', 'CLIENT KILL TYPE normal', 'CLIENT LIST', 'CLIENT NO-EVICT on',
                        'CLIENT UNBLOCK 1', 'CLUSTER FLUSHSLOTS', 'CLUSTER DELSLOTS 0', 'CLUSTER FAILOVER',
                        'CLUSTER RESET', 'CLUSTER FORGET x', 'GET page:1', 'SET page:1 x', 'FLUSHALL', 'CONFIG GET dir',
                        'PUBLISH __redis__:invalidate x', 'SHUTDOWN', 'ACL LIST'):
            with self.subTest(command=command), self.assertRaises(redis.exceptions.NoPermissionError):
                near.execute_command(*command.split())
        self.assertTrue(server.client().set('page:1', 'x'))

    def test_passwords(self):
        server = self.server('--requirepass', 'secret')
        self.expect(server, 'NOAUTH', 'give --password-file')
        self.expect(server, 'look at', arguments=['--password-file', self.put_password('wrong')])
        self.expect(self.server(), 'leave --password-file out', arguments=['--password-file', self.put_password('word')])

    def test_a_password_that_changes(self):
        server = self.server('--requirepass', 'one')
        near = self.near(server, '--password-file', self.put_password('one'), bound_ms=LONG_MS)
        engine, cache = self.cache(server.client(password='one'))
        self.wait_covered(cache)
        engine.config_set('requirepass', 'two')
        for client in engine.client_list():
            if client['name'] == 'tslab-near':
                engine.client_kill_filter(_id=client['id'])
        wait_for(lambda: self.n_refused(engine) >= 2)       # the answer before the last one has come
        self.assertFalse(self.is_covered(cache))
        status, text = near.end()
        self.assertEqual(status, 0)
        self.assertIn('the password is refused', text)
        self.assertIn('restart tslab-near', text)

    @staticmethod
    def n_refused(engine):
        """Logins that the server has refused."""
        return engine.info('commandstats').get('cmdstat_auth', {'failed_calls': 0})['failed_calls']

    def test_a_cluster_that_is_partly_down(self):
        server = self.server('--cluster-enabled', 'yes', '--cluster-port', str(free_port()))
        self.expect(server, 'partly down: 0 of 16384 slots', 'redis-cli --cluster check')

    def test_a_cluster_whose_half_is_down(self):
        """It serves the other half. Keys of the missing one may be served by a primary that is not heard."""
        server = Fake()
        self.addCleanup(server.end)
        server.answers.update({b'CLUSTER SLOTS': slots_answer(server, n_slots=8192), b'CLUSTER NODES': b'$1\r\n\n\r\n',
                               b'CLUSTER INFO': b'$16\r\ncluster_state:ok\r\n'})
        self.expect(server, 'partly down: 8192 of 16384 slots')

    def test_a_replica(self):
        """No epoch is leased for it, which would be again and again."""
        server, replica, pool = self.server(), self.server(), self.open()
        replica.client().slaveof('127.0.0.1', server.port)
        epochs = []
        for _ in range(2):          # the first one makes the map
            self.expect(replica, 'is a replica', 'name the primary')
            epochs.append([e.epoch for e in pool.epochs()])
        self.assertEqual(*epochs)

    def test_a_pool_that_is_full(self):
        server, pool = self.server(), self.open()
        engine, cache = self.cache(server.client())
        engine.set('p:a', b'one')
        self.assertEqual(cache.get('a'), b'one')        # it makes the map

        def fill():
            with self.assertRaises(tslab.FullError):
                while True:
                    pool.alloc_batch(4096, 100)
            for size in 2048, 512, 64:
                with self.assertRaises(tslab.FullError):
                    while True:
                        pool.alloc(size)
            return self.check(server)

        # The caches of threads that were idle for a while are emptied: there is room again, until that is taken, too.
        wait_for(lambda: fill()[0] == 1)
        self.assertIn('the pool is full: give it more memory', fill()[1])
        for value in b'two', b'three':
            engine.set('p:a', value)
            self.assertEqual(cache.get('a'), value)

    def test_a_pool_without_an_epoch(self):
        """Other programs hold them all for a while."""
        server, pool = self.server(), self.open()
        engine, cache = self.cache(server.client())
        engine.set('p:a', b'one')
        self.assertEqual(cache.get('a'), b'one')        # it makes the map
        held = []
        with self.assertRaises(tslab.FullError):
            while True:
                held.append(pool.epoch_reserve('other'))
        self.expect(server, 'can spare no epoch')
        near = self.near(server, bound_ms=LONG_MS)
        for i in range(20):
            engine.set('p:a', str(i))
            self.assertEqual(cache.get('a'), str(i).encode())
        for epoch in held:
            pool.epoch_close(epoch)
        self.wait_covered(cache)
        self.assertIsNone(near.process.poll())

    def test_a_pool_that_fills(self):
        server, pool = self.server(), self.open()
        engine, cache = self.cache(server.client())
        self.near(server, bound_ms=LONG_MS)
        self.wait_covered(cache)
        with self.assertRaises(tslab.FullError):
            while True:
                pool.alloc_batch(4096, 100)
        for i in range(300):
            engine.set(f'p:{i}', bytes(3000))
            self.assertEqual(cache.get(str(i)), bytes(3000))
        for i in range(300):
            engine.set(f'p:{i}', b'new')
        wait_for(lambda: all(cache.get(str(i)) == b'new' for i in range(300)))


class SettingsTest(TroubleFixture):
    def run_near(self, *arguments, **variables):
        try:
            done = subprocess.run([TSLAB_NEAR, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False,
                                  env={**os.environ, **variables})
        except subprocess.TimeoutExpired:
            self.fail(f'{arguments}: it serves')
        return done.returncode, done.stderr

    def test_servers(self):
        for text in ('::1', 'a::6379', '[::1', '[::1]6379', '[]:1', '[]', ':1', '', 'a:', 'a:99999', 'a:0', 'a:6379x',
                     'a:0000000000006379', 'a,', 'a:1,,b', 'x' * 300, '/' + 'x' * 300, ','.join('a' * 17)):
            status, error = self.run_near('--server', text, '--prefix=')
            self.assertEqual(status, 2, text)
            self.assertRegex(error, 'a server is|there are more than 16')

    def test_names(self):
        for arguments in (['--name', 'x' * 43], ['--name='], ['--pool=a b']):
            status, error = self.run_near('--pool', self.daemon.socket, '--server=a', '--prefix=', *arguments)
            self.assertEqual(status, 2, error)
            self.assertIn('cannot open', error)

    def test_prefixes(self):
        for arguments in (['--prefix='] * 2, ['--prefix=a', '--prefix='], ['--prefix=ab', '--prefix=a'],
                          ['--prefix=a', '--prefix=a']):
            status, error = self.run_near('--server=a', *arguments)
            self.assertEqual(status, 2)
            self.assertIn('overlaps', error)
        status, error = self.run_near('--server=a', '--prefix=' + 'x' * 500, '--prefix=' + 'y' * 600)
        self.assertEqual(status, 2)
        self.assertIn('1024 bytes', error)
        status, error = self.run_near('--server=a', *(f'--prefix={i:02}' for i in range(33)))
        self.assertEqual(status, 2)
        self.assertIn('more than 32', error)

    def test_prefixes_of_the_environment(self):
        """All of them are taken, or none."""
        status, error = self.run_near('--server=a', TSLAB_NEAR_PREFIX='a' + ' ' * 5000 + 'b')
        self.assertEqual(status, 2)
        self.assertIn('too long', error)

    def test_password_files(self):
        for word, text in (('', 'has no password'), ('\n', 'has no password'), ('x' * 1024, 'longer than 1023 bytes'),
                           ('x' * 5000 + '\n', 'longer than 1023 bytes'), ('a\0b\n', 'has a zero byte')):
            status, error = self.run_near('--server=a', '--prefix=', '--password-file', self.put_password(word))
            self.assertEqual(status, 2, error)
            self.assertIn(text, error)
        status, error = self.run_near('--server=a', '--prefix=', '--password-file', self.daemon.dir)
        self.assertEqual(status, 2, error)
        self.assertIn('Is a directory', error)
        pipe = os.path.join(self.daemon.dir, 'pipe')
        os.mkfifo(pipe)
        status, error = self.run_near('--server=a', '--prefix=', '--password-file', pipe)
        self.assertEqual(status, 2, error)
        self.assertIn('a regular file', error)
        word = 'x' * 1023
        server = self.server('--requirepass', word)
        for end in '', '\n', '\r\nmore\0', '\n' + 'y' * 5000:
            status, error = self.check(server, '--password-file', self.put_password(word + end))
            self.assertEqual(status, 0, error)

    def test_all_keys_by_the_environment(self):
        status, error = self.run_near('--check', '--pool', self.daemon.socket, '--server',
                                      f'127.0.0.1:{self.server().port}', TSLAB_NEAR_PREFIX='')
        self.assertEqual(status, 0, error)

    def test_addresses(self):
        server = self.server('--bind', '127.0.0.1', '::1', '--unixsocket', os.path.join(self.daemon.dir, 'redis.sock'))
        for text in (f'[::1]:{server.port}', os.path.join(self.daemon.dir, 'redis.sock'), f'localhost:{server.port}'):
            status, error = self.run_near('--check', '--pool', self.daemon.socket, '--server', text, '--prefix=')
            self.assertEqual(status, 0, error)

    def near_with_names(self, settings, *arguments):
        """Its names are looked up as these lines for resolv.conf say."""
        file = os.path.join(self.daemon.dir, 'resolv.conf')
        with open(file, 'w') as lines:
            lines.write('nameserver 127.0.0.1\n' + settings)
        near = subprocess.Popen(
            ['unshare', '--mount', 'sh', '-c', f'mount --bind {file} /etc/resolv.conf && exec "$@"', 'sh', TSLAB_NEAR,
             '--pool', self.daemon.socket, '--prefix=p:', *arguments], stderr=subprocess.PIPE, text=True)
        self.addCleanup(near.wait)
        self.addCleanup(near.kill)
        return near

    @unittest.skipUnless(side.IS_ALONE, 'no network of our own')
    def test_a_name_service_that_does_not_answer(self):
        """It stops nothing but the connection."""
        service = self.enterContext(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        service.bind(('127.0.0.1', 53))
        service.settimeout(10)
        near = self.near_with_names('options timeout:30 attempts:5\n', '--server=some.server')
        for _ in range(3):          # the last one is given up, and another one begins
            self.assertIn(b'server', service.recv(4096))
        near.terminate()
        self.assertIn('some.server:6379: no answer for seconds', near.communicate(timeout=SECONDS)[1])
        self.assertEqual(near.returncode, 0)

    @unittest.skipUnless(side.IS_ALONE, 'no network of our own')
    def test_a_name_service_that_never_answers(self):
        """The C library waits for ever for an answer by TCP. Such lookups end with the process, before they have taken all
        its descriptors."""
        self.enterContext(socket.create_server(('127.0.0.1', 53), backlog=1024))
        server = Fake()
        self.addCleanup(server.end)
        ranges = (b'*3\r\n:%d\r\n:%d\r\n*3\r\n$11\r\nsome.server\r\n:%d\r\n$1\r\ni\r\n' % (128 * i, 128 * i + 127, i + 1)
                  for i in range(128))
        server.answers[b'CLUSTER SLOTS'] = b'*128\r\n' + b''.join(ranges)
        near = self.near_with_names('options use-vc\n', f'--server=127.0.0.1:{server.port}')
        error = near.communicate(timeout=SECONDS)[1]
        self.assertIn('hundreds of names', error)
        self.assertNotIn('Too many open files', error)
        self.assertEqual(near.returncode, 1)


class RoleTest(TroubleFixture):
    def test_a_primary_that_becomes_a_replica(self):
        old, new = self.server(), self.server()
        engine, cache = self.cache(old.client())
        near = self.near(old)
        self.wait_covered(cache)
        engine.set('p:a', b'one')
        wait_for(lambda: cache.get('a') == b'one' and self.is_covered(cache, 'a'))
        old.client().slaveof('127.0.0.1', new.port)
        time.sleep(BOUND_MS / 1000 + 0.2)
        for _ in range(20):
            self.assertFalse(self.is_covered(cache))
            time.sleep(0.01)
        old.client().slaveof()
        self.wait_covered(cache)
        self.assertIn('is a replica', near.end()[1])

    def test_a_slot_that_goes_to_a_server_without_any(self):
        first, second = (self.server('--cluster-enabled', 'yes', '--cluster-port', str(port))
                         for port in (free_port(), free_port()))
        a, b = (server.client(decode_responses=True) for server in (first, second))
        a.execute_command('CLUSTER ADDSLOTSRANGE', 0, 16383)
        a.execute_command('CLUSTER MEET', '127.0.0.1', second.port, second.arguments[3])
        ids = [c.execute_command('CLUSTER MYID') for c in (a, b)]
        for c in a, b:
            wait_for(lambda c=c: c.execute_command('CLUSTER INFO')['cluster_state'] == 'ok')
            wait_for(lambda c=c: len(c.execute_command('CLUSTER NODES')) == 2)
        slot = a.execute_command('CLUSTER KEYSLOT', 'p:a')

        class Asking:       # as a client of the cluster does
            def get_node_from_key(self, key):
                mine = b.execute_command('CLUSTER MYID') if b.cluster('slots') else None
                nodes = a.cluster('nodes').values()
                has_slot = any(node['node_id'] == mine and node['slots'] for node in nodes)
                return Node((second if has_slot else first).client())

            def pipeline(self, transaction):
                server = first.client()
                try:
                    server.get('p:a')
                except redis.ResponseError as e:
                    if str(e).split()[0] not in ('ASK', 'MOVED'):
                        raise
                    server = second.client()
                pipeline = server.pipeline(transaction=False)
                execute = pipeline.execute

                def ask():
                    commands = pipeline.command_stack[:]
                    pipeline.command_stack[:] = [c for command in commands for c in ((('ASKING',), {}), command)]
                    return execute()[1::2]
                if server.connection_pool.connection_kwargs['port'] == second.port:
                    pipeline.execute = ask
                return pipeline

        near = self.near(first)
        _, cache = self.cache(Asking())
        a.set('p:a', b'one')
        wait_for(lambda: cache.get('a') == b'one' and self.is_covered(cache, 'a'))
        b.execute_command('CLUSTER SETSLOT', slot, 'IMPORTING', ids[0])
        a.execute_command('CLUSTER SETSLOT', slot, 'MIGRATING', ids[1])
        a.execute_command('MIGRATE', '127.0.0.1', second.port, 'p:a', 0, 5000)
        end = time.monotonic() + 2 * BOUND_MS / 1000
        while time.monotonic() < end:
            self.assertEqual(cache.get('a'), b'one')
        writer = b.pipeline(transaction=False)
        writer.execute_command('ASKING')
        writer.set('p:a', b'two')
        writer.execute()
        time.sleep(BOUND_MS / 1000)
        for _ in range(20):
            self.assertEqual(cache.get('a'), b'two')
        for c in b, a:
            c.execute_command('CLUSTER SETSLOT', slot, 'NODE', ids[1])
        wait_for(lambda: cache.get('a') == b'two' and self.is_covered(cache, 'a'))
        self.assertIn('is on its way to a server', near.end()[1])


class EngineTest(TroubleFixture):
    def test_engines_that_cannot_be_used(self):
        for engine, error, text in ((redis.asyncio.Redis(), TypeError, 'asyncio'),
                                    (redis.Redis(decode_responses=True), ValueError, 'returns bytes')):
            with self.assertRaisesRegex(error, text):
                tslab.NearCache(engine, self.open(), prefix='p:')
        with self.assertRaises(ValueError):
            self.cache(redis.Redis(), wait=-1)

    def test_answers_that_are_no_bytes(self):
        server = self.server()
        self.near(server, bound_ms=LONG_MS)
        engine, cache = self.cache(server.client())
        self.wait_covered(cache)
        decoder = server.client(decode_responses=True)

        class Text:
            pipeline = decoder.pipeline

        text = tslab.NearCache(Text(), cache.pool, prefix='p:')
        engine.set('p:a', 'one')
        with self.assertRaisesRegex(TypeError, 'no bytes'):
            text.get('a')
        begun = time.monotonic()
        self.assertEqual(cache.get('a'), b'one')        # the claim has ended
        wait_for(lambda: self.is_covered(cache, 'a'))   # the server has told of the set()
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_copy_does_not_outlive_the_key(self):
        """Also where the answer was long on its way, and the server has not looked at the key since."""
        server = self.server('--enable-debug-command', 'yes')
        self.near(server, bound_ms=LONG_MS)
        engine, cache = self.cache(server.client())
        self.wait_covered(cache)
        engine.execute_command('DEBUG', 'SET-ACTIVE-EXPIRE', '0')

        class Slow:
            connection_pool = engine.connection_pool

            def pipeline(self, transaction):
                pipeline = engine.pipeline(transaction=False)
                execute = pipeline.execute

                def slow(**more):
                    answers = execute(**more)
                    time.sleep(0.5)
                    return answers
                pipeline.execute = slow
                return pipeline

        slow = tslab.NearCache(Slow(), cache.pool, prefix='p:')
        engine.set('p:a', 'one', px=3000)
        end = time.monotonic() + 3
        self.assertEqual(slow.get('a'), b'one')
        while time.monotonic() < end + 0.02:
            time.sleep(0.01)
        self.assertIsNone(cache.get('a'))


class SilentTest(TroubleFixture):
    """A server that is down when the programs start, on a host that gives no answer: its backlog is full."""

    def setUp(self):
        super().setUp()
        self.server = self.enterContext(socket.socket())
        self.server.bind(('127.0.0.1', 0))
        self.server.listen(0)
        for _ in range(3):
            client = self.enterContext(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(self.server.getsockname())
        self.port = self.server.getsockname()[1]

    def questions(self, engine):
        """Counts those to which the client has to connect."""
        n, get = [0], engine.connection_pool.get_connection

        @functools.wraps(get)       # its signature is looked at
        def counted(*arguments, **options):
            n[0] += 1
            return get(*arguments, **options)

        engine.connection_pool.get_connection = counted
        return n

    def calls(self, call, n):
        begin = time.monotonic()
        for _ in range(n):
            with self.assertRaises((redis.RedisError, tslab.EngineError)):
                call()
        return time.monotonic() - begin

    def test_one_question_a_second(self):
        """A client may take long for a question: its time limit, or pauses and new tries."""
        engine = redis.Redis('127.0.0.1', self.port, socket_timeout=0.3, socket_connect_timeout=0.3)
        pool = self.open()
        cache = tslab.NearCache(engine, pool, prefix='p:')
        strict, mild = (tslab.SessionStore(pool, away, behind=engine, while_away=away) for away in ('fail', 'stale'))
        n = self.questions(engine)
        for call in (lambda: cache.get('a'), lambda: cache.set('a', b'1'), lambda: strict.get('a'),
                     lambda: strict.set('a', b'1'), lambda: mild.delete('a')):
            before = n[0]
            seconds = self.calls(call, 200)
            self.assertLessEqual(n[0] - before, 2 + seconds)

    def test_a_url(self):
        """Its client has a time limit, and does not ask again."""
        cache = tslab.NearCache(f'redis://127.0.0.1:{self.port}', self.open(), prefix='p:')
        kwargs = cache.engine.connection_pool.connection_kwargs
        self.assertEqual((kwargs['socket_timeout'], kwargs['socket_connect_timeout'], kwargs['retry']._retries), (0.5, 0.5, 0))
        n = self.questions(cache.engine)
        self.calls(lambda: cache.get('a'), 1)
        self.assertEqual(n, [1])

    def test_it_comes(self):
        engine = redis.Redis('127.0.0.1', self.port, socket_timeout=0.3, socket_connect_timeout=0.3)
        cache = tslab.NearCache(engine, self.open(), prefix='p:')
        self.calls(lambda: cache.get('a'), 3)
        self.server.close()
        server = self.server_at(self.port)
        self.addCleanup(server.end)

        def value():
            with contextlib.suppress(redis.RedisError):
                return cache.get('a')

        server.client().set('p:a', b'1')
        wait_for(lambda: value() == b'1')


class CoverTest(TroubleFixture):
    def setUp(self):
        super().setUp()
        self.redis = self.server()

    def test_a_near_daemon_that_was_stopped(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis)
        for turn in range(6):
            self.wait_covered(cache)
            engine.set('p:a', str(turn))
            wait_for(lambda turn=turn: cache.get('a') == str(turn).encode() and self.is_covered(cache, 'a'))
            near.process.send_signal(signal.SIGSTOP)
            engine.set('p:a', b'changed')
            time.sleep(BOUND_MS / 1000 + 0.1)
            self.assertEqual(cache.get('a'), b'changed')
            near.process.send_signal(signal.SIGCONT)
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                self.assertEqual(cache.get('a'), b'changed')

    def listen(self):
        """Gives a call that waits for a status."""
        notices = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notices.bind(os.path.join(self.daemon.dir, 'notify'))
        notices.settimeout(10)

        def wait_status(begin):
            for _ in range(10):
                text = notices.recv(4096).decode()
                if any(line.startswith('STATUS=' + begin) for line in text.splitlines()):    # READY=1 may precede it
                    return
            self.fail(text)

        os.environ['NOTIFY_SOCKET'] = notices.getsockname()
        self.addCleanup(os.environ.pop, 'NOTIFY_SOCKET')
        return wait_status

    def test_the_status_tells_of_a_pause(self):
        """The server is not lost, and no copy goes: systemd's status alone shows it."""
        wait_status = self.listen()
        near = self.near(self.redis)
        for _ in range(3):
            wait_status('covered: 1 server')
            self.redis.process.send_signal(signal.SIGSTOP)
            wait_status(f'not covered: 127.0.0.1:{self.redis.port} has not answered for {BOUND_MS} ms')
            self.redis.process.send_signal(signal.SIGCONT)
        wait_status('covered: 1 server(s); lost 0 times')
        self.assertEqual(near.end()[1].count('covered'), 1)

    def test_the_status_tells_of_a_pause_behind_a_flush(self):
        wait_status, server = self.listen(), Flushed()
        self.addCleanup(server.end)
        self.near(server)
        wait_status('covered: 1 server')
        wait_status(f'not covered: 127.0.0.1:{server.port} has not answered for {BOUND_MS} ms')

    def test_keys_of_no_prefix(self):
        engine, cache = self.cache(self.redis.client())
        self.near(self.redis)
        self.wait_covered(cache)
        other = tslab.NearCache(engine, cache.pool, prefix='q:')
        for i in range(20):
            engine.set('q:a', str(i))
            self.assertEqual(other.get('a'), str(i).encode())
            self.assertEqual(other.mget(['a', 'a']), [str(i).encode()] * 2)

    def test_flushes(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis, bound_ms=LONG_MS)
        self.wait_covered(cache)
        for i in range(200):
            engine.set('p:a', str(i))
            cache.get('a')
            (engine.flushdb if i % 2 else engine.flushall)()
        wait_for(lambda: cache.get('a') is None)
        self.wait_covered(cache)
        self.assertIsNone(near.process.poll())

    def test_a_flush_with_many_copies(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis, bound_ms=LONG_MS)
        self.wait_covered(cache)
        for turn in range(5):
            engine.mset({f'p:{i}': turn for i in range(3000)})
            keys = list(map(str, range(3000)))
            wait_for(lambda turn=turn, keys=keys: cache.mget(keys) == [str(turn).encode()] * 3000)
            engine.flushall()
            wait_for(lambda keys=keys: not any(cache.mget(keys)))
        self.assertIsNone(near.process.poll())

    def test_the_cover_ends_without_the_daemon_of_the_pool(self):
        engine, cache = self.cache(self.redis.client())
        self.near(self.redis, bound_ms=LONG_MS)
        self.wait_covered(cache)
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            self.redis.kill()
            self.redis.start()
            engine.set('p:a', b'two')
            engine.set('p:probe', b'two')
            wait_for(lambda: cache.get('a') == b'two' and cache.get('probe') == b'two')
            self.assertFalse(self.is_covered(cache))
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)

    def test_the_index_is_revoked(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis, bound_ms=LONG_MS)
        self.wait_covered(cache)
        engine.set('p:a', b'one')
        wait_for(lambda: cache.get('a') == b'one' and self.is_covered(cache, 'a'))
        pool = self.open()
        pool.epoch_close(next(e.epoch for e in pool.epochs() if e.label == 'maps'), revoke=True)
        engine.set('p:a', b'two')
        wait_for(lambda: near.process.poll() is not None)
        self.assertEqual(near.process.returncode, 1)
        self.assertIn('cannot drop a copy', near.wait()[1])
        self.assertEqual(cache.get('a'), b'two')
        near.start()
        self.wait_covered(cache)

    def test_an_operator_closes_the_epoch_of_copies(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis)
        for revoke in False, True:
            wait_for(lambda: self.is_covered(cache) and self.leases(cache.pool))
            cache.pool.epoch_close(self.leases(cache.pool)[0], revoke=revoke)
            engine.set('p:a', b'new')
            wait_for(lambda: cache.get('a') == b'new')
        self.wait_covered(cache)
        self.assertIn('was closed, by an operator', near.end()[1])

    def test_another_arena(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis)
        self.wait_covered(cache)
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.process = subprocess.Popen([*self.daemon.command, '--fresh'], env=self.daemon.environment)
        wait_for(self.daemon.answers)
        wait_for(lambda: near.process.poll() is not None)
        self.assertIn('new arena', near.wait()[1])
        near.start()
        self.wait_covered(cache)

    def test_limits_of_a_near_cache_that_a_program_made(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis, '--limit=64K', '--value-max=1K')
        self.wait_covered(cache)
        for i in range(200):
            engine.set(f'p:{i}', b'x' * 900)
        for i in range(200):
            self.assertEqual(cache.get(i), b'x' * 900)
        copies = tslab.Map(cache.pool, 'near', existing=True)
        self.assertEqual(copies.size_max, 1024)
        self.assertLess(copies.stats().bytes, 70_000)
        self.assertGreater(copies.stats().evictions, 0)
        self.assertNotIn('limits', near.end()[1])

    def test_two_near_caches(self):
        engine, first = self.cache(self.redis.client())
        second = tslab.NearCache(engine, first.pool, prefix='q:', name='second')
        self.near(self.redis)
        port = self.redis.port
        other = subprocess.Popen([TSLAB_NEAR, '--pool', self.daemon.socket, '--server', f'127.0.0.1:{port}', '--prefix=q:',
                                  '--name=second'])
        self.addCleanup(other.wait)
        self.addCleanup(other.terminate)
        self.wait_covered(first)
        self.wait_covered(second)
        engine.mset({'p:a': 'one', 'q:a': 'two'})
        wait_for(lambda: (first.get('a'), second.get('a')) == (b'one', b'two'))

    def test_a_server_that_takes_no_more(self):
        """A question that nobody reads does not end tslab-near by SIGPIPE."""
        path = os.path.join(self.daemon.dir, 'deaf.sock')
        server = Deaf(path)
        self.addCleanup(server.end)
        near = subprocess.Popen([TSLAB_NEAR, '--pool', self.daemon.socket, '--server', path, '--prefix=p:',
                                 f'--bound={BOUND_MS}'])
        self.addCleanup(near.wait)
        self.addCleanup(near.kill)
        wait_for(lambda: server.n_deaf >= 3 or near.poll() is not None)
        self.assertIsNone(near.poll())

    def test_few_descriptors(self):
        """It covers, or says why it cannot."""
        for limit in range(4, 24):
            done = subprocess.run([TSLAB_NEAR, '--pool', self.daemon.socket, '--server', f'127.0.0.1:{self.redis.port}',
                                   '--prefix=p:', '--check'], capture_output=True, text=True, check=False, timeout=SECONDS,
                                  preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
            self.assertEqual((limit, done.returncode in (0, 1, 127), bool(done.stderr)), (limit, True, True))

    @unittest.skipUnless(CAN_STEP and shutil.which('objdump'), 'breakpoints are for x86-64, with binutils')
    def test_the_last_words_of_a_server(self):
        """They are read where the connection is reset before it is written to, or while it is made."""
        addresses = {}
        for address, name in instructions(TSLAB_NEAR).items():
            addresses.setdefault(name, address)
        for function in 'stream_connect', 'stream_write':
            server = Resetting()
            self.addCleanup(server.end)
            near = self.near(server)
            self.assertTrue(server.come.acquire(timeout=SECONDS))
            with Stepper(near.process, TSLAB_NEAR) as stepper:
                stepper.plant([addresses[function]])
                server.go.release()
                self.assertTrue(server.gone.acquire(timeout=SECONDS))
                self.assertIsNotNone(stepper.run(lambda: False))
                self.assertTrue(server.come.acquire(timeout=SECONDS))
                server.go.release()
                self.assertTrue(server.gone.acquire(timeout=SECONDS))
            text = near.end()[1]
            for line in text.splitlines():
                self.assertIn('max number of clients reached; raise maxclients', line, function)

    def test_closed_streams(self):
        """No file of tslab-near gets the number of one: a server, or the loop, would receive its messages."""
        for closed in ([0, 1, 2], [2], [0]):
            engine, cache = self.cache(self.redis.client())
            near = subprocess.Popen([TSLAB_NEAR, '--pool', self.daemon.socket, '--server', f'127.0.0.1:{self.redis.port}',
                                     '--prefix=p:', f'--bound={BOUND_MS}'],
                                    preexec_fn=lambda numbers=closed: [os.close(n) for n in numbers])
            self.addCleanup(near.wait)
            self.addCleanup(near.kill)
            self.wait_covered(cache)
            files = {n: os.readlink(f'/proc/{near.pid}/fd/{n}') for n in map(int, os.listdir(f'/proc/{near.pid}/fd'))}
            self.assertEqual({files.get(n, '/') for n in closed}, {'/'}, files)
            engine.client_kill_filter(_type='pubsub')       # tslab-near logs that
            engine.set('p:a', f'new {closed}')
            wait_for(lambda: cache.get('a') == f'new {closed}'.encode())
            self.wait_covered(cache)
            self.assertIsNone(near.poll())
            near.kill()
            near.wait()

    def test_output_that_the_server_cuts(self):
        engine, cache = self.cache(self.redis.client())
        near = self.near(self.redis, bound_ms=LONG_MS)
        self.wait_covered(cache)
        engine.config_set('client-output-buffer-limit', 'pubsub 100kb 100kb 1')
        near.process.send_signal(signal.SIGSTOP)
        value = 'x' * 200
        wait_for(lambda: not engine.mset({f'p:{value}{i}': 1 for i in range(20_000)}) or all(
            c['name'] != 'tslab-near' or c['cmd'] == 'role' for c in engine.client_list()))
        near.process.send_signal(signal.SIGCONT)
        engine.set('p:probe', b'new')
        wait_for(lambda: cache.get('probe') == b'new')
        self.wait_covered(cache)
        self.assertIn('closed the connection', near.end()[1])


side.main()
