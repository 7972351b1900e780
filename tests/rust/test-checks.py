"""Calls on a real daemon, in forked children and in threads that end: tests/rust/src/checks.rs.

    test-checks.py CARGO SOURCE BUILD TSLABD
"""

import subprocess

from rust import ARGUMENTS, LIBRARY, Daemon, Tree

program = Tree().program()
with Daemon(ARGUMENTS[0], '--size=128M') as daemon:
    subprocess.run([program, 'checks', daemon.socket], env={**daemon.environment, 'LD_LIBRARY_PATH': LIBRARY}, check=True)
