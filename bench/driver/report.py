"""One report in Markdown, with pictures and raw figures beside it."""

import itertools
import json
import subprocess

import commands
import counted
import growth
import model
import plan
import plots
import reasons
import runner as programs
import short
import summary as tables
import texts

THREADS = [1, 2, 4, 8, 16]
MISUSE = {0: 'refused', 1: 'not noticed', 2: 'one object had twice', 3: 'crash', 4: 'hangs'}
PACKAGES = ['libboost-dev', 'libdpdk-dev', 'libjemalloc2', 'libmimalloc2.0', 'libtcmalloc-minimal4', 'redis-server',
            'memcached', 'php-apcu', 'php-cli', 'liblmdb0', 'nginx-light', 'libnginx-mod-http-lua', 'libc6', 'gcc']
GROWTH = {'arena': ('size of the arena, MiB', 1 << 20), 'fill': ('live objects, MiB', 1 << 20), 'epochs': ('epochs', 1),
          'clients': ('clients', 1), 'threads': ('threads of a client', 1)}


def versions():
    try:
        done = subprocess.run(['dpkg-query', '-W', '-f=${Package} ${Version}\n', *PACKAGES], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        return [line for line in done.stdout.splitlines() if len(line.split()) == 2]
    except OSError:
        return []


def markdown_table(head, rows):
    marks = [' --- ', *[' ---: '] * (len(head) - 1)]
    lines = ['| ' + ' | '.join(head) + ' |', '|' + '|'.join(marks) + '|']
    return lines + ['| ' + ' | '.join(row) + ' |' for row in rows] + ['']


def cell(figure, scale=1):
    return tables.number(figure.median / scale) if figure else '–'


def size_name(size):
    return f'{size >> 20} MiB' if size >= 1 << 20 else f'{size >> 10} KiB' if size >= 1024 else f'{size} B'


def count(figure):
    return f'{figure.median:.0f}' if figure else '–'


class Report:
    def __init__(self, runner, about, folder):
        self.runner, self.about, self.folder = runner, about, folder
        self.summary = tables.Summary(runner.results)
        self.pictures = plots.Pictures(runner, folder)
        measured = {r['contender'] for r in runner.results}
        self.contenders = [c for c in runner.arguments.contenders if c not in plan.STORES + plan.GROWING and c in measured]
        self.lines = []

    def say(self, *lines):
        self.lines += [*lines, '']

    def tell(self, text):
        self.say(text.strip())

    def picture(self, *names):
        for name in names:
            if name in self.pictures.made:
                self.say(f'![{name}]({name}.svg)')

    def grid(self, columns, contenders=None, title=''):
        """columns: (label, case, metric, scale)."""
        rows = []
        for contender in contenders or self.contenders:
            figures = [(self.summary.get(case, contender, metric), scale) for _, case, metric, scale in columns]
            if any(f for f, _ in figures):
                rows.append([plots.name_of(contender), *(cell(f, scale) for f, scale in figures)])
        self.lines += markdown_table([title, *(c[0] for c in columns)], rows)

    # ---- parts

    def head(self):
        a = self.about
        runs = self.runner.runs
        self.say('# tslab beside others')
        self.say(f'{a["cpu"]}, {a["n_cpus"]} processors, Linux {a["kernel"]}, {a["libc"]}; load {a["load_before"]:.1f} '
                 f'before and {a.get("load_after", 0):.1f} after. tslab {a["commit"] or "?"}, {a["date"]}; '
                 f'{runs} run(s) of each, {sum(s["wall"] for s in self.runner.seconds.values()) / 60:.0f} minutes. '
                 f'{"; ".join(a["versions"])}.')
        self.tell(texts.HEAD)
        if self.runner.arguments.quick:
            self.say(texts.QUICK)

    def notes(self):
        if self.runner.notes:
            self.say('## Notes')
            self.say(*(f'- {note}' for note in self.runner.notes))

    def targets(self, reached):
        missed, unknown = (sum(t['met'] is met for t in reached) for met in (False, None))
        self.say('## What it was to reach',
                 f'On this processor ({self.about["cpu"]}), ratios within one run: {len(reached)} targets, {missed} '
                 f'missed, {unknown} not measured.')
        self.lines += markdown_table(
            ['', '', 'measured', 'bound'],
            [[t['target'], '**missed**' if t['met'] is False else tables.verdict(t),
              f'{tables.number(t["value"])} {t["unit"]}',
              f'{t["relation"]} {tables.number(t["bound"])} {t["unit"]}'] for t in reached])
        for why, names in itertools.groupby((t['target'] for t in reached if t['met'] is False), reasons.reason_for):
            self.lines.append(f'- **{"; ".join(names)}.** {why or "No reason is known."}')
        self.say()

    def throughput(self):
        columns = [('pair', 'pair-128', 'pair_ns'), ('batch of 1024', 'batch-128', 'pair_ns'),
                   ('pair, two at once', 'pair-2', 'pair_ns'), ('batch, two at once', 'batch-2', 'pair_ns'),
                   ('free by another', 'remote', 'free_ns'), ('producer to consumer', 'remote', 'pipeline_ns')]
        plots.bars(self.pictures, self.summary, 'throughput', 'nanoseconds for an object of 128 bytes', columns,
                   [c for c in self.contenders if c not in plan.YARDSTICKS])
        self.tell(texts.THROUGHPUT)
        self.picture('throughput')
        self.grid([(*c, 1) for c in columns])
        self.say('By size:')
        self.grid([(f'{w} {size}', f'{w}-{size}', 'pair_ns', 1) for w in ('pair', 'batch') for size in (64, 128, 256)])
        self.say('One call for each object, and one call for all, without touching them:')
        self.grid([(f'{n} {label}', 'batch-calls', f'{kind}_{n}_ns', 1) for n in plan.BATCH_CALLS
                   for kind, label in (('single', 'calls'), ('batch', 'at once'))])

    def latency(self):
        for operation in 'alloc', 'free':
            plots.distributions(self.pictures, self.runner.results, self.contenders, operation)
        self.tell(texts.LATENCY)
        self.picture('latency-alloc', 'latency-free')
        self.grid([(f'{op} {p}', 'churn', f'{op}_{p}_ns', 1) for op in ('alloc', 'free')
                   for p in ('p50', 'p99', 'p99.9', 'p99.99')])
        plots.scaling(self.pictures, self.summary, self.contenders, THREADS)
        self.tell(texts.THREADS)
        self.picture('scaling')
        self.grid([(f'{n}', f'scaling-{n}', 'mops_per_s', 1) for n in THREADS])

    def memory(self):
        plots.timeline(self.pictures, self.runner.results, self.contenders)
        self.tell(texts.MEMORY)
        self.picture('memory')
        mib = 1 << 20
        self.grid([('resident / live', 'steady', 'resident_over_live', 1),
                   ('freed all, MiB', 'steady', 'freed_bytes', mib),
                   ('a 20th is left', 'sparse-128', 'fallen_over_live', 1),
                   ('8 turnovers later', 'sparse-128', 'held_over_live', 1),
                   ('class efficiency', 'mix', 'efficiency', 1),
                   ('resident / requested', 'mix', 'resident_over_requested', 1),
                   ('waves, nothing closed', 'timeline-never', 'valley_over_live', 1),
                   ('waves, epochs closed', 'timeline-epochs', 'valley_over_live', 1)])
        self.say('By size of the objects, after eight turnovers; and MiB in the caches of 63 threads, at once and after',
                 '10 s:')
        self.grid([(str(size), f'sparse-{size}', 'held_over_live', 1) for size in plan.SPARSE_SIZES] +
                  [(f'{label}, {when}', case, metric, mib) for case, label in plan.IDLE.items()
                   for metric, when in (('stranded_before_bytes', 'at once'), ('stranded_bytes', 'later'))],
                  ['tslab-adaptive'])

    def safety(self):
        def outcome(contender, metric):
            figure = self.summary.get('misuse', contender, metric)
            return MISUSE[int(figure.median)] if figure else '–'

        rows = []
        for c in self.contenders:
            trials = self.summary.get('safety_kill', c, 'trials')
            if trials:
                rows.append([plots.name_of(c), *(count(self.summary.get('safety_kill', c, m))
                                                 for m in ('trials', 'hung', 'broken', 'with_lost', 'lost_more')),
                             *(count(self.summary.get('safety_stop', c, m)) for m in ('trials', 'hung')),
                             outcome(c, 'double_free'), outcome(c, 'stale_free')])
        self.tell(texts.SAFETY)
        self.lines += markdown_table(['', 'killed', 'hung', 'broken', 'kills that lost', 'objects lost besides', 'stopped',
                                      'hung', 'double free', 'free after reuse'], rows)

    def stores(self):
        stores = plan.STORES
        self.tell(texts.STORES)
        self.grid([('put', 'map-sessions', 'put_ns', 1), ('get', 'map-sessions', 'get_ns', 1)], stores)
        self.say('tslab by handle:')
        self.grid([(label, 'map-sessions', f'handle_{metric}_ns', 1) for label, metric in [
            ('replace', 'put'), ('copy', 'read'), ('find', 'get'), ('find the same one each time', 'get_hot')]], stores)
        self.tell(texts.VALUES)
        for operation in 'put', 'get':
            plots.values(self.pictures, self.summary, operation, stores, plan.VALUE_SIZES)
            self.picture(f'values-{operation}')
            self.grid([(size_name(size), 'map-values', f'{operation}_{size}_ns', 1) for size in plan.VALUE_SIZES], stores,
                      title=operation)
        self.tell(texts.CYCLE)
        self.grid([(name.replace('_', ' '), 'map-cycle', f'{name}_ns', 1) for name in plan.CYCLE], stores)
        self.tell(texts.TAGS)
        self.grid([(label, 'map-tags', f'{name}_ns', 1) for name, label in plan.TAGS.items()], stores)
        self.keys()
        self.uptime()
        self.tell(texts.COUNTERS)
        self.grid([('add', 'map-counters', 'add_ns', 1), ('by version', 'map-counters', 'add_at_ns', 1),
                   ('two processes', 'map-counters', 'contended_ns', 1), ('limit', 'map-limits', 'limit_ns', 1)], stores)
        self.tell(texts.EXPIRY)
        for case, label in ('map-expiry', 'private pool'), ('map-expiry-daemon', "a daemon's pool"):
            self.grid([(f'{p} {when}', case, f'{when}_{p}_ns', 1) for p in ('p50', 'p99', 'p99.9')
                       for when in plan.EXPIRY], stores, title=label)
        self.caches()

    def keys(self):
        self.tell(texts.KEYS)
        for operation in plan.KEYS_BOUNDS:
            plots.keys(self.pictures, self.summary, operation)
            self.picture(f'keys-{operation}')
            self.grid([(f'{n:,}', 'map-growth', f'{operation}_ns_{n}', 1) for n in plan.KEYS], plan.GROWING,
                      title=operation)
        self.grid([(f'{n:,}', 'map-growth', f'get_16_ns_{n}', 1) for n in plan.KEYS], ['tslab-map', 'tslab-huge'],
                  title='get, 16 in a call')
        self.grid([(f'{n:,}', 'map-growth', f'index_bytes_{n}', 1) for n in plan.KEYS], ['tslab-map'],
                  title='index, bytes an entry')

    def uptime(self):
        def curves(case):
            return next((r['series'] for r in self.runner.results if r['case'] == case and 'series' in r), None)

        self.tell(texts.UPTIME)
        index, soak = curves('map-index'), curves('soak')
        if index:
            plots.index(self.pictures, index['index'])
        if soak:
            plots.soak(self.pictures, soak, self.summary.get('soak', 'tslab-map', 'sessions').median)
        self.picture('index', 'soak')
        self.grid([('index, bytes an entry', 'map-index', 'index_bytes_per_entry', 1),
                   *((f'soak: {label}', 'soak', f'{name}_growth', 1) for name, label in plan.SOAK.items()),
                   *((f'short of {size_name(size)}', 'map-room', f'short_{size}', 1) for size in plan.ROOM_SIZES)],
                  ['tslab-map'])

    def misses_row(self, label, contender, metric, trace):
        def cell_of(mib):
            found, memory = (self.summary.get(f'map-misses-{trace}-{mib}', contender, m) for m in (metric, 'taken_mib'))
            return f'{cell(found)} ({memory.median:.1f})' if found and metric == 'miss_percent' else cell(found)

        return [label, *map(cell_of, plan.MISSES_MIB)]

    def misses_beside(self, contender, trace):
        """tslab's share in the memory that the contender takes, by the contender's limit."""
        own, peer = (tables.misses_curve(self.summary, trace, c) for c in ('tslab-map', contender))
        shares = [tables.misses_in(own, peer[mib][0]) if mib in peer else None for mib in plan.MISSES_MIB]
        return [f"tslab-map in {contender}'s memory", *('' if m is None else tables.number(m) for m in shares)]

    def caches(self):
        self.tell(texts.MISSES)
        for trace in plan.TRACES:
            plots.misses(self.pictures, self.summary, trace, plan.MISSES_OWN_MIB)
            self.picture(f'misses-{trace}')
            self.lines += markdown_table([trace, *(f'{mib} MiB' for mib in plan.MISSES_MIB)], [
                *(self.misses_row(c, c, 'miss_percent', trace) for c in plan.EVICTING),
                *(self.misses_beside(c, trace) for c in plan.EVICTING if c != 'tslab-map'),
                self.misses_row('tslab-map, four processes', 'tslab-map', 'miss_beside_percent', trace),
                self.misses_row('exact', 'tslab-map', 'exact_percent', trace)])
        self.tell(texts.EVICT)
        for case, label in ('map-evict-limit', 'at a limit'), ('map-evict-full', 'in a full pool'):
            self.grid([*((f'put {p}', case, f'put_{p}_ns', 1) for p in ('p50', 'p99', 'p99.9', 'max')),
                       ('computing, p99.9', case, 'control_p99.9_ns', 1),
                       ('get', case, 'get_ns', 1), ('get without', case, 'get_without_ns', 1)], plan.EVICTING, title=label)
        self.tell(texts.BESIDE)
        for limit in plan.BESIDE_LIMITS:
            self.grid([(f'{where} {p}', 'map-beside', f'{where}_{limit}_{p}_ns', 1000)
                       for where in ('alone', 'beside') for p in plan.BESIDE_TIMES], ['tslab-map'], title=f'limit of {limit} bytes')
        self.grid([(f'{mib} MiB, {p}', 'map-beside', f'refused_{mib}_{p}_ns', 1000)
                   for mib in plan.REFUSED_MIB for p in plan.REFUSED_TIMES], ['tslab-map'], title='puts that fail')
        self.tell(texts.RESIDENT)
        for name, title in plan.RESIDENT.items():
            self.grid([(str(size), 'map-resident', f'{name}_{size}', 1) for size in plan.RESIDENT_SIZES], ['tslab-map'], title=title)
        self.tell(texts.CLAIMS)
        for case, label in ('map-claims', 'private pool'), ('map-claims-daemon', "a daemon's pool"):
            self.grid([('claim', case, 'claim_cycle_ns', 1000), ('put', case, 'put_cycle_ns', 1000),
                       ('computations a key', case, 'computations_per_key', 1),
                       *((f'{name} {p}', case, f'{metric}_{p}_ns', 1000) for metric, name in
                         (('wait', 'wait'), ('next_claim', 'next claim')) for p in ('p50', 'p99', 'max'))],
                      ['tslab-map'], title=label)
        self.tell(texts.PYTHON)
        self.grid([(name.replace('_', ' '), 'map-python', f'{name}_ns', 1000) for name in plan.PYTHON], plan.EVICTING)

    def requests(self):
        self.tell(texts.REQUESTS)
        for case, label in [('requests-never', 'never close'), ('requests-batch', 'close every 256'),
                            ('requests-request', 'close each'), ('requests-control', 'control'),
                            ('requests-16', '16 threads, never close')]:
            self.grid([(p, case, f'request_{p}_ns', 1000) for p in ('mean', 'p50', 'p99', 'max')] +
                      [('over 1 ms', case, 'spikes_over_1ms', 1), ('slabs', case, 'committed_bytes', 4096),
                       ('resident, MiB', case, 'resident_bytes', 1 << 20)], title=label)

        self.tell(texts.DEMO)
        names = [c for case, c, metric in self.summary.figures if (case, metric) == ('sessions', 'requests')]
        self.lines += markdown_table(['', 'requests', 'a second', 'p50', 'p99', 'p99.9', 'max'], [
            [name, *(count(self.summary.get('sessions', name, m)) for m in ('requests', 'requests_per_second')),
             *(cell(self.summary.get('sessions', name, f'{m}_ns'), 1000) for m in ('p50', 'p99', 'p999', 'max'))]
            for name in names])

    def daemon(self):
        plots.growth(self.pictures, self.summary, GROWTH, growth.CALLS)
        self.tell(texts.DAEMON)
        rows = [[label, *(cell(self.summary.get(case, 'tslab-adaptive', m))
                          for m in ('close_ms', 'punch_ms', 'close_over_punch', 'left_percent'))]
                for case, label in [('close', 'private pool'), ('close-daemon', 'by the daemon')]]
        self.lines += markdown_table(['', 'close', 'hole punch', 'ratio', 'left, %'], rows)
        self.tell(texts.GROWTH)
        self.picture(*(f'growth-{axis}' for axis in GROWTH))
        for axis, (label, unit) in GROWTH.items():
            values = sorted({int(c) for case, c, _ in self.summary.figures if case == f'grow-{axis}'})
            self.lines += markdown_table([label, *growth.CALLS], [
                [f'{v / unit:g}', *(cell(self.summary.get(f'grow-{axis}', str(v), f'{call}_p50_ns'), 1000)
                                            for call in growth.CALLS)] for v in values])
        self.tell(texts.RESTART)
        clients = sorted({int(c) for case, c, _ in self.summary.figures if case == 'restart'})
        self.lines += markdown_table(['clients', 'ready', 'first call'], [
            [str(n), *(cell(self.summary.get('restart', str(n), m)) for m in ('ready_ms', 'first_call_ms'))]
            for n in clients])

    def commands(self):
        self.tell(texts.COMMANDS)
        names = list(dict.fromkeys(c for case, c, _ in self.summary.figures if case == 'commands'))
        self.lines += markdown_table(['', 'mean', 'min', 'max'], [
            [f'`{n}`', *(cell(self.summary.get('commands', n, m)) for m in ('mean_ms', 'min_ms', 'max_ms'))]
            for n in names])

    def paper(self):
        figure = self.summary.get('line', 'none', 'line_ns')
        self.say('## More processors, on paper', *model.__doc__.strip().split('\n')[2:])
        if not figure or figure.median <= 0:
            self.tell(texts.NO_LINE)
            return
        loops = model.loops(self.summary)
        plots.model(self.pictures, loops, model.PROCESSORS, figure.median)
        self.say(f'L is {tables.number(figure.median)} ns here. Million operations a second:')
        self.picture('model')
        self.lines += markdown_table(['', 't1, ns', 's', *map(str, model.PROCESSORS)], [
            [loop.name, tables.number(loop.t1), f'{loop.shared:.4f}',
             *(tables.number(loop.throughput(p, figure.median)) for p in model.PROCESSORS)] for loop in loops])
        self.say('Counted in the library, for an operation:')
        self.grid([(label, 'counted', f'{metric}_per_op', 1) for label, metric in [
            ('instructions', 'instructions'), ('locked instructions', 'locked'),
            ('searches in slab sets', 'searches')]],
                  list(counted.LOOPS))
        self.say('Checked with two processors: nanoseconds for an operation of one of them.')
        self.lines += markdown_table(['', 'on paper', 'measured', 'ratio'], [
            [name, tables.number(expected), tables.number(measured), f'{measured / expected:.2f}']
            for name, expected, measured in model.check(self.summary, figure.median)])


def measure(runner):
    """The measurements beside the allocators' workloads."""
    for what in growth, commands, counted:
        with runner.timed(what.__name__):
            what.run(runner)
        runner.keep(runner)


def make(runner, about, folder):
    report = Report(runner, about, folder)
    reached = list(tables.peer_targets(report.summary))
    report.head()
    if not runner.arguments.quick:
        report.targets(reached)
    for part in (report.throughput, report.latency, report.memory, report.safety, report.stores, report.requests,
                 report.daemon, report.commands, report.paper, report.notes):
        part()
    (folder / 'short.md').write_text(short.text(report.summary, about, runner, markdown_table), encoding='utf-8')
    (folder / 'report.md').write_text('\n'.join(report.lines), encoding='utf-8')
    targets = folder / 'targets.json'
    if runner.arguments.quick:  # as in the report: short runs decide nothing
        targets.unlink(missing_ok=True)
    else:
        targets.write_text(json.dumps(reached, indent=1) + '\n', encoding='utf-8')
    return folder / 'report.md'


def again(build, arguments, folder):
    """The report of results that were kept. ValueError: there are none."""
    path = folder / 'results.json'
    try:
        kept = json.loads(path.read_text(encoding='utf-8'))
        quick, runs, results, notes, seconds, about = (
            kept[name] for name in ('quick', 'runs', 'results', 'notes', 'seconds', 'machine'))
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ValueError(f'{path} has no results of a report: {e}') from e
    arguments.quick, arguments.runs = quick, runs
    done = programs.Runner(build, arguments, lambda _: None)
    done.results, done.notes, done.seconds = results, notes, seconds
    return make(done, about, folder)


assert {c.workload for c in plan.for_report()} >= {'churn', 'remote', 'safety_kill', 'close'}
