"""Waits beside greenlets and tasks: those of one thread go on while others of it wait for a value, a lock or a near cache.

    test-waits.py TSLABD TSLABCTL [unittest arguments]

Each hub has a process of its own. A maker goes on only when others of its thread have run, so where a wait stops the
thread, nothing ends before the claim does, and the value is made twice.
"""

import asyncio
import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])
WORKERS = 8

START = {
    'gevent, patched': 'import gevent.monkey; gevent.monkey.patch_all(); from gevent import spawn, sleep; join = lambda t: t.get()',
    'gevent': 'from gevent import spawn, sleep; join = lambda t: t.get()',
    'eventlet, patched': 'import eventlet; eventlet.monkey_patch(); from eventlet import spawn, sleep; join = lambda t: t.wait()',
    'eventlet': 'from eventlet import spawn, sleep; join = lambda t: t.wait()',
}

PROGRAM = '''
import os, sys, pickle
import tslab
import tslab.lock

pool = tslab.open(sys.argv[1])
cache = tslab.Cache(pool, dumps=pickle.dumps, loads=pickle.loads)
made, ticks, begun = [], [], []

def heart():
    while True:
        ticks.append(1)
        sleep(0.001)

def others_have_run():
    """Until the others wait, and the heart has beaten."""
    while len(begun) < 5:
        sleep(0.001)
    n = len(ticks)
    while len(ticks) < n + 20:
        sleep(0.001)

def make():
    made.append(os.getpid())
    others_have_run()
    return 'page'

def request():
    begun.append(1)
    return cache.get_or_compute('page', make)

def locked(lock):
    begun.append(1)
    with lock:
        made.append(1)
        others_have_run()
        return made.pop() and len(made)

beats = spawn(heart)
assert [join(t) for t in [spawn(request) for _ in range(5)]] == ['page'] * 5
assert len(made) == 1, made
made.clear(), begun.clear()
assert [join(t) for t in [spawn(locked, cache.lock('job')) for _ in range(5)]] == [0] * 5
lock = cache.lock('job')
assert lock.acquire(timeout=1) and not cache.lock('job').acquire(timeout=0.01)
lock.release()

# One that its own greenlet has is an error at once; of another greenlet it is not.
def nested():
    try:
        return cache.get_or_compute('nested', lambda: cache.get_or_compute('nested', int))
    except RuntimeError as e:
        return str(e)
assert 'itself' in join(spawn(nested))
print('done')
'''

WORKER = START['gevent, patched'] + '''
import sys, pickle, time
import tslab

cache = tslab.Cache(tslab.open(sys.argv[1]), dumps=pickle.dumps, loads=pickle.loads)

def make():
    cache.incr('made')
    sleep(0.05)
    return 1

print('ready', flush=True)
sys.stdin.readline()
for i in range(20):
    for t in [spawn(cache.get_or_compute, f'key {i}', make) for _ in range(10)]:
        assert join(t) == 1
'''


