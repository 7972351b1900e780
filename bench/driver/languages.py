"""./dev bench languages: calls on maps by each language, beside C and other stores of the language.

A contender is a program in bench/languages/ that prints one JSON object: its name, a version, and nanoseconds by call. It
measures 1000 keys of 14 bytes with values of 256 bytes, each call for so many seconds, and tells the median of rounds over
all keys. Contenders run one after the other, in turn, so many times; the table has the medians. One whose toolchain, build
or package is not there is named.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / 'languages'
sys.path.insert(0, str(HERE.parent.parent / 'tests/util'))
from daemon import Daemon  # noqa: E402

BUILD = pathlib.Path(os.environ.get('TSLAB_BUILD', 'build')).resolve()
CALLS = ['get into a buffer', 'get into a buffer, key is text', 'get as text', 'get as bytes', 'put', 'add', 'get of a cache',
         'get of a cache, an object']


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


def go(daemon, folder, seconds):
    run, out = HERE.parent.parent / 'tests/go/run.py', BUILD / 'tests/go/bench'
    subprocess.run([sys.executable, run, 'bench', program('go'), BUILD, out], check=True)
    return ['/usr/bin/env', f'LD_LIBRARY_PATH={BUILD}/libclient', out, daemon.socket, seconds]


CONTENDERS = {'c': c, 'go': go, 'node': node, 'node-lmdb': node_lmdb}


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


def main():
    parser = argparse.ArgumentParser(prog='./dev bench languages', description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', metavar='CONTENDER', help=f'of {", ".join(CONTENDERS)}; all where none is named')
    parser.add_argument('--runs', type=int, default=5, metavar='N', help='alternating runs of each (5)')
    parser.add_argument('--seconds', type=float, default=0.5, help='for each call of a run (0.5)')
    parser.add_argument('--quick', action='store_true', help='one short run of each, to see that all work')
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CONTENDERS)
    if unknown:
        parser.error(f'no such contender: {", ".join(sorted(unknown))}')
    runs, seconds = (1, 0.02) if arguments.quick else (arguments.runs, arguments.seconds)

    found, absent = {}, {}
    with tempfile.TemporaryDirectory() as folder, Daemon(built('daemon/tslabd'), '--size=64M') as daemon:
        for _ in range(runs):
            for name in arguments.names or CONTENDERS:
                try:
                    command = [str(word) for word in CONTENDERS[name](daemon, folder, seconds)]
                except Absent as e:
                    absent[name] = str(e)
                    continue
                done = subprocess.run(command, env=daemon.environment, stdout=subprocess.PIPE, check=True, text=True)
                result = json.loads(done.stdout)
                for call, ns in result['ns'].items():
                    found.setdefault(result['name'], {}).setdefault(call, []).append(ns)
    results = {name: {'ns': {call: statistics.median(all_) for call, all_ in calls.items()}} for name, calls in found.items()}
    print(f'{processor()}, {os.cpu_count()} processors, Linux {platform.release()}; medians of {runs} run(s)')
    for name, why in absent.items():
        print(f'{name}: not measured, as {why}')
    if results:
        show(results)


if __name__ == '__main__':
    main()
