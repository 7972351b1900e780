"""Tests of near caches with other versions of redis-py, which pip gets; where it cannot, they are skipped.

    test-clients.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TESTS = [('test-near.py', 'NearTest', 'AsyncTest', 'ClusterTest'), ('test-trouble.py', 'SilentTest', 'EngineTest'), ('test-tls.py',)]
SKIPPED = 77


class Clients(unittest.TestCase):
    def run_with(self, version):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-'))
        done = subprocess.run([sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check', 'install',
                               '--root-user-action=ignore', '--target', folder, f'redis=={version}'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            self.skipTest(f'pip install redis=={version}: {done.stdout.strip().splitlines()[-1:]}')
        environment = {**os.environ, 'PYTHONPATH': f'{folder}:{os.environ["PYTHONPATH"]}'}
        for file, *names in TESTS:
            done = subprocess.run([sys.executable, HERE / file, *sys.argv[1:5], *names], check=False, text=True,
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(done.stdout)
            self.assertEqual(done.returncode, 0, (file, done.stdout))

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
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)
