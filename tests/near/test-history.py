"""No read returns a version that had been replaced for longer than the bound, whatever happens to servers and daemons.

8 workers on two "hosts" read; they and a program elsewhere write. In full, each case goes on for longer.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))

import redis  # noqa: E402
import redis.sentinel  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
from history import History  # noqa: E402
from hosts import Case, Cluster, Near, World, is_kept, patiently, wait_for  # noqa: E402
from proxy import Proxy  # noqa: E402
from daemon import Daemon  # noqa: E402
from servers import Counted, Redis, Sentinel  # noqa: E402

SECONDS = 10 if side.FULL else 0.5   # before and after a disturbance
BOUND_MS = 300
TSLABD = os.path.abspath(sys.argv[1])


def n_questions(port):
    """How many connections of a server have something that it has not read."""
    with open('/proc/net/tcp') as file:
        lines = [line.split() for line in file.readlines()[1:]]
    return sum(int(line[1].split(':')[1], 16) == port and line[3] == '01' and int(line[4].split(':')[1], 16) > 0
               for line in lines)


class CheckerTest(unittest.TestCase):
    """Histories that are made up."""

    def judge(self, *lines):
        with tempfile.NamedTemporaryFile('w') as file:
            file.write('\n'.join(lines) + '\n')
            file.flush()
            return History([file.name]).judge(100)

    def expect(self, n_faults, oldest, *lines):
        verdict = self.judge(*lines)
        self.assertEqual((len(verdict.faults), verdict.oldest_ns), (n_faults, oldest), verdict.faults)

    def test_ages(self):
        writes = 'install a 1 1000 1010 1 1', 'install a 2 2000 2010 1 1'
        for begin, n_faults, oldest in (1990, 0, 0), (2005, 0, 0), (2110, 0, 100), (2111, 1, 101):
            self.expect(n_faults, oldest, *writes, f'read w a 1 1020 1030 {begin} {begin + 1} 2')
        self.expect(0, 0, *writes, 'read w a 2 2001 2002 9000 9001 2')
        self.expect(1, 0, *writes, 'read w a 2 1997 1998 9000 9001 2')      # before anybody wrote it
        self.expect(2, 0, *writes, 'read w a 3 5000 5001 5000 5001 1')
        self.expect(0, 0, *writes, 'read w a 0 10 11 990 991 2')
        self.expect(1, 490, *writes, 'read w a 0 10 11 1500 1501 2')

    def test_a_write_that_nobody_knows_the_end_of(self):
        writes = 'install a 1 1000 1010 1 1', 'install a 2 2000 0 1 1'
        self.expect(0, 0, *writes, 'read w a 1 1020 1030 9000 9010 2')
        self.expect(0, 0, *writes, 'install a 3 3000 3010 1 1', 'read w a 2 9000 9010 9000 9010 1')

    def test_writes_at_one_time(self):
        writes = 'install a 1 1000 1100 1 1', 'install a 2 1050 1150 1 1'
        for version in 1, 2:
            self.expect(0, 0, *writes, f'read w a {version} 1100 1110 9000 9010 2')

    def test_a_write_that_a_failover_lost(self):
        for copied, n_faults in (0, 0), (1, 1):
            self.expect(n_faults, n_faults * 990, 'install a 1 1000 1010 7 1', f'install a 2 2000 2010 7 {copied}',
                        'lossy 7 2500', 'read w a 1 1020 1030 3000 3010 2')

    def test_versions_that_come_back(self):
        lines = 'install a 1 1000 1010 1 1', 'install a 2 2000 2010 1 1', 'install * 1 3000 3010 1 1'
        self.expect(0, 0, *lines, 'read w a 1 9000 9010 9000 9010 1')
        self.expect(1, 490, *lines, 'read w a 1 1020 1030 2500 2510 2')
        self.expect(2, 5990, *lines, 'read w a 2 9000 9010 9000 9010 1')


class AloneTest(Case):
    """One server, and tslab-near by way of a proxy on one of the hosts."""

    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.end)
        self.proxy = Proxy(self.redis.port)
        self.addCleanup(self.proxy.end)

    def world(self, **more):
        return self.enterContext(World([[self.proxy.port], [self.redis.port]], [self.redis.port], BOUND_MS, **more))

    def test_nothing_happens(self):
        world = self.world(is_quiet=True)
        time.sleep(2 * SECONDS)
        verdict = self.expect_fresh(world)
        self.assertLess(verdict.questions, verdict.reads / 2)     # 0.06 alone, 0.18 beside 8 spinners on one CPU

    def test_lost_messages_are_seen(self):
        """The checker sees a fault that is there."""
        world = self.world()
        self.proxy.is_lossy = True
        world.wait_writes()
        time.sleep(2 * SECONDS)
        self.assertIn('after it had been replaced', ''.join(world.judge().faults))


    def test_flushall(self):
        world = self.world()
        with self.redis.client() as client:
            for _ in range(3):
                time.sleep(SECONDS / 2)
                with world.absent():
                    client.flushall()
        world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(world)

    def test_a_server_that_stops_for_longer_than_the_bound(self):
        world = self.world()
        for _ in range(2):
            time.sleep(SECONDS / 2)
            self.redis.process.send_signal(signal.SIGSTOP)
            time.sleep(3 * BOUND_MS / 1000)
            self.redis.process.send_signal(signal.SIGCONT)
            world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(world)

    def test_cut_connections(self):
        world = self.world()
        for _ in range(5):
            time.sleep(SECONDS / 4)
            self.proxy.cut()
            world.wait_covered()
        with self.redis.client() as client:
            for _ in range(5):
                time.sleep(SECONDS / 4)
                for one in client.client_list():
                    if one['name'] == 'tslab-near':
                        client.client_kill_filter(_id=one['id'])
                world.wait_covered()
        self.expect_fresh(world)

    def test_half_a_message(self):
        world = self.world()
        for _ in range(5):
            time.sleep(SECONDS / 4)
            self.proxy.is_halving = True
            wait_for(lambda: not self.proxy.is_halving, 'a message is cut in two')
            world.wait_covered()
        self.expect_fresh(world)

    def test_a_network_that_is_silent(self):
        """One host hears nothing, and does not know, while all others write."""
        world = self.world()
        for _ in range(2):
            time.sleep(SECONDS / 2)
            self.proxy.is_silent = True
            time.sleep(3 * BOUND_MS / 1000)
            self.proxy.is_silent = False
            world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(world)

    def test_the_connection_of_changes_is_silent(self):
        """The other one, by which the server is asked for its role, goes on."""
        world = self.world()
        time.sleep(SECONDS)
        self.proxy.is_half_silent = True
        time.sleep(3 * BOUND_MS / 1000)
        self.proxy.is_half_silent = False
        world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(world)

    def test_a_slow_network(self):
        """Changes are told late: copies are covered as long as that is less than the bound."""
        world = self.world()
        self.proxy.delay = BOUND_MS / 4000
        time.sleep(2 * SECONDS)
        self.assertTrue(world.hosts[0].is_covered_for_a_while())
        self.proxy.delay = 1.3 * BOUND_MS / 1000
        time.sleep(3 * SECONDS)
        self.proxy.delay = 0
        world.wait_covered()
        self.expect_fresh(world)

    def test_a_server_that_begins_without_data(self):
        world = self.world()
        for _ in range(2):
            time.sleep(SECONDS / 2)
            with world.absent():
                self.redis.kill()
                self.redis.start()
            world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(world)


@unittest.skipUnless(side.IS_ALONE and shutil.which('ss'), 'no network of our own')
class NetworkTest(Case):
    """The kernel drops packets and ends connections."""

    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.end)
        self.world = self.enterContext(World([[self.redis.port]] * 2, [self.redis.port], BOUND_MS))
        time.sleep(SECONDS)

    def test_the_network_is_down(self):
        self.addCleanup(subprocess.run, [*side.LINK, 'up'], check=True)
        for _ in range(3 if side.FULL else 1):
            subprocess.run([*side.LINK, 'down'], check=True)
            time.sleep(2 * BOUND_MS / 1000)
            self.assertFalse(any(host.is_covered() for host in self.world.hosts))
            subprocess.run([*side.LINK, 'up'], check=True)
            self.world.wait_covered()
            time.sleep(SECONDS)
        self.expect_fresh(self.world)

    def test_the_kernel_ends_connections(self):
        kill = ['ss', '--kill', '--numeric', 'sport', '=', f':{self.redis.port}']
        if b'ESTAB' not in subprocess.run(kill, capture_output=True, check=True).stdout:
            self.skipTest('this kernel ends no connections (CONFIG_INET_DIAG_DESTROY)')
        for _ in range(5):
            self.world.wait_covered()
            subprocess.run(kill, capture_output=True, check=True)
        self.world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(self.world)


class ReplicaTest(Case):
    """A replica that has old data takes the primary's place: versions go back."""

    def setUp(self):
        self.old, self.new = Redis(), Redis()
        self.addCleanup(self.old.end)
        self.addCleanup(self.new.end)
        self.to_old, self.to_new = Proxy(self.old.port), Proxy(self.new.port)
        self.addCleanup(self.to_old.end)
        self.addCleanup(self.to_new.end)
        ports = [self.old.port, self.new.port]
        with self.new.client() as client:
            client.slaveof('127.0.0.1', self.to_old.port)
            wait_for(lambda: client.role()[3] == b'connected', 'the replica has all')
        self.world = self.enterContext(World([ports, ports], [self.old.port], BOUND_MS))
        time.sleep(SECONDS)
        self.to_old.is_silent = True        # the replica hears no more
        time.sleep(SECONDS)

    @contextlib.contextmanager
    def taken_over(self):
        """The replica is the primary. The engine's clients knew before, so that no old answer is kept with it."""
        versions = {}
        with self.world.write_lock, self.world.replaced(versions), self.new.client() as client:
            yield
            self.world.engine_ports.set([self.new.port])
            client.slaveof()
            for key in self.world.keys:
                versions[key] = int(client.get('p:' + key) or 0)

    def test_the_primary_was_killed(self):
        with self.taken_over():
            self.old.kill()
        self.world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(self.world)

    def test_the_primary_becomes_a_replica_that_hears_nothing(self):
        """It goes on answering tslab-near, which is connected to it."""
        with self.taken_over():
            self.to_new.is_silent = True
            with self.old.client() as client:
                client.slaveof('127.0.0.1', self.to_new.port)
        time.sleep(SECONDS)
        self.world.wait_covered()
        time.sleep(SECONDS)
        self.expect_fresh(self.world)


