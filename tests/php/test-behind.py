"""Sessions of PHP in a real redis-server behind the pool, with tslab-near: two hosts, workers that are killed, an engine
that is away.

    test-behind.py TSLABD PHP EXTENSION TSLAB_NEAR [unittest arguments]
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from daemon import Daemon, free_port, wait_for
from fpm import Fpm, programs
from php import PHP, TSLABD, settings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'near'))
NAMES = sys.argv[5:]
sys.argv[3] = sys.argv[4]       # where servers.py looks for it
try:
    from servers import Near, Redis
except ImportError:
    print('skipped: python3-redis is needed')
    raise SystemExit(77) from None
if not shutil.which('redis-server'):
    print('skipped: redis-server is needed')
    raise SystemExit(77)

BOUND_MS = 60_000       # so copies stay covered while the engine is stopped, unless a case says otherwise
INI = {'session.save_handler': 'tslab', 'session.use_strict_mode': 1, 'session.gc_maxlifetime': 1000, 'session.cache_limiter': ''}
N_KILLS = 11            # workers, at least: users go on until so many were killed
KILLS_TIME = 60         # seconds, after which users stop all the same
CHANCE = random.Random(int(os.environ.get('TSLAB_TEST_SEED') or 1))

# A program that does what it is told, each line as a request does it.
WORKER = r'''
ob_start(fn () => '');
while (($line = fgets(STDIN)) !== false) {
        [$verb, $id, $value] = json_decode($line);
        error_clear_last();
        $result = null;
        if ($id !== null)
                session_id($id);
        elseif ($verb !== 'save' && session_status() !== PHP_SESSION_ACTIVE)
                session_id('');
        switch ($verb) {
        case 'login': @session_start(); $_SESSION['v'] = $value; @session_write_close(); $result = error_get_last() ? null : session_id(); break;
        case 'read': @session_start(); $result = [session_id() === $id, $_SESSION['v'] ?? null]; @session_write_close(); break;
        case 'set': @session_start(); $_SESSION['v'] = $value; @session_write_close(); $result = !error_get_last(); break;
        case 'begin': session_start(); $result = $_SESSION['v'] ?? null; break;
        case 'save': $_SESSION['v'] = $value; @session_write_close(); $result = !error_get_last(); break;
        case 'renew': @session_start(); @session_regenerate_id(true); $result = session_id(); @session_write_close(); break;
        case 'fork':
                @session_start();
                if (($pid = pcntl_fork()) === 0) {
                        $_SESSION['v'] = $value;
                        session_write_close();
                        exit;
                }
                pcntl_waitpid($pid, $status);
                $result = [$status, Tslab\Pool::open()->map('sessions')->lock("lock:$id")->acquire(0)];
                session_abort();
                break;
        case 'fork idly':
                @session_start();
                if (($pid = pcntl_fork()) === 0) {
                        if ($value)
                                exec('prlimit --nofile=0 --pid ' . getmypid());
                        exit;
                }
                pcntl_waitpid($pid, $result);
                @session_write_close();
                break;
        case 'logout': @session_start(); $result = @session_destroy(); break;
        }
        fwrite(STDERR, json_encode([$result, error_get_last()['message'] ?? null]) . "\n");
}
'''
# Pages with the same meaning.
PAGES = {
    'login': '''session_start(); $_SESSION['v'] = $_GET['v']; session_write_close(); echo 'in';''',
    'read': '''session_start(); echo $_SESSION['v'] ?? '-';''',
    'logout': '''session_start(); echo session_destroy() ? 'out' : 'failed';''',
}


class Worker:
    def __init__(self, daemon, path, **ini):
        self.log = os.path.join(daemon.dir, f'php{id(self)}.log')
        ini = {**INI, 'session.use_cookies': 0, 'session.save_path': f'"{path}"', 'error_log': self.log, **ini}
        options = [option for option in settings(daemon) if 'errors' not in option]
        self.process = subprocess.Popen([PHP, *options, '-dlog_errors=1', '-dhtml_errors=0', *(f'-d{k}={v}' for k, v in ini.items()),
                                         '-r', WORKER], env=daemon.environment, stdin=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.message = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait()
        self.process.stderr.close()

    def do(self, verb, session=None, value=None):
        self.process.stdin.write(json.dumps([verb, session, value]) + '\n')
        self.process.stdin.flush()
        answer = self.process.stderr.readline()
        result, self.message = json.loads(answer)
        return result

    def read(self, session):
        """The value; None: the session is gone."""
        is_same, value = self.do('read', session)
        assert is_same or value is None
        return value if is_same else None

    def messages(self):
        if not os.path.exists(self.log):
            return ''
        with open(self.log) as log:
            return log.read()


class Dripping:
    """A server whose answers come byte by byte, for 4 seconds."""

    def __init__(self):
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.is_heard = False       # to the end

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.thread.join()
        self.socket.close()

    def serve(self):
        connection = self.socket.accept()[0]
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)                   # INFO
            connection.sendall(b'$-1\r\n$-1\r\n')
            connection.recv(4096)                   # GET, PTTL
            for byte in b'$178\r\nv|s:167:"%s";\r\n:1000\r\n' % (b'x' * 167):
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
            self.is_heard = True


class Fixture(unittest.TestCase):
    SERVER = ()
    WHILE_AWAY = 'fail'
    BOUND_MS = BOUND_MS

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.redis = Redis(*self.SERVER)
        self.stack.callback(self.redis.end)
        self.client = self.redis.client()
        self.stack.callback(self.client.close)

    def host(self):
        """A pool, and its tslab-near."""
        daemon = self.stack.enter_context(Daemon(TSLABD, '--size=32M'))
        daemon.near = Near(daemon, self.redis, '--bound', str(self.BOUND_MS), '--prefix', 'session:')
        self.stack.callback(daemon.near.end)
        return daemon

    def path(self, more='', place=None):
        return f'behind={place or f"redis://127.0.0.1:{self.redis.port}"};wait=60;while_away={self.WHILE_AWAY};timeout=60{more}'

    def worker(self, daemon, more='', place=None, **ini):
        return self.stack.enter_context(Worker(daemon, self.path(more, place), **ini))

    def hasty(self, daemon):
        """For the time that the engine is away."""
        return self.worker(daemon, ';timeout=0.5')

    def n_asked(self):
        return self.client.info('commandstats').get('cmdstat_get', {'calls': 0})['calls']

    def await_copy(self, worker, session):
        """Until this worker's host reads it and asks nobody."""
        def is_kept():
            worker.read(session)
            n = self.n_asked()
            worker.read(session)
            return self.n_asked() == n

        wait_for(is_kept)

    def start_tls(self, *arguments):
        """Starts the server anew, with TLS, too: its URL, and PHP's setting for its certificate."""
        folder, port = self.redis.dir, free_port()
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days',
                        '2', '-keyout', f'{folder}/key', '-out', f'{folder}/cert', '-subj', '/CN=redis', '-addext',
                        'subjectAltName=IP:127.0.0.1'], check=True, capture_output=True)
        self.redis.kill()
        self.redis.arguments = [*self.redis.arguments, *arguments, '--tls-port', str(port), '--tls-cert-file', f'{folder}/cert',
                                '--tls-key-file', f'{folder}/key', '--tls-ca-cert-file', f'{folder}/cert', '--tls-auth-clients', 'no']
        self.redis.start()
        return f'rediss://127.0.0.1:{port}', {'openssl.cafile': f'{folder}/cert'}

    @contextlib.contextmanager
    def away(self):
        """The engine gives no answer."""
        self.redis.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.redis.process.send_signal(signal.SIGCONT)


