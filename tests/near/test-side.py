"""Classes of cases that run side by side: how each of them ends counts, and a failed test tells why at the end."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = """
import os
import signal
import sys
import unittest

sys.path.insert(0, {here!r})
import side


class BadTest(unittest.TestCase):
    def test(self):
        {case}


class GoodTest(unittest.TestCase):
    def test(self):
        pass


side.main()
"""


class SideTest(unittest.TestCase):
    def run_program(self, case):
        # In a folder of its own: Python looks for modules beside the program first, and /tmp has anybody's files.
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, 'program.py')
            program.write_text(PROGRAM.format(here=str(HERE), case=case), encoding='utf-8')
            return subprocess.run([sys.executable, program, *'abcd'], capture_output=True, text=True, check=False)

    def test_all_is_well(self):
        self.assertEqual(self.run_program('pass').returncode, 0)

    def test_a_failure(self):
        done = self.run_program("self.fail('for a reason')")
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(done.stdout.rindex('GoodTest:'), done.stdout.rindex('BadTest:'))
        self.assertIn('for a reason', done.stdout[done.stdout.rindex('BadTest:'):])

    def test_a_crash(self):
        self.assertNotEqual(self.run_program('os.kill(os.getpid(), signal.SIGSEGV)').returncode, 0)


class SummaryTest(unittest.TestCase):
    """The summary of ./dev test says why a test failed."""

    def sum_up(self, output):
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
            json.dump({'name': 'some', 'result': 'FAIL', 'stdout': output}, file)
            file.flush()
            done = subprocess.run([sys.executable, HERE.parents[1] / 'tools/meson-tests.py', 'sum', file.name],
                                  capture_output=True, text=True, check=False,
                                  env=os.environ | {'PYTHONIOENCODING': 'ascii'})
        self.assertEqual(done.returncode, 1)
        return done.stdout

    def test_reasons(self):
        for reason in ('FAIL: test_a (some.Test.test_a)', "AssertionError: 1 != 2", '[  ERROR   ] --- 0x1 != 0x2',
                       '[   LINE   ] --- ../test-a.c:7: error: Failure!', "test-a: ../a.c:7: f: Assertion `a' failed.",
                       '==7==ERROR: AddressSanitizer: heap-use-after-free', '../a.c:7:3: runtime error: shift',
                       'WARNING: ThreadSanitizer: data race (pid=7)', 'redis.exceptions.ConnectionError: refused'):
            self.assertIn(reason, self.sum_up('before\n' * 100 + reason + '\nafter' * 100))

    def test_hostile_output(self):
        """Colours, very long lines, characters that steer a terminal or that nothing can show."""
        shown = self.sum_up('\x1b[1m\x1b[31mFAIL: coloured\x1b[0m\n' + 'x' * 10 ** 6 + 'Error: late' + 'y' * 10 ** 6
                            + '\nError: \x1b]0;title\x07\x00\x9b2J \udc80\u2192 odd\n' + 'after\n' * 100)
        for reason in 'FAIL: coloured', 'Error: late', 'odd':
            self.assertIn(reason, shown)
        self.assertLess(max(map(len, shown.split('\n'))), 200)
        self.assertTrue(shown.replace('\n', '').isprintable())

    def test_the_end(self):
        shown = self.sum_up('AssertionError: x\n' * 1000 + 'the end\n')
        self.assertIn('the end', shown)
        self.assertLess(shown.count('\n'), 50)


unittest.main(argv=sys.argv[:1])
