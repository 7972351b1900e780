"""The tests in phpt/ by PHP's own run-tests.php, with a pool of its own daemon. TSLAB_TEST_FULL: under valgrind."""

import os
import re
import shutil
import subprocess
import tempfile

from daemon import SECONDS
from php import PHP, pool, run_tests, settings

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'phpt')
with tempfile.TemporaryDirectory() as work, pool() as daemon:
    # It writes its results beside the tests.
    tests = shutil.copytree(source, os.path.join(work, 'phpt'))
    environment = {**daemon.environment, 'TEST_PHP_EXECUTABLE': PHP, 'NO_INTERACTION': '1', 'NO_COLOR': '1'}
    # It takes options in two words, and sets how errors are shown by itself.
    ini = [word for part in settings(daemon)[1:] if 'errors' not in part for word in ('-d', part[2:])]
    # With -m, PHP's own allocator is off, so that valgrind sees each block.
    valgrind = ['-m'] if os.environ.get('TSLAB_TEST_FULL') and shutil.which('valgrind') else []
    done = subprocess.run([PHP, '-n', run_tests('run-tests.php'), '-q', '-g', 'FAIL,BORK,LEAK', *valgrind, '-n', *ini, tests],
                          env=environment, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=20 * SECONDS)
    print(done.stdout)
    for name in sorted(os.listdir(tests)):
        if name.endswith(('.diff', '.mem')):
            print(name, open(os.path.join(tests, name)).read(), sep='\n')
    passed = re.search(r'^Tests passed +: +(\d+)', done.stdout, re.M)
    n_tests = sum(name.endswith('.phpt') for name in os.listdir(tests))
    assert done.returncode == 0 and passed and int(passed.group(1)) == n_tests, (done.returncode, n_tests)