class Values(Fixture):
    def test_two_hosts(self):
        hosts = self.host(), self.host()
        a, b = map(self.worker, hosts)
        session = a.do('login', value='alice')
        self.assertEqual(self.client.get(f'session:{session}'), b'v|s:5:"alice";')
        self.assertAlmostEqual(self.client.pttl(f'session:{session}'), 1000_000, delta=60_000)
        self.assertEqual([b.read(session), a.read(session)], ['alice'] * 2)
        for i in range(100):
            writer = (a, b)[i % 2]
            if i >= 2:      # only after it heard of the other one's: else the save would be refused
                wait_for(lambda w=writer, v=i - 1: w.read(session) == v)
            self.assertTrue(writer.do('set', session, i), writer.message)
            self.assertEqual(writer.read(session), i)
        self.await_copy(a, session)
        n = self.n_asked()
        self.assertEqual({a.read(session) for _ in range(100)}, {99})
        self.assertEqual(self.n_asked(), n)
        new = b.do('renew', session)
        self.assertEqual([b.read(session), b.read(new)], [None, 99])
        wait_for(lambda: a.read(session) is None)
        self.assertEqual(a.read(new), 99)
        self.assertEqual(a.messages() + b.messages(), '')

    @unittest.skipUnless(subprocess.run([PHP, '-n', '-r', 'exit((int) !function_exists("pcntl_fork"));']).returncode == 0, 'no pcntl')
    def test_a_child_that_is_forked_inside_of_a_session(self):
        """It does not write to the connection of its parent, which would take its answers for others, nor end its lock."""
        a = self.worker(self.host())
        session = a.do('login', value='alice')
        self.await_copy(a, session)     # tslab-near has made its connections
        n = self.client.info('stats')['total_connections_received']
        self.assertEqual(a.do('fork', session, 'of the child'), [0, False])
        self.assertEqual(a.read(session), 'of the child')
        self.assertEqual(self.client.info('stats')['total_connections_received'], n + 1)

    @unittest.skipUnless(shutil.which('openssl'), 'no openssl')
    def test_a_child_that_ends_beside_a_connection_by_tls(self):
        """It does not say farewell in the name of its parent."""
        place, ini = self.start_tls()
        a = self.worker(self.host(), place=place, **ini)
        session = a.do('login', value='alice')
        self.await_copy(a, session)
        n = self.client.info('stats')['total_connections_received']
        for has_no_descriptors in False, True:
            self.assertEqual(a.do('fork idly', session, has_no_descriptors), 0)
            self.assertTrue(a.do('set', session, f'bob {has_no_descriptors}'), a.message)
            self.assertEqual((self.client.info('stats')['total_connections_received'], a.messages()), (n, ''))

    def test_a_large_one(self):
        a = self.worker(self.host())
        value = 'x' * 700_000
        session = a.do('login', value=value)
        self.await_copy(a, session)
        self.assertEqual(a.read(session), value)

    def test_a_logout_never_comes_back(self):
        hosts = self.host(), self.host()
        a, b, other = *map(self.worker, hosts), self.worker(hosts[0], ';lock=version')
        for _ in range(20):
            session = a.do('login', value='alice')
            self.await_copy(a, session)
            self.await_copy(b, session)
            # Where it was made nobody reads it again, even if tslab-near is not heard meanwhile.
            hosts[0].near.process.send_signal(signal.SIGSTOP)
            self.assertTrue(a.do('logout', session))
            self.assertEqual([a.read(session), other.read(session)], [None] * 2)
            hosts[0].near.process.send_signal(signal.SIGCONT)
            wait_for(lambda session=session: b.read(session) is None)
            self.assertEqual({w.read(session) for w in (a, b) for _ in range(20)}, {None})

    def test_a_save_after_a_logout_elsewhere_is_refused(self):
        a, b = self.worker(self.host()), self.worker(self.host())
        session = a.do('login', value='alice')
        self.assertEqual(b.do('begin', session), 'alice')
        self.assertTrue(a.do('logout', session))
        self.assertFalse(b.do('save', value='bob'))
        self.assertIsNone(self.client.get(f'session:{session}'))
        # And so is one after another save.
        session = a.do('login', value='alice')
        self.assertEqual(b.do('begin', session), 'alice')
        self.assertTrue(a.do('set', session, 'carol'))
        self.assertFalse(b.do('save', value='bob'))
        self.assertEqual(a.read(session), 'carol')

    def test_lifetimes(self):
        a = self.worker(self.host())
        session = a.do('login', value='alice')
        self.await_copy(a, session)
        n = self.client.info('commandstats').get('cmdstat_pexpire')
        self.assertEqual({a.read(session) for _ in range(20)}, {'alice'})
        self.assertEqual(self.client.info('commandstats').get('cmdstat_pexpire'), n)     # most of it is left
        self.client.pexpire(f'session:{session}', 800_000)
        wait_for(lambda: a.read(session) and self.client.pttl(f'session:{session}') > 900_000)
        self.client.pexpire(f'session:{session}', 1)
        wait_for(lambda: not self.client.exists(f'session:{session}'))
        wait_for(lambda: a.read(session) is None)

    def test_without_a_lock_the_last_save_counts(self):
        daemon = self.host()
        a, b = (self.worker(daemon, ';lock=none') for _ in range(2))
        session = a.do('login', value='alice')
        b.do('begin', session)
        self.assertTrue(a.do('set', session, 'carol'))
        self.assertTrue(b.do('save', value='bob'))
        self.assertEqual(a.read(session), 'bob')


