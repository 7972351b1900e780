#!/usr/bin/env python3
"""Runs clang-tidy, with the checks of .clang-tidy, on the C files of shm, proto, libclient and slab-alloc: tidy.py BUILD."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ('shm', 'proto', 'libclient', 'slab-alloc')
PROGRAM = 'clang-tidy-14'


def sources(build):
    """The files that the build folder compiles; each once, though several targets may compile it."""
    told = json.loads((build / 'compile_commands.json').read_text(encoding='utf-8'))
    files = {pathlib.Path(os.path.normpath(build / unit['file'])) for unit in told}
    return sorted(file for file in files if file.suffix == '.c'
                  and any(file.is_relative_to(ROOT / folder) for folder in FOLDERS))


def tidy(build, file):
    """clang-tidy's complaints about a file; its count of suppressed warnings goes nowhere."""
    done = subprocess.run([PROGRAM, '-p', str(build), '--quiet', str(file)], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.returncode, done.stdout


def main(build):
    build, n_failed = pathlib.Path(build).resolve(), 0
    files = sources(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, output in pool.map(lambda file: tidy(build, file), files):
            n_failed += status != 0
            print(output, end='', flush=True)
    print(f'clang-tidy: {len(files)} files, {n_failed} with problems')
    return 1 if n_failed or not files else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
