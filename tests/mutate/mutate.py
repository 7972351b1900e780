#!/usr/bin/env python3
"""Makes random mutants of C files, builds each, and runs the quick tests on it: tests/mutate/README.md says more."""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import time
import traceback

import farm
import mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ('shm', 'libclient', 'daemon')
SUITES = ('unit', 'model', 'api', 'daemon', 'stress')
LEFT_OUT = {'same': 'left out, the machine code is the same', 'unbuilt': 'left out, does not build'}


# ---- workers

def try_one(copy, mutant):
    begin = time.monotonic()
    result, test, how, n = copy.try_mutant(mutant)
    return {'path': mutant.path, 'line': mutant.line, 'kind': mutant.kind, 'result': result, 'test': test, 'how': how,
            'n_tests': n, 'seconds': round(time.monotonic() - begin, 1), 'diff': mutant.diff()}


def work(arguments, folder, chosen, seconds, tasks, results):
    """The first worker gets no seconds: it measures them and sends them."""
    farm.become_reaper()
    farm.own_tmp(folder / 'tmp')
    if arguments.asan:
        farm.sanitize()
    copy = farm.Copy(arguments.root, folder, arguments.suites, farm.SANITIZE if arguments.asan else (),
                     -(-os.cpu_count() // arguments.jobs))
    try:
        digest = copy.sync()
        copy.configure()
        copy.seconds = seconds or copy.measure(digest, {mutant.path for mutant in chosen})
        if not seconds:
            results.put(copy.seconds)
        for i in iter(tasks.get, None):
            results.put(try_one(copy, chosen[i]))
    except Exception:  # the main process waits for a result
        results.put(traceback.format_exc())


def hear(results):
    result = results.get()
    if isinstance(result, str):
        sys.exit(f'mutate: {result}')
    return result


def try_all(arguments, chosen):
    """Yields each mutant's result, as it comes."""
    tasks, results, workers = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue(), []

    def start(seconds):
        folder = arguments.build / f'copy-{len(workers)}'
        workers.append(multiprocessing.Process(target=work, args=(arguments, folder, chosen, seconds, tasks, results)))
        workers[-1].start()

    try:
        start(None)
        seconds = hear(results)
        while len(workers) < arguments.jobs:
            start(seconds)
        for i in [*range(len(chosen)), *[None] * len(workers)]:
            tasks.put(i)
        for _ in chosen:
            yield hear(results)
    finally:
        for worker in workers:
            worker.terminate()  # nothing to one that has ended
            worker.join()


# ---- results

def share(results):
    """The killed part of the mutants that count, as text."""
    n_killed = sum(r['result'] == 'killed' for r in results)
    n = n_killed + sum(r['result'] == 'survived' for r in results)
    return f'{n_killed} of {n} killed' + (f', {100 * n_killed / n:.0f} %' if n else '')


def show_one(done, n, r):
    test = f" by {r['test']} ({r['how']})" if r['test'] else ''
    print(f"{done}/{n} {r['path']}:{r['line']} {r['kind']}: {r['result']}{test}, {r['n_tests']} tests, {r['seconds']} s",
          file=sys.stderr, flush=True)


def show_all(results):
    for r in results:
        if r['result'] == 'survived':
            print(f"survived {r['n_tests']} tests: {r['kind']}\n{r['diff']}\n")
    folders = collections.defaultdict(list)
    for r in results:
        folders[str(pathlib.PurePath(r['path']).parent)].append(r)
    for folder, of_folder in sorted(folders.items()):
        print(f'{folder}: {share(of_folder)}')
    for result, text in LEFT_OUT.items():
        if n := sum(r['result'] == result for r in results):
            print(f'{text}: {n}')
    print(f'all: {share(results)}')


# ---- the command line

def c_files(root, names):
    """The files themselves and all files in the folders."""
    found = []
    for name in names:
        path = (root / name).resolve()
        if not path.is_relative_to(root) or not (path.is_dir() or path.suffix == '.c' and path.is_file()):
            sys.exit(f'mutate: neither a C file nor a folder of this tree: {name}')
        found += [path] if path.is_file() else sorted(path.rglob('*.c'))
    return [str(path.relative_to(root)) for path in dict.fromkeys(found)]


def parse(argv):
    parser = argparse.ArgumentParser(prog='dev mutate', description=__doc__, epilog='Exit status: 1 if a mutant survived.')
    parser.add_argument('--files', nargs='+', default=FOLDERS, metavar='PATH',
                        help='C files to change, or folders, with the folders in them (default: shm, daemon and libclient '
                        'without its examples)')
    parser.add_argument('--n', type=int, default=40, help='number of mutants (default: %(default)s)')
    parser.add_argument('--seed', type=int, help='repeats a choice of mutants (default: at random, and printed)')
    parser.add_argument('--suites', default=','.join(SUITES), type=lambda text: text.split(','), metavar='SUITE,...',
                        help='suites of tests, in the order in which they run (default: %(default)s)')
    parser.add_argument('--jobs', type=int, default=1, help='mutants tried at once, each in a copy of its own')
    parser.add_argument('--asan', action='store_true', help='build with ASan and UBSan, which see leaks')
    parser.add_argument('--list', action='store_true', help='print the mutants, and try none')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE', help='write what became of each to this file')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build-mutate', help=argparse.SUPPRESS)
    parser.add_argument('--root', type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.n < 1 or arguments.jobs < 1:
        parser.error('--n and --jobs are at least 1')
    arguments.root, arguments.build = arguments.root.resolve(), arguments.build.resolve()
    if arguments.asan:
        arguments.build = arguments.build.with_name(arguments.build.name + '-asan')
    if arguments.seed is None:
        arguments.seed = random.randrange(1 << 32)
    return arguments


def main(argv):
    arguments = parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = mutants.choose(arguments.root, c_files(arguments.root, arguments.files), arguments.seed, arguments.n)
    if arguments.list:
        print('\n\n'.join(mutant.diff() for mutant in chosen))
        return 0
    print(f'mutate: {len(chosen)} mutants, --seed {arguments.seed}', file=sys.stderr)
    results = []
    for result in try_all(arguments, chosen):
        results.append(result)
        show_one(len(results), len(chosen), result)
        if arguments.json:
            arguments.json.write_text(json.dumps({'seed': arguments.seed, 'mutants': results}, indent=1))
    show_all(results)
    return int(any(r['result'] == 'survived' for r in results))


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
