"""The wheel: built, installed into a clean virtual environment, and used there.

    test-wheel.py PACKAGE-FOLDER HEADERS LIBRARY-FOLDER

The environment gets cffi from where pip gets it; where that cannot be reached the test is skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
SOURCE, HEADERS, LIBRARY = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
PROGRAM = '''
import tslab
with tslab.create(size=1 << 20) as pool:
    m = tslab.Map(pool, 'm')
    m[b'a'] = b'1'
    assert m[b'a'] == b'1' and pool.read(pool.put(b'x'))[:1] == b'x'
print(tslab.__version__)
'''


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, **options)


def main():
    environment = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    environment.update(CFLAGS=f'-I{HEADERS}', LDFLAGS=f'-L{LIBRARY}', LD_LIBRARY_PATH=str(LIBRARY),
                       PIP_DISABLE_PIP_VERSION_CHECK='1', PIP_ROOT_USER_ACTION='ignore')
    with tempfile.TemporaryDirectory(prefix='tslab-test-') as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(SOURCE, folder / 'source')
        run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '--wheel-dir', folder / 'wheels',
            folder / 'source', env=environment)
        wheel, = (folder / 'wheels').glob('tslab-*.whl')
        run(sys.executable, '-m', 'venv', folder / 'venv')
        python = folder / 'venv' / 'bin' / 'python'
        if subprocess.run([python, '-m', 'pip', 'download', '--quiet', '--dest', folder / 'wheels', 'cffi'],
                          env=environment, check=False).returncode != 0:
            print('pip cannot fetch cffi here')
            return SKIPPED
        run(python, '-m', 'pip', 'install', '--quiet', '--no-index', '--find-links', folder / 'wheels', wheel,
            env=environment)
        output = run(python, '-c', PROGRAM, env=environment, cwd=folder, stdout=subprocess.PIPE).stdout
        print('installed', wheel.name, output.strip())
        return 0


sys.exit(main())
