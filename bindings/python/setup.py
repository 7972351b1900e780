"""TSLAB_LIBRARY=/…/libtslab.so.0 makes a wheel that brings this library along, and the libraries that it needs but for
those of libc. The module then looks for them in its own folder first."""

import os
import re
import shutil
import subprocess

from setuptools import setup

library = os.environ.get('TSLAB_LIBRARY')
if library:
    listed = subprocess.run(['ldd', library], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = re.findall(r' => (\S+/lib(?!c\.|m\.|dl\.|rt\.|pthread\.)\S+)', listed)
    for path in library, *needed:
        shutil.copy(path, 'tslab')

setup(cffi_modules=['build_native.py:builder'])
