"""examples/near-redis, beside a real redis-server.

    test-example.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE [unittest arguments]
"""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
from daemon import SECONDS, Daemon, wait_for  # noqa: E402
from servers import Near, Redis  # noqa: E402

TSLABD, EXAMPLE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[4])
TIMES = 1000


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.redis = Redis()
        self.addCleanup(self.redis.end)

    def start_near(self):
        near = Near(self.daemon, self.redis, '--bound', '5000')
        self.addCleanup(near.end)

    def read(self, key):
        """The line that it prints of the key, and how often it asked the server."""
        done = subprocess.run([EXAMPLE, '127.0.0.1', str(self.redis.port), key, str(TIMES)], text=True, check=True,
                              env=dict(os.environ, TSLAB_POOL=self.daemon.socket), stdout=subprocess.PIPE, timeout=SECONDS)
        text, counts = done.stdout.splitlines()
        return text, int(re.fullmatch(rf'{TIMES} reads, (\d+) questions', counts).group(1))

    def test_a_key(self):
        self.start_near()
        for value in 'one', 'two':
            self.redis.client().set('p:a', value)
            wait_for(lambda value=value: self.read('p:a') == (f'p:a: {value}', 0))

    def test_an_absent_key(self):
        self.start_near()
        wait_for(lambda: self.read('p:none') == ('p:none is absent', 0))

    def test_a_lifetime(self):
        self.start_near()
        wait_for(lambda: self.read('p:none')[1] == 0)
        self.redis.client().set('p:a', 'one', px=200)
        self.read('p:a')
        wait_for(lambda: self.read('p:a') == ('p:a is absent', 0))

    def test_without_tslab_near(self):
        self.redis.client().set('p:a', 'one')
        self.assertEqual(self.read('p:a'), ('p:a: one', TIMES))

    def test_trouble_of_the_server(self):
        self.redis.client().lpush('p:list', 'one')
        with self.assertRaises(subprocess.CalledProcessError):
            self.read('p:list')


unittest.main(argv=sys.argv[:1] + sys.argv[5:])
