"""Copies the Rust crates into a tree below the build folder, where cargo works on them for the tests.

Cargo resolves optional dependencies, too, and so asks a registry about crates that nothing uses. Where no registry can be
reached, the manifests of the copy leave these dependencies out, as Debian's packages of crates do.

    NAME.py CARGO SOURCE BUILD [ARGUMENT...]
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
from daemon import Daemon  # noqa: E402, F401

sys.path.insert(0, os.path.join(sys.argv[2], 'bindings', 'rust'))
from package import without_dependencies  # noqa: E402

SKIPPED = 77
CARGO, SOURCE, BUILD, *ARGUMENTS = sys.argv[1:]
FOLDERS = 'bindings/rust', 'tests/rust'
LIBRARY = os.path.join(BUILD, 'libclient')


def skip(why):
    print('skipped:', why)
    sys.exit(SKIPPED)


class Tree:
    """The crates below `name` in the build folder. Files that are there already keep their times, for cargo."""

    def __init__(self, name='crates', has_dependencies=False):
        self.root = os.path.join(BUILD, 'tests', 'rust', name)
        self.environment = {
            **os.environ,
            'CARGO_TARGET_DIR': os.path.join(BUILD, 'tests', 'rust', 'target'),
            'CARGO_TERM_COLOR': 'never',
            'PKG_CONFIG_PATH': os.path.join(BUILD, 'meson-uninstalled'),
            'LD_LIBRARY_PATH': LIBRARY,
        }
        for folder in FOLDERS:
            self.copy(folder, has_dependencies)

    def copy(self, folder, has_dependencies):
        source, here = os.path.join(SOURCE, folder), os.path.join(self.root, folder)
        for path, folders, names in os.walk(source):
            folders[:] = [f for f in folders if f not in ('target', '__pycache__')]
            to = os.path.join(here, os.path.relpath(path, source))
            os.makedirs(to, exist_ok=True)
            for name in names:
                with open(os.path.join(path, name), 'rb') as file:
                    data = file.read()
                if name == 'Cargo.toml' and not has_dependencies:
                    data = without_dependencies(data.decode()).encode()
                self.write(os.path.join(to, name), data)

    @staticmethod
    def write(path, data):
        with contextlib.suppress(FileNotFoundError), open(path, 'rb') as old:
            if old.read() == data:
                return
        # Another test may be writing the same.
        with open(f'{path}.{os.getpid()}', 'wb') as new:
            new.write(data)
        os.rename(new.name, path)

    def cargo(self, folder, verb, *arguments, is_online=False, **options):
        """Runs cargo in a folder."""
        command = [CARGO, verb, *([] if is_online else ['--offline']), *arguments]
        print('+', *command, file=sys.stderr, flush=True)
        return subprocess.run(command, cwd=os.path.join(self.root, folder), env=self.environment,
                              **{'check': True, **options})

    def program(self, *arguments, **options):
        """The program of the tests, tests/rust/src/main.rs."""
        self.cargo('tests/rust', 'build', '--quiet', *arguments, **options)
        return os.path.join(self.environment['CARGO_TARGET_DIR'], 'debug', 'tslab-tests')


def version():
    """The version of rustc, as numbers."""
    text = subprocess.run([os.path.join(os.path.dirname(CARGO), 'rustc'), '--version'], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return tuple(map(int, re.search(r'(\d+)\.(\d+)', text).groups()))


if not os.path.exists(CARGO):
    skip('there is no cargo: install Debian\'s packages cargo and rustc')
