"""Two "hosts", each with a pool, its tslabd and its tslab-near; workers that read and write beside them; a cluster."""

import collections
import contextlib
import itertools
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import redis
import tslab
from daemon import Daemon, free_port
from engine import Engine
from history import History, Log, Reads, percentile
from servers import Redis

TSLABD, TSLABCTL, TSLAB_NEAR = map(os.path.abspath, sys.argv[1:4])
KEYS = [f'k{i}' for i in range(10)]
RARE = ['rare0', 'rare1']       # a change of them that is missed stays for longer than the bound
RARITY = 0.02
WORKERS = 4             # a host; the first of them writes, too
HASTY_MS, CALM_MS = 1000, 10_000      # of a cluster: for so long a server may be silent
PROBES = [f'probe{i}' for i in range(12)]
PATIENCE = 40           # seconds, for anything
WRITES_MIN = 50         # a case says nothing of fewer
FORK = multiprocessing.get_context('fork')


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f'waited in vain: {what}')
        time.sleep(0.01)
    return found


def patiently(call, *arguments):
    """Calls it until the engine answers in time, which beside others takes more than one try."""
    def is_done():
        with contextlib.suppress(redis.RedisError):
            call(*arguments)
            return True

    wait_for(is_done, 'the engine answers')


def is_kept(cache, keys):
    """Whether second gets of these keys ask nobody."""
    n = None
    try:
        for _ in range(2):
            n = cache.engine.n
            for key in keys:
                cache.get(key)
    except redis.RedisError:
        return False
    return cache.engine.n == n


