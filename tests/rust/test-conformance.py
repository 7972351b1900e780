"""The cases that all bindings pass, on the actor tests/rust/src/actor.rs.

    test-conformance.py CARGO SOURCE BUILD TSLABD DRIVER
"""

import os
import subprocess
import sys

from rust import ARGUMENTS, LIBRARY, Tree

tslabd, driver = ARGUMENTS
os.environ['LD_LIBRARY_PATH'] = LIBRARY
sys.exit(subprocess.run([sys.executable, driver, tslabd, Tree().program(), 'actor']).returncode)
