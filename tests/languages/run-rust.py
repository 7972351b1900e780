"""Compiles and runs a program of Rust of the page: run-rust.py CARGO SOURCE BUILD FILE ARGUMENT..."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'rust'))
from rust import ARGUMENTS, CARGO, LIBRARY, Tree  # noqa: E402

source, *arguments = ARGUMENTS
program = source + '.program'
if not os.path.exists(program):
    tree = Tree()
    tree.cargo('bindings/rust', 'build', '--quiet', '-p', 'tslab', stdout=subprocess.DEVNULL)
    crates = os.path.join(tree.environment['CARGO_TARGET_DIR'], 'debug')
    # Another process may be compiling the same: rustc names its own files by the source's name, beside what it makes.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(program)) as own:
        new = os.path.join(own, 'program')
        subprocess.run([os.path.join(os.path.dirname(CARGO), 'rustc'), '--edition=2021', source, '-o', new,
                        '--extern', f'tslab={crates}/libtslab.rlib', '-L', f'dependency={crates}/deps',
                        '-L', f'native={LIBRARY}'], check=True)
        os.rename(new, program)
os.environ['LD_LIBRARY_PATH'] = LIBRARY
os.execv(program, [program, *arguments])
