"""tslab.Cache, in one process and in several.

    test-cache.py TSLABD TSLABCTL [unittest arguments]
"""

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
ROUNDS = 100 if os.environ.get('TSLAB_TEST_FULL') else 10


class Alone(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.cache = self.open()

    def open(self, **options):
        return tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads, **options)

    def test_values(self):
        for value in None, 0, True, 'text', [1, {'a': (2, 3.5)}], b'x' * 100000:
            self.cache.set('a', value)
            self.assertIn('a', self.cache)
            self.assertEqual(self.cache.get('a', 'nothing'), value)
        self.assertEqual(self.cache.get(b'a'), value)
        self.assertIsNone(self.cache.get('b'))
        self.assertEqual(self.cache.get('b', 7), 7)
        self.assertNotIn('b', self.cache)
        self.assertTrue(self.cache)
        with self.assertRaises(tslab.TooLargeError):
            self.cache.set('a', bytes(self.cache.size_max))
        self.assertEqual(self.cache.get('a'), value)

    def test_bytes(self):
        plain = tslab.Cache(self.pool, 'plain')
        plain.set('a', bytearray(b'1'))
        self.assertEqual(plain.get('a'), b'1')
        self.assertRaises(TypeError, plain.set, 'a', 'text')
        self.assertRaises(TypeError, plain.set, 'a', 7)

    def test_lifetimes(self):
        cache = self.open(ttl=0.05)
        cache.set('a', 1)
        cache.set('b', 2, ttl=math.inf)
        cache.set('c', 3, ttl=1000)
        cache.add('d', 4)
        cache.incr('e')
        self.cache.set('f', 6)
        self.assertTrue(0 < cache.map.ttl(b'a') <= 0.05)
        daemon.wait_for(lambda: cache.get_multi('abcdef') == {'b': 2, 'c': 3, 'f': 6})
        self.assertEqual(len(cache), 3)
        self.assertTrue(cache.add('a', 1))

    def test_add(self):
        self.assertTrue(self.cache.add('a', 1))
        self.assertFalse(self.cache.add('a', 2))
        self.assertEqual(self.cache.get('a'), 1)

    def test_incr(self):
        self.assertEqual([self.cache.incr('n'), self.cache.incr('n', 5), self.cache.incr('n', -10)], [1, 6, -4])
        self.assertEqual(self.cache.get('n'), -4)
        self.assertEqual(self.cache.incr('m', 2, initial=40), 42)

    def test_incr_of_a_number_that_was_set(self):
        self.cache.set('n', 5, ttl=1000)
        self.assertEqual(self.cache.incr('n', 3), 8)
        self.assertEqual(self.cache.get('n'), 8)
        self.assertTrue(900 < self.cache.map.ttl(b'n') <= 1000)
        self.cache.set('half', 0.5)
        self.assertEqual(self.cache.incr('half'), 1.5)
        self.cache.set('list', [1])
        self.assertRaises(TypeError, self.cache.incr, 'list')
        self.cache.map.limit(b'bucket', 1, 1)
        self.assertRaises(tslab.Error, self.cache.incr, 'bucket')

    def test_many(self):
        for key in 'abc':
            self.cache.set(key, key.upper())
        self.assertEqual(self.cache.get_multi(['a', 'x', 'c']), {'a': 'A', 'c': 'C'})
        self.assertEqual(self.cache.get_multi([b'a']), {b'a': 'A'})
        self.assertEqual(self.cache.delete_many(['a', 'x', 'b']), 2)
        self.assertTrue(self.cache.delete('c'))
        self.assertFalse(self.cache.delete('c'))
        self.assertEqual(len(self.cache), 0)

    def test_clear(self):
        other = tslab.Cache(self.pool, 'other')
        other.set('a', b'1')
        for i in range(1000):
            self.cache.set(str(i), i)
        self.cache.clear()
        self.assertEqual((len(self.cache), other.get('a')), (0, b'1'))

    def test_get_or_compute(self):
        made = []

        def make():
            made.append(1)

        self.assertEqual([self.cache.get_or_compute('a', make) for _ in range(3)], [None] * 3)
        self.assertEqual(len(made), 1)
        self.assertEqual(self.cache.get_or_compute('b', lambda: 7, ttl=1000), 7)
        self.assertTrue(900 < self.cache.map.ttl(b'b') <= 1000)
        with self.assertRaises(ZeroDivisionError):
            self.cache.get_or_compute('c', lambda: 1 // 0)
        self.assertEqual(self.cache.get_or_compute('c', lambda: 3), 3)

    def test_epoch_is_closed(self):
        for i in range(3):
            self.pool.epoch_close(self.pool.epoch_current())
            with self.assertLogs('tslab', 'WARNING'):
                self.cache.set('a', i)
            self.pool.epoch_close(self.pool.epoch_current())
            self.assertEqual(self.cache.incr(f'n{i}'), 1)
            self.assertEqual(self.cache.get('a'), i)

    def test_new_daemon(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            cache = tslab.Cache(tslab.open(d.socket), dumps=lambda v: json.dumps(v).encode(), loads=json.loads)
            cache.set('a', [1])
            d.process.kill()
            d.process.wait()
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            with self.assertLogs('tslab', 'WARNING'):
                daemon.wait_for(lambda: cache.get('a') is None)
            cache.set('a', [2])
            with tslab.open(d.socket) as pool:
                self.assertEqual(tslab.Cache(pool).get('a'), b'[2]')


class Beside(unittest.TestCase):
    """Workers on a daemon's pool, some of which are killed."""

    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=16M'))
        self.pool = self.enterContext(tslab.open(self.daemon.socket))
        self.cache = tslab.Cache(self.pool, dumps=pickle.dumps, loads=pickle.loads)

    def worker(self, function):
        """Forked: its pid, and a file with the lines that it writes."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function(lambda line: os.write(write, f'{line}\n'.encode()))
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        return pid, os.fdopen(read)

    def end(self, pid, lines, kill=False):
        if kill:
            self.assertTrue(lines.readline())
            os.kill(pid, signal.SIGKILL)
        with lines:
            text = lines.read()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGKILL if kill else 0)
        return text.splitlines()

    def test_incr_of_many(self):
        """Counters, and numbers that were set, beside a worker that is killed in it: its last step may be done or not."""
        for key in 'counter', 'number':
            if key == 'number':
                self.cache.set(key, 0)
            for _ in range(ROUNDS):
                before = self.cache.get(key, 0)

                def count(tell, n=300, key=key):
                    for _ in range(n):
                        self.cache.incr(key)
                        tell('done')

                others = [self.worker(count) for _ in range(2)]
                n = 1 + len(self.end(*self.worker(lambda tell, key=key: count(tell, 10 ** 9, key)), kill=True))
                for other in others:
                    n += len(self.end(*other))
                self.assertIn(self.cache.get(key) - before - n, (0, 1))
        self.check()

    def test_add_has_one_winner(self):
        def add(tell):
            for i in range(500):
                if self.cache.add(f'{i}', os.getpid()):
                    tell(i)

        won = [int(line) for worker in [self.worker(add) for _ in range(4)] for line in self.end(*worker)]
        self.assertEqual(sorted(won), list(range(500)))

    def check(self):
        daemon.wait_for(lambda: self.daemon.ctl(TSLABCTL, 'stats')['clients'] <= 1)
        check = self.daemon.ctl(TSLABCTL, 'check')
        self.assertTrue(check['ok'], check)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