class Near:
    """tslab-near, whose messages go to a file."""

    def __init__(self, daemon, ports, bound_ms, *arguments):
        self.command = [TSLAB_NEAR, '--pool', daemon.socket, '--prefix', 'p:', '--bound', str(bound_ms), '--server',
                        ','.join(f'127.0.0.1:{port}' for port in ports), *arguments]
        self.log = os.path.join(daemon.dir, 'near.log')
        self.start()

    def start(self):
        with open(self.log, 'a') as log:
            self.process = subprocess.Popen(self.command, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def start_and_cover(self):
        """Starts one after another one was killed, whose cover lasts on for its bound, and waits until its own has begun."""
        before = self.n_covers()
        self.start()
        wait_for(lambda: self.n_covers() > before, 'copies are covered by the new one')

    def n_covers(self):
        with open(self.log) as log:
            return log.read().count(': covered: ')

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()


class Host:
    def __init__(self, stack, name, near_ports, engine_ports, bound_ms):
        self.name = name
        self.daemon = stack.enter_context(Daemon(TSLABD, '--size=16M'))
        self.near = Near(self.daemon, near_ports, bound_ms)
        stack.callback(self.near.end)
        self.engine = Engine(engine_ports.value)
        stack.callback(self.engine.end)
        self.pool = stack.enter_context(tslab.open(self.daemon.socket))
        self.cache = tslab.NearCache(self.engine, self.pool, prefix='p:')

    def is_covered(self):
        return is_kept(self.cache, PROBES)      # keys of all primaries

    def is_covered_for_a_while(self):
        wait_for(self.is_covered, f'{self.name} is covered')
        return True

    def stats(self):
        return self.daemon.ctl(TSLABCTL, 'stats')


class Worker:
    """Reads all keys again and again. With a key of its own it writes that, too, by way of the near cache."""

    def __init__(self, world, i, name, socket_path, own_key):
        self.world, self.i, self.name, self.socket_path, self.own_key = world, i, name, socket_path, own_key
        self.n_errors = self.n_reads = 0
        self.versions = itertools.count(1)

    def run(self):
        self.engine = Engine(self.world.engine_ports.value, wait_ms=self.world.wait_ms)
        with self.world.open_log(self.name) as self.log, tslab.open(self.socket_path) as pool:
            self.reads = Reads(self.log, self.name)
            self.cache = tslab.NearCache(self.engine, pool, prefix='p:')
            for sweep in itertools.count():
                if self.world.stop.is_set():
                    break
                self.world.sweeps[self.i] = sweep
                for key in self.world.keys:
                    self.read(key)
                if self.own_key and random.random() < 0.2:
                    self.write()
                time.sleep(self.world.pause)
            self.reads.end()
            self.log.count(self.name, self.n_reads, self.engine.n, self.n_errors)
        self.engine.end()

    def read(self, key):
        begin = time.monotonic_ns()
        try:
            value = self.cache.get(key)
        except redis.RedisError:
            self.n_errors += 1
            return None
        version = 0 if value is None else int(value)
        self.reads.add(key, version, begin, time.monotonic_ns())
        self.n_reads += 1
        return version

    def write(self):
        with self.world.write_lock:
            version = next(self.versions)
            is_done = write_version(self.log, self.engine, self.own_key, version, self.cache.set)
            if is_done and self.world.is_quiet and self.read(self.own_key) != version:
                self.log.fault(f'{self.name} does not read its own version {version} of {self.own_key}')


def write_version(log, engine, key, version, put):
    """Whether that was done, and is in the log."""
    begin = time.monotonic_ns()
    try:
        put(key, str(version))
    except redis.RedisError:
        log.install(key, version, begin, 0)
        return False
    log.install(key, version, begin, engine.set_ns, engine.set_port, engine.set_is_copied)
    return True


def write_all(world):
    """A program elsewhere, without a near cache."""
    engine = Engine(world.engine_ports.value, wait_ms=world.wait_ms)
    with world.open_log('writer') as log:
        for version in itertools.count(1):
            if world.stop.is_set():
                break
            with world.write_lock:
                key = random.choice(RARE if version <= 5 or random.random() < RARITY else KEYS)
                write_version(log, engine, key, version, lambda key, value: engine.set('p:' + key, value))
            time.sleep(random.random() * world.write_pause)
    engine.end()


class Ports:
    """Ports of the servers to ask, which may change."""

    def __init__(self, ports):
        self.array = FORK.Array('i', 16)
        self.set(ports)

    def set(self, ports):
        self.array[:] = list(ports) + [0] * (16 - len(ports))

    def value(self):
        return [port for port in self.array[:] if port]


class World:
    """`with World(...) as world:` has two hosts that read and write; judge() ends that, and says what was wrong."""

    def __init__(self, near_ports, engine_ports, bound_ms, wait_ms=0, pause=0.002, write_pause=0.006, is_quiet=False):
        self.near_ports, self.bound_ms, self.wait_ms = near_ports, bound_ms, wait_ms
        self.engine_ports, self.pause, self.write_pause, self.is_quiet = Ports(engine_ports), pause, write_pause, is_quiet
        self.stop, self.write_lock, self.sweeps = FORK.Event(), FORK.Lock(), FORK.Array('Q', 2 * WORKERS)
        self.keys = KEYS + RARE + ['own0', 'own1']

    def path(self, name):
        return os.path.join(self.dir, name + '.log')

    def open_log(self, name):
        return contextlib.closing(Log(self.path(name)))

    def __enter__(self):
        self.begin = time.monotonic()
        with contextlib.ExitStack() as stack:
            self.dir = tempfile.mkdtemp(prefix='tslab-history-')
            stack.callback(shutil.rmtree, self.dir)
            self.log = stack.enter_context(self.open_log('world'))
            self.hosts = [Host(stack, f'host{i}', self.near_ports[i], self.engine_ports, self.bound_ms)
                          for i in range(2)]
            self.remove_keys()
            self.wait_covered()
            self.processes = [FORK.Process(target=write_all, args=(self,))]
            for i, host in enumerate(self.hosts):
                for j in range(WORKERS):
                    worker = Worker(self, i * WORKERS + j, f'{host.name}.{j}', host.daemon.socket,
                                    f'own{i}' if j == 0 else None)
                    self.processes.append(FORK.Process(target=worker.run))
            stack.callback(self.end)
            for process in self.processes:
                process.start()
            self.wait_sweeps()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        if error[0]:
            for host in self.hosts:
                with open(host.near.log) as file:
                    print(f'{host.name}:', *file.readlines()[-15:], sep='\n  ', file=sys.stderr)
        self.stack.close()

    def end(self):
        self.stop.set()
        for process in self.processes:
            process.join(PATIENCE)
            process.kill()

    def wait_covered(self):
        for host in self.hosts:
            wait_for(host.is_covered, f'{host.name} is covered')

    def wait_sweeps(self):
        """Until each worker has ended the sweep that it is in."""
        before = self.sweeps[:]
        wait_for(lambda: all(now > then for now, then in zip(self.sweeps[:], before)), 'all workers read')

    @contextlib.contextmanager
    def unasked(self, port):
        """No worker asks this server, and no question of theirs is open there. A primary that the cluster has replaced
        answers with old values until it notices (tslab-near(8), LIMITS): a history must not have these."""
        ports = self.engine_ports.value()
        self.engine_ports.set([other for other in ports if other != port])
        self.wait_sweeps()
        yield
        self.engine_ports.set(ports)

    def remove_keys(self):
        for key in self.keys:
            patiently(self.hosts[0].cache.delete, key)

    def absent(self, keys=('*',)):
        """Around a disturbance that takes keys away."""
        return self.replaced({key: 0 for key in keys})

    @contextlib.contextmanager
    def replaced(self, versions):
        """Around a disturbance after which the engine has these versions. The dict may be filled meanwhile."""
        begin = time.monotonic_ns()
        yield
        end = time.monotonic_ns()
        for key, version in versions.items():
            self.log.install(key, version, begin, end)

    def n_writes(self):
        n = 0
        for name in os.listdir(self.dir):
            with open(os.path.join(self.dir, name)) as file:
                n += sum(line.startswith('install') for line in file)
        return n

    def wait_writes(self):
        """Enough of them from now on, however slow this machine is."""
        before = self.n_writes()
        wait_for(lambda: self.n_writes() > before + WRITES_MIN, 'enough writes')

    def history(self):
        self.end()
        codes = [process.exitcode for process in self.processes]
        assert not any(codes), f'a worker failed: {codes}'
        return History([os.path.join(self.dir, name) for name in os.listdir(self.dir)])

    def judge(self):
        return self.history().judge(self.bound_ms * 1_000_000)


class Case(unittest.TestCase):
    def expect_fresh(self, world):
        wait_for(lambda: world.n_writes() > WRITES_MIN, 'enough writes')
        verdict = world.judge()
        report(f"{self.id().rpartition('.')[2]} ({time.monotonic() - world.begin:.1f} s)", verdict)
        self.assertEqual(verdict.faults[:5], [])
        self.assertGreater(verdict.writes, WRITES_MIN)
        return verdict


def report(name, verdict):
    delays = verdict.delays_ns
    print(f'{name}: {verdict.reads} reads, {verdict.writes} writes, {verdict.questions} questions, {verdict.errors} errors, '
          f'{verdict.skipped} versions without an end; oldest read {verdict.oldest_ns / 1e6:.2f} ms; '
          f'seen by all workers after p50 {percentile(delays, .5) / 1e6:.2f}, p99 {percentile(delays, .99) / 1e6:.2f}, '
          f'max {max(delays, default=0) / 1e6:.2f} ms of {len(delays)} writes', flush=True)


class Cluster:
    """Three primaries with a replica each, on loopback; more servers may be added. Where this machine is slow, a replica
    may take over by itself, `with failing_over():` soon: see failures()."""

    def __init__(self, stack):
        self.stack = stack
        self.servers = [self.add_server() for _ in range(6)]
        self.cli('create', *(f'127.0.0.1:{server.port}' for server in self.servers), '--cluster-replicas', '1',
                 '--cluster-yes')
        wait_for(self.is_whole, 'the cluster is whole')
        self.set_timeout(CALM_MS)

    def set_timeout(self, ms):
        """For so long a server may be silent before the others replace it."""
        for server in self.servers:
            with server.client() as client:
                client.config_set('cluster-node-timeout', ms)

    @contextlib.contextmanager
    def failing_over(self):
        """All servers answer at the begin and at the end."""
        self.set_timeout(HASTY_MS)
        yield
        wait_for(self.is_whole, 'the cluster is whole')
        self.set_timeout(CALM_MS)

    def failures(self):
        """How often the servers at these ports were given up by others: writes that no replica has may be lost then."""
        texts = [pathlib.Path(server.dir, 'redis.log').read_text() for server in self.servers]
        ports = {server.id: server.port for server in self.servers}
        ids = re.findall(r'Marking node (\w{40}).* as failing \(quorum reached', ''.join(texts))
        return collections.Counter(ports[one] for one in ids)

    def add_server(self):
        cluster_port = free_port()
        server = Redis('--cluster-enabled', 'yes', '--cluster-node-timeout', str(HASTY_MS), '--cluster-port',
                       str(cluster_port), '--cluster-allow-replica-migration', 'no', '--repl-diskless-sync-delay', '0',
                       '--loglevel', 'notice', '--logfile', 'redis.log')
        server.cluster_port = cluster_port
        with server.client() as client:
            server.id = client.execute_command('CLUSTER MYID').decode()
        self.stack.callback(server.end)
        return server

    def cli(self, *arguments):
        done = subprocess.run(['redis-cli', '--cluster', *arguments], capture_output=True, text=True, check=False,
                              timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_whole(self):
        """All servers agree, and all replicas are with their primaries."""
        views = []
        for server in self.servers:
            with server.client(socket_timeout=1) as client:
                try:
                    if client.cluster('info')['cluster_state'] != 'ok':
                        return False
                    views.append({port: node['master_id'] for port, node in self.nodes(client).items()})
                    if len(views[-1]) != len(self.servers) or views[-1] != views[0]:
                        return False
                    role = client.role()
                    if role[0] == b'slave' and role[3] != b'connected':
                        return False
                    if role[0] == b'master' and not role[2] and self.slots_of(server):
                        return False
                except (redis.RedisError, KeyError):        # one of them was given up meanwhile
                    return False
        return True

    @staticmethod
    def nodes(client):
        """The servers that this one knows, by their ports, without those that failed."""
        nodes = client.cluster('nodes')
        return {int(place.rpartition(':')[2].partition('@')[0]): node for place, node in nodes.items()
                if 'fail' not in node['flags'].split(',') and 'handshake' not in node['flags']}

    def ports(self):
        return [server.port for server in self.servers]

    def at(self, port):
        return next(server for server in self.servers if server.port == port)

    def view(self):
        """The nodes, as any living server knows them."""
        for server in self.servers:
            try:
                with server.client(socket_timeout=1) as client:
                    return self.nodes(client)
            except redis.RedisError:
                continue
        raise AssertionError('no server answers')

    def primaries(self):
        return [self.at(port) for port, node in self.view().items() if 'master' in node['flags']]

    def replica_of(self, server):
        def replica():
            view = self.view()
            mine = view[server.port]['node_id'] if server.port in view else None
            return next((self.at(port) for port, node in view.items() if node['master_id'] == mine), None)

        return wait_for(replica, f'server {server.port} has a replica')

    def keys_of(self, server, names):
        """Keys among these that are in the slots of this primary."""
        with server.client() as client:
            held = [list(map(int, item)) for item in self.slots_of(server)]
            slots = {name: client.execute_command('CLUSTER KEYSLOT', name) for name in names}
        return [name for name, slot in slots.items() if any(first <= slot <= last for first, last in held)]

    def slots_of(self, server):
        return [item for item in self.view()[server.port]['slots'] if len(item) == 2]

    def move_slots(self, source, target, names, seconds):
        """Moves the slots of these keys, with all their keys, and lets each slot be half moved for so many seconds."""
        view = self.view()
        ids = {server: view[server.port]['node_id'] for server in (source, target)}
        with source.client() as old, target.client() as new:
            for name in names:
                slot = old.execute_command('CLUSTER KEYSLOT', name)
                new.execute_command('CLUSTER SETSLOT', slot, 'IMPORTING', ids[source])
                old.execute_command('CLUSTER SETSLOT', slot, 'MIGRATING', ids[target])
                time.sleep(seconds / 4)
                while keys := old.execute_command('CLUSTER GETKEYSINSLOT', slot, 100):
                    old.execute_command('MIGRATE', '127.0.0.1', target.port, '', 0, 5000, 'KEYS', *keys)
                time.sleep(seconds * 3 / 4)
                for client in new, old:
                    client.execute_command('CLUSTER SETSLOT', slot, 'NODE', ids[target])

    def join_server(self):
        """One more primary, without slots."""
        server = self.add_server()
        with server.client() as client:
            client.execute_command('CLUSTER MEET', '127.0.0.1', self.servers[0].port, self.servers[0].cluster_port)
        self.servers.append(server)
        wait_for(self.is_whole, 'all know it')
        self.set_timeout(CALM_MS)
        return server
