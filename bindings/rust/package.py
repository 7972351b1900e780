"""Makes a copy of the crates in which tslab-sys carries the sources of libtslab, for its feature `bundled`: so that it builds
where this tree is not. `cargo package` and `cargo publish` work there.

    package.py FOLDER [PROTOC_C]
"""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PARTS = 'shm', 'proto', 'libclient'


def unwanted(folder, names):
    """Neither pages nor recipes, but the sources and the protocol; and nothing that cargo or Python left."""
    return [name for name in names
            if not pathlib.Path(folder, name).is_dir() and pathlib.Path(name).suffix not in ('.c', '.h', '.proto')
            or name == '__pycache__']


def main(folder, protoc_c='protoc-c'):
    folder = pathlib.Path(folder)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns('target', 'Cargo.lock', 'package.py', '__pycache__'))
    source = folder / 'tslab-sys/source'
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=unwanted)
    proto = source / 'proto'
    subprocess.run([protoc_c, f'--proto_path={proto}', f'--c_out={proto}', proto / 'tslab.proto'], check=True)
    for crate in 'tslab', 'tslab-sys':
        shutil.copy(ROOT / 'LICENSE', folder / crate)


if __name__ == '__main__':
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