class AddressTest(unittest.TestCase):
    """A server is replaced by another one at its address. Connections to the old one go on, and it does not know."""

    def setUp(self):
        self.old, self.new = Redis(), Redis()
        self.proxy = Proxy(self.old.port)
        for one in self.old, self.new, self.proxy:
            self.addCleanup(one.end)
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.near = Near(self.daemon, [self.proxy.port], BOUND_MS)
        self.addCleanup(self.near.end)
        self.pool = self.enterContext(tslab.open(self.daemon.socket))
        self.before = self.cache()
        for server in self.old, self.new:
            with server.client() as client:
                client.set('p:a', 'old')
                client.set('p:probe', 'old')
        self.wait_covered(self.before)
        self.assertEqual(self.before.get('a'), b'old')

    def cache(self):
        client = self.enterContext(redis.Redis('127.0.0.1', self.proxy.port))
        return tslab.NearCache(Counted(client), self.pool, prefix='p:')

    def wait_covered(self, cache):
        wait_for(lambda: is_kept(cache, ['probe']), 'copies are covered')

    def move(self):
        self.proxy.target = self.new.port
        with self.new.client() as client:
            client.set('p:a', 'new')
            client.set('p:b', 'new')

    def test_old_connections(self):
        """A program that has one fills nothing, and connects anew."""
        self.near.kill()
        self.move()
        self.near.start_and_cover()
        after = self.cache()
        self.wait_covered(after)
        asked = []
        with self.old.client() as client:
            client.set('p:b', 'old')
            for key in 'a', 'b', 'a', 'b':
                asked.append(self.before.get(key))
                self.assertEqual(after.get(key), b'new')
        self.assertEqual(asked, [b'new'] * 4)

    def test_an_old_answer_that_is_not_asked_for_anew(self):
        """As a program does that is killed then, or is no Python program: nobody else reads its answer."""
        self.near.kill()
        self.move()
        self.near.start_and_cover()
        after = self.cache()
        self.wait_covered(after)
        with self.old.client() as client:
            run_id = client.info('server')['run_id'].encode()
        for server in run_id, None:
            known, _, claim = self.before._look(b'p:a', 0)
            self.assertFalse(known)
            self.assertNotEqual(claim.claim.copy, 0)
            self.before._fill(b'p:a', claim, server, b'old', -1)
            self.assertNotEqual(self.before._look(b'p:a', 0)[1], b'old')
            self.before.drop('a')
        self.assertEqual(after.get('a'), b'new')

    def test_the_address_moves(self):
        """Also tslab-near has connections to the old server, which go on."""
        self.move()
        after = self.cache()
        time.sleep(BOUND_MS / 1000)
        end = time.monotonic() + 3 * BOUND_MS / 1000
        while time.monotonic() < end:
            self.assertEqual(after.get('a'), b'new')
        self.wait_covered(after)


