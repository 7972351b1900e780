"""The contenders, and the cases of workloads that bench/run runs on them."""

import collections

# name -> (program without "bench-", its options). Programs that are not built are skipped. A new allocator needs a line
# here and one in meson.build.
CONTENDERS = {
    'tslab-adaptive': ('tslab', ['--cache', 'adaptive']),
    'tslab-on': ('tslab', ['--cache', 'on']),
    'tslab-off': ('tslab', ['--cache', 'off']),
    'glibc': ('glibc', []),
    'jemalloc': ('jemalloc', []),
    'mimalloc': ('mimalloc', []),
    'tcmalloc': ('tcmalloc', []),
    'boost-rbtree': ('boost-rbtree', []),
    'boost-pool': ('boost-pool', []),
    'dpdk': ('dpdk', []),
    'dpdk-cache': ('dpdk-cache', []),
    'mutex-list': ('mutex-list', []),
    'treiber': ('treiber', []),
    'locked-cas': ('locked-cas', []),
    'none': ('none', []),
    # stores of values by key: see bench/driver/web.py
    'tslab-map': ('web', []),
    'memory': ('web', []),
    'apcu': ('web', []),
    'shdict': ('web', []),
    'memcached': ('web', []),
    'redis': ('web', []),
    'lmdb': ('keys', []),
    'tslab-huge': ('keys', []),
}

TSLAB = ['tslab-adaptive', 'tslab-on', 'tslab-off']
VARIANTS = ['tslab-on', 'tslab-off']     # measured for comparison only
PRIVATE = ['glibc', 'jemalloc', 'mimalloc', 'tcmalloc']     # one process's memory, so members are threads
SHARED = ['boost-rbtree', 'boost-pool', 'dpdk', 'dpdk-cache', 'mutex-list', 'treiber']
ALL = TSLAB + PRIVATE + SHARED
YARDSTICKS = ['locked-cas', 'none']
STORES = ['tslab-map', 'memory', 'apcu', 'shdict', 'memcached', 'redis']
GROWING = ['tslab-map', 'tslab-huge', 'memory', 'lmdb', 'apcu']    # by the number of keys

PERCENTILES = ['mean99_ns', 'p50_ns', 'p90_ns', 'p99_ns', 'p99.9_ns', 'p99.99_ns', 'max_ns']
CACHE = ['alloc_hit_rate', 'free_hit_rate', 'refills_per_alloc', 'flushes_per_free', 'bypassed_share']

# metrics: the table's, the JSON has more. runs: at most so many, where more would add nothing. daemon: the options of
# a daemon, where the case needs one. counted: run under callgrind. whole: the number of operations is not scaled.
# store: the contenders are stores; the options are the name of bench-web's workload and its arguments. mib: the limit of
# stores that evict.
Case = collections.namedtuple('Case', 'name workload options contenders metrics runs daemon counted whole store mib',
                              defaults=[None, None, False, False, False, None])

