"""Runs a test under a systemd of its own: run.py BUILD CLIENT TEST [FOLDER:PLACE]...

The test is one of this folder, or a path in one of these folders, which it finds at their places.

The files of 'meson install' go into a folder, which the test copies over the throwaway root. Exit status 77 where that
cannot be: not root, or systemd does not come up here.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent
BOOT_FAILED = 125
INSTALLED = '/run/tslab-installed'
SOURCE = HERE.parent.parent
README = SOURCE / 'README.md'
SCRIPTS = SOURCE / 'systemd/debian'
TESTS = '/run/tslab-tests'


def boots(folder):
    result = subprocess.run([HERE / 'with-systemd', '-i', '-t', '60', '-', '--', 'true'], cwd=folder,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        print(result.stdout.decode(errors='replace'))
    return result.returncode == 0


def install(build, client, folder):
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet'], check=True,
                   env={**os.environ, 'DESTDIR': str(folder)}, stdout=subprocess.DEVNULL)
    (folder / 'usr/bin').mkdir(parents=True, exist_ok=True)
    shutil.copy(client, folder / 'usr/bin/tslab-test-client')


def main():
    build, client, test, *folders = sys.argv[1:]
    if os.geteuid() != 0:
        print('not root')
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix='tslab-systemd-') as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        installed = folder / 'installed'
        installed.mkdir()
        install(build, client, installed)
        status = subprocess.run(
            [HERE / 'with-systemd', '-i', '-t', '280', '-B', f'{installed}:{INSTALLED}', '-B', f'{HERE}:{TESTS}',
             '-B', f'{SCRIPTS}:/run/tslab-debian', '-B', f'{README}:/run/tslab-readme.md',
             '-B', f'{SOURCE}/docs:/run/tslab-docs', *(word for place in folders for word in ('-B', place)), '-', '--',
             sys.executable, '-B', pathlib.Path(TESTS, test), INSTALLED], cwd=folder,
            env={**os.environ, 'PYTHONPATH': TESTS}).returncode
        if status == BOOT_FAILED and not boots(folder):
            sys.exit(SKIP)
    sys.exit(status)


if __name__ == '__main__':
    main()
