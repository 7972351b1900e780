"""The text of `short.md` in a whole report: two tables, of which bench/measured.md has a copy."""

import plan
import summary as tables
import texts

STORES = {'tslab-map': "tslab's map", 'apcu': 'APCu 5.1', 'shdict': "nginx's shdict", 'memcached': 'memcached 1.6',
          'redis': 'Redis 7.0'}
SERVES = {'tslab-map': 'C, C++, Python', 'apcu': 'PHP', 'shdict': "nginx's Lua", 'memcached': 'all, by a socket',
          'redis': 'all, by a socket'}
ALLOCATORS = {'tslab-adaptive': 'tslab', 'boost-pool': 'Boost.Interprocess cached node pool',
              'dpdk-cache': 'DPDK mempool with cache', 'mutex-list': 'a list behind a robust mutex',
              'glibc': 'glibc malloc, private', 'mimalloc': 'mimalloc, private'}
MIB = 32    # the limit of the caches whose misses are told
TRACES = {'log': 'requests that miss in 32 MiB: access log', 'zipf-1.0': '… Zipf 1.0, values of up to 1000 bytes',
          'wide-1.0': '… Zipf 1.0, values of 64 bytes to 8 KiB'}
WIDE = 2    # a range in place of the median, where the ends are so far apart


def microseconds(ns):
    us = ns / 1000
    return f'{us:.2f}' if us < 1 else f'{us:.1f}' if us < 10 else f'{us:.0f}'


def time(figure):
    if not figure:
        return '–'
    low, median, high = map(microseconds, (figure.low, figure.median, figure.high))
    return f'{low}–{high}' if figure.high > WIDE * figure.low else median


def stores(summary):
    """Rows of the table at the top of the README."""
    def row(label, case, *metrics):
        found = {s: [summary.get(case, s, f'{m}_ns') for m in metrics] for s in STORES}
        return [label, *(', '.join(map(time, f)) if any(f) else '–' for f in found.values())]

    def misses(label, trace):
        found = [summary.get(f'map-misses-{trace}-{MIB}', s, 'miss_percent') for s in STORES]
        return [label, *(f'{f.median:.1f} %' if f else '–' for f in found)]

    return [row('get, put of 16 bytes, µs', 'map-values', 'get_16', 'put_16'),
            row('get, put of 256 bytes, µs', 'map-sessions', 'get', 'put'),
            row('get, put of 64 KiB, µs', 'map-values', 'get_65536', 'put_65536'),
            row('get, put of 1 MiB, µs', 'map-values', 'get_1048576', 'put_1048576'),
            row('delete and put of one key, µs', 'map-cycle', 'delete_and_put'),
            row('add 1 to a counter, µs', 'map-counters', 'add'),
            row('two processes add to one counter, µs', 'map-counters', 'contended'),
            row('put that evicts, p50 and p99.9, µs', 'map-evict-limit', 'put_p50', 'put_p99.9'),
            row('Python: get, put of 256 bytes, µs', 'map-python', 'get', 'put'),
            *(misses(label, trace) for trace, label in TRACES.items()),
            ['serves', *SERVES.values()]]


def allocators(summary):
    """Rows of the table under "Measured beside others"."""
    def cell(case, contender, metric):
        figure = summary.get(case, contender, metric)
        return tables.number(figure.median) if figure else '–'

    def kills(contender):
        lost = summary.get('safety_kill', contender, 'with_lost')
        return f'{lost.median:.0f} kills' if lost else '–'

    return [[name, *(cell(case, c, metric) for case, metric in [
        ('pair-128', 'pair_ns'), ('batch-128', 'pair_ns'), ('batch-2', 'pair_ns'), ('remote', 'free_ns'),
        ('churn', 'alloc_p99.9_ns')]), cell('safety_kill', c, 'hung').split('.')[0], kills(c)]
            for c, name in ALLOCATORS.items()]


def text(summary, about, runner, markdown_table):
    where = f'{about["cpu"]}, {about["n_cpus"]} processors, Linux {about["kernel"]}, {about["date"][:10]}'
    lines = [f'{where}; medians of {runner.runs} alternating run(s), or the range.', '']
    if runner.arguments.quick:
        lines += [texts.QUICK, '']
    lines += markdown_table(['', *STORES.values()], stores(summary))
    memory = summary.get('map-values', 'memory', f'get_{plan.VALUE_SIZES[-1]}_ns')
    if memory:
        lines += [f'A memcpy of 1 MiB takes {microseconds(memory.median)} µs.', '']
    lines += ['Nanoseconds for an object of 128 bytes, and the result of 200 kills (fewer where a contender hung 20',
              'times):', '']
    lines += markdown_table(['', 'alloc and free', '1024 allocs, then frees', 'the same by two processes', 'freed by another',
                             'alloc p99.9 in churn', 'hung', 'lost objects'], allocators(summary))
    return '\n'.join(lines)


assert STORES.keys() == SERVES.keys() <= set(plan.STORES) and ALLOCATORS.keys() <= set(plan.CONTENDERS)
