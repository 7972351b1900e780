"""The crates as cargo packages them, which carry the library's sources: a program of theirs is compiled where no libtslab is
to be found, and works.

    test-bundled.py CARGO SOURCE BUILD TSLABD
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from rust import ARGUMENTS, BUILD, CARGO, SOURCE, Daemon, without_dependencies

PROGRAM = '''
fn main() {
    let socket = std::env::args().nth(1).unwrap();
    for pool in [tslab::Pool::create().unwrap(), tslab::Pool::open(&socket).unwrap()] {
        let map = pool.map("bundled").unwrap();
        map.put("key", "value").unwrap();
        assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    println!("{}", tslab::version());
}
'''
MANIFEST = '''
[package]
name = "program"
version = "1.0.0"
edition = "2021"
[dependencies]
tslab = { path = "../tslab", features = ["bundled"] }
[workspace]
'''

environment = {**os.environ, 'CARGO_TERM_COLOR': 'never', 'PKG_CONFIG_LIBDIR': '/nonexistent',
               # the compiler of the tests, with its cache where there is one
               'CC': 'ccache cc' if shutil.which('ccache') else 'cc'}


def cargo(folder, *arguments):
    subprocess.run([CARGO, *arguments, '--offline'], cwd=folder, env=environment, check=True)


with tempfile.TemporaryDirectory(prefix='tslab-test-') as place:
    place = pathlib.Path(place)
    subprocess.run([sys.executable, '-B', os.path.join(SOURCE, 'bindings/rust/package.py'), place / 'crates'], check=True)
    cargo(place / 'crates/tslab-sys', 'package', '--quiet', '--allow-dirty', '--no-verify', '--target-dir', str(place / 'target'))
    with tarfile.open(next((place / 'target/package').glob('tslab-sys-*.crate'))) as crate:
        crate.extractall(place)
    next(place.glob('tslab-sys-*')).rename(place / 'tslab-sys')
    shutil.copytree(place / 'crates/tslab', place / 'tslab')
    manifest = place / 'tslab/Cargo.toml'
    manifest.write_text(without_dependencies(manifest.read_text()))
    (place / 'program/src').mkdir(parents=True)
    (place / 'program/src/main.rs').write_text(PROGRAM)
    (place / 'program/Cargo.toml').write_text(MANIFEST)
    cargo(place / 'program', 'build', '--quiet')
    program = place / 'program/target/debug/program'
    needed = subprocess.run(['ldd', program], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert 'tslab' not in needed, needed
    with Daemon(ARGUMENTS[0], '--size=64M') as daemon:
        said = subprocess.run([program, daemon.socket], env=daemon.environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(said)
