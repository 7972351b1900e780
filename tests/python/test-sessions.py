"""tslab.SessionStore: sessions expire, and workers are killed in the middle of it.

    test-sessions.py TSLABD TSLABCTL [unittest arguments]
"""

import datetime
import os
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
SEED = int(os.environ.get('TSLAB_TEST_SEED', '1'))
KILLS = 200 if os.environ.get('TSLAB_TEST_FULL') else 40


class Values(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.store = tslab.SessionStore(self.pool, lifetime=1000)

    def test_set_get_delete(self):
        self.assertIsNone(self.store.get('a'))
        self.store.set('a', b'1')
        self.store.set(b'a', b'2')
        self.assertEqual(self.store.get('a'), b'2')
        self.assertIn('a', self.store)
        self.assertEqual(len(self.store), 1)
        self.assertTrue(self.store.delete('a'))
        self.assertFalse(self.store.delete('a'))
        self.assertFalse(self.store.touch('a'))

    def test_versions(self):
        self.assertIsNone(self.store.get_version('a'))
        self.store.replace('a', 0, b'1')
        self.assertRaises(tslab.ChangedError, self.store.replace, 'a', 0, b'2')
        value, version = self.store.get_version('a')
        self.store.touch('a')
        self.store.replace('a', version, b'2')
        self.assertRaises(tslab.ChangedError, self.store.replace, 'a', version, b'3')
        self.assertRaises(tslab.TooLargeError, self.store.replace, 'a', version, bytes(self.store.size_max + 1))
        self.assertEqual((value, self.store.get('a')), (b'1', b'2'))
        self.assertAlmostEqual(self.store.map.ttl(b'a'), 1000, delta=20)

    def test_too_large(self):
        with self.assertRaises(tslab.TooLargeError) as caught:
            self.store.set('a', bytes(self.store.size_max + 1))
        self.assertIn(str(1 << 20), str(caught.exception))
        self.store.set('a', bytes(self.store.size_max))
        self.assertEqual(self.store.get('a'), bytes(self.store.size_max))

    def test_large(self):
        for size in 700, 4000, 5000, 100000:
            self.store.set('a', b'x' * size)
            self.assertEqual(self.store.get('a'), b'x' * size)
            self.assertTrue(self.store.touch('a'))
            self.assertEqual(self.store.get('a'), b'x' * size)
        self.store.lifetime = 0.001
        self.assertTrue(self.store.touch('a'))
        daemon.wait_for(lambda: self.store.get('a') is None)

    def test_too_large_is_told(self):
        """To the operator, too: by `tslabctl status`."""
        with daemon.Daemon(TSLABD, '--size=16M') as d, tslab.open(d.socket) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            for size in 2 << 20, 3 << 20:
                self.assertRaises(tslab.TooLargeError, store.set, 'a', b'x' * size)
            self.assertIn('2 values of maps were refused', '\n'.join(d.ctl(TSLABCTL, 'status')['hints']))

    def test_arguments(self):
        for bad in 0, -1, float('nan'), datetime.timedelta():
            self.assertRaises(ValueError, tslab.SessionStore, self.pool, lifetime=bad)
        for long in datetime.timedelta(days=40), datetime.timedelta(days=60), 400 * 86400:
            tslab.SessionStore(self.pool, lifetime=long).set('a', b'1')
            self.assertGreater(self.store.map.ttl(b'a'), 39 * 86400)
        self.store.set('a', b'1', lifetime=datetime.timedelta(seconds=99))
        self.assertLessEqual(self.store.map.ttl(b'a'), 99)
        self.assertTrue(self.store.touch('a', lifetime=1000))
        self.assertGreater(self.store.map.ttl(b'a'), 900)
        tslab.SessionStore(self.pool, lifetime=float('inf')).set('a', b'1')
        self.assertEqual(self.store.map.ttl(b'a'), float('inf'))


class Users(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.store = tslab.SessionStore(self.pool, lifetime=1000)

    def log_in(self, user, *ids):
        for id_ in ids:
            self.store.set(id_, user.encode())
            self.store.assign(id_, user)

    def test_sessions_of_a_user(self):
        self.log_in('ann', 'a', 'b', 'c', 'a')
        self.log_in('bob', 'd')
        self.assertEqual(self.store.sessions_of('ann'), [b'b', b'c', b'a'])
        self.store.delete('c')
        self.assertEqual(self.store.sessions_of(b'ann'), [b'b', b'a'])
        self.assertEqual(self.store.end_sessions('ann', but='a'), 1)
        self.assertEqual((self.store.get('b'), self.store.get('a')), (None, b'ann'))
        self.assertEqual((self.store.end_sessions('ann'), self.store.end_sessions('ann')), (1, 0))
        self.assertEqual((len(self.store), self.store.sessions_of('nobody'), self.store.sessions_of('bob')), (1, [], [b'd']))
        self.assertEqual(len(tslab.Map(self.pool, 'sessions.users')), 1, 'a user without sessions takes no memory')

    def test_users_whose_sessions_ended(self):
        """Nobody ends the sessions of most users: these end by themselves."""
        self.log_in('bob', 'of bob')
        for i in range(500):
            self.log_in(f'user {i}', f'session {i}')
            self.store.delete(f'session {i}')
        self.assertLess(len(tslab.Map(self.pool, 'sessions.users')), 50)
        self.assertEqual(self.store.sessions_of('bob'), [b'of bob'])
        self.assertNotIn('_users_lock', self.store.__getstate__(), 'which nobody can pickle')

    def test_no_session_is_missed(self):
        """Workers log one user in at once."""
        pids = []
        for worker in range(8):
            pids.append(os.fork())
            if pids[-1] == 0:
                try:
                    self.log_in('ann', *(f'{worker} {i}' for i in range(20)))
                    os._exit(0)
                finally:
                    os._exit(1)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in pids], [0] * 8)
        self.assertEqual(len(self.store.sessions_of('ann')), 160)
        self.assertEqual(self.store.end_sessions('ann'), 160)

    def test_lock(self):
        """Changes of several workers, none of which is lost."""
        self.store.set('n', b'0')
        pids = []
        for _ in range(4):
            pids.append(os.fork())
            if pids[-1] == 0:
                try:
                    for _ in range(25):
                        with self.store.lock('n'):
                            self.store.set('n', b'%d' % (int(self.store.get('n')) + 1))
                    os._exit(0)
                finally:
                    os._exit(1)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in pids], [0] * 4)
        self.assertEqual((self.store.get('n'), len(self.store)), (b'100', 1))