# A workload's purpose, for --list; bench/README.md has the same table.
MEASURES = {
    'pair': 'one object allocated, touched and freed, again and again: the best case of every cache',
    'batch': '1024 objects allocated, then freed: more than a cache holds',
    'batch_calls': 'calls for 16, 64 and 256 objects, beside calls for one',
    'churn': 'latency of each operation at random places of 200,000',
    'churn_fixed': 'latency of each operation while 100,000 objects live',
    'adversarial': '1,000,000 objects allocated, then freed: no cache can help',
    'fresh': 'allocations, and first writes, of memory that is new',
    'refill': 'the cheapest refill of a cache',
    'remote': 'objects allocated by one process and freed by another',
    'scaling': 'throughput of several threads together',
    'rotation': 'latency while another process advances and closes epochs',
    'steady': 'growth of memory over 1000 cycles of churn',
    'sparse': 'memory that a twentieth of the objects keeps, after eight turnovers',
    'idle': 'memory that the caches of 63 idle threads keep, after 10 s',
    'attach': 'opening a pool, to the first object',
    'repair': "repair of a killed process's caches, and the longest allocation meanwhile",
    'instructions': 'instructions of a hit, for callgrind to count',
    'close': 'closing an epoch of 1 GiB, beside a hole punch of as many bytes',
    'line': 'the time of a cache line from one processor to another',
    'mix': 'memory for objects of mixed sizes',
    'requests': 'requests with objects of their own, epochs closed or not',
    'timeline': 'memory over waves of objects, with and without epochs',
    'safety_kill': 'outcomes where one of two processes is killed at random moments',
    'safety_stop': 'outcomes where one of two processes is stopped',
    'misuse': 'outcomes of a double free, and of a free after reuse',
    'map-sessions': 'get and put of 256 bytes by key, in stores that web workers share; tslab also by handle',
    'map-values': 'get and put of 16 bytes to 1 MiB by key, beside a memcpy out of and into shared memory',
    'map-cycle': 'one key: get, put, delete and put; puts of new keys, and their deletes',
    'map-tags': 'one key with no tag, one or four: get; a put with one; the invalidation of a tag',
    'map-index': "the index of a map after 10,000,000 inserts, each with a delete, in a pool of 4 MiB",
    'map-growth': 'insert, get and replacing put of random ones of 10^3 to 10^7 keys, 32 bytes each',
    'map-room': 'the most free memory with which a put of a large value fails',
    'soak': 'sessions that come and go in 16 MiB, a process killed each second: memory and latency over time',
    'map-counters': 'adding 1 by key, and by what was looked up before; two processes that add to one key',
    'map-limits': "taking a token of a key's bucket",
    'map-expiry': "another process's calls before, while and after 1,000,000 entries expire within a second",
    'map-misses': 'requests that miss in caches with so much memory, of an access log and of Zipf\'s distribution',
    'map-evict': 'puts that evict, one by one: at a limit, and in a pool without memory left',
    'map-beside': 'puts into a small map that evicts, alone and beside a large one; puts that fail, by the size of the pool',
    'map-resident': 'memory of a map that evicts over its limit, also after the sizes of entries have changed',
    'map-claims': 'claiming and computing a key; 8 processes that miss one; the next claim after a kill',
    'map-python': 'get and put by Python programs: maps, caches, sessions',
}
BATCH_CALLS = [16, 64, 256]     # objects in a call
EVICTING = ['tslab-map', 'memcached', 'redis']
TRACES = ['log', 'zipf-0.8', 'zipf-1.0', 'zipf-1.2', 'wide-1.0']
MISSES_MIB = [8, 16, 32, 64]
# tslab alone: between these it is compared in the memory that another store takes
MISSES_OWN_MIB = [8, 10, 12, 14, 16, 19, 22, 25, 28, 32, 36, 40, 45, 50, 54, 59, 64]
EVICT_MIB = 16      # as in bench/web/web-evict.c
BESIDE_LIMITS = [640, 6400, 64000]  # bytes; this and the next as in bench/web/web-beside.c
REFUSED_MIB = [64, 256, 1024]
RESIDENT_SIZES = [16, 32, 100, 300, 1000, 5000]  # as in bench/web/resident.c
RESIDENT = {'steady': 'one size', 'rising': 'sizes that rise', 'falling': 'sizes that fall'}
BESIDE_TIMES = ['mean', 'p50', 'p99', 'max']
REFUSED_TIMES = ['mean', 'p50', 'max']
EXPIRY = ['before', 'during', 'after']   # phases, as in bench/web/web-expiry.c
INDEX_INSERTS = 10000000    # as in bench/web/index.c
SOAK_SECONDS = 60
SOAK = {'index': 'index', 'committed': 'committed memory', 'p50': 'latency, median', 'p99': 'latency, p99',
        'lines': 'cache lines that all write'}
SOAK_YARDSTICK = 'lines'
KEYS = [10 ** n for n in range(3, 8)]    # as in bench/keys/keys.c
KEYS_BOUNDS = {'get': 1.5, 'get_latency': 1.5, 'replace': 2, 'insert': 2}   # times the floor, from KEYS_LARGE keys on
KEYS_LARGE = 10 ** 5
TAGS = {'get_0_tags': 'get, no tag', 'get_1_tag': 'get, one tag', 'get_4_tags': 'get, four tags', 'put_1_tag': 'put, one tag',
        'invalidate': 'invalidate a tag of 10,000 entries'}
