"""Builds Debian packages and tries them under a systemd of its own: package.py SOURCE BUILD CLIENT TEST.

Exit status 77 where that cannot be: not root, no debhelper, or systemd does not come up here.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from run import BOOT_FAILED, HERE, INSTALLED, SKIP, TESTS, boots


def newer(deb, folder):
    """The same package, in a later version."""
    unpacked = folder / 'unpacked'
    subprocess.run(['dpkg-deb', '--raw-extract', deb, unpacked], check=True)
    control = unpacked / 'DEBIAN/control'
    control.write_text(control.read_text().replace('0.1.0', '0.1.1'))
    (folder / 'newer').mkdir(exist_ok=True)
    # Compressing it would take longer than the installation.
    subprocess.run(['dpkg-deb', '--root-owner-group', '-Znone', '--build', unpacked, folder / 'newer'], check=True,
                   stdout=subprocess.DEVNULL)
    shutil.rmtree(unpacked)


def main():
    source, build, client, test = sys.argv[1:]
    if os.geteuid() != 0 or not shutil.which('dh') or not shutil.which('lintian'):
        print('not root, or no debhelper and lintian here')
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix='tslab-package-') as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        # lintian's errors are ours.
        subprocess.run([f'{source}/dev', 'package'], check=True, env={**os.environ, 'TSLAB_BUILD': f'{folder}/build'})
        for deb in (folder / 'build/packages').glob('*_*.deb'):
            if 'dbgsym' not in deb.name:
                shutil.copy(deb, folder)
                newer(deb, folder)
        shutil.copy(client, folder / 'client')
        for file in 'examples/first.c', 'bindings/php/sessions.md', 'bindings/php/from-apcu.md':
            shutil.copy(f'{source}/{file}', folder)
        status = subprocess.run(
            [HERE / 'with-systemd', '-i', '-t', '600', '-B', f'{folder}:{INSTALLED}', '-B', f'{HERE}:{TESTS}', '-', '--',
             sys.executable, '-B', f'{TESTS}/{test}', INSTALLED], cwd=folder).returncode
        if status == BOOT_FAILED and not boots(folder):
            sys.exit(SKIP)
    sys.exit(status)


if __name__ == '__main__':
    main()
