"""Runs the cases of a test program, each class in a process and, where that is allowed, in a network of its own, side by side.

The cases wait for most of their time. With TSLAB_TEST_FULL=1, and where cases are named, they run one after the other.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import unittest

FULL = os.environ.get('TSLAB_TEST_FULL') == '1'
IS_ALONE = 'TSLAB_TEST_ALONE' in os.environ      # in a network of our own
AT_ONCE = 4
LINK = ['ip', 'link', 'set', 'lo']
UNSHARE = ['unshare', '--net', *([] if os.geteuid() == 0 else ['--map-root-user'])]


def can_leave_the_network():
    return (all(map(shutil.which, ('unshare', 'ip')))
            and subprocess.run([*UNSHARE, *LINK, 'up'], capture_output=True, check=False).returncode == 0)


def run_part(names, is_alone, **more):
    return subprocess.run([*(UNSHARE if is_alone else []), sys.executable, *sys.argv[:5], *names], check=False,
                          env=os.environ | {'TSLAB_TEST_PART': '1'} | ({'TSLAB_TEST_ALONE': '1'} if is_alone else {}),
                          **more)


def run_classes(names, is_alone):
    """Their outputs, each as one, those of failed classes once more at the end: CI keeps only the end."""
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
        parts = [executor.submit(run_part, [name], is_alone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for name in names]
        for name, part in zip(names, parts):
            output = f'{name}:\n{part.result().stdout}'
            print(output, flush=True)
            if part.result().returncode != 0:       # a crash has a negative one
                failed.append(output)
    print(*failed, sep='\n')
    return int(bool(failed))


def main():
    """In place of unittest.main(), with the arguments from the fifth on."""
    names = sys.argv[5:]
    if 'TSLAB_TEST_PART' in os.environ:
        if IS_ALONE:
            subprocess.run([*LINK, 'up'], check=True)
        unittest.main(argv=sys.argv[:1] + names)
    elif names or FULL:
        sys.exit(run_part(names, can_leave_the_network()).returncode)
    else:
        suites = unittest.defaultTestLoader.loadTestsFromModule(sys.modules['__main__'])
        names = [type(next(iter(suite))).__name__ for suite in suites if suite.countTestCases()]
        sys.exit(run_classes(names, can_leave_the_network()))