CYCLE = ['get', 'replace', 'delete_and_put', 'put_new', 'delete']
ROOM_SIZES = [7168, 10240, 65536, 262144, 1048576]
PYTHON_BOUNDS = {'get': 600, 'cache_get': 1200, 'session_load': 1200}      # ns
PYTHON_OF_ALL = 'get', 'put', 'session_load', 'session_save'
PYTHON = ['put', 'get', 'session_save', 'session_load', 'cache_set', 'cache_get', 'get_or_compute']
VALUE_SIZES = [16, 128, 1024, 4096, 65536, 262144, 1048576]

CLOSE = ['close_ms', 'punch_ms', 'close_over_punch', 'closed_bytes', 'left_percent']
SPARSE_SIZES = [64, 128, 256, 512, 816, 1024, 1360, 2048, 4096]
IDLE = {'idle': 'private pool', 'idle-daemon': "daemon's"}


def latencies(*operations):
    return [f'{operation}_{p}' for operation in operations for p in PERCENTILES]


def cases():
    for size in 64, 128, 256:
        yield Case(f'pair-{size}', 'pair', ['--size', size], ALL + YARDSTICKS, ['pair_ns'])
    yield Case('pair-2', 'pair', ['--members', 2], ALL, ['pair_ns'])
    for size in 64, 128, 256:
        yield Case(f'batch-{size}', 'batch', ['--size', size], ALL, ['pair_ns', 'alloc_ns', 'free_ns'])
    yield Case('batch-2', 'batch', ['--members', 2], ALL, ['pair_ns', 'alloc_ns', 'free_ns'])
    yield Case('batch-calls', 'batch_calls', [], TSLAB,
               [f'{kind}_{n}_{unit}' for n in BATCH_CALLS
                for kind, unit in [('single', 'ns'), ('batch', 'ns'), ('batch', 'over_single')]] +
               ['scattered_single_ns', 'scattered_batch_ns', 'scattered_over_single'])
    yield Case('churn', 'churn', [], ALL,
               latencies('alloc', 'free') + ['alloc_refill_p50_ns', 'alloc_refill_p99_ns', 'page_faults'] + CACHE)
    yield Case('churn_fixed', 'churn_fixed', [], ALL, latencies('alloc', 'free') + ['page_faults'] + CACHE)
    yield Case('adversarial', 'adversarial', [], TSLAB + ['glibc'],
               ['cold_alloc_ns', 'cold_free_ns', 'warm_alloc_ns', 'warm_free_ns', 'bypassed_share'])
    for size in 128, 768:
        yield Case(f'fresh-{size}', 'fresh', ['--size', size], ALL, latencies('alloc') + ['alloc_ns'])
    yield Case('refill', 'refill', [], ALL, ['alloc_refill_p50_ns', 'alloc_refill_p99_ns', 'alloc_refill_p99.9_ns'])
    yield Case('remote', 'remote', [], ALL, ['free_ns', 'pipeline_ns'])
    for threads in 1, 2, 4, 8, 16:
        yield Case(f'scaling-{threads}', 'scaling', ['--members', threads], ALL,
                   ['op_ns', 'mops_per_s', 'alloc_hit_rate', 'free_hit_rate'])
    yield Case('line', 'line', [], ['none'], ['line_ns'])
    yield Case('rotation', 'rotation', [], TSLAB + ['glibc'],
               latencies('alloc', 'free') + ['advance_p50_ns', 'close_p50_ns', 'close_max_ns', 'retries'])
    yield Case('steady', 'steady', [], ALL, ['growth_percent', 'resident_over_live', 'last_bytes', 'freed_bytes'],
               runs=3)
    for size in SPARSE_SIZES:
        yield Case(f'sparse-{size}', 'sparse', ['--size', size], ['tslab-adaptive'] + (PRIVATE if size == 128 else []),
                   ['fallen_over_live', 'held_over_live'], runs=1, whole=True)
    for case, daemon in ('idle', None), ('idle-daemon', []):
        yield Case(case, 'idle', [], ['tslab-adaptive'],
                   ['stranded_before_bytes', 'stranded_before_slots', 'stranded_bytes', 'stranded_slots'], runs=1,
                   daemon=daemon, whole=True)
    yield Case('attach', 'attach', [], ['tslab-adaptive'], ['open_p50_ns', 'open_p99_ns', 'forked_p50_ns'])
    yield Case('repair', 'repair', [], ['tslab-adaptive'], ['repair_ns', 'longest_meanwhile_ns', 'longest_before_ns'])
    yield Case('attach-daemon', 'attach', [], ['tslab-adaptive'], ['open_p50_ns', 'open_p99_ns', 'forked_p50_ns'],
               daemon=[])
    yield Case('close', 'close', [], ['tslab-adaptive'], CLOSE, runs=3, whole=True)
    yield Case('close-daemon', 'close', [], ['tslab-adaptive'], CLOSE, runs=3, whole=True,
               daemon=['--size', '4G', '--retain', '4G'])
    times = [f'request_{p}_ns' for p in ('mean', 'p50', 'p99', 'p99.9', 'max')]
    for policy in 'never', 'control', 'batch', 'request':
        yield Case(f'requests-{policy}', 'requests', ['--policy', policy],
                   ['tslab-adaptive'] + (PRIVATE if policy in ('never', 'control') else []),
                   times + ['spikes_over_1ms', 'own_spikes_over_1ms', 'committed_bytes', 'resident_bytes'], whole=True)
    yield Case('requests-16', 'requests', ['--members', 16], ['tslab-adaptive', 'glibc'],
               times + ['committed_bytes', 'resident_bytes'], runs=1, whole=True)
    yield Case('mix', 'mix', [], ['tslab-adaptive'] + PRIVATE, ['efficiency', 'resident_over_requested'], runs=3)
    for policy in 'epochs', 'never':
        yield Case(f'timeline-{policy}', 'timeline', ['--policy', policy],
                   ['tslab-adaptive'] + (PRIVATE if policy == 'never' else []),
                   ['valley_bytes', 'valley_over_live', 'freed_bytes', 'waves_ms'], runs=3, whole=True)
    for workload, metrics in {'safety_kill': ['trials', 'hung', 'broken', 'with_lost', 'lost', 'lost_more'],
                              'safety_stop': ['trials', 'hung'], 'misuse': ['double_free', 'stale_free']}.items():
        yield Case(workload, workload, [], ['tslab-adaptive'] + SHARED, metrics, runs=1, whole=True)
    yield from store_cases()
    yield Case('instructions', 'instructions', [], TSLAB + ['glibc'],
               ['alloc_instructions', 'free_instructions', 'pair_instructions'], runs=1, counted=True)