class Trouble(Fixture):
    SERVER = '--appendonly', 'yes', '--appendfsync', 'always'

    def test_a_connection_that_was_closed(self):
        a = self.worker(self.host())
        session = a.do('login', value='alice')
        self.redis.kill()
        self.redis.start()
        self.assertEqual(a.read(session), 'alice')
        self.client.client_kill_filter(_type='normal', skipme=True)
        self.assertTrue(a.do('set', session, 'bob'))
        self.assertEqual((self.client.get(f'session:{session}'), a.messages()), (b'v|s:3:"bob";', ''))

    def test_without_a_pool(self):
        self.BOUND_MS = 2000
        daemon = self.host()
        a = self.worker(daemon)
        session = a.do('login', value='alice')
        self.await_copy(a, session)
        daemon.process.kill()
        daemon.process.wait()
        fresh = self.worker(daemon)
        self.assertEqual([fresh.read(session), a.read(session)], ['alice'] * 2)
        self.assertTrue(fresh.do('set', session, 'bob'))
        self.assertIn('not locked', fresh.messages())
        self.assertIn('engine is asked instead', fresh.messages())
        daemon.process = subprocess.Popen([*daemon.command, '--fresh'], env=daemon.environment)
        wait_for(daemon.answers)
        daemon.near.wait()
        daemon.near.start()
        wait_for(lambda: a.read(session) == 'bob')
        self.await_copy(a, session)
        self.await_copy(fresh, session)

    def test_the_engine_is_away(self):
        daemon = self.host()
        a, hasty = self.worker(daemon), self.hasty(daemon)
        session, other = a.do('login', value='alice'), a.do('login', value='bob')
        self.await_copy(a, session)
        with self.away():
            self.assertEqual(hasty.read(session), 'alice')          # covered
            self.assertEqual(hasty.do('begin', other), None)
            self.assertTrue(hasty.do('save', value='carol'))        # nothing is saved of a session that was not read
            self.assertIn('will not be saved', hasty.messages())
            self.assertFalse(hasty.do('set', session, 'dave'))
            self.assertFalse(hasty.do('logout', session))
        wait_for(lambda: a.read(other) == 'bob')
        wait_for(lambda: self.client.ping() and a.read(session) in ('alice', 'dave', None))

    def test_it_refuses(self):
        daemon = self.host()
        for place, text in ((f'redis://:w0rd@127.0.0.1:{self.redis.port}', 'AUTH'),
                            (f'redis://nobody:w0rd@127.0.0.1:{self.redis.port}', 'WRONGPASS'),
                            (f'redis://127.0.0.1:{self.redis.port}/99', 'DB index'),
                            (f'redis://127.0.0.1:{free_port()}', 'refused'),
                            ('unix:///nothing', 'No such file')):
            a = self.worker(daemon, ';lock=version', place)
            self.assertIsNone(a.do('begin', 'a' * 32))
            self.assertIn(text, a.messages(), place)
            self.assertNotIn('w0rd', a.messages())
        for wrong in ('http://x', 'redis://', 'redis://x/y', 'unix://', 'unix:///x?db=y', 'redis://user@x', 'redis://x;timeout=inf',
                      'redis://x;wait=inf'):
            a = self.worker(daemon, place=wrong)
            a.do('begin', 'a' * 32)
            self.assertIn('session.save_path', a.message + a.messages(), wrong)
        a = self.worker(daemon)
        self.client.lpush(f'session:{"b" * 32}', 'x')
        self.assertIsNone(a.do('begin', 'b' * 32))
        self.assertIn('WRONGTYPE', a.messages())
        primary = free_port()
        self.client.replicaof('127.0.0.1', primary)
        self.client.client_kill_filter(_type='normal', skipme=True)
        a = self.worker(daemon)
        self.assertIsNone(a.do('begin', 'c' * 32))
        self.assertIn('a replica', a.messages())

    def test_an_answer_in_small_pieces(self):
        """The time is that of the whole answer."""
        with Dripping() as server:
            a = self.worker(self.host(), ';timeout=0.5;lock=version', f'redis://127.0.0.1:{server.port}')
            self.assertIsNone(a.do('begin', 'a' * 32))
            self.assertIn('no answer', a.messages())
        self.assertFalse(server.is_heard)

    def test_places(self):
        """A user with the rights of the page, a database, a Unix socket, by TLS."""
        daemon, folder = self.host(), self.stack.enter_context(tempfile.TemporaryDirectory())
        places = [f'redis://web:w%40rd@127.0.0.1:{self.redis.port}', f'valkey://localhost:{self.redis.port}/2',
                  f'unix://{folder}/redis.sock', f'unix://web:w%40rd@{folder}/redis.sock?db=3']
        ini = {}
        if shutil.which('openssl'):
            place, ini = self.start_tls('--unixsocket', f'{folder}/redis.sock')
            places.append(place)
        else:
            self.redis.kill()
            self.redis.arguments = [*self.redis.arguments, '--unixsocket', f'{folder}/redis.sock']
            self.redis.start()
        self.client.execute_command('ACL', 'SETUSER', 'web', 'on', '>w@rd', 'resetchannels', '~session:*', '+get', '+pttl', '+set',
                                    '+del', '+pexpire', '+eval', '+info', '+ping', '+select')
        for place in places:
            a = self.worker(daemon, place=place, **ini)
            session = a.do('login', value=place)
            self.assertEqual((a.read(session), a.do('logout', session), a.read(session)), (place, True, None))
            self.assertEqual(a.messages(), '')
        if ini:     # a certificate that nobody vouches for
            a = self.worker(daemon, place=places[-1])
            self.assertIsNone(a.do('begin', 'd' * 32))
            self.assertNotEqual(a.messages(), '')


