"""Medians over runs, their intervals, ratios, the table, and the targets."""

import math
import statistics

import plan


def interval(values):
    """(low, high, coverage): the order statistics that enclose the true median 95 times in 100, or the whole range."""
    values, n = sorted(values), len(values)
    best = (values[0], values[-1], 1 - 2 * 0.5 ** n)
    tail = 0.0
    for k in range(1, (n + 1) // 2 + 1):
        tail += math.comb(n, k - 1) * 0.5 ** n
        if 1 - 2 * tail < 0.95:
            break
        best = (values[k - 1], values[n - k], 1 - 2 * tail)
    return best


class Figure:
    """One metric of one contender in one case, by run."""

    def __init__(self, by_run):
        self.by_run = by_run
        self.median = statistics.median(by_run.values())
        self.low, self.high, self.coverage = interval(by_run.values())

    def over(self, other):
        """The ratio to another figure, run by run, as alternating runs share disturbances. None: no run has both."""
        ratios = {run: value / other.by_run[run] for run, value in self.by_run.items()
                  if other.by_run.get(run, 0) > 0}
        return Figure(ratios) if ratios else None

    def as_json(self):
        return {'median': self.median, 'low': self.low, 'high': self.high, 'coverage': self.coverage,
                'n': len(self.by_run)}


class Summary:
    def __init__(self, results):
        by_run = {}
        for r in results:
            for metric, value in r['metrics'].items():
                by_run.setdefault((r['case'], r['contender'], metric), {})[r['run']] = value
        self.figures = {key: Figure(values) for key, values in by_run.items()}

    def get(self, case, contender, metric):
        return self.figures.get((case, contender, metric))

    def ratio(self, case, contender, other, metric):
        a, b = self.get(case, contender, metric), self.get(case, other, metric)
        return a.over(b) if a and b and contender != other else None

    def as_json(self):
        rows = []
        for (case, contender, metric), figure in self.figures.items():
            row = {'case': case, 'contender': contender, 'metric': metric, **figure.as_json()}
            for other, name in ('glibc', 'over_glibc'), ('tslab-off', 'over_cache_off'):
                ratio = self.ratio(case, contender, other, metric)
                if ratio:
                    row[name] = ratio.as_json()
            rows.append(row)
        return rows


def number(value):
    if value is None:
        return '–'
    if value == 0 or 0.01 <= abs(value) < 1e5:
        return f'{value:.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3}f}'
    return f'{value:.3g}'


def ratio_text(ratio):
    return f'{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]' if ratio else ''


def table(summary, cases, contenders):
    lines = []
    for case in cases:
        rows, bases = [], ('memory', 'tslab-map') if case.store else ('glibc', 'tslab-off')
        for metric in case.metrics:
            for contender in contenders:
                figure = summary.get(case.name, contender, metric)
                if figure:
                    rows.append((metric, contender, number(figure.median),
                                 f'[{number(figure.low)}, {number(figure.high)}]',
                                 *(ratio_text(summary.ratio(case.name, contender, base, metric)) for base in bases)))
        if rows:
            head = (case.name, '', 'median', 'interval',
                    *('/ cache off' if base == 'tslab-off' else f'/ {base}' for base in bases))
            lines += ['', *columns([head] + rows)]
    return lines


def columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for i, row in enumerate(rows):
        cells = [cell.rjust(w) if k == 2 else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths))]
        # A metric is named once.
        if i > 1 and row[0] == rows[i - 1][0]:
            cells[0] = ' ' * widths[0]
        yield '  '.join(cells).rstrip()


# Targets, each with the measured value, its bound, and whether it is met; None: not measured.

def at_most(what, value, bound, unit=''):
    return {'target': what, 'value': value, 'relation': '<=', 'bound': bound, 'unit': unit,
            'met': None if value is None or bound is None else value <= bound}


def at_least(what, value, bound, unit=''):
    return {'target': what, 'value': value, 'relation': '>=', 'bound': bound, 'unit': unit,
            'met': None if value is None else value >= bound}


def never_slower(what, ratio, bound=1.0):
    """Met unless the whole interval of the ratio lies above the bound."""
    if ratio is None:
        return at_most(what, None, bound, 'x')
    return {**at_most(what, ratio.median, bound, 'x'), 'interval': [ratio.low, ratio.high], 'met': ratio.low <= bound}


