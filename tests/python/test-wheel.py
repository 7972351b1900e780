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
import zipfile

FULL = os.environ.get('TSLAB_TEST_FULL')
LICENCE = '/usr/share/doc/libprotobuf-c-dev/copyright'
OTHERS = [f'3.{minor}' for minor in range(9, 16)]
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

    def build(self, **environment):
        shutil.copytree(SOURCE, self.folder / 'source')
        run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '--wheel-dir', self.folder,
            self.folder / 'source', env={**self.environment, **environment})
        wheel, = self.folder.glob('tslab-*.whl')
        return wheel

    def build_whole(self):
        return self.build(TSLAB_LIBRARY=str(LIBRARY / 'libtslab-bundled.so.0'), TSLAB_LICENSES=LICENCE)

    def install(self, wheel):
        """The environment's python."""
        run(sys.executable, '-m', 'venv', '--system-site-packages', self.folder / 'venv')
        python = self.folder / 'venv' / 'bin' / 'python'
        run(python, '-m', 'pip', 'install', wheel, env=self.environment)
        shutil.rmtree(self.folder / 'source')
        return python

    def test_with_its_library(self):
        """It needs nothing else, and has the licences of all in it."""
        wheel = self.build_whole()
        self.assertRegex(wheel.name, r'-cp39-abi3-manylinux_2_\d+_\w+\.whl$')
        with zipfile.ZipFile(wheel) as archive:
            licences = [name for name in archive.namelist() if '/LICENSE' in name]
            self.assertEqual(len(licences), 2, archive.namelist())
            self.assertIn(b'Redistribution', b''.join(map(archive.read, licences)))
        python = self.install(wheel)
        package, *loaded = run(python, '-c', PROGRAM, env=self.environment, cwd=self.folder).split()
        path, = (path for path in loaded if 'libtslab' in path)
        self.assertEqual(os.path.dirname(path), os.path.dirname(package))
        self.assertFalse([path for path in loaded if 'protobuf' in path])

    def test_from_the_tree_by_pkg_config(self):
        """The library is in a folder of its own."""
        prefix = self.folder / 'prefix'
        for folder in 'lib', 'include':
            (prefix / folder).mkdir(parents=True)
        for header in HEADERS.glob('tslab*.h'):
            shutil.copy(header, prefix / 'include')
        shutil.copy(LIBRARY / 'libtslab.so.0', prefix / 'lib')
        (prefix / 'lib' / 'libtslab.so').symlink_to('libtslab.so.0')
        (prefix / 'lib' / 'tslab.pc').write_text(f'Name: tslab\nDescription: tslab\nVersion: 1\nCflags: -I{prefix}/include\n'
                                                 f'Libs: -L{prefix}/lib -ltslab\n')
        del self.environment['CFLAGS'], self.environment['LDFLAGS']
        self.environment['PKG_CONFIG_PATH'] = str(prefix / 'lib')
        wheel = self.build()
        self.assertRegex(wheel.name, r'-cp39-abi3-linux_\w+\.whl$')
        package, *loaded = run(self.install(wheel), '-c', PROGRAM, env=self.environment, cwd=self.folder).split()
        self.assertIn('/venv/', package)
        self.assertIn(str(prefix / 'lib' / 'libtslab.so.0'), loaded)

    @unittest.skipUnless(FULL, 'packages are fetched')
    def test_other_pythons(self):
        """One wheel for all that are here."""
        wheel, tried = self.build_whole(), []
        del self.environment['PIP_NO_INDEX']
        for version in OTHERS:
            found = [shutil.which(f'python{version}'), *pathlib.Path.home().glob(f'.pyenv/versions/{version}.*/bin/python')]
            for python in filter(None, found[::-1]):
                folder = self.folder / version
                try:
                    run(python, '-m', 'venv', folder)
                    run(folder / 'bin/python', '-m', 'pip', 'install', '--quiet', wheel, env=self.environment)
                except subprocess.CalledProcessError as e:
                    print(f'skipped: {python}: no cffi, or none at all: {e}')
                    continue
                run(folder / 'bin/python', '-c', PROGRAM, env=self.environment, cwd=self.folder)
                tried.append(version)
                break
        print('tried with Python', *tried, '; not there:', *(v for v in OTHERS if v not in tried))
        if not tried:
            self.skipTest('no other Python, or no cffi for it')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
