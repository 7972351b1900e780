"""Fixtures that tests of tslabctl's verbs share: a daemon of their own, and programs that use its pool."""

import os
import subprocess
import sys
import unittest

from daemon import SECONDS, Daemon, wait_for

TSLABCTL, TSLABD, CTL_CLIENT, SOURCE = map(os.path.abspath, sys.argv[1:5])
VERB_CLIENT = os.environ.get('VERB_CLIENT', '')


class Client:
    """Runs verb-client.c."""

    def __init__(self, daemon, **environment):
        self.process = subprocess.Popen([VERB_CLIENT, daemon.socket], env={**os.environ, **environment},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == 'attached\n'

    def do(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer == 'done\n', f'{line}: {answer!r}'

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self.process.stdout.close()


class VerbTest(unittest.TestCase):
    ARGUMENTS = ('--size=16M',)

    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, *self.ARGUMENTS))

    def client(self, **environment):
        client = Client(self.daemon, **environment)
        self.addCleanup(client.end)
        return client

    def run_ctl(self, *arguments, **more):
        more = {'env': self.daemon.environment, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **more}
        return subprocess.run([TSLABCTL, *arguments], check=False, timeout=SECONDS, text=True, **more)

    def text(self, *arguments):
        done = self.run_ctl(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def json(self, *arguments):
        return self.daemon.ctl(TSLABCTL, *arguments)


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