def targets(s):
    def median(case, contender, metric):
        figure = s.get(case, contender, metric)
        return figure.median if figure else None

    def ratio(case, contender, other, metric):
        figure = s.ratio(case, contender, other, metric)
        return figure.median if figure else None

    yield at_most('instructions, alloc hit', median('instructions', 'tslab-adaptive', 'alloc_instructions'), 45)
    yield at_most('instructions, free hit', median('instructions', 'tslab-adaptive', 'free_instructions'), 50)
    yield at_least('pair 128 B, cache off over on', ratio('pair-128', 'tslab-off', 'tslab-on', 'pair_ns'), 2, 'x')
    for operation in 'alloc', 'free':
        for p in 'p50', 'p99', 'p99.9':
            yield at_most(f'churn {operation} {p}, cache on over off',
                          ratio('churn', 'tslab-on', 'tslab-off', f'{operation}_{p}_ns'), 1, 'x')
    for p in 'p99', 'p99.9':
        yield at_most(f'churn alloc {p} over glibc', ratio('churn', 'tslab-on', 'glibc', f'alloc_{p}_ns'), 1, 'x')
    for case, metric in [('pair-128', 'pair_ns'), ('batch-128', 'pair_ns'), ('churn', 'alloc_mean99_ns'),
                         ('churn', 'free_mean99_ns'), ('churn_fixed', 'alloc_mean99_ns'),
                         ('churn_fixed', 'free_mean99_ns')]:
        yield never_slower(f'{case} {metric}, adaptive over off', s.ratio(case, 'tslab-adaptive', 'tslab-off', metric))
    for metric in 'warm_alloc_ns', 'warm_free_ns':
        yield never_slower(f'adversarial {metric}, adaptive over off',
                           s.ratio('adversarial', 'tslab-adaptive', 'tslab-off', metric), 1.05)
    yield from speed_targets(s)
    yield at_most('churn, refills per alloc', median('churn', 'tslab-on', 'refills_per_alloc'), 1 / 128)
    yield at_most('churn, flushes per free', median('churn', 'tslab-on', 'flushes_per_free'), 1 / 128)
    refill, uncached = median('churn', 'tslab-on', 'alloc_refill_p99_ns'), median('churn', 'tslab-off', 'alloc_p50_ns')
    if refill is not None and uncached:
        yield at_most('churn, refill p99 (up to 128 slots) over an allocation without cache', refill / uncached, 32, 'x')
    yield at_most('fresh 128 B, alloc and first write, p99.9', median('fresh-128', 'tslab-adaptive', 'alloc_p99.9_ns'),
                  20000, 'ns')
    yield at_most('steady, growth', median('steady', 'tslab-adaptive', 'growth_percent'), 0, '%')
    yield from uptime_targets(s)
    yield from store_targets(s)


def speed_targets(s):
    """The limit of an allocator between processes: DPDK's caches, which check nothing, and a free's one locked
    compare-and-set, all measured in this run."""
    def median(case, contender, metric):
        figure = s.get(case, contender, metric)
        return figure.median if figure else None

    yardsticks = [median('pair-128', c, 'pair_ns') for c in ('locked-cas', 'none')]
    glibc = median('pair-128', 'glibc', 'pair_ns')
    # Both loops have the touch: it counts once.
    yield at_most('pair 128 B: glibc + one locked compare-and-set', median('pair-128', 'tslab-adaptive', 'pair_ns'),
                  None if None in (glibc, *yardsticks) else glibc + yardsticks[0] - yardsticks[1], 'ns')
    for case, factor in ('pair-128', 1), ('batch-128', 1.2):
        dpdk = median(case, 'dpdk-cache', 'pair_ns')
        limit = None if None in (dpdk, *yardsticks) else factor * (dpdk + yardsticks[0] - yardsticks[1])
        yield at_most(f"{case}: {factor:g} x (DPDK's with cache + one locked compare-and-set)",
                      median(case, 'tslab-adaptive', 'pair_ns'), limit, 'ns')
    for n in plan.BATCH_CALLS:
        yield at_most(f'one call for {n} objects over {n} calls',
                      median('batch-calls', 'tslab-adaptive', f'batch_{n}_over_single'), 0.6, 'x')
    yield at_most('scattered handles: frees in one call over single frees',
                  median('batch-calls', 'tslab-adaptive', 'scattered_over_single'), 1, 'x')
    both = s.ratio('batch-2', 'tslab-adaptive', 'glibc', 'pair_ns')
    yield at_most('two processes, batch 1024, a pair', median('batch-2', 'tslab-adaptive', 'pair_ns'), 20, 'ns')
    yield at_most('two processes, batch 1024, over glibc', both.median if both else None, 0.5, 'x')
    line, free = median('line', 'none', 'line_ns'), median('remote', 'tslab-adaptive', 'free_ns')
    yield at_most('free by another process over a line that another processor wrote',
                  free / line if line and free is not None else None, 2.5, 'x')


