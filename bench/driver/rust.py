"""Rust: calls of the crate beside those of the C library, in one program, and beside moka where its crate is to be had.

Values have 256 bytes, keys 16, of which there are 1000. Prints nanoseconds, which are medians of runs that alternate, with
their targets, and writes bench-rust.json into the build folder."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# (figure, what it may be over, nanoseconds more)
TARGETS = [('alloc_free_rust', 'alloc_free_c', 2), ('get_rust', 'get_c', 10)]
PEER_TIMES = 10     # moka's put takes so many times as long


def built(build):
    """The program, and the module that made it: tests/rust/rust.py."""
    sys.path[:0] = [str(ROOT / 'tests' / 'rust')]
    cargo = subprocess.run(['sh', '-c', 'command -v cargo'], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    if not cargo:
        sys.exit('bench: there is no cargo: install Debian\'s packages cargo and rustc')
    sys.argv[1:] = [cargo, str(ROOT), str(build)]
    import rust
    for has_peers in True, False:
        tree = rust.Tree('bench-peers' if has_peers else 'bench', has_dependencies=has_peers)
        tree.copy('bench/rust', has_peers)
        features = ['--features', 'peers'] if has_peers else []
        done = tree.cargo('bench/rust', 'build', '--release', '--quiet', *features, is_online=has_peers, check=False)
        if done.returncode == 0:
            return pathlib.Path(tree.environment['CARGO_TARGET_DIR']) / 'release' / 'tslab-bench', rust
    sys.exit('bench: the program does not compile')


def main():
    parser = argparse.ArgumentParser(prog='./dev bench rust', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='short runs: does the program work?')
    arguments = parser.parse_args()
    build = pathlib.Path(os.environ['TSLAB_BUILD'])
    program, rust = built(build)
    with rust.Daemon(str(build / 'daemon' / 'tslabd'), '--size=128M') as daemon:
        done = subprocess.run([program, daemon.socket, '20000' if arguments.quick else '300000'], stdout=subprocess.PIPE,
                              env={**os.environ, 'LD_LIBRARY_PATH': rust.LIBRARY}, text=True, check=True)
    results = json.loads(done.stdout)
    for name, ns in results.items():
        print(f'{name:16}{ns:10.1f}')
    for name, base, more in TARGETS:
        over = results[name] - results[base]
        print(f'{name} - {base}: {over:.1f}, at most {more} is asked: {"met" if over <= more else "MISSED"}')
    if 'put_moka' in results:
        ratio = results['put_moka'] / results['put_rust']
        print(f'put_moka / put_rust: {ratio:.1f}, at least {PEER_TIMES} is asked: '
              f'{"met" if ratio >= PEER_TIMES else "MISSED"}')
    (build / 'bench-rust.json').write_text(json.dumps(results, indent=1))


if __name__ == '__main__':
    main()
