"""Near caches of a Redis server on this host: hits, changes, and the requests that the server still gets.

    hits      a hit in C beside a get of a map, and in Python beside redis-py's get and its own cache
    changes   from a change in the server until 8 workers of two pools have read it
    load      requests to the server, by the size of the near cache: 8 workers read 20,000 keys by Zipf's law
    growth    reads a second of 1 to 16 workers, with a near cache and without
    storm     a storm of misses in 8 workers of Python: how long other threads, greenlets or tasks stand still

Writes a table, results.json and pictures into bench-near/ of the build folder."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import plots  # noqa: E402
import runner  # noqa: E402
import service  # noqa: E402

SOURCES = pathlib.Path(__file__).resolve().parent.parent / 'near'
KEYS, ENTRY = 20000, 336        # bytes that an entry takes: key, value and head, in its class
SHARES = [1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.25]
WORKERS = [1, 2, 4, 8, 16]
TIMEOUT = 60
HUBS = ['threads', 'gevent', 'asyncio']
# (figure, unit, case, metric, bound): what issue and design ask for
TARGETS = [('a hit in C, beside a get of a map', 'x', 'hits', 'near_over_map', 1.2),
           ('a hit in Python', 'us', 'hits', 'python_near_us', 1.5),
           ('a change, seen by all workers, p99', 'ms', 'changes', 'all_p99_ms', 2.0),
           *((f'a storm of misses, {hub}: others stand still', 'ms', 'storm', f'{hub}_stands_still_ms', 50.0) for hub in HUBS)]


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Bench:
    """Also what plots.Pictures needs of a runner."""

    def __init__(self, build, quick):
        self.build, self.quick = build, quick
        self.failed, self.notes, self.results = False, [], {}

    def note(self, text):
        self.notes.append(text)
        print(f'bench: {text}', file=sys.stderr)

    def add(self, case, figures):
        """The table has medians of all runs."""
        for name, value in figures.items():
            self.results.setdefault(case, {}).setdefault(name, []).append(value)

    def get(self, case, name):
        values = self.results.get(case, {}).get(name)
        return statistics.median(values) if values else None

    @contextlib.contextmanager
    def servers(self, n_pools=1, limit=None):
        """A redis-server, and so many pools with a tslab-near each: the port and the pools."""
        port = free_port()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='tslab-bench-'))
            path = os.path.join(folder, 'redis.sock')
            stack.enter_context(service.server(
                ['redis-server', '--port', str(port), '--unixsocket', path, '--save', '', '--appendonly', 'no',
                 '--dir', folder], path))
            pools = [stack.enter_context(service.Daemon(self.build, '--size=256M', f'--pool=near{i}')).path
                     for i in range(n_pools)]
            for pool in pools:
                stack.enter_context(self.near(port, pool, limit))
            yield port, pools

    @contextlib.contextmanager
    def near(self, port, pool, limit):
        command = [str(self.build / 'near' / 'tslab-near'), '--pool', pool, '--server', f'127.0.0.1:{port}',
                   '--prefix', 'p:', *(['--limit', str(limit)] if limit else [])]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            service.end(process)

    def run(self, mode, port, workers, n, pools):
        n = max(n // 50, 20) if self.quick else n
        program = str(self.build / 'bench' / 'bench-near')
        return self.ask([program, mode, str(port), str(workers), str(n), *pools])

    def ask_python(self, program, *arguments):
        return self.ask([os.environ.get('BENCH_PYTHON', '/usr/bin/python3'), str(SOURCES / program), *map(str, arguments)],
                        PYTHONPATH=str(self.build / 'bindings' / 'python'))

    def ask(self, command, **environment):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT,
                              check=False, env={**os.environ, **environment})
        if done.returncode != 0:
            raise service.Failed(f'{command[1]}: {done.stderr.strip()[-300:]}')
        return json.loads(done.stdout)


def storm(bench):
    for hub in HUBS:
        with bench.servers() as (port, pools):
            try:
                bench.add('storm', bench.ask_python('storm.py', port, pools[0], hub, 8, 5 if bench.quick else 50))
            except service.Failed as e:
                bench.note(f'storm, {hub}: {e}')
                bench.failed |= 'No module named' not in str(e)


def hits(bench):
    with bench.servers() as (port, pools):
        bench.add('hits', bench.run('hit', port, 1, 300000, pools))
        found = bench.ask_python('python.py', port, pools[0], 2000 if bench.quick else 100000)
    bench.add('hits', {f'python_{name[:-3]}_us': ns / 1000 for name, ns in found.items()})


def changes(bench):
    with bench.servers(n_pools=2) as (port, pools):
        bench.add('changes', bench.run('changes', port, 4, 1000, pools))


def load(bench):
    for share in SHARES:
        with bench.servers(limit=int(share * KEYS * ENTRY)) as (port, pools):
            bench.add(f'load {share:.3f}', bench.run('mix', port, 8, 50000, pools))


def growth(bench):
    for workers in WORKERS:
        with bench.servers() as (port, pools):
            bench.add(f'growth {workers}', bench.run('mix', port, workers, 200000, pools))
            bench.add(f'growth {workers} without', bench.run('mix', port, workers, 5000, []))


def draw(bench, folder):
    pictures = plots.Pictures(bench, folder)
    points = [(100 * bench.get(f'load {s:.3f}', 'hit_ratio'), 100 * bench.get(f'load {s:.3f}', 'questions_per_read'))
              for s in SHARES if f'load {s:.3f}' in bench.results]
    pictures.draw('load', "questions to the server, 8 workers that read 20,000 keys by Zipf's law",
                  ['set xlabel "hits of the near cache, % of reads"', 'set ylabel "questions to the server, % of reads"',
                   'set xrange [0:100]', 'set yrange [0:100]'],
                  [('measured', '#c0392b', True, 'using 1:2 with points pt 7 ps 1.2', points),
                   ('100 % - hits', '#7f8c8d', False, 'using 1:2 with lines', [(0, 100), (100, 0)])])
    curves = [(label, colour, wide, 'using 1:2 with linespoints pt 7 ps 0.6',
               [(w, bench.get(case, 'reads_per_s')) for w in WORKERS if (case := f'growth {w}{suffix}') in bench.results])
              for label, colour, wide, suffix in [('near cache', '#c0392b', True, ''),
                                                  ('redis-server alone', '#d35400', False, ' without')]]
    pictures.draw('growth', 'reads a second of all workers of a host',
                  ['set logscale xy', 'set logscale x 2', 'set xlabel "workers"', 'set ylabel "reads a second"'], curves)


def table(bench, about):
    lines = [f'{about["cpu"]}, {about["n_cpus"]} processors, Linux {about["kernel"]}, load {about["load_before"]:.1f} '
             f'before; tslab {about["commit"]}, {about["date"]}', '']
    for name, unit, case, metric, bound in TARGETS:
        value = bench.get(case, metric)
        if value is not None:
            lines.append(f'{"met   " if value <= bound else "MISSED"}  {name}: {value:.3g} {unit} (up to {bound:g})')
    for case, figures in bench.results.items():
        lines += ['', case] + [f'    {name:24}{bench.get(case, name):14.4g}' for name in figures]
    return '\n'.join(lines + [f'note: {note}' for note in bench.notes]) + '\n'


CASES = {f.__name__: f for f in (hits, changes, load, growth, storm)}


def main():
    parser = argparse.ArgumentParser(prog='./dev bench near', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='*', metavar='CASE', help='hits, changes, load, growth or storm; all where none is named')
    parser.add_argument('--runs', type=int, default=3, help='runs of each, of which medians are shown (3)')
    parser.add_argument('--quick', action='store_true', help='one short run of each, to see that all work')
    arguments = parser.parse_args()
    if set(arguments.cases) - set(CASES):
        parser.error(f'cases are {", ".join(CASES)}')
    if not shutil.which('redis-server'):
        sys.exit('bench: there is no redis-server')
    bench = Bench(pathlib.Path(os.environ['TSLAB_BUILD']).resolve(), arguments.quick)
    about = runner.machine()
    for _ in range(1 if arguments.quick else arguments.runs):
        for name in arguments.cases or CASES:
            print(f'bench: {name}', file=sys.stderr)
            CASES[name](bench)
    folder = bench.build / 'bench-near'
    folder.mkdir(exist_ok=True)
    draw(bench, folder)
    (folder / 'table.txt').write_text(table(bench, about), encoding='utf-8')
    (folder / 'results.json').write_text(json.dumps({'machine': about, 'results': bench.results}, indent=1) + '\n',
                                         encoding='utf-8')
    print((folder / 'table.txt').read_text(encoding='utf-8'), end='')
    return 1 if bench.failed else 0


if __name__ == '__main__':
    sys.exit(main())
