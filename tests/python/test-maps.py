"""The methods of a dictionary, on a map that several processes change at once.

    test-maps.py TSLABD TSLABCTL [unittest arguments]
"""

import contextlib
import errno
import functools
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])
N_TOKENS = 20000
N_CONSUMERS = 4


def in_thread(call, *arguments):
    """The thread ends: a claim is its process's, and only the thread that made it may not wait for it."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call(*arguments)))
    thread.start()
    thread.join()
    return results[0]


class Alone(unittest.TestCase):
    """A map in one process does all that a dictionary does."""

    def setUp(self):
        self.pool = tslab.create(size=64 << 20)
        self.addCleanup(self.pool.close)
        self.map = tslab.Map(self.pool, 'm')

    def test_pop(self):
        self.map[b'a'] = b'1'
        self.assertEqual(self.map.pop(b'a'), b'1')
        self.assertRaises(KeyError, self.map.pop, b'a')
        self.assertIsNone(self.map.pop(b'a', None))
        self.assertEqual(self.map.pop(b'a', 7), 7)

    def test_damaged_value(self):
        """It hides no other entry: keys are all met, and values but the one, of which an error tells at the end."""
        values = {b'%03d' % i: bytes([i]) * 2100 for i in range(20)}
        self.map.update(values)
        version = self.map.get_version(b'007')[1]
        self.pool.get(version)[32 + 8 + 3] ^= 0x20      # behind head and key: the slab of the other piece is none
        for read in self.map.get, self.map.get_version, self.map.pop, self.map.__getitem__:
            with self.assertRaisesRegex(tslab.Error, "damaged.*b'007' of map 'm'") as caught:
                read(b'007')
            self.assertEqual((type(caught.exception), caught.exception.errno), (tslab.Error, errno.EUCLEAN))
        self.assertEqual(set(self.map), set(values))
        self.assertEqual(set(self.map.keys()), set(values))
        met = []
        with self.assertRaisesRegex(OSError, "1 keys in map 'm'.*b'007'") as caught:
            for pair in self.map.items():
                met.append(pair)
        self.assertEqual(caught.exception.errno, errno.EUCLEAN)
        self.assertEqual(dict(met), {k: v for k, v in values.items() if k != b'007'})
        self.assertRaises(OSError, list, self.map.values())
        self.map.clear()
        self.assertEqual(list(self.map), [])

    def test_pop_beside_adds(self):
        """Each add is in one result."""
        def add():
            for _ in range(20000):
                self.map.add(b'n')

        threads = [threading.Thread(target=add) for _ in range(2)]
        for thread in threads:
            thread.start()
        taken = 0
        while any(thread.is_alive() for thread in threads):
            taken += self.number(self.map.pop(b'n', bytes(8)))
            with contextlib.suppress(KeyError):
                taken += self.number(self.map.popitem()[1])
        for thread in threads:
            thread.join()
        self.assertEqual(taken + self.number(self.map.pop(b'n', bytes(8))), 40000)
        self.map.limit(b'l', 1, 1)
        self.assertEqual(len(self.map.pop(b'l')), 8)

    def number(self, value):
        return int.from_bytes(value, sys.byteorder)

    def test_popitem(self):
        entries = {str(i).encode(): b'x' * i for i in range(100)}
        self.map.update(entries)
        self.assertEqual(dict(self.map.popitem() for _ in range(100)), entries)
        self.assertRaises(KeyError, self.map.popitem)

    def test_popitem_of_a_map_that_is_never_empty(self):
        """Others take each entry before popitem() does, and put another one behind it."""
        self.map.put(b'a', b'1')
        real, changes = self.map.pop, iter(range(5))

        def pop(key, default):
            is_gone = next(changes, None) is not None and real(key) is not None
            value = real(key, default)
            if is_gone:
                self.map.put(b'a', b'2')
            return value

        self.map.pop = pop
        self.assertEqual(self.map.popitem(), (b'a', b'2'))
        self.assertRaises(KeyError, self.map.popitem)

    def test_options_out_of_range(self):
        for options in ({'limit_bytes': -1}, {'limit_bytes': 2 ** 64}, {'value_max': -1}, {'value_max': 2 ** 32},
                        {'stale': -1}, {'stale': 1e10}, {'stale': math.inf}, {'stale': math.nan}, {'ttl': -1},
                        {'evict': 'lru'}):
            with self.subTest(options), self.assertRaises(ValueError):
                tslab.Map(self.pool, 'other', **options)

    def test_limit_below_one_entry(self):
        with self.assertRaises(tslab.Error) as caught:
            tslab.Map(self.pool, 'other', limit_bytes=17)
        self.assertEqual((caught.exception.errno, caught.exception.strerror),
                         (errno.EINVAL, "map 'other' with limit_bytes=17: Invalid argument"))
        small = tslab.Map(self.pool, 'other', limit_bytes=150)
        with self.assertRaises(tslab.TooLargeError):
            small[b'key'] = bytes(100)

    def test_wait_without_end(self):
        claim = in_thread(self.map.claim, b'a')
        self.assertFalse(self.map.wait(b'a', claim.version, 0.01))
        thread = threading.Timer(0.05, self.map.delete, (b'a', claim.version))
        thread.start()
        self.assertTrue(self.map.wait(b'a', claim.version, math.inf))
        thread.join()
        self.assertTrue(self.map.wait(b'a', claim.version, 1e300))

    def test_wait_for_any_claim(self):
        self.assertTrue(self.map.wait(b'a', 0, 0))
        claim = self.map.claim(b'a')
        self.assertFalse(self.map.wait(b'a', 0, 0))
        self.map.replace(b'a', claim.version, b'1')
        self.assertTrue(self.map.wait(b'a', 0, 0))

    def test_lifetimes_that_were_read_are_no_longer_when_set(self):
        for left_ms in (*range(1, 100000), 2 ** 32 - 297, 4294967000, 315576000000):
            self.assertEqual(tslab.map.ttl_ms(left_ms / 1000), left_ms)
        self.assertEqual([tslab.map.ttl_ms(ttl) for ttl in (5e-324, 1e-9, 0.0011)], [1, 1, 2])

    def test_pickled_map_is_made_as_it_was(self):
        """The daemon has a new arena by the time at which a copy is opened."""
        with daemon.Daemon(TSLABD, '--size=16M') as d:
            options = {'ttl': 100, 'limit_bytes': 1 << 20, 'value_max': 1000, 'stale': 5, 'evict': 'sieve'}
            pickled = pickle.dumps(tslab.Map(tslab.open(d.socket), 'm', exclusive=True, **options))
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            copy = pickle.loads(pickled)
            copy.put(b'a', b'1')
            self.assertLessEqual(copy.ttl(b'a'), 100)
            self.assertLess(copy.size_max, 1100)

    def test_setdefault(self):
        self.assertEqual(self.map.setdefault(b'a', b'1'), b'1')
        self.assertEqual(self.map.setdefault(b'a', b'2'), b'1')
        self.assertEqual(self.map.setdefault(b'b'), b'')
        self.assertEqual(dict(self.map), {b'a': b'1', b'b': b''})

    def test_clear(self):
        self.map.update((str(i).encode(), b'x') for i in range(5000))
        self.map.clear()
        self.assertEqual((len(self.map), bool(self.map)), (0, False))

    def test_views(self):
        self.map.update({b'a': b'1', b'b': b'2'})
        self.assertTrue(self.map)
        self.assertEqual(sorted(self.map.items()), [(b'a', b'1'), (b'b', b'2')])
        self.assertEqual(sorted(self.map.values()), [b'1', b'2'])
        self.assertEqual(sorted(self.map.keys()), [b'a', b'b'])
        self.assertEqual(len(self.map.items()), 2)
        self.assertIn((b'a', b'1'), self.map.items())
        self.assertNotIn((b'c', b'1'), self.map.items())
        self.assertIn(b'2', self.map.values())
        self.assertNotIn(b'3', self.map.values())
        self.assertEqual(self.map, {b'a': b'1', b'b': b'2'})
        self.assertEqual(self.map.keys() & {b'a', b'c'}, {b'a'})

    def test_lifetimes(self):
        m = self.map
        m.put(b'a', b'1', ttl=3600)
        self.assertTrue(3590 < m.ttl(b'a') <= 3600)
        self.assertTrue(m.touch(b'a', math.inf))
        self.assertEqual(m.ttl(b'a'), math.inf)
        for write in (lambda: m.insert(b'b', b'1', ttl=0.05), lambda: m.change(b'a', b'1', ttl=0.05),
                      lambda: m.replace(b'c', 0, b'1', ttl=0.05), lambda: m.add(b'd', ttl=0.05)):
            write()
        daemon.wait_for(lambda: not list(m.items()))
        self.assertFalse(m.touch(b'a', 1000))
        self.assertIsNone(m.ttl(b'a'))
        for bad in 0, -1, math.nan, 315576001:
            self.assertRaises(ValueError, m.put, b'a', b'1', ttl=bad)

    def test_lifetime_of_the_map(self):
        other = tslab.Map(self.pool, 'other', ttl=0.05)
        other[b'a'] = b'1'
        other.put(b'b', b'2', ttl=math.inf)
        daemon.wait_for(lambda: dict(tslab.Map(self.pool, 'other', ttl=1000).items()) == {b'b': b'2'})

    def test_largest_value_of_the_map(self):
        small = tslab.Map(self.pool, 'small', value_max=1000)
        small[b'a'] = b'x' * 1000
        self.assertRaises(tslab.TooLargeError, small.put, b'a', b'x' * 1001)
        self.assertEqual(tslab.Map(self.pool, 'small', value_max=2000).size_max, 1000)
        with self.assertRaises(tslab.Error):
            tslab.Map(self.pool, 'large', value_max=17 << 20)

    def test_claims(self):
        m = self.map
        first = m.claim(b'a')
        self.assertTrue(first.mine)
        self.assertEqual(m.claim(b'a'), (first.version, False))
        self.assertIsNone(m.get(b'a'))
        self.assertFalse(m.wait(b'a', first.version, 0))
        with self.assertRaises(tslab.Error) as caught:
            m.wait(b'a', first.version, 0.01)
        self.assertEqual(caught.exception.errno, errno.EDEADLK)
        m.replace(b'a', first.version, b'1', ttl=1000)
        self.assertTrue(m.wait(b'a', first.version))
        self.assertIsNone(m.claim(b'a'))
        self.assertRaises(tslab.ChangedError, m.replace, b'a', first.version, b'2')
        second = m.claim(b'b')
        self.assertTrue(m.delete(b'b', second.version))
        self.assertTrue(m.claim(b'b').mine)
        m[b'b'] = b'3'
        self.assertRaises(tslab.ChangedError, m.delete, b'b', second.version)
        self.assertEqual(dict(m.items()), {b'a': b'1', b'b': b'3'})

    def test_wait_serves_signals(self):
        """Their handlers run while it waits, also those that raise; it goes on after the others."""
        version, seen = in_thread(self.map.claim, b'a').version, []

        def stop(*_):
            seen.append(1)
            if len(seen) == 3:
                raise TimeoutError

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, stop))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        self.assertRaises(TimeoutError, self.map.wait, b'a', version, 60)

    def test_limit(self):
        """A map with a limit refuses entries beyond it, or evicts; entries that are used stay."""
        full, cache = (tslab.Map(self.pool, name, limit_bytes=100000, evict=evict)
                       for name, evict in (('full', None), ('cache', 'sieve')))
        with self.assertRaises(tslab.FullError) as caught:
            for i in range(1000):
                full[str(i).encode()] = bytes(200)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        for i in range(2000):
            cache[str(i).encode()] = bytes(200)
            self.assertEqual(cache.get(b'0'), bytes(200))
        for map_ in full, cache:
            self.assertTrue(50000 < map_.stats().bytes <= 100000, map_.stats())
        self.assertEqual((cache.stats().evictions > 1000, full.stats().evictions), (True, 0))
        self.assertRaises(ValueError, tslab.Map, self.pool, 'other', evict='lru')

    def test_stale(self):
        m = tslab.Map(self.pool, 'stale', stale=1000)
        end = daemon.expected_end(0.05)
        m.put(b'a', b'1', ttl=0.05)
        m.put(b'large', b'x' * 100000, ttl=0.05)
        self.map.put(b'a', b'1', ttl=0.05)
        self.assertTrue(m.get_stale(b'a') == (b'1', False) or time.monotonic() > end)
        daemon.wait_for(lambda: m.get(b'a') is None and self.map.get(b'a') is None)
        self.assertEqual((m.get_stale(b'a'), m.get_stale(b'large')), ((b'1', True), (b'x' * 100000, True)))
        self.assertTrue(m.claim(b'a').mine)
        self.assertEqual(m.get_stale(b'a'), (b'1', True))
        self.assertEqual((self.map.get_stale(b'a'), m.get_stale(b'none')), (None, None))

    def test_counters_and_limits(self):
        m = self.map
        self.assertEqual([m.add(b'n', 2, initial=10), m.add(b'n', -20), m.add(b'n')], [12, -8, -7])
        self.assertEqual(int.from_bytes(m[b'n'], sys.byteorder, signed=True), -7)
        m[b'text'] = b'12345678'
        with self.assertRaises(tslab.Error):
            m.add(b'text')
        self.assertEqual([m.limit(b'address', 0.001, 2) for _ in range(2)], [None, None])
        self.assertTrue(900 < m.limit(b'address', 0.001, 2) <= 1000)

    def test_statistics(self):
        m = self.map
        m.update({b'a': b'1', b'b': b'2'})
        m.get(b'a'), m.get(b'c'), m.delete(b'b')
        counts = m.stats()
        self.assertEqual((counts.entries, counts.hits, counts.misses, counts.inserts, counts.deletes), (1, 1, 1, 2, 1))
        self.assertGreater(counts.bytes, 32)


def consume(map_, take, path):
    """Takes tokens until there are none, and writes them down."""
    with open(path, 'wb') as out:
        while True:
            token = take(map_)
            if token is None:
                return
            out.write(token + b'\n')


def pop_any(map_):
    try:
        return map_.popitem()[0]
    except KeyError:
        assert len(map_) == 0, 'popitem() found nothing, and there are entries'
        return None


class KeysInTurn:
    """Pops each key, as all other consumers do at the same time."""

    def __init__(self):
        self.keys = iter(range(N_TOKENS))

    def __call__(self, map_):
        for i in self.keys:
            key = str(i).encode()
            if map_.pop(key, None) is not None:
                return key
        return None


class Beside(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=64 << 20)
        self.addCleanup(self.pool.close)
        self.map = tslab.Map(self.pool, 'tokens')

    def child(self, function):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function()
                code = 0
            finally:
                os._exit(code)
        return pid

    def children(self, functions):
        """All begin when the last one is there."""
        read, write = os.pipe()

        def begin(function):
            os.close(write)
            os.read(read, 1)
            function()

        pids = [self.child(functools.partial(begin, function)) for function in functions]
        os.close(read)
        os.close(write)
        for pid in pids:
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def consumed(self, take, n_tokens):
        self.map.update((str(i).encode(), b'1') for i in range(n_tokens))
        paths = [f'/proc/self/fd/{os.memfd_create("tokens")}' for _ in range(N_CONSUMERS)]
        self.children([lambda p=path: consume(self.map, take, p) for path in paths])
        taken = []
        for path in paths:
            with open(path, 'rb') as tokens:
                taken += tokens.read().split()
            os.close(int(path.rsplit('/', 1)[1]))
        self.assertEqual(len(self.map), 0)
        self.assertEqual(sorted(taken), sorted(str(i).encode() for i in range(n_tokens)))

    def test_pop_takes_each_once(self):
        self.consumed(KeysInTurn(), N_TOKENS)

    def test_popitem_takes_each_once(self):
        self.consumed(pop_any, 3000)

    def test_setdefault_agrees(self):
        """All callers get the same value, and it is the one that is there."""
        paths = [f'/proc/self/fd/{os.memfd_create("answers")}' for _ in range(N_CONSUMERS)]

        def child(path, mine):
            with open(path, 'wb') as out:
                for i in range(3000):
                    out.write(self.map.setdefault(str(i).encode(), mine) + b'\n')

        self.children([lambda p=path, m=str(n).encode(): child(p, m) for n, path in enumerate(paths)])
        there = [self.map[str(i).encode()] for i in range(3000)]
        for path in paths:
            with open(path, 'rb') as answers:
                self.assertEqual(answers.read().split(), there)
            os.close(int(path.rsplit('/', 1)[1]))

    def test_reading_beside_deletes(self):
        """Walks, and pops with a default, meet keys that go away at any moment."""
        def change():
            while True:
                for i in range(200):
                    self.map[str(i).encode()] = b'x'
                for i in range(200):
                    self.map.delete(str(i).encode())

        changers = [self.child(change) for _ in range(2)]
        try:
            for _ in range(300):
                self.assertLessEqual(set(self.map.values()), {b'x'})
                self.assertLessEqual({v for _, v in self.map.items()}, {b'x'})
                self.assertNotIn(b'nothing', self.map.values())
                for i in range(200):
                    self.assertIn(self.map.pop(str(i).encode(), None), (b'x', None))
        finally:
            for changer in changers:
                os.kill(changer, signal.SIGKILL)
                os.waitpid(changer, 0)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
