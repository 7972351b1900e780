"""Pictures by gnuplot, each as SVG and PNG, with the script and the data that made it."""

import math
import shutil
import subprocess
import textwrap

import plan

SIZE = '960,540'
# A contender has the same colour in all pictures; ours is the thick one.
COLOURS = {
    'tslab-adaptive': '#c0392b', 'glibc': '#2c3e50', 'jemalloc': '#2980b9', 'mimalloc': '#27ae60',
    'tcmalloc': '#8e44ad', 'boost-rbtree': '#d35400', 'boost-pool': '#e67e22', 'dpdk': '#16a085',
    'dpdk-cache': '#1abc9c', 'mutex-list': '#7f8c8d', 'treiber': '#b7950b',
    'tslab-map': '#c0392b', 'memory': '#7f8c8d', 'apcu': '#2980b9', 'shdict': '#27ae60', 'memcached': '#8e44ad',
    'redis': '#d35400', 'lmdb': '#16a085', 'tslab-huge': '#2c3e50',
}
SPARE = ['#2980b9', '#27ae60', '#8e44ad', '#d35400', '#2c3e50', '#16a085']


def name_of(contender):
    return 'tslab' if contender == 'tslab-adaptive' else contender


class Pictures:
    def __init__(self, runner, folder):
        self.runner, self.folder = runner, folder
        self.made = []
        self.can = shutil.which('gnuplot') is not None
        if not self.can:
            runner.note('no pictures: there is no gnuplot')
        folder.mkdir(exist_ok=True)

    def draw(self, name, title, settings, curves):
        """curves: (title, colour, wide, style, points), each point with x first. Curves without points are left out."""
        curves = [c for c in curves if c[4]]
        if not self.can or not curves:
            return
        blocks, parts = [], []
        for i, (label, colour, wide, style, points) in enumerate(curves):
            blocks += [f'$data{i} << END', *(' '.join(f'{v:.9g}' if isinstance(v, float) else str(v) for v in p)
                                            for p in points), 'END']
            parts.append(f'$data{i} {style} lc rgb "{colour}" lw {3.5 if wide else 1.8} title "{label}"')
        script = ['set encoding utf8', f'set title "{title}" font ",14"', 'set grid lc rgb "#dddddd"',
                  'set key outside', *settings, *blocks]
        for terminal, suffix in ('svg', 'svg'), ('pngcairo', 'png'):
            script += [f'set terminal {terminal} size {SIZE} font "DejaVu Sans,11" background "#ffffff"',
                       f'set output "{name}.{suffix}"', 'plot ' + ', \\\n  '.join(parts), 'unset output']
        (self.folder / f'{name}.gp').write_text('\n'.join(script) + '\n', encoding='utf-8')
        done = subprocess.run(['gnuplot', f'{name}.gp'], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            self.runner.note(f'picture {name}: {done.stderr.strip()[-300:]}')
            self.runner.failed = True
            return
        self.made.append(name)


def curve(contender, points, style='using 1:2 with lines', label=None):
    return label or name_of(contender), COLOURS.get(contender, '#555555'), contender in ('tslab-adaptive', 'tslab-map'), style, points


def series(results, case, contender, name):
    """The series of that name, one for each run."""
    return [r['series'][name] for r in results
            if (r['case'], r['contender']) == (case, contender) and name in r.get('series', {})]


def tail(points):
    """A distribution with its long end spread out: 90 % at 1, 99 % at 2, and so on."""
    return [(max(x, 1.0), -math.log10(1 - y)) for x, y in points if y < 1]


def distributions(pictures, results, contenders, operation):
    """Each contender's curve is from the run with the median 99.9th percentile."""
    curves = []
    for contender in contenders:
        runs = sorted(series(results, 'churn', contender, f'{operation}_cdf'),
                      key=lambda run: next((x for x, y in run if y >= 0.999), 0))
        if runs:
            curves.append(curve(contender, tail(runs[len(runs) // 2])))
    pictures.draw(f'latency-{operation}', f'{operation} in random churn of 100,000 objects, 128 bytes',
                  ['set logscale x', 'set xlabel "nanoseconds"', 'set xrange [1:]', 'set yrange [0:5]',
                   'set ytics ("0" 0, "50 %%" 0.30103, "90 %%" 1, "99 %%" 2, "99.9 %%" 3, "99.99 %%" 4, "99.999 %%" 5)',
                   'set ylabel "share of operations that took at most so long"'], curves)


def scaling(pictures, summary, contenders, threads):
    curves = []
    for contender in contenders:
        points = [(n, f.median) for n in threads if (f := summary.get(f'scaling-{n}', contender, 'mops_per_s'))]
        curves.append(curve(contender, points, 'using 1:2 with linespoints pt 7 ps 0.6'))
    pictures.draw('scaling', 'random churn of 1024 objects in each thread',
                  ['set xlabel "threads"', 'set logscale xy', 'set logscale x 2', 'set xtics (1, 2, 4, 8, 16)',
                   'set ylabel "million operations a second, all threads"'], curves)


def timeline(pictures, results, contenders):
    curves = []
    for case, label in ('timeline-epochs', 'tslab, epochs closed'), ('timeline-never', None):
        for contender in contenders:
            runs = series(results, case, contender, 'resident')
            if runs:
                mine = contender == 'tslab-adaptive'
                name = label or (f'{name_of(contender)}, nothing closed' if mine else name_of(contender))
                made = curve(contender, runs[0], label=name)
                curves.append(made if label or not mine else (name, '#e6a59d', False, made[3], made[4]))
    # A slower contender's waves end later: x is the share of its own time.
    curves = [(*c[:4], [(100 * x / c[4][-1][0], y) for x, y in c[4]]) for c in curves]
    pictures.draw('memory', 'six waves of 64 MiB; one object in 50 lives on to the end',
                  ['set xlabel "% of the run"', 'set ylabel "resident, MiB"', 'set yrange [0:]'], curves)


def values(pictures, summary, operation, stores, sizes):
    """Nanoseconds of an operation by the value's size."""
    curves = [curve(store, [(size, f.median) for size in sizes
                            if (f := summary.get('map-values', store, f'{operation}_{size}_ns')) and f.median > 0],
                    'using 1:2 with linespoints pt 7 ps 0.6') for store in stores]
    pictures.draw(f'values-{operation}', f'{operation} of a value by its key',
                  ['set logscale xy', 'set logscale x 2', 'set xlabel "size of the value"',
                   'set xtics ("16 B" 16, "256 B" 256, "4 KiB" 4096, "64 KiB" 65536, "1 MiB" 1048576)', 'set ylabel "nanoseconds"'],
                  curves)


def keys(pictures, summary, operation):
    """Nanoseconds of an operation by the number of keys."""
    curves = [curve(store, [(n, f.median) for n in plan.KEYS
                            if (f := summary.get('map-growth', store, f'{operation}_ns_{n}')) and f.median > 0],
                    'using 1:2 with linespoints pt 7 ps 0.6') for store in plan.GROWING]
    pictures.draw(f'keys-{operation}', f'{operation} of a random key, values of 32 bytes',
                  ['set logscale xy', 'set xlabel "keys"', 'set format x "10^{%T}"', 'set ylabel "nanoseconds"'], curves)


def misses(pictures, summary, trace, limits):
    """The share of requests that miss, over the memory that a store takes."""
    def points(contender, metric):
        return [(memory.median, f.median) for mib in limits
                if (f := summary.get(f'map-misses-{trace}-{mib}', contender, metric))
                and (memory := summary.get(f'map-misses-{trace}-{mib}', contender, 'taken_mib'))]

    dots = 'using 1:2 with linespoints pt 7 ps 0.6'
    curves = [curve(store, points(store, 'miss_percent'), dots) for store in ('tslab-map', 'memcached', 'redis')]
    exact = curve('memory', points('tslab-map', 'exact_percent'), 'using 1:2 with lines dt 2', 'exact SIEVE')
    pictures.draw(f'misses-{trace}', f'requests that miss: {trace}',
                  ['set logscale x 2', 'set xlabel "memory that the store takes, MiB"', 'set yrange [0:]',
                   'set ylabel "% of the requests"'], [*curves, exact])


def soak(pictures, curves, n_sessions):
    """curves: name -> (second, value relative to the run's second tenth)."""
    pictures.draw('soak',
                  f'{n_sessions / 1e6:.0f} million sessions, 10,000 live, in 16 MiB; a process is killed each second',
                  ['set xlabel "seconds"', 'set ylabel "relative to the second tenth"', 'set yrange [0:2]'],
                  [(plan.SOAK[name], SPARE[i], name in ('index', 'committed'), 'using 1:2 with lines', points)
                   for i, (name, points) in enumerate(curves.items())])


def index(pictures, points):
    """Bytes of a map's index for each entry, over the inserts so far."""
    bound = [(x, 48) for x, _ in points]
    pictures.draw('index', '1000 entries in a pool of 4 MiB, each insert deletes the oldest',
                  ['set logscale x', 'set xlabel "inserts"', 'set yrange [0:]',
                   'set ylabel "bytes of the index for each entry"'],
                  [curve('tslab-map', points), ('bound', '#7f8c8d', False, 'using 1:2 with lines dt 2', bound)])


def wrapped(label):
    """The label on short lines, in gnuplot's notation."""
    return '\\n'.join(textwrap.wrap(label, 12))


def bars(pictures, summary, name, title, columns, contenders):
    """columns: (label, case, metric)."""
    settings = ['set bmargin 4', 'set style data histograms', 'set style histogram clustered gap 1',
                'set style fill solid 0.9',
                'set logscale y', 'set ylabel "nanoseconds"', 'set yrange [1:]']
    curves = []
    for contender in contenders:
        points = []
        for label, case, metric in columns:
            figure = summary.get(case, contender, metric)
            points.append((f'"{wrapped(label)}"', figure.median if figure else math.nan))
        if any(not math.isnan(p[1]) for p in points):
            curves.append(curve(contender, points, 'using 2:xtic(1)'))
    pictures.draw(name, title, settings, curves)


def growth(pictures, summary, axes, calls):
    for axis, (label, unit) in axes.items():
        values = sorted({int(c) for case, c, _ in summary.figures if case == f'grow-{axis}'})
        curves = [(call, SPARE[i], False, 'using 1:2 with linespoints pt 7 ps 0.6',
                   [(max(v / unit, 0.5), f.median / 1000) for v in values
                    if (f := summary.get(f'grow-{axis}', str(v), f'{call}_p50_ns'))]) for i, call in enumerate(calls)]
        pictures.draw(f'growth-{axis}', f'control calls, by {label}',
                      ['set logscale xy', f'set xlabel "{label}"', 'set ylabel "microseconds, median"'], curves)


def model(pictures, loops, processors, line):
    curves = [(loop.name, SPARE[i], False, 'using 1:2 with linespoints pt 7 ps 0.6',
               [(p, loop.throughput(p, line)) for p in processors]) for i, loop in enumerate(loops)]
    pictures.draw('model', 'on paper: throughput by the number of processors',
                  ['set logscale xy', 'set logscale x 2', 'set xtics (' + ', '.join(map(str, processors)) + ')',
                   'set xlabel "processors"', 'set ylabel "million operations a second"'], curves)
