"""Makes a copy of the crates in which tslab-sys carries the sources of libtslab, for its feature `bundled`: so that it builds
where this tree is not. `cargo package` and `cargo publish` work there.

    package.py [--plain] FOLDER [PROTOC_C]

--plain leaves out the dependencies that are optional. Cargo resolves them, too, and so asks a registry about crates that
nothing uses.
"""

import pathlib
import re
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


def without_dependencies(manifest):
    """The features that name the dependencies are there, and bring nothing."""
    lines = [line for line in manifest.splitlines(True) if 'optional = true' not in line]
    return re.sub(r'\["dep:.*\]', '[]', ''.join(lines))


def main(folder, protoc_c='protoc-c', *, is_plain=False):
    folder = pathlib.Path(folder)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns('target', 'Cargo.lock', 'package.py', '__pycache__'))
    source = folder / 'tslab-sys/source'
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=unwanted)
    proto = source / 'proto'
    subprocess.run([protoc_c, f'--proto_path={proto}', f'--c_out={proto}', proto / 'tslab.proto'], check=True)
    for crate in 'tslab', 'tslab-sys':
        shutil.copy(ROOT / 'LICENSE', folder / crate)
    if is_plain:
        for manifest in folder.glob('*/Cargo.toml'):
            manifest.write_text(without_dependencies(manifest.read_text(encoding='utf-8')), encoding='utf-8')


if __name__ == '__main__':
    arguments = [argument for argument in sys.argv[1:] if argument != '--plain']
    if not 1 <= len(arguments) <= 2:
        sys.exit(__doc__)
    main(*arguments, is_plain=len(arguments) < len(sys.argv) - 1)
