"""The suites of dogpile.cache, cachelib, limits, aiocache, Django and Flask-Session, on a pool, and test-frameworks.py with
the newest packages.

    test-suites.py TSLABD TSLABCTL [unittest arguments]

pip gets the packages, and the sources of those whose suites are not in their wheels. Where it cannot, the suite is
skipped. So are the tests of other caches' insides.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
PROJECT = pathlib.Path(__file__).resolve().parents[2] / 'bindings/python/pyproject.toml'
SKIPPED = 77

DOGPILE = '''
import contextlib
import os

import pytest
import tslab
from dogpile.cache import make_region, register_backend
from dogpile.cache.api import NO_VALUE
from dogpile.testing.fixtures import _GenericBackendTestSuite, _GenericMutexTestSuite, _GenericSerializerTestSuite

register_backend('tslab', 'tslab.dogpile', 'Backend')


class Ours:
    backend = 'tslab'
    config_args = {'arguments': {'pool': os.environ['TSLAB_POOL']}}


class TestBackend(Ours, _GenericBackendTestSuite):
    pass


class TestMutex(Ours, _GenericMutexTestSuite):
    pass


def test_bytes_of_others():
    with tslab.create(size=1 << 20) as pool:
        region = make_region().configure('tslab', expiration_time=300, arguments={'pool': pool})
        region.set('mine', 1)
        entry = region.backend.cache.get('mine')
        metadata = entry.partition(b'|')[0]
        for data in (b'', b'7', b'x', b'\\xff|', b'[1]|x', b'{}|x', b'[' * 100000, entry[:-1], metadata + b'|x',
                     metadata + b'|cno_module\\nx\\n.'):
            region.backend.cache.set('theirs', data)
            assert region.get('theirs') is NO_VALUE
            assert region.get_multi(['mine', 'theirs']) == [1, NO_VALUE]
            assert region.get_or_create('theirs', lambda: 7) == 7
            assert region.get('theirs') == 7


def test_pool_is_full():
    with tslab.create(size=1 << 20) as pool:
        region = make_region().configure('tslab', expiration_time=300, arguments={'pool': pool})
        region.set('old', 1)
        assert region.get_or_create('large', lambda: b'x' * 2000000) == b'x' * 2000000
        region.set('old', b'x' * 2000000)
        assert region.get('old') is NO_VALUE
        for size in 4096, 2048, 1360, 1024, 816, 672, 576, 512, 400, 336, 256, 192, 128, 96, 64:
            with contextlib.suppress(tslab.FullError):
                while True:
                    pool.put(b'x' * size)
        assert region.get_or_create('a', lambda: 7) == 7
        assert region.get_or_create_multi(['b', 'c'], lambda *keys: [7 for _ in keys]) == [7, 7]


def test_counter():
    with tslab.create(size=1 << 20) as pool:
        region = make_region().configure('tslab', expiration_time=300, arguments={'pool': pool})
        region.backend.cache.incr('a')
        assert region.get_or_create('a', lambda: 7) == 7


def test_keys_like_those_of_locks():
    with tslab.create(size=1 << 20) as pool:
        region = make_region().configure('tslab', expiration_time=300, arguments={'pool': pool})
        for before in '\\0', '\\x01', '\\x7f', '\\xff':
            region.set(before + 'a', 1)
        assert region.get_or_create('a', lambda: 7) == 7


class TestSerializer(Ours, _GenericSerializerTestSuite, _GenericBackendTestSuite):
    pass
'''

CACHELIB = '''
import os
import pickle

import pytest
from clear import ClearTests
from common import CommonTests
from has import HasTests
from serializer import SerializerTests
from test_simple_cache import SillySerializer
from test_simple_cache import TestSimpleCache as Simple

import tslab
import tslab.cachelib


UNPICKLED = [lambda: 7]


class Custom(tslab.cachelib.Cache):
    serializer = SillySerializer()


class Own(tslab.cachelib.Cache):
    def __init__(self, pool):
        super().__init__(pool, 'own', default_timeout=7)


@pytest.fixture(autouse=True, params=[tslab.cachelib.Cache, Custom])
def cache_factory(request):
    with tslab.create() as pool:
        request.cls.cache_factory = lambda self, **options: request.param(pool, **options)
        yield


class TestTslab(CommonTests, HasTests, ClearTests, SerializerTests):
    test_add_on_expired_key_succeeds = Simple.test_add_on_expired_key_succeeds
    test_has_on_expired_key_returns_false = Simple.test_has_on_expired_key_returns_false
    test_delete_nonexistent_returns_false = Simple.test_delete_nonexistent_returns_false
    test_concurrent_inc_is_consistent = Simple.test_concurrent_inc_is_consistent
    test_concurrent_add_only_one_winner = Simple.test_concurrent_add_only_one_winner

    def test_timeouts(self):
        with tslab.create() as pool:
            cache = tslab.cachelib.Cache(pool, default_timeout=10 ** 9)
            for timeout in None, 10 ** 8, 1:
                assert cache.set('a', 1, timeout) and cache.get('a') == 1
            assert cache.set('a', 1, -1)
            while cache.get('a'):
                pass

    def test_refused(self):
        """Nobody reads the value from before, whatever kept the new one out."""
        with tslab.create() as pool:
            cache = tslab.cachelib.Cache(pool)
            for call in lambda: cache.set('a', b'x' * 2000000), lambda: cache.set_many({'a': b'x' * 2000000}):
                assert cache.set('a', 'apple')
                assert not call()
                assert cache.get('a') is None
            cache.set('a', 'apple')
            with pytest.raises(pickle.PicklingError):
                cache.set('a', UNPICKLED)
            assert cache.get('a') is None

    def test_class_that_is_gone(self):
        with tslab.create() as pool:
            cache = tslab.cachelib.Cache(pool)
            tslab.Cache(pool, 'cachelib').set('a', b'cno_such_module\\nPrice\\n.')
            assert cache.get('a') is None
            assert cache.get_many('a') == [None]

    def test_no_pickle(self):
        with tslab.create() as pool:
            cache = tslab.cachelib.Cache(pool)
            for call in cache.set, cache.add:
                with pytest.raises(pickle.PicklingError, match='list'):
                    call('a', UNPICKLED)
            assert not cache.has('a')

    def test_pickled(self):
        pool = tslab.open(os.environ['TSLAB_POOL'])
        for cache in tslab.cachelib.Cache(pool, 'pickled', default_timeout=7), Own(pool):
            cache.set('a', 1)
            copy = pickle.loads(pickle.dumps(cache))
            assert (copy.get('a'), copy.default_timeout) == (1, 7)
'''

OLDEST = '''
import dogpile.cache
import flask

import tslab
import tslab.cachelib
import tslab.dogpile
import tslab.flask

dogpile.cache.register_backend('tslab', 'tslab.dogpile', 'Backend')
app = flask.Flask('app')
app.get('/')(lambda: flask.session.setdefault('user', 'ann'))


def test_all():
    with tslab.create() as pool:
        cache = tslab.cachelib.Cache(pool)
        assert cache.set('a', 1) and cache.get('a') == 1
        region = dogpile.cache.make_region().configure('tslab', arguments={'pool': pool})
        region.backend.cache.set('theirs', b'x')
        assert [region.get_or_create(key, lambda: 7) for key in ('a', 'theirs')] == [7, 7]
        app.session_interface = tslab.flask.SessionInterface(lambda: tslab.SessionStore(pool))
        client = app.test_client()
        assert [client.get('/').text for _ in range(2)] == ['ann', 'ann']
'''

# The module of the suite that the sources lack: the storages to test, and moments. Later sources have no suite.
LIMITS = '''
import contextlib
import functools
import os
import time

import pytest
import tslab.limits

all_storage = pytest.mark.parametrize('uri, args, fixture', [(f'tslab://{os.environ["TSLAB_POOL"]}', {}, None)])
moving_window_storage = sliding_window_counter_storage = all_storage
timestamp_based_key_ttl = None      # for storages whose windows begin with the hour


@contextlib.contextmanager
def window(seconds, delay=0):
    begin = time.time()
    time.sleep(delay)
    yield begin, begin + seconds
    time.sleep(max(0, begin + seconds - time.time()))


def fixed_start(test):
    @functools.wraps(test)
    def tested(*arguments, **options):
        time.sleep(1 - time.time() % 1)
        return test(*arguments, **options)
    return tested


@pytest.fixture(autouse=True)
def empty():
    with tslab.open(os.environ['TSLAB_POOL']) as pool:
        tslab.Cache(pool, 'limits').clear()
    yield
'''

# In place of the cache in memory, and as the one that the tests of all caches run with.
AIOCACHE = '''

import tslab.aiocache


@pytest.fixture
async def memory_cache():
    async with tslab.aiocache.Cache(namespace='test') as cache:
        yield cache
        await cache.clear()


@pytest.fixture
def cache(memory_cache):
    return memory_cache
'''

# Its version 0.5 keeps sessions in cachelib's FileSystemCache. Later sources have no suite.
FLASK_SESSION = '''
import cachelib.file
import pytest
import tslab
import tslab.cachelib

cachelib.file.FileSystemCache = lambda *_, **__: tslab.cachelib.Cache(tslab.create())
'''


# The tests of all caches, and of all kinds of sessions. The map evicts by itself, so nothing is culled.
DJANGO_CACHE = '''
import os

from cache import tests
from django.test import TestCase, override_settings


@override_settings(CACHES=tests.caches_setting_for_tests(exclude={'cull', 'zero_cull'}, BACKEND='tslab.django.Cache',
                                                         LOCATION=os.environ['TSLAB_POOL']))
class Tslab(tests.BaseCacheTests, TestCase):
    def test_cull(self):
        pass

    test_zero_cull = test_cull
'''
DJANGO_SESSIONS = '''
from django.test import SimpleTestCase
from sessions_tests import tests

import tslab.django


class Tslab(tests.SessionTestsMixin, SimpleTestCase):
    backend = tslab.django.SessionStore
'''


def pip(*arguments):
    done = subprocess.run([sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check', *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest(f'pip {arguments[0]}: {done.stdout.strip().splitlines()[-1:]}')


class Suites(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-')))
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=64M'))

    def get(self, *packages):
        pip('install', '--root-user-action=ignore', '--target', str(self.folder / 'packages'), 'pytest', *packages)

    def get_source(self, package):
        pip('download', '--no-deps', f'--no-binary={package.split("=")[0]}', '--dest', str(self.folder), package)
        archive, = self.folder.glob('*.tar.gz')
        shutil.unpack_archive(archive, self.folder)
        source, = (path for path in self.folder.iterdir() if path.is_dir() and path.name != 'packages')
        return source

    def pytest(self, folder, name, program, *arguments, n_tests):
        (folder / name).write_text(program, encoding='ascii')
        done = self.run_beside('-m', 'pytest', '-p', 'no:cacheprovider', '-q', *arguments, cwd=folder)
        self.assertRegex(done.stdout, rf'\n{n_tests} passed')

    def run_beside(self, *arguments, cwd):
        """A program of Python, which succeeds, with the packages and the pool."""
        path = f'{os.environ["PYTHONPATH"]}:{self.folder / "packages"}'
        done = subprocess.run([sys.executable, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**self.daemon.environment, 'PYTHONPATH': path, 'TSLAB_POOL': self.daemon.socket},
                              check=False, text=True)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done

    def test_dogpile(self):
        self.get('dogpile.cache')
        self.pytest(self.folder, 'test_tslab.py', DOGPILE, 'test_tslab.py', n_tests=r'\d+')

    def test_cachelib(self):
        self.get('cachelib', 'pytest-xprocess')
        self.pytest(self.get_source('cachelib') / 'tests', 'test_tslab.py', CACHELIB, 'test_tslab.py', n_tests=r'\d+')

    def test_limits(self):
        """The tests of its strategies: those of its storages name limits' own."""
        self.get('limits==5.4.0', 'pytest-lazy-fixtures', 'flaky')
        source = self.get_source('limits==5.4.0')
        (source / 'tests/__init__.py').touch()
        (source / 'tests/conftest.py').write_text('from tests.utils import empty    # noqa: F401', encoding='ascii')
        shutil.rmtree(source / 'limits')        # the one that was installed
        self.pytest(source, 'tests/utils.py', LIMITS, '-o', 'addopts=', 'tests/test_strategy.py', n_tests=r'\d+')

    def test_aiocache(self):
        """Not those of other caches, and of an object that comes back as the very same one."""
        self.get('aiocache', 'pytest-asyncio', 'pytest-mock', 'marshmallow')
        source, conftest = self.get_source('aiocache'), 'tests/acceptance/conftest.py'
        program = (source / conftest).read_text(encoding='ascii') + AIOCACHE
        self.pytest(source, conftest, program, '-o', 'addopts=', '-o', 'asyncio_mode=auto', '-o', 'filterwarnings=',
                    'tests/acceptance', '-k', 'not Redis and not Memcached and not NullSerializer and not test_raw', n_tests=r'\d+')

    def test_django(self):
        self.get('django==5.2.*')
        tests = self.get_source('django==5.2.*') / 'tests'
        (tests / 'cache/tests_tslab.py').write_text(DJANGO_CACHE, encoding='ascii')
        (tests / 'sessions_tests/tests_tslab.py').write_text(DJANGO_SESSIONS, encoding='ascii')
        done = self.run_beside('runtests.py', '--parallel=1', 'cache.tests_tslab', 'sessions_tests.tests_tslab', cwd=tests)
        self.assertRegex(done.stdout, r'\nRan 1\d\d tests')

    def test_frameworks(self):
        self.get('limits', 'Flask-Limiter', 'slowapi', 'Flask-Caching', 'celery', 'aiocache', 'django', 'fastapi', 'httpx')
        path = f'{os.environ["PYTHONPATH"]}:{self.folder / "packages"}'
        done = subprocess.run([sys.executable, HERE / 'test-frameworks.py', *sys.argv[1:3]], check=False, text=True,
                              env={**os.environ, 'PYTHONPATH': path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn('skipped', done.stdout)

    def test_oldest(self):
        """The oldest versions that the package admits."""
        oldest = re.findall(r'"(flask|cachelib|dogpile\.cache)>=([\d.]+)"', PROJECT.read_text(encoding='utf-8'))
        self.assertEqual(len(oldest), 3)
        self.get('werkzeug<3', *(f'{name}=={version}' for name, version in oldest))
        self.pytest(self.folder, 'test_tslab.py', OLDEST, 'test_tslab.py', n_tests=1)

    def test_flask_session(self):
        self.get('Flask-Session==0.5.0', 'cachelib')
        self.pytest(self.get_source('Flask-Session==0.5.0'), 'conftest.py', FLASK_SESSION, 'test_session.py', '-k',
                    'null or filesystem', n_tests=2)


if __name__ == '__main__':
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False)
    result = program.result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)
