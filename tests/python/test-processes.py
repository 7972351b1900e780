"""Pools, maps and stores in other processes: forked, spawned, of a fork server, and with threads of asyncio.

    test-processes.py TSLABD TSLABCTL [unittest arguments]
"""

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
import unittest
import unittest.mock
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
N_WORKERS = 4
N_ADDS = 300
N_TASKS = 20
KILLS = 100 if os.environ.get('TSLAB_TEST_FULL') else 6
SEED = int(os.environ.get('TSLAB_TEST_SEED', '1'))


def add(numbers, key, n):
    """Adds 1 to a number n times, as others do."""
    for _ in range(n):
        while True:
            value, version = numbers.get_version(key)
            try:
                numbers.replace(key, version, str(int(value) + 1).encode())
                break
            except tslab.ChangedError:
                pass
    return n


def work(pool, numbers, store, me, n):
    """A worker: its pool is that of the map and of the store."""
    assert numbers.pool.stats().live_objects > 0
    add(numbers, b'n', n)
    store.set(me, str(os.getpid()).encode())
    handle = pool.put(me.encode())
    pool.root_set(me, handle)


def step(numbers, store, name, i):
    """One step of a process that is to be killed. A session holds its number many times."""
    add(numbers, b'killed', 1)
    store.set(name, str(i).encode() * 100)
    assert store.touch(name) and store.get(name) == str(i).encode() * 100
    numbers.add(b'counter')


def churn(numbers, store, tell):
    """Until it is killed. Tells of each session that is there from now on."""
    for i in range(10 ** 9):
        name = f'{os.getpid()}.{i % 50}'
        step(numbers, store, name, i)
        tell.send((name, i))


def churn_in_tasks(numbers, store, tell):
    """The same by tasks of one loop, and in its threads."""
    async def task(n):
        for i in range(10 ** 9):
            name = f'{os.getpid()}.{n}'
            if n % 2 == 0:
                step(numbers, store, name, i)
            else:
                await asyncio.to_thread(step, numbers, store, name, i)
            tell.send((name, i))
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(task(n) for n in range(N_TASKS)))

    asyncio.run(main())


def make(cache):
    cache.incr('made')
    return os.urandom(random.choice((8, 80, 800, 5000)))