class Expiry(unittest.TestCase):
    """Lifetimes of tenths of a second, which may be over at any moment where this process has to wait for others."""

    def test_expires_with_its_memory(self):
        with daemon.Daemon(TSLABD, '--size=16M', '--retain=0') as d, tslab.open(d.socket) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            for i in range(6000):       # many times the reserve of a megabyte, which stays
                store.set(f'old{i}', b'x' * 600)
            full = d.ctl(TSLABCTL, 'stats')['committed_bytes']
            store.lifetime = 0.3
            for i in range(6000):
                self.assertTrue(store.touch(f'old{i}'))
            daemon.wait_for(lambda: len(store) == 0)
            self.assertIsNone(store.get('old0'))
            daemon.wait_for(lambda: d.ctl(TSLABCTL, 'stats')['live_bytes'] < 100000)
            pool.drain()
            daemon.wait_for(lambda: d.ctl(TSLABCTL, 'stats')['committed_bytes'] < full / 2)
            self.assertTrue(d.ctl(TSLABCTL, 'check')['ok'])

    def test_over_before_its_memory_is_back(self):
        with tslab.create(size=16 << 20) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            store.set('a', b'1')
            self.assertEqual(store.get('a'), b'1')
            store.lifetime = 0.05
            self.assertTrue(store.touch('a'))
            daemon.wait_for(lambda: store.get('a') is None)
            self.assertEqual((store.map.stats().entries, len(store)), (1, 0))
            self.assertFalse(store.touch('a'))
            self.assertFalse(store.delete('a'))
            daemon.wait_for(lambda: store.delete('other') or store.map.stats().entries == 0)

    def test_touched_lives(self):
        with tslab.create(size=16 << 20) as pool:
            store = tslab.SessionStore(pool, lifetime=0.4)
            while not self.touch_one_of_two(store):
                store.lifetime *= 2     # this process had to wait for longer than that
                self.assertLess(store.lifetime, 10)
            store.lifetime = 1000
            self.assertTrue(store.touch('kept'))
            self.assertEqual((store.get('kept'), len(store)), (b'1', 1))

    def touch_one_of_two(self, store):
        """Until the other one is over. Whether this one is there all the time."""
        store.set('kept', b'1')
        store.set('left', b'2')
        while store.get('left') is not None:
            if not store.touch('kept'):
                return False
        return store.touch('kept')


def churn(store, seed, write):
    """A worker: tells of each session that it has set, so that it is to be there."""
    rng = random.Random(seed)
    for n in range(10 ** 9):
        name = f'{seed}.{rng.randrange(50)}'
        store.set(name, f'{n}'.encode() * 20)
        os.write(write, f'{name} {n}\n'.encode())
        store.get(f'{rng.randrange(1000)}.1')
        store.touch(name)
        if n % 7 == 0:
            store.set('common', bytes(str(seed), 'ascii') * 30)
        if n % 5 == 0:
            store.delete(f'{seed}.x')


class Killed(unittest.TestCase):
    def test_killed_anywhere(self):
        rng = random.Random(SEED)
        with daemon.Daemon(TSLABD, '--size=16M') as d, tslab.open(d.socket) as pool:
            store = tslab.SessionStore(pool, lifetime=1000)
            said = {}
            for i in range(0, KILLS, 4):
                self.round(store, range(i, i + 4), rng, said)
            for name, n in said.items():
                value = store.get(name)
                self.assertIsNotNone(value, f'{name} is lost')
                # The last one may have been set and not yet told of.
                self.assertGreaterEqual(int(value[:len(value) // 20]), n, name)
            daemon.wait_for(lambda: d.ctl(TSLABCTL, 'stats')['clients'] <= 1)
            check = d.ctl(TSLABCTL, 'check')
            self.assertTrue(check['ok'], f'{check}, seed {SEED}')

    def round(self, store, seeds, rng, said):
        workers = []
        for seed in seeds:
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    churn(store, seed, write)
                finally:
                    os._exit(1)
            os.close(write)
            workers.append((pid, os.fdopen(read, 'r')))
        for pid, pipe in workers:
            self.assertTrue(pipe.readline())
            time.sleep(rng.random() * 0.02)     # a random place to be killed at, not a wait for anything
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            for line in pipe.read().splitlines():
                name, _, n = line.partition(' ')
                if n:
                    said[name] = int(n)
            pipe.close()


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