def peer_targets(s):
    """Targets beside other allocators, as ratios within one run."""
    def median(case, contender, metric):
        figure = s.get(case, contender, metric)
        return figure.median if figure else None

    def over(case, other, metric):
        figure = s.ratio(case, 'tslab-adaptive', other, metric)
        return figure.median if figure else None

    def ratio(a, b):
        return a / b if a is not None and b else None

    yield from speed_targets(s)
    yield at_most("pair 128 B over Boost's cached node pool", over('pair-128', 'boost-pool', 'pair_ns'), 0.75, 'x')
    yield at_most('batch of 1024 over glibc', over('batch-128', 'glibc', 'pair_ns'), 1, 'x')
    yield at_most("two processes, batch, over Boost's cached node pool", over('batch-2', 'boost-pool', 'pair_ns'), 0.2,
                  'x')
    yield at_most('free by another process over DPDK with cache', over('remote', 'dpdk-cache', 'free_ns'), 2, 'x')
    yield at_most('free by another process over glibc', over('remote', 'glibc', 'free_ns'), 0.15, 'x')
    for p in 'p99', 'p99.9':
        for other in 'glibc', 'mimalloc':
            yield at_most(f'churn, alloc {p} over {other}', over('churn', other, f'alloc_{p}_ns'), 1, 'x')
    yield no_own_spike(s, 20000)
    for case, name in ('close', 'a private pool'), ('close-daemon', 'the daemon'):
        yield at_most(f'close of 1 GiB over the hole punch, {name}',
                      median(case, 'tslab-adaptive', 'close_over_punch'), 1.3, 'x')
    for call in 'stats', 'close':
        small, large = (median('grow-arena', str(n << 20), f'{call}_p50_ns') for n in (64, 16384))
        yield at_most(f'{call} with 16 GiB of arena over 64 MiB, as much used', ratio(large, small), 2, 'x')
    filled = sorted((int(size), figure.median) for (case, size, metric), figure in s.figures.items()
                    if (case, metric) == ('grow-fill', 'stats_p50_ns'))
    yield at_most('stats of a pool of 16 GiB, as full as fits, over an empty one',
                  ratio(filled[-1][1], filled[0][1]) if len(filled) > 1 else None, 4, 'x')
    yield at_most('requests, never closing: over 1 ms though not preempted',
                  median('requests-never', 'tslab-adaptive', 'own_spikes_over_1ms'), 0)
    yield at_most('requests, never closing: over 1 ms (control: bound)',
                  median('requests-never', 'tslab-adaptive', 'spikes_over_1ms'),
                  median('requests-control', 'tslab-adaptive', 'spikes_over_1ms'))
    yield at_most('mixed sizes, resident memory over glibc', over('mix', 'glibc', 'resident_over_requested'), 1.5, 'x')
    yield from uptime_targets(s)
    yield from store_targets(s)


def uptime_targets(s):
    """Nothing grows, and memory comes back."""
    def median(case, metric, contender='tslab-adaptive'):
        figure = s.get(case, contender, metric)
        return figure.median if figure else None

    yield at_most(f"index after {plan.INDEX_INSERTS // 1000000} million inserts, 1000 live in 4 MiB, an entry's part",
                  median('map-index', 'index_bytes_per_entry', 'tslab-map'), 48, 'bytes')
    for metric, name in plan.SOAK.items():
        if metric != plan.SOAK_YARDSTICK:
            yield at_most(f'soak of {plan.SOAK_SECONDS} s, a process killed each second: {name}, end over beginning',
                          median('soak', f'{metric}_growth', 'tslab-map'), 1.05, 'x')
    sparse = [median(f'sparse-{size}', 'held_over_live') for size in plan.SPARSE_SIZES]
    yield at_most('a random 20th is left, replaced 8 times: slabs over live bytes, worst class',
                  None if None in sparse else max(sparse), 1.5, 'x')
    for case, name in plan.IDLE.items():
        stranded = median(case, 'stranded_bytes')
        yield at_most(f'slabs of caches of 63 idle threads after 10 s, {name}',
                      None if stranded is None else stranded / (1 << 20), 1, 'MiB')
    for call, bound in ('advance', 20), ('close', 60):
        p50 = median('rotation', f'{call}_p50_ns')
        yield at_most(f'{call} of an epoch beside another process, p50', None if p50 is None else p50 / 1000, bound, 'us')
    p50 = median('requests-request', 'request_p50_ns')
    yield at_most('a request with its own epoch, p50', None if p50 is None else p50 / 1000, 70, 'us')
    for case, name in ('close', 'a private pool'), ('close-daemon', 'the daemon'):
        yield at_most(f'resident after a close of all, of the peak, {name}', median(case, 'left_percent'), 2, '%')