def use_cache(cache, tell):
    """Until it is killed. Tells the value of a key that others ask for, too, and how long the longest call took."""
    lock, longest = cache.lock('lock'), 0

    def timed(call, *arguments):
        nonlocal longest
        begin = time.monotonic()
        result = call(*arguments)
        longest = max(longest, time.monotonic() - begin)
        return result

    for _ in range(10 ** 9):
        n = timed(cache.incr, 'steps')
        timed(lock.acquire)
        cache.set('locked', cache.get('locked', 0) + 1)
        timed(lock.release)
        value = timed(cache.get_or_compute, f'{n // 50}', lambda: make(cache))
        timed(cache.set, f'put {n % 200}', value)
        tell.send((n // 50, zlib.crc32(value), longest))


class Own:
    """Subclasses with an __init__() and an attribute of their own."""

    def __init__(self, pool, **options):
        super().__init__(pool, 'own', **options)
        self.owner = 'us'


class OwnMap(Own, tslab.Map):
    pass


class OwnCache(Own, tslab.Cache):
    pass


class OwnSessions(Own, tslab.SessionStore):
    pass


def read_own(own):
    return own.owner, own.get(b'a'), vars(own).get('lifetime')


def count_clients(pool):
    """One of many small tasks, each of which gets the pool pickled."""
    return os.getpid(), id(pool)


class OfAllKinds(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=16M'))
        self.pool = self.enterContext(tslab.open(self.daemon.socket))
        self.numbers = tslab.Map(self.pool, 'numbers')
        self.numbers[b'n'] = self.numbers[b'killed'] = b'0'
        self.store = tslab.SessionStore(self.pool, lifetime=1000)

    def run_workers(self, method):
        context = multiprocessing.get_context(method)
        workers = [context.Process(target=work, args=(self.pool, self.numbers, self.store, f'w{i}', N_ADDS))
                   for i in range(N_WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            self.assertEqual(worker.exitcode, 0)
        self.assertEqual(self.numbers[b'n'], str(N_WORKERS * N_ADDS).encode())
        for i, worker in enumerate(workers):
            self.assertEqual(self.store.get(f'w{i}'), str(worker.pid).encode())
            self.assertEqual(bytes(self.pool.get(self.pool.root_get(f'w{i}'))[:2]), f'w{i}'.encode())

    def kill_workers(self, method, work=churn, n_at_once=1):
        """No session is lost or wrong, and no step of a number, but the steps that a victim was at."""
        context, rng = multiprocessing.get_context(method), random.Random(SEED)
        sessions, n_told, before = {}, 0, self.steps()
        for _ in range(KILLS // 2):
            pair = [self.victim(context, work, self.numbers, self.store) for _ in range(2)]
            for victim, told in pair:
                for name, i in self.kill(victim, told, rng):
                    sessions[name], n_told = i, n_told + 1
        for name, i in sessions.items():
            value = self.store.get(name)
            self.assertIsNotNone(value, f'{name} is lost, seed {SEED}')
            number = value[:len(value) // 100]
            self.assertEqual(value, number * 100)
            self.assertGreaterEqual(int(number), i, name)
        for begun, done in zip(before, self.steps()):
            self.assertTrue(n_told <= done - begun <= n_told + KILLS * n_at_once,
                            f'{n_told} told, {done - begun} done, seed {SEED}')
        self.check()

    def steps(self):
        return int(self.numbers[b'killed']), self.numbers.add(b'counter', 0)

    def kill_users_of_cache(self, method):
        """Work under a lock is done by one process at a time, and a value is made once, but for the work that a victim was
        at. No process waits for the 30 seconds after which a victim's claim ends by itself."""
        context, rng = multiprocessing.get_context(method), random.Random(SEED)
        cache = tslab.Cache(self.pool, method, dumps=pickle.dumps, loads=pickle.loads)
        live, values, longest, n_told, n_killed = self.live_objects(), {}, 0, 0, KILLS + N_WORKERS
        users = [self.victim(context, use_cache, cache) for _ in range(N_WORKERS)]
        for i in range(n_killed):
            for key, value, seconds in self.kill(*users.pop(rng.randrange(len(users))), rng):
                self.assertEqual(values.setdefault(key, value), value, f'key {key} had two values, seed {SEED}')
                longest, n_told = max(longest, seconds), n_told + 1
            if i < KILLS:
                users.append(self.victim(context, use_cache, cache))
        self.assertLess(longest, 15)
        for name in 'steps', 'locked':
            self.assertTrue(n_told <= cache.get(name) <= n_told + n_killed,
                            f'{name}: {n_told} told, {cache.get(name)} done, seed {SEED}')
        self.assertTrue(len(values) <= cache.get('made') <= len(values) + n_killed,
                        f'{len(values)} values, {cache.get("made")} made, seed {SEED}')
        self.check()
        cache.clear()
        self.assertEqual(len(cache), 0)
        daemon.wait_for(lambda: self.live_objects() == live)

    def live_objects(self):
        """Counts values. The index is in another epoch."""
        return self.pool.epoch_stats(self.pool.epoch_current()).live_objects

    def check(self):
        daemon.wait_for(lambda: self.daemon.ctl(TSLABCTL, 'stats')['clients'] <= 1)
        check = self.daemon.ctl(TSLABCTL, 'check')
        self.assertTrue(check['ok'], check)

    def victim(self, context, work, *arguments):
        told, tell = context.Pipe(duplex=False)
        victim = context.Process(target=work, args=(*arguments, tell))
        victim.start()
        tell.close()
        return victim, told

    def kill(self, victim, told, rng):
        """Yields all that it told before."""
        self.assertTrue(told.poll(60))
        time.sleep(rng.random() * 0.02)     # a random place to be killed at, not a wait for anything
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(60)
        self.assertEqual(victim.exitcode, -signal.SIGKILL)
        with told, contextlib.suppress(EOFError):
            while True:
                yield told.recv()

    def test_fork(self):
        self.run_workers('fork')
        self.kill_workers('fork')

    def test_spawn(self):
        self.run_workers('spawn')
        self.kill_workers('spawn')

    def test_forkserver(self):
        self.run_workers('forkserver')
        self.kill_workers('forkserver')

    def test_tasks_and_kills(self):
        self.kill_workers('fork', churn_in_tasks, N_TASKS)
        self.kill_workers('spawn', churn_in_tasks, N_TASKS)

    def test_users_of_a_cache_are_killed(self):
        for method in 'fork', 'forkserver', 'spawn':
            self.kill_users_of_cache(method)

    def test_tasks_of_a_process_share_a_pool(self):
        with multiprocessing.get_context('spawn').Pool(2) as workers:
            seen = set(workers.map(count_clients, [self.pool] * 40, chunksize=1))
            self.assertLessEqual(len(seen), 2)
            self.assertLessEqual(self.daemon.ctl(TSLABCTL, 'stats')['clients'], 3)

    def test_subclasses(self):
        owns = OwnMap(self.pool), OwnCache(self.pool, ttl=7), OwnSessions(self.pool, lifetime=8)
        owns[1].set(b'a', b'1')
        for method in 'fork', 'forkserver', 'spawn':
            with multiprocessing.get_context(method).Pool(1) as workers:
                seen = workers.map_async(read_own, owns).get(60)
            self.assertEqual(seen, [('us', b'1', None), ('us', b'1', 7), ('us', b'1', 8)])

    def test_pickled_names(self):
        again = pickle.loads(pickle.dumps(self.numbers))
        self.assertEqual(again.name, 'numbers')
        self.assertEqual(again[b'n'], b'0')
        self.assertIs(pickle.loads(pickle.dumps(self.pool)), again.pool)
        again.pool.close()
        self.assertFalse(pickle.loads(pickle.dumps(self.pool)).closed)
        store = pickle.loads(pickle.dumps(tslab.SessionStore(self.pool, 'others', lifetime=7)))
        self.assertEqual((store.name, store.lifetime), ('others', 7))
        cache = pickle.loads(pickle.dumps(tslab.Cache(self.pool, ttl=7, dumps=pickle.dumps, loads=pickle.loads)))
        cache.set('a', [1, 2])
        self.assertEqual((cache.lifetime, cache.get('a')), (7, [1, 2]))

    def test_default_pool_by_its_name(self):
        """Also where the other process has another environment."""
        with unittest.mock.patch.dict(os.environ, {'TSLAB_POOL': self.daemon.socket}):
            with tslab.open() as pool:
                data = pickle.dumps(pool)
        with pickle.loads(data) as again:
            self.assertIn('map.numbers', [r['name'] for r in self.daemon.ctl(TSLABCTL, 'roots')])
            self.assertEqual(tslab.Map(again, 'numbers', existing=True)[b'n'], b'0')

    def test_private_pools_are_not_pickled(self):
        with tslab.create(size=1 << 20) as pool, self.assertRaisesRegex(TypeError, 'forked'):
            pickle.dumps(pool)

    def test_asyncio(self):
        """Tasks on one loop, and calls that may wait in its threads."""
        async def visit(me):
            for i in range(100):
                self.store.set(me, str(i).encode())
                await asyncio.sleep(0)
                self.assertEqual(self.store.get(me), str(i).encode())
            await asyncio.to_thread(add, self.numbers, b'n', 100)
            await asyncio.to_thread(self.pool.epoch_advance)

        async def main():
            await asyncio.gather(*(visit(f'task {i}') for i in range(20)))

        asyncio.run(main())
        self.assertEqual(self.numbers[b'n'], b'2000')

    def test_pending_object_of_a_task(self):
        """It is allocated in one thread and published in another."""
        async def main():
            handle, view = await asyncio.to_thread(self.pool.alloc_pending, 64)
            with self.assertRaises(tslab.NotFoundError):
                self.pool.share_pending(handle)

            def begin():
                handle, view = self.pool.alloc_pending(64)
                self.pool.share_pending(handle)
                return handle, view

            handle, view = await asyncio.to_thread(begin)
            view[:2] = b'ok'
            self.pool.publish(handle)
            self.assertEqual(self.pool.read(handle)[:2], b'ok')

        asyncio.run(main())


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
