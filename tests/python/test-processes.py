"""Pools, maps and stores in other processes: forked, spawned, of a fork server, and with threads of asyncio.

    test-processes.py TSLABD TSLABCTL [unittest arguments]
"""

import asyncio
import multiprocessing
import os
import pickle
import signal
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
N_WORKERS = 4
N_ADDS = 300


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


def churn(numbers, store, ready):
    """Until it is killed."""
    ready.set()
    for i in range(10 ** 9):
        add(numbers, b'killed', 1)
        store.set(f'victim {i % 50}', b'x' * 300)


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

    def kill_workers(self, method):
        context = multiprocessing.get_context(method)
        for _ in range(3):
            ready = context.Event()
            victim = context.Process(target=churn, args=(self.numbers, self.store, ready))
            victim.start()
            self.assertTrue(ready.wait(60))
            before = int(self.numbers[b'killed'])
            daemon.wait_for(lambda: int(self.numbers[b'killed']) > before)
            os.kill(victim.pid, signal.SIGKILL)
            victim.join(60)
            self.store.set('after', b'1')
            self.assertEqual(self.store.get('after'), b'1')
        daemon.wait_for(lambda: self.daemon.ctl(TSLABCTL, 'stats')['clients'] <= 1)
        check = self.daemon.ctl(TSLABCTL, 'check')
        self.assertTrue(check['ok'], check)

    def test_fork(self):
        self.run_workers('fork')
        self.kill_workers('fork')

    def test_spawn(self):
        self.run_workers('spawn')
        self.kill_workers('spawn')

    def test_forkserver(self):
        self.run_workers('forkserver')
        self.kill_workers('forkserver')

    def test_tasks_of_a_process_share_a_pool(self):
        with multiprocessing.get_context('spawn').Pool(2) as workers:
            seen = set(workers.map(count_clients, [self.pool] * 40, chunksize=1))
            self.assertLessEqual(len(seen), 2)
            self.assertLessEqual(self.daemon.ctl(TSLABCTL, 'stats')['clients'], 3)

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
        self.assertEqual((cache.ttl, cache.get('a')), (7, [1, 2]))

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
