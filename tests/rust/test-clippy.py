"""Clippy's pedantic lints find nothing."""

import subprocess

from rust import CARGO, Tree, skip

if subprocess.run([CARGO, 'clippy', '--version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
    skip('there is no clippy: install Debian\'s package rust-clippy, or rustup\'s component')
Tree().cargo('bindings/rust', 'clippy', '--quiet', '--all-targets', '--', '-D', 'warnings')
