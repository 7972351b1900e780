"""The package, and a program that uses all of it, under mypy --strict.

    test-typing.py TSLABD TSLABCTL [unittest arguments]
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.environ['PYTHONPATH'].split(os.pathsep)[0]

PROGRAM = '''
import array
from typing import List, Optional, Tuple

import tslab


def use(name: str) -> int:
    with tslab.open(name, timeout=1.5) as pool:
        handle, view = pool.alloc(100)
        view[:5] = b'hello'
        with pool.pending(64, pool.epoch_current()) as (other, room):
            room[0] = other & 0xff
        copy: bytes = pool.read(handle)
        advanced, now = pool.epoch_advance_from(pool.epoch_lease('mine'))
        if advanced:
            pool.epoch_label(now, None)
        with pool.domain(auto_close=True) as domain:
            handle += domain.epoch
        infos: List[tslab.EpochInfo] = list(pool.epochs())
        return len(copy) + len(infos) + pool.stats().live_objects + pool.class_stats(64).slabs


def use_map(pool: tslab.Pool) -> Optional[bytes]:
    names = tslab.Map(pool, 'names')
    names[b'a'] = b'1'
    names.put(array.array('q', [1]), memoryview(b'2'))
    items: List[Tuple[bytes, bytes]] = sorted(names.items())
    names.put(b'c', b'3', ttl=1.5)
    left: Optional[float] = names.ttl(b'c')
    wait: Optional[float] = names.limit(b'd', 10, 20)
    claim = names.claim(b'e')
    if claim is not None and not claim.mine and names.wait(b'e', claim.version, 0.1):
        old: Optional[Tuple[bytes, bool]] = names.get_stale(b'e')
    hits: int = names.stats().hits
    popped: Optional[bytes] = names.pop(b'a', None)
    number: int = len(popped or items[0][1]) + len(names.setdefault(b'b', b'3'))
    return names.get(str(number).encode())


def use_cache(pool: tslab.Pool) -> int:
    cache = tslab.Cache(pool, ttl=60, dumps=str.encode, loads=bytes.decode)
    cache.set('a', 'b', ttl=1.5)
    text: str = cache.get_or_compute('c', lambda: 'd')
    with cache.lock('l') as lock:
        lock.locked()
    number: int = cache.incr('n', 2) + cache.delete_many(cache.get_multi(['a', text]))
    return number if cache.add('e', 'f') else 0


def use_store(pool: tslab.Pool) -> Optional[bytes]:
    store = tslab.SessionStore(pool, lifetime=60)
    store.set('id', b'value')
    try:
        return store.get('id')
    except tslab.Error as e:
        return str(e.errno).encode()
'''

WRONG = '''
import tslab


def use(pool: tslab.Pool) -> None:
    pool.alloc('100')
    tslab.Map(pool, 'm')[7] = b'1'
    value: bytes = tslab.Map(pool, 'm').get(b'a')
    pool.nothing()
'''


def mypy(*arguments):
    with tempfile.TemporaryDirectory(prefix='tslab-test-') as folder:
        return subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', folder, *arguments],
                              env={**os.environ, 'MYPYPATH': PACKAGE, 'PYTHONPATH': ''}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, text=True)


class Strict(unittest.TestCase):
    def program(self, text):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-'))
        path = os.path.join(folder, 'program.py')
        with open(path, 'w', encoding='ascii') as f:
            f.write(text)
        return path

    def test_package(self):
        without = [name for name in ('aiocache', 'cachelib', 'celery', 'django', 'dogpile', 'flask', 'limits', 'starlette')
                   if not importlib.util.find_spec(name)]
        done = mypy('--exclude', f'tslab/({"|".join(without)}).py', os.path.join(PACKAGE, 'tslab'))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_program(self):
        done = mypy(self.program(PROGRAM))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_wrong_program(self):
        """Types that are everything would pass, and help nobody."""
        done = mypy(self.program(WRONG))
        self.assertIn('Found 4 errors', done.stdout)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