def store_targets(s):
    def median(case, metric):
        figure = s.get(case, 'tslab-map', metric)
        return figure.median if figure else None

    def over(case, other, metric, store='tslab-map'):
        figure = s.ratio(case, store, other, metric)
        return figure.median if figure else None

    yield at_most('get + check of a handle', median('map-sessions', 'handle_get_hot_ns'), 5, 'ns')
    for operation in 'get', 'put':
        ratio = over('map-sessions', 'redis', f'{operation}_ns')
        yield at_least(f'Redis {operation.upper()} over map {operation}', 1 / ratio if ratio else None, 100, 'x')
        for size, name in (65536, '64 KiB'), (262144, '256 KiB'), (1048576, '1 MiB'):
            yield at_most(f'map {operation} of {name} over memcpy', over('map-values', 'memory', f'{operation}_{size}_ns'),
                          1.3, 'x')
    for call, bound in plan.PYTHON_BOUNDS.items():
        yield at_most(f'Python, {call.replace("_", " ")} of 256 bytes', median('map-python', f'{call}_ns'), bound, 'ns')
    for call in plan.PYTHON_OF_ALL:
        ratio = over('map-python', 'redis', f'{call}_ns')
        yield at_least(f'Python, redis-py over tslab, {call.replace("_", " ")}', 1 / ratio if ratio else None, 20, 'x')
    for call, metric, other, name in [('put that replaces', 'replace', 'shdict', "nginx's shdict"),
                                      ('delete', 'delete', 'apcu', 'APCu')]:
        yield at_most(f'{call} over {name}', over('map-cycle', other, f'{metric}_ns'), 1, 'x')
    for size, name in zip(plan.ROOM_SIZES, ('7 KiB', '10 KiB', '64 KiB', '256 KiB', '1 MiB')):
        yield at_most(f'most free memory with which a put of {name} fails, over its size',
                      median('map-room', f'short_{size}'), 1.1, 'x')
    for store, name in ('tslab-map', ''), ('tslab-huge', ' in huge pages'):
        for operation, bound in plan.KEYS_BOUNDS.items():
            over_floor = [over('map-growth', 'memory', f'{operation}_ns_{n}', store) for n in plan.KEYS
                          if n >= plan.KEYS_LARGE]
            yield at_most(f'{operation}{name}, from {plan.KEYS_LARGE:,} to {plan.KEYS[-1]:,} keys, over the floor, worst',
                          None if None in over_floor else max(over_floor), bound, 'x')
    index = [median('map-growth', f'index_bytes_{n}') for n in plan.KEYS]
    yield at_most('index by the number of keys, worst', None if None in index else max(index), 48, 'bytes')
    tagged, plain = (median('map-tags', f'get_{name}_ns') for name in ('1_tag', '0_tags'))
    yield at_most('a tag adds to a get', None if None in (tagged, plain) else tagged - plain, 25, 'ns')
    yield at_most('counter, add by key', median('map-counters', 'add_ns'), 60, 'ns')
    yield at_most('counter, add by a version that was looked up', median('map-counters', 'add_at_ns'), 25, 'ns')
    yield at_most('two processes on one counter over a contended locked add',
                  over('map-counters', 'memory', 'contended_ns'), 2.5, 'x')
    for case, name in ('map-expiry', 'a private pool'), ('map-expiry-daemon', 'the daemon'):
        yield at_most(f"p99.9 of others' calls while 1,000,000 entries expire, {name}", median(case, 'p99.9_over_before'),
                      1.2, 'x')
        yield at_most(f'left of these 750 ms after the last one ended, {name}', median(case, 'left_percent'), 1, '%')
    yield from cache_targets(s)