def is_primary(client):
    """A replica that takes over closes its connections."""
    with contextlib.suppress(redis.ConnectionError):
        return client.role()[0] == b'master'


class SentinelTest(unittest.TestCase):
    def setUp(self):
        self.servers = [Redis('--repl-diskless-sync-delay', '0') for _ in range(2)]
        self.sentinels = []
        for server in self.servers:
            self.addCleanup(server.end)
        with self.servers[1].client() as client:
            client.slaveof('127.0.0.1', self.servers[0].port)
            wait_for(lambda: client.role()[3] == b'connected', 'the replica has all')
        self.sentinels = [Sentinel(self.servers[0].port) for _ in range(2)]
        for sentinel in self.sentinels:
            self.addCleanup(sentinel.end)
            wait_for(lambda sentinel=sentinel: sentinel.n_others() == (1, 1), 'the Sentinel knows all')
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.near = Near(self.daemon, [sentinel.port for sentinel in self.sentinels], BOUND_MS, '--sentinel', 'main')
        self.addCleanup(self.near.end)
        finder = redis.sentinel.Sentinel([('127.0.0.1', sentinel.port) for sentinel in self.sentinels])
        self.engine = finder.master_for('main', socket_timeout=1)
        self.cache = tslab.NearCache(Counted(self.engine), self.enterContext(tslab.open(self.daemon.socket)), prefix='p:')
        wait_for(self.is_covered, 'copies are covered')

    def is_covered(self):
        return is_kept(self.cache, ['probe'])

    def test_failover(self):
        self.engine.set('p:a', 'old')
        wait_for(lambda: self.cache.get('a') == b'old', 'the value is there')
        self.engine.execute_command('WAIT', 1, 5000)
        with redis.Redis('127.0.0.1', self.sentinels[0].port) as client:
            client.execute_command('SENTINEL', 'FAILOVER', 'main')
        with self.servers[1].client() as client:
            wait_for(lambda: is_primary(client), 'the replica takes over')
            client.set('p:a', 'new')
        self.wait_new()

    def test_the_primary_and_a_sentinel_are_killed(self):
        self.engine.set('p:a', 'old')
        self.engine.execute_command('WAIT', 1, 5000)
        self.sentinels[0].end()
        wait_for(self.is_covered, 'copies are covered')
        with Sentinel(self.servers[0].port) as third:       # two have to agree
            wait_for(lambda: third.n_others()[0] >= 1, 'the Sentinels know each other')
            self.servers[0].kill()
            with self.servers[1].client() as client:
                wait_for(lambda: is_primary(client), 'the replica takes over')
                client.set('p:a', 'new')
            self.wait_new()

    def wait_new(self):
        wait_for(self.is_new, 'the new value is read')
        wait_for(self.is_covered, 'copies are covered')
        self.assertEqual(self.cache.get('a'), b'new')

    def is_new(self):
        with contextlib.suppress(redis.RedisError, tslab.Error):
            return self.cache.get('a') == b'new'

    def test_names(self):
        for name, text in ('other', 'watches no primary'), ('', 'the name of a primary'):
            done = subprocess.run([*self.near.command, '--sentinel', name, '--name=other', '--check'], text=True,
                                  stderr=subprocess.PIPE, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_a_replica_is_refused(self):
        finder = redis.sentinel.Sentinel([('127.0.0.1', self.sentinels[0].port)])
        with self.assertRaisesRegex(ValueError, 'replicas'):
            tslab.NearCache(finder.slave_for('main'), self.cache.pool, prefix='p:')
        with self.servers[1].client() as client, self.assertRaisesRegex(tslab.EngineError, 'replica'):
            tslab.NearCache(client, self.cache.pool, prefix='p:').get('a')


class ClusterFixture(Case):
    """Three primaries with a replica each."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.enterClassContext(contextlib.ExitStack()))

    def setUp(self):
        wait_for(self.cluster.is_whole, 'the cluster is whole')
        ports, self.failures = self.cluster.ports(), self.cluster.failures()
        self.world = self.enterContext(World([ports, ports[::-1]], ports, BOUND_MS, wait_ms=50))
        time.sleep(SECONDS)

    def expect_fresh_after(self):
        self.world.wait_covered()
        time.sleep(SECONDS)
        for port in self.cluster.failures() - self.failures:
            self.world.log.lossy(port)
        self.expect_fresh(self.world)

    def is_primary(self, server):
        return server in self.cluster.primaries()


class ClusterTest(ClusterFixture):
    """Primaries fail."""

    def test_a_primary_is_killed(self):
        primary = self.cluster.primaries()[0]
        replica = self.cluster.replica_of(primary)
        with self.cluster.failing_over():
            primary.kill()
            wait_for(lambda: self.is_primary(replica), 'the replica takes over')
            self.world.wait_covered()
            time.sleep(SECONDS / 2)
            primary.start()
        self.assertIn(primary.port, self.cluster.failures() - self.failures)
        self.expect_fresh_after()

    def test_a_primary_stops_for_longer_than_the_bound(self):
        primary = self.cluster.primaries()[0]
        primary.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * BOUND_MS / 1000)
        primary.process.send_signal(signal.SIGCONT)
        self.expect_fresh_after()

    def test_an_old_primary_answers_as_it_wakes(self):
        """Its answers are old, and must not become copies."""
        host = self.world.hosts[0]
        primary = self.cluster.primaries()[0]
        names = self.cluster.keys_of(primary, [f'p:wake{i}' for i in range(100)])
        for name in names:
            patiently(host.engine.set, name, 'old')
        with primary.client() as client:
            client.wait(1, 5000)
        caches = [(tslab.NearCache(self.enterContext(primary.client()), host.pool, prefix='p:'), name) for name in names]
        for cache, name in caches:          # connects: later questions wait in the primary's sockets
            cache.get(name[2:])
            cache.drop(name[2:])
        replica = self.cluster.replica_of(primary)
        with self.cluster.failing_over():
            primary.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: self.is_primary(replica), 'the replica takes over')
            self.world.wait_covered()
            with replica.client() as client:
                for name in names:
                    client.set(name, 'new')
            with self.world.unasked(primary.port):
                askers = [threading.Thread(target=self.ask_alone, args=(cache, name)) for cache, name in caches]
                for asker in askers:
                    asker.start()
                wait_for(lambda: n_questions(primary.port) >= len(names), 'the questions wait in the primary\'s sockets')
                primary.process.send_signal(signal.SIGCONT)
                for asker in askers:
                    asker.join()
                wait_for(self.cluster.is_whole, 'the cluster is whole')
        self.world.wait_covered()
        wait_for(lambda: self.values(host, names) == {b'new'}, 'no old answer stays')
        self.expect_fresh_after()

    @staticmethod
    def values(host, names):
        with contextlib.suppress(redis.RedisError):
            return {host.cache.get(name[2:]) for name in names}

    def ask_alone(self, cache, name):
        """By a client that knows this server alone."""
        with contextlib.suppress(redis.RedisError, tslab.Error):
            cache.get(name[2:])


class ClusterChangeTest(ClusterFixture):
    """Keys, slots and roles go as an operator wants it."""

    def test_flushall(self):
        for _ in range(2):
            with self.world.absent():
                for primary in self.cluster.primaries():
                    with primary.client() as client:
                        client.flushall()
            time.sleep(SECONDS)
        self.expect_fresh_after()

    def take_over(self, replica):
        """Asks again: the others do not vote twice about one primary within two of the nodes' time limits."""
        with replica.client() as client:
            with contextlib.suppress(redis.ResponseError):      # it did by now
                client.execute_command('CLUSTER FAILOVER')
            for _ in range(100):
                if client.role()[0] == b'master':
                    return True
                time.sleep(0.01)
        return False

    def test_manual_failovers(self):
        with self.cluster.failing_over():
            for _ in range(3):
                wait_for(self.cluster.is_whole, 'the cluster is whole')
                replica = self.cluster.replica_of(random.choice(self.cluster.primaries()))
                wait_for(lambda replica=replica: self.take_over(replica), 'the replica takes over')
                self.world.wait_covered()
        self.expect_fresh_after()

    def test_slots_move(self):
        source, target = self.holders()[:2]
        self.cluster.move_slots(source, target, self.keys_of(source)[:3], SECONDS)
        self.expect_fresh_after()

    def test_slots_move_to_a_server_that_has_none(self):
        """As long as a slot moves, the new server's changes have to be heard, too."""
        source, target = self.holders()[0], self.cluster.join_server()
        self.world.engine_ports.set(self.cluster.ports())
        names = self.keys_of(source)[:1]
        self.cluster.move_slots(source, target, names, 4 * SECONDS)
        self.world.wait_covered()
        self.cluster.move_slots(target, source, names, 2 * SECONDS)
        self.expect_fresh_after()

    def keys_of(self, server):
        return self.cluster.keys_of(server, ['p:' + key for key in self.world.keys])

    def holders(self):
        """Primaries with keys of ours, the most first."""
        found = {server: len(self.keys_of(server)) for server in self.cluster.primaries()}
        return sorted((server for server in found if found[server]), key=found.get, reverse=True)


side.main()
