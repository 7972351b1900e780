"""The crate's own tests under Miri, which makes no call of the library: values, numbers of processes, bytes of objects.

    test-miri.py CARGO SOURCE BUILD
"""

import os
import subprocess
import sys

from rust import CARGO, Tree, skip

MIRI = next((words for words in ([CARGO, 'miri'], [CARGO, '+nightly', 'miri'])
             if subprocess.run([*words, '--version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0), None)
if MIRI is None:
    skip('there is no Miri: it is a component of rustup\'s nightly toolchain')
tree = Tree()
tree.environment['CARGO_TARGET_DIR'] += '-miri'
tree.environment['CARGO_NET_OFFLINE'] = 'true'


def run(*arguments):
    return subprocess.run([*MIRI, *arguments], cwd=os.path.join(tree.root, 'bindings/rust'), env=tree.environment).returncode


if run('setup'):
    skip('Miri has no standard library, and cannot make one here')
sys.exit(run('test', '--quiet', '-p', 'tslab', '--lib'))