def cache_targets(s):
    def median(case, metric, contender='tslab-map'):
        figure = s.get(case, contender, metric)
        return figure.median if figure else None

    yield from miss_targets(s)
    for case, name in ('map-evict-limit', 'at a limit'), ('map-evict-full', 'in a full pool'):
        for p, bound in ('p99', 2000), ('p99.9', 10000):
            yield at_most(f'put that evicts, {name}, {p}', median(case, f'put_{p}_ns'), bound, 'ns')
        get, without = median(case, 'get_ns'), median(case, 'get_without_ns')
        yield at_most(f'get, {name}, over one without eviction', get / without if without else None, 1.05, 'x')
    for p, bound in ('p50', 2), ('mean', 5):
        pairs = [[median('map-beside', f'{where}_{limit}_{p}_ns') for where in ('beside', 'alone')] for limit in plan.BESIDE_LIMITS]
        yield at_most(f'put into a small map that evicts, beside a large one over alone, {p}, worst',
                      max(b / a for b, a in pairs) if all(map(all, pairs)) else None, bound, 'x')
    failing = [median('map-beside', f'refused_{mib}_mean_ns') for mib in plan.REFUSED_MIB]
    yield at_most('put that fails, mean, worst pool', None if None in failing else max(failing) / 1000, 50, 'us')
    for name, title in plan.RESIDENT.items():
        for sizes, bound in (plan.RESIDENT_SIZES[:2], 1.25), (plan.RESIDENT_SIZES[2:], 1.10):
            found = [median('map-resident', f'{name}_{size}') for size in sizes]
            yield at_most(f'memory of a map that evicts over its limit, {title}, values of {sizes[0]} to {sizes[-1]} bytes, worst',
                          None if None in found else max(found), bound, 'x')
    for case, name in ('map-claims', 'a private pool'), ('map-claims-daemon', 'the daemon'):
        yield at_most(f'8 processes that miss one key, computations, {name}', median(case, 'computations_per_key'), 1)
        longest = median(case, 'next_claim_max_ns')
        yield at_most(f'next claim after a kill, longest, {name}', longest / 1e6 if longest else None, 5, 'ms')


def miss_targets(s):
    """The worst of all limits."""
    def worst(differences):
        return max((d for d in differences if d is not None), default=None)

    for trace in plan.TRACES:
        own, exact = (misses_curve(s, trace, 'tslab-map', m) for m in ('miss_percent', 'exact_percent'))
        peer = misses_curve(s, trace, 'memcached')
        yield at_most(f'misses, {trace}: above exact SIEVE', worst(m - exact[mib][1] for mib, (_, m) in own.items()), 1,
                      'points')
        beside = misses_curve(s, trace, 'tslab-map', 'miss_beside_percent')
        yield at_most(f'misses, {trace}: four processes above exact SIEVE',
                      worst(m - exact[mib][1] for mib, (_, m) in beside.items() if mib in exact), 1, 'points')
        yield at_most(f'misses, {trace}: above memcached with the same limit',
                      worst(own[mib][1] - m for mib, (_, m) in peer.items() if mib in own), 0, 'points')
        yield at_most(f'misses, {trace}: above memcached in the same memory',
                      worst(found - m for memory, m in peer.values()
                            if (found := misses_in(own, memory)) is not None), 0, 'points')


def misses_curve(s, trace, contender, metric='miss_percent'):
    """limit -> (memory taken, share of misses)."""
    found = {}
    for mib in plan.MISSES_OWN_MIB:
        memory, misses = (s.get(f'map-misses-{trace}-{mib}', contender, m) for m in ('taken_mib', metric))
        if memory and memory.median > 0 and misses:
            found[mib] = memory.median, misses.median
    return found


def misses_in(curve, memory):
    """The share in so much memory, between the curve's points on a logarithmic scale; None: less than any of them."""
    points = sorted(curve.values())
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= memory <= x1 and x0 < x1:
            return y0 + (y1 - y0) * math.log(memory / x0) / math.log(x1 / x0)
    return points[-1][1] if points and memory > points[-1][0] else None


def no_own_spike(s, least):
    """The longest allocation in churn: at most as long as the peers' longest, by medians, or `least`."""
    own = s.get('churn', 'tslab-adaptive', 'alloc_max_ns')
    others = [figure.median for (case, contender, metric), figure in s.figures.items()
              if (case, metric) == ('churn', 'alloc_max_ns') and not contender.startswith('tslab')]
    return at_most('churn, longest alloc (bound: 20 us, or what peers show)', own.median if own else None,
                   max([least, *others]), 'ns')


def targets_text(found):
    rows = [('target', '', 'measured', '', 'bound')]
    for t in found:
        rows.append((t['target'], 'MISSED' if t['met'] is False else verdict(t), number(t['value']), t['relation'],
                     f'{number(t["bound"])} {t["unit"]}'))
    return ['', *columns(rows)] if found else []


def verdict(target):
    return {True: 'met', False: 'missed', None: 'not measured'}[target['met']]
