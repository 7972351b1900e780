"""TSLAB_LIBRARY=/…/libtslab-bundled.so.0 makes a wheel that brings this library along, and the libraries that it needs but
for those of libc. The module looks for them in its own folder first. TSLAB_LDD is a command that lists them where the
library is one of another processor. TSLAB_LICENSES are the files with the licences of the code in there, separated by
colons."""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:         # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

PYTHON = 'cp39'             # the oldest that the module's interface is that of
SYSTEM = r'(?:lib(?:c|m|dl|rt|pthread)|ld-linux[^.]*)\.so'        # libraries that each system has


class Wheel(bdist_wheel):
    """One wheel for all versions of Python, and, with the library in it, for all systems with a glibc as new as it needs."""

    def finalize_options(self):
        self.py_limited_api = PYTHON
        super().finalize_options()

    def get_tag(self):
        python, abi, platform = super().get_tag()
        if library and platform.startswith('linux_'):
            parts = [path.read_bytes() for path in pathlib.Path(self.bdist_dir).glob('tslab/*.so*')]
            versions = [tuple(map(int, v)) for part in parts for v in re.findall(rb'GLIBC_(\d+)\.(\d+)', part)]
            platform = platform.replace('linux_', 'manylinux_{}_{}_'.format(*max(versions)), 1)
        return python, abi, platform


library = os.environ.get('TSLAB_LIBRARY')
if library:
    ldd = os.environ.get('TSLAB_LDD', 'ldd').split()
    listed = subprocess.run([*ldd, library], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = [path for path in re.findall(r' => (/\S+)', listed) if not re.match(SYSTEM, os.path.basename(path))]
    for path in library, *needed:
        shutil.copy(path, 'tslab')
    for path in filter(None, os.environ.get('TSLAB_LICENSES', '').split(':')):
        shutil.copy(path, f'LICENSE.{pathlib.Path(path).parent.name}')

setup(cffi_modules=['build_native.py:builder'], cmdclass={'bdist_wheel': Wheel})