def run(program, *arguments):
    return subprocess.run([sys.executable, '-c', program, *arguments], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


class Greenlets(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=16M'))

    def test_hubs(self):
        for name, start in START.items():
            with self.subTest(name):
                if not importlib.util.find_spec(name.split(',')[0]):
                    self.skipTest(f'there is no {name}')
                with daemon.Daemon(TSLABD, '--size=16M') as d:
                    done = run(start + PROGRAM, d.socket)
                self.assertEqual((done.returncode, done.stdout), (0, 'done\n'))

    @unittest.skipUnless(importlib.util.find_spec('gevent'), 'there is no gevent')
    def test_storm_of_workers(self):
        """Each value is made once, by one greenlet of one worker."""
        workers = [subprocess.Popen([sys.executable, '-c', WORKER, self.daemon.socket], text=True, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE) for _ in range(WORKERS)]
        for worker in workers:
            self.assertEqual(worker.stdout.readline(), 'ready\n')
        for worker in workers:
            worker.stdin.write('\n')
            worker.stdin.flush()
        for worker in workers:
            worker.communicate()
            self.assertEqual(worker.returncode, 0)
        with tslab.open(self.daemon.socket) as pool:
            self.assertEqual(tslab.Cache(pool).get('made'), 20)


class Tasks(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.cache = tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads)
        self.made = []

    async def make(self):
        self.made.append(1)
        for _ in range(20):
            await asyncio.sleep(0.001)
        return 'page'

    async def test_get_or_compute(self):
        calls = [self.cache.get_or_compute('page', self.make) for _ in range(5)]
        calls += [self.cache.get_or_compute_async('page', lambda: self.make()) for _ in range(5)]
        self.assertEqual(await asyncio.gather(*calls), ['page'] * 10)
        self.assertEqual(len(self.made), 1)
        self.assertEqual(await self.cache.get_or_compute_async('sync', lambda: 7), 7)
        self.assertEqual(await self.cache.get_or_compute_async('sync', self.fail), 7)

    async def test_exceptions(self):
        async def fail():
            await asyncio.sleep(0)
            raise KeyError('its own')

        with self.assertRaises(KeyError):
            await self.cache.get_or_compute('a', fail)
        task = asyncio.ensure_future(self.cache.get_or_compute_async('a', lambda: asyncio.sleep(1000)))
        while not self.cache.lock('a').locked():
            await asyncio.sleep(0.001)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertFalse(self.cache.lock('a').locked(), 'the claim was given up')

    async def test_without_await(self):
        """A value that another task computes is not waited for: the loop would stand still."""
        task = asyncio.ensure_future(self.cache.get_or_compute('a', self.make))
        while not self.made:
            await asyncio.sleep(0)
        self.assertEqual(self.cache.get_or_compute('a', lambda: 'mine'), 'mine')
        self.assertEqual(await task, 'page')
        self.assertEqual(self.cache.get('a'), 'mine')
        with self.assertRaisesRegex(TypeError, 'coroutine function'):
            self.cache.get_or_compute('b', lambda: self.make())
        self.assertFalse(self.cache.lock('b').locked())

    async def test_nested(self):
        async def nested():
            return await asyncio.wait_for(self.cache.get_or_compute('a', self.make), 1000)

        with self.assertRaisesRegex(RuntimeError, 'within its own computation'):
            await self.cache.get_or_compute('a', nested)
        self.assertFalse(self.made)
        self.assertFalse(self.cache.lock('a').locked())

    async def test_lock(self):
        inside = []

        async def work():
            async with self.cache.lock('l'):
                inside.append(1)
                await asyncio.sleep(0.001)
                self.assertEqual(len(inside), 1)
                inside.clear()

        await asyncio.gather(*(work() for _ in range(10)))
        lock, other = self.cache.lock('l'), self.cache.lock('l')
        self.assertTrue(await lock.acquire_async())
        self.assertFalse(await other.acquire_async(timeout=0.01))
        with self.assertRaisesRegex(RuntimeError, 'wait for itself'):
            await other.acquire_async()
        self.assertTrue(lock.release())

    async def test_map(self):
        a_map = self.cache.map
        claim = a_map.claim('a')
        self.assertFalse(await a_map.wait_async('a', claim.version, 0.01))
        waiting = asyncio.ensure_future(a_map.wait_async('a', claim.version))
        await asyncio.sleep(0.01)
        a_map.delete('a', claim.version)
        self.assertTrue(await waiting)

    async def test_memoize(self):
        @self.cache.memoize(ttl=60)
        async def page(number):
            return [await self.make(), number]

        self.assertTrue(asyncio.iscoroutinefunction(page))
        self.assertEqual(await asyncio.gather(page(1), page(number=1), page(2)), [['page', 1], ['page', 1], ['page', 2]])
        self.assertEqual(len(self.made), 2)


class Threads(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.cache = tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads)

    def test_nested(self):
        """Also in a cache of its own on the same map. Of another key it is fine, and a stale value needs no wait."""
        other = tslab.Cache(self.pool)
        for cache in self.cache, other:
            with self.assertRaisesRegex(RuntimeError, 'within its own computation'):
                self.cache.get_or_compute('a', lambda cache=cache: cache.get_or_compute('a', int))
            self.assertFalse(self.cache.lock('a').locked())
        self.assertEqual(self.cache.get_or_compute('b', lambda: self.cache.get_or_compute('c', lambda: 7)), 7)

    def test_in_a_lock(self):
        with self.cache.lock('a'):
            with self.assertRaisesRegex(RuntimeError, 'has locked'):
                self.cache.get_or_compute('a', int)
            with self.assertRaisesRegex(RuntimeError, 'wait for itself'):
                self.cache.lock('a').acquire()

    def test_another_thread(self):
        """It waits as ever."""
        claimed, goes_on, got = threading.Event(), threading.Event(), []

        def make():
            claimed.set()
            goes_on.wait()
            return 7

        first = threading.Thread(target=self.cache.get_or_compute, args=('a', make))
        first.start()
        claimed.wait()
        second = threading.Thread(target=lambda: got.append(self.cache.get_or_compute('a', self.fail)))
        second.start()
        goes_on.set()
        first.join()
        second.join()
        self.assertEqual(got, [7])


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
