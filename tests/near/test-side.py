"""Classes of cases that run side by side: how each of them ends counts."""

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


class GoodTest(unittest.TestCase):
    def test(self):
        pass


class OtherTest(unittest.TestCase):
    def test(self):
        {case}


side.main()
"""


class SideTest(unittest.TestCase):
    def run_program(self, case):
        with tempfile.NamedTemporaryFile('w', suffix='.py') as file:
            file.write(PROGRAM.format(here=str(HERE), case=case))
            file.flush()
            return subprocess.run([sys.executable, file.name, *'abcd'], stdout=subprocess.DEVNULL, check=False).returncode

    def test_all_is_well(self):
        self.assertEqual(self.run_program('pass'), 0)

    def test_a_failure(self):
        self.assertNotEqual(self.run_program('self.fail()'), 0)

    def test_a_crash(self):
        self.assertNotEqual(self.run_program('os.kill(os.getpid(), signal.SIGSEGV)'), 0)


unittest.main(argv=sys.argv[:1])
