"""The wheel, and the one that brings the library along: built, installed into a new virtual environment, and used there.

    test-wheel.py PACKAGE-FOLDER HEADERS LIBRARY-FOLDER

The environments have the system's cffi, so nothing is fetched.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, HEADERS, LIBRARY = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
PROGRAM = '''
import tslab
with tslab.create(size=1 << 20) as pool:
    m = tslab.Map(pool, 'm')
    m[b'a'] = b'1'
    assert m[b'a'] == b'1' and pool.read(pool.put(b'x'))[:1] == b'x'
with open('/proc/self/maps', encoding='utf-8') as maps:
    print(tslab.__file__, *sorted({line.split()[-1] for line in maps if '.so' in line}))
'''


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


class Wheel(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-'))).resolve()
        self.environment = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'LD_LIBRARY_PATH')}
        self.environment.update(CFLAGS=f'-I{HEADERS}', LDFLAGS=f'-L{LIBRARY}', PIP_DISABLE_PIP_VERSION_CHECK='1',
                                PIP_ROOT_USER_ACTION='ignore', PIP_NO_INDEX='1')

    def install(self, **environment):
        """The environment's python."""
        shutil.copytree(SOURCE, self.folder / 'source')
        run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '--wheel-dir', self.folder,
            self.folder / 'source', env={**self.environment, **environment})
        wheel, = self.folder.glob('tslab-*.whl')
        run(sys.executable, '-m', 'venv', '--system-site-packages', self.folder / 'venv')
        python = self.folder / 'venv' / 'bin' / 'python'
        run(python, '-m', 'pip', 'install', wheel, env=self.environment)
        shutil.rmtree(self.folder / 'source')
        return python

    def test_where_the_library_is_installed(self):
        python = self.install()
        output = run(python, '-c', PROGRAM, env={**self.environment, 'LD_LIBRARY_PATH': str(LIBRARY)}, cwd=self.folder)
        package, *loaded = output.split()
        self.assertIn('/venv/', package)
        self.assertIn(str(LIBRARY), ' '.join(loaded))

    def test_with_its_library(self):
        python = self.install(TSLAB_LIBRARY=str(LIBRARY / 'libtslab.so.0'))
        package, *loaded = run(python, '-c', PROGRAM, env=self.environment, cwd=self.folder).split()
        for name in 'libtslab.so.0', 'libprotobuf-c.so.':
            path, = (path for path in loaded if name in path)
            self.assertEqual(os.path.dirname(path), os.path.dirname(package))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
