"""The library alone can be built where the libraries of the daemon and of its tools are not installed.

        alone.py ROOT

The test hides these from meson: its folder of pkg-config files has all libraries but these.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HIDDEN = {'ncursesw', 'hiredis', 'libmicrohttpd', 'libdw', 'smartcols', 'json-c', 'libsystemd', 'libsodium', 'cmocka'}
PARTS = ('daemon', 'ctl', 'metrics', 'near', 'bench')


def hide(folder):
    found = subprocess.run(['pkg-config', '--variable', 'pc_path', 'pkg-config'], stdout=subprocess.PIPE, text=True, check=True)
    for source in found.stdout.strip().split(':'):
        for file in pathlib.Path(source).glob('*.pc'):
            link = folder / file.name
            if file.stem not in HIDDEN and not link.exists():
                link.symlink_to(file)


def configure(root, where, options):
    env = {**os.environ, 'PKG_CONFIG_LIBDIR': str(where / 'pc')}
    # JSON-C and others also have files for CMake.
    env['CMAKE_IGNORE_PREFIX_PATH'] = '/usr'
    options = ['-Dtests=false', '-Dpython=disabled', '-Dphp=disabled', *options]
    return subprocess.run(['meson', 'setup', *options, where / f'build{len(options)}', root], env=env, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main(root):
    with tempfile.TemporaryDirectory() as where:
        where = pathlib.Path(where)
        (where / 'pc').mkdir()
        hide(where / 'pc')
        whole = configure(root, where, [])
        alone = configure(root, where, [f'-D{part}=false' for part in PARTS])
    if whole.returncode == 0 or 'libsystemd' not in whole.stdout:
        sys.exit(f'the whole does not say what it needs:\n{whole.stdout}')
    if alone.returncode != 0:
        sys.exit(alone.stdout)


if __name__ == '__main__':
    main(*sys.argv[1:])
