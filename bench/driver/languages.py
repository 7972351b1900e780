"""./dev bench languages: calls on maps by each language, beside C and other stores of the language.

A contender is a program in bench/languages/ that prints JSON objects, one a line: a name, a version, and nanoseconds by
call. It measures each call for --seconds, on 1000 keys of 14 bytes with values of 256 bytes, and prints the
median of rounds over all keys. The contenders take turns, --runs times. The table has the least of the runs: another
program on the core's other thread doubles all times, so a median of runs compares two states of the machine. The lines
below it say which targets these meet. Contenders without their toolchain, build or package are named and left out.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE.parent / 'languages'
sys.path.insert(0, str(ROOT / 'tests/util'))
from daemon import Daemon  # noqa: E402

BUILD = pathlib.Path(os.environ.get('TSLAB_BUILD', 'build')).resolve()
CALLS = ['get into a buffer', 'get into a buffer, key is text', 'get as text', 'get as bytes', 'put', 'add', 'get of a cache',
         'get of a cache, an object']
C_IN_RUST, LMDB = 'C, called by Rust', 'Node: lmdb-js'
# (contender, call, the figure of another that it is held against, how many times that, and how many nanoseconds more)
BARS = [
    ('Rust', 'alloc and free', (C_IN_RUST, 'alloc and free'), 1, 2),
    ('Rust', 'get into a buffer', (C_IN_RUST, 'get into a buffer'), 1, 10),
    ('Rust', 'get as bytes', (C_IN_RUST, 'get into a buffer'), 1, 10),
    ('Rust', 'put', ('Rust: moka', 'put'), 0.1, 0),
    ('Node', 'get into a buffer', None, 0, 110),
    ('Node', 'get as text', None, 0, 130),
    ('Node', 'get as bytes', (LMDB, 'get as bytes'), 0.1, 0),
    ('Node', 'put', (LMDB, 'put'), 0.1, 0),
    ('Go', 'get as bytes', None, 0, 150),
    ('Go', 'get into a batch of 64, each', None, 0, 80),
]


class Absent(Exception):
    """A contender that cannot run here, and why."""


def program(name):
    path = shutil.which(name)
    if path is None:
        raise Absent(f'{name} is not installed')
    return path


def built(path):
    if not (BUILD / path).exists():
        raise Absent(f'{path} is not built')
    return str(BUILD / path)


def npm(*names):
    """Packages of npm, in a folder that stays for the next run."""
    where = BUILD / 'bench-npm'
    if not all((where / 'node_modules' / name).exists() for name in names):
        where.mkdir(exist_ok=True)
        done = subprocess.run([program('npm'), 'install', '--no-audit', '--no-fund', '--prefix', str(where), *names],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            raise Absent(f'npm did not install {" ".join(names)}')
    return [str(where / 'node_modules' / name) for name in names]


# Each takes the daemon, a folder for its files, and the seconds for a call, and returns its command.

def c(daemon, folder, seconds):
    return [built('bench/bench-languages-c'), daemon.socket, seconds]


def node(daemon, folder, seconds):
    built('bindings/node/tslab.node')
    return [program('node'), PROGRAMS / 'node.js', daemon.socket, seconds, BUILD / 'bindings/node']


def node_lmdb(daemon, folder, seconds):
    return [program('node'), PROGRAMS / 'node-lmdb.js', folder, seconds, *npm('lmdb')]


def node_ipc(daemon, folder, seconds):
    return [program('node'), PROGRAMS / 'node-ipc.js', seconds]


def go(daemon, folder, seconds):
    run, out = ROOT / 'tests/go/run.py', BUILD / 'tests/go/bench'
    subprocess.run([sys.executable, run, 'bench', program('go'), BUILD, out], check=True)
    return ['/usr/bin/env', f'LD_LIBRARY_PATH={BUILD}/libclient', out, daemon.socket, seconds]


def rust(daemon, folder, seconds):
    """With moka, where a registry is reached. tests/rust/rust.py, which makes the tree, takes its places as a program does."""
    sys.path.append(str(ROOT / 'tests/rust'))
    sys.argv[1:] = [program('cargo'), str(ROOT), str(BUILD)]
    import rust as crates
    for has_peers in True, False:
        tree = crates.Tree('bench-peers' if has_peers else 'bench', has_dependencies=has_peers)
        tree.copy('bench/languages/rust', has_peers)
        done = tree.cargo('bench/languages/rust', 'build', '--release', '--quiet', *(['--features', 'peers'] if has_peers else []),
                          is_online=has_peers, check=False)
        if done.returncode == 0:
            out = pathlib.Path(tree.environment['CARGO_TARGET_DIR'], 'release/tslab-bench')
            return ['/usr/bin/env', f'LD_LIBRARY_PATH={BUILD}/libclient', out, daemon.socket, seconds]
    raise Absent('the program does not compile')


CONTENDERS = {'c': c, 'go': go, 'node': node, 'node-ipc': node_ipc, 'node-lmdb': node_lmdb, 'rust': rust}


def processor():
    with open('/proc/cpuinfo', encoding='utf-8') as lines:
        return next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')), platform.machine())


def show(results):
    calls = [call for call in CALLS if any(call in r['ns'] for r in results.values())]
    calls += sorted({call for r in results.values() for call in r['ns']} - set(calls))
    width = max(map(len, calls))
    columns = {name: max(len(name), 8) for name in results}
    print(f'{"ns a call":{width}}', *(f'{name:>{n}}' for name, n in columns.items()), sep='  ')
    for call in calls:
        cells = (f'{results[name]["ns"][call]:{n}.0f}' if call in results[name]['ns'] else ' ' * n
                 for name, n in columns.items())
        print(f'{call:{width}}', *cells, sep='  ')


def show_bars(results):
    print()
    for name, call, base, times, more in BARS:
        figure = results.get(name, {}).get('ns', {}).get(call)
        against = results.get(base[0], {}).get('ns', {}).get(base[1]) if base else 0
        asked = f'{times:g} x {base[0]}, {base[1]}' + (f', + {more} ns' if more else '') if base else f'{more} ns'
        if figure is None or against is None:
            verdict = 'not measured'
        else:
            limit = times * against + more
            verdict = f'{figure:.1f} of {limit:.1f} ns: {"met" if figure <= limit else "MISSED"}'
        print(f'{name}, {call}: at most {asked}: {verdict}')


def main():
    parser = argparse.ArgumentParser(prog='./dev bench languages', description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', metavar='CONTENDER', help=f'of {", ".join(CONTENDERS)}; all where none is named')
    parser.add_argument('--runs', type=int, default=9, metavar='N', help='alternating runs of each (9)')
    parser.add_argument('--seconds', type=float, default=0.2, help='for each call of a run (0.2)')
    parser.add_argument('--quick', action='store_true', help='one short run of each, to see that all work')
    parser.add_argument('--json', metavar='FILE', help='write the figures there, too')
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CONTENDERS)
    if unknown:
        parser.error(f'no such contender: {", ".join(sorted(unknown))}')
    runs, seconds = (1, 0.02) if arguments.quick else (arguments.runs, arguments.seconds)

    found, absent, commands = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder, Daemon(built('daemon/tslabd'), '--size=64M') as daemon:
        for name in arguments.names or CONTENDERS:  # all are built before the first is measured
            try:
                commands[name] = [str(word) for word in CONTENDERS[name](daemon, folder, seconds)]
            except Absent as e:
                absent[name] = str(e)
        for _ in range(runs):
            for command in commands.values():
                done = subprocess.run(command, env=daemon.environment, stdout=subprocess.PIPE, check=True, text=True)
                for result in map(json.loads, done.stdout.splitlines()):
                    for call, ns in result['ns'].items():
                        found.setdefault(result['name'], {}).setdefault(call, []).append(ns)
    results = {name: {'ns': {call: min(all_) for call, all_ in calls.items()}} for name, calls in found.items()}
    print(f'{processor()}, {os.cpu_count()} processors, Linux {platform.release()}; the least of {runs} run(s)')
    for name, why in absent.items():
        print(f'{name}: not measured, as {why}')
    if results:
        show(results)
        show_bars(results)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == '__main__':
    main()