class Stale(Fixture):
    WHILE_AWAY = 'stale'
    BOUND_MS = 2000

    def test_while_the_engine_is_away(self):
        daemon = self.host()
        a, hasty = self.worker(daemon), self.hasty(daemon)
        session, ended, lost = (a.do('login', value=name) for name in ('alice', 'bob', 'carol'))
        self.assertTrue(a.do('set', session, 'dave'))
        for one in session, ended, lost:
            self.await_copy(a, one)
        self.assertTrue(a.do('logout', ended))
        with self.away():
            def is_uncovered():
                return 'read as they were' in hasty.messages() or hasty.read(session) != 'dave'

            wait_for(is_uncovered)
            self.assertEqual([hasty.read(session), hasty.read(lost), hasty.do('read', ended)[1]], ['dave', 'carol', None])
            self.assertFalse(hasty.do('set', session, 'erin'))
            self.assertEqual(hasty.read(session), 'dave')
            self.assertFalse(hasty.do('logout', lost))
            self.assertNotEqual(hasty.do('read', lost)[1], 'carol')     # it has ended on this host
        wait_for(lambda: self.client.ping())
        self.assertIsNone(a.read(ended))


class Fpms(Fixture):
    """php-fpm behind nginx."""

    SERVER = '--maxmemory', '200mb'
    BOUND_MS = 2000

    def setUp(self):
        if not all(programs()):
            self.skipTest('php-fpm and nginx are needed')
        super().setUp()
        self.work = self.stack.enter_context(tempfile.TemporaryDirectory())
        for name, text in PAGES.items():
            with open(f'{self.work}/{name}.php', 'w') as page:
                page.write(f'<?php {text}')

    def fpm(self, n_workers):
        self.daemon = self.host()
        return self.stack.enter_context(Fpm(self.daemon, self.work, n_workers,
                                            {**INI, 'session.save_path': f'"{self.path(";lock=claim")}"'}))

    def ask(self, fpm, path, session):
        """Until it is answered."""
        while True:
            with contextlib.suppress(OSError):
                status, text, given = fpm.ask(path, session)
                if status == 200 and text:
                    return text, given

    def test_workers_that_are_killed(self):
        """Nothing that was answered is lost, and no session that was ended comes back, on this host or the other one."""
        fpm, other = self.fpm(4), self.worker(self.host())
        stop, killed, wrong, end = threading.Event(), [], [], time.monotonic() + KILLS_TIME

        def kill():
            while not stop.wait(CHANCE.random() * 0.02):
                workers = fpm.workers()
                if len(workers) == 4:
                    killed.append(CHANCE.choice(workers))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(killed[-1], signal.SIGKILL)

        def live(name, over=[]):        # noqa: B006 (shared)
            for i in itertools.count():
                if i >= 8 and (len(killed) >= N_KILLS or time.monotonic() > end):
                    break
                value = f'{name}-{i}'
                session = self.ask(fpm, f'/login?v={value}', None)[1]
                for _ in range(3):
                    text = self.ask(fpm, '/read', session)[0]
                    if text != value:
                        wrong.append((value, text))
                while self.ask(fpm, '/logout', session)[0] != 'out':
                    pass
                over.append(session)
                for one in CHANCE.sample(over, min(3, len(over))):
                    text = self.ask(fpm, '/read', one)[0]
                    if text != '-':
                        wrong.append((one, text))
            return over

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            users = [threading.Thread(target=live, args=(f'user{i}',)) for i in range(4)]
            for user in users:
                user.start()
            for user in users:
                user.join()
        finally:
            stop.set()
            killer.join()
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(len(killed), N_KILLS)
        over = live('last')
        wait_for(lambda: not any(other.read(session) for session in over))
        self.assertFalse(any(self.client.exists(f'session:{session}') for session in over))
        print(len(killed), 'workers were killed')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + NAMES, verbosity=2)