def store_cases():
    both = [f'{operation}_{size}_ns' for size in VALUE_SIZES for operation in ('put', 'get')]
    expiry = [f'{when}_{p}_ns' for when in EXPIRY for p in ('p50', 'p99', 'p99.9', 'max')]
    for name, metrics, contenders in [
            ('sessions', ['put_ns', 'get_ns'] + [f'handle_{o}_ns' for o in ('put', 'read', 'get', 'get_hot')], STORES),
            ('values', both, STORES),
            ('cycle', [f'{name}_ns' for name in CYCLE], STORES),
            ('tags', [f'{name}_ns' for name in TAGS], ['tslab-map']),
            ('counters', ['add_ns', 'add_at_ns', 'contended_ns'], STORES),
            ('limits', ['limit_ns'], ['tslab-map'])]:
        yield Case(f'map-{name}', f'map-{name}', [name], contenders, metrics, store=True)
    for name, daemon in ('map-expiry', None), ('map-expiry-daemon', ['--size', '512M', '--retain', '512M']):
        yield Case(name, 'map-expiry', ['expiry'], ['tslab-map'], ['p99.9_over_before', 'left_percent'] + expiry, runs=3,
                   daemon=daemon, whole=True, store=True)
    yield Case('map-index', 'map-index', ['index'], ['tslab-map'], ['index_bytes_per_entry', 'index_empty_bytes'], runs=1,
               whole=True, store=True)
    yield Case('map-growth', 'map-growth', ['growth'], GROWING,
               [f'{name}_ns_{n}' for name in [*KEYS_BOUNDS, 'get_16'] for n in KEYS] + [f'index_bytes_{n}' for n in KEYS], runs=5,
               whole=True, store=True)
    yield Case('map-room', 'map-room', ['room'], ['tslab-map'], [f'short_{size}' for size in ROOM_SIZES], runs=1,
               whole=True, store=True)
    yield Case('soak', 'soak', [], ['tslab-map'], [f'{name}_growth' for name in SOAK] + ['sessions'], runs=1, store=True)
    for trace in TRACES:
        for mib in MISSES_OWN_MIB:
            yield Case(f'map-misses-{trace}-{mib}', 'map-misses', ['misses', trace, mib],
                       EVICTING if mib in MISSES_MIB else ['tslab-map'],
                       ['miss_percent', 'miss_beside_percent', 'exact_percent', 'taken_mib'], runs=1, whole=True, store=True, mib=mib)
    evict = [f'put_{p}_ns' for p in ('p50', 'p99', 'p99.9', 'max')] + ['control_p99.9_ns', 'get_ns', 'get_without_ns']
    yield Case('map-evict-limit', 'map-evict', ['evict-limit'], EVICTING, evict, runs=3, store=True, mib=EVICT_MIB)
    yield Case('map-evict-full', 'map-evict', ['evict-full'], ['tslab-map'], evict, runs=3, store=True)
    beside = [f'{where}_{limit}_{p}_ns' for limit in BESIDE_LIMITS for where in ('alone', 'beside') for p in BESIDE_TIMES]
    yield Case('map-beside', 'map-beside', ['beside'], ['tslab-map'],
               beside + [f'refused_{mib}_{p}_ns' for mib in REFUSED_MIB for p in REFUSED_TIMES], runs=3, whole=True, store=True)
    yield Case('map-resident', 'map-resident', ['resident'], ['tslab-map'],
               [f'{name}_{size}' for name in RESIDENT for size in RESIDENT_SIZES], runs=1, whole=True, store=True)
    claims = ['claim_cycle_ns', 'put_cycle_ns', 'computations_per_key'] + [
        f'{time}_{p}_ns' for time in ('wait', 'next_claim') for p in ('p50', 'p99', 'max')]
    for name, daemon in ('map-claims', None), ('map-claims-daemon', []):
        yield Case(name, 'map-claims', ['claims'], ['tslab-map'], claims, runs=3, daemon=daemon, whole=True, store=True)
    yield Case('map-python', 'map-python', ['python'], EVICTING, [f'{name}_ns' for name in PYTHON], runs=3, store=True)


def chosen(names):
    """The cases that the names stand for, of cases or workloads; all without names. ValueError: an unknown name."""
    everything = list(cases())
    unknown = [n for n in names if not any(n in (c.name, c.workload) for c in everything)]
    if unknown:
        raise ValueError(f'no such workload: {", ".join(unknown)}; --list names them')
    return [c for c in everything if not names or c.name in names or c.workload in names]


LAST = {'map-misses'}    # a third of the report's time: one that is interrupted has all else
LONG = {'safety_kill', 'safety_stop', 'misuse'}    # they find out whether a peer hangs, so they get their time
NOT_IN_REPORT = {'adversarial', 'churn_fixed', 'attach'}


def for_report():
    """The cases in the report; ./dev bench without "report" runs the others too."""
    return [c for c in cases() if c.workload not in NOT_IN_REPORT]


assert {c.workload for c in cases()} == set(MEASURES) and set(MISSES_MIB) <= set(MISSES_OWN_MIB)
