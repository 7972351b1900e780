"""Stores for Python's web workers, measured as web.c measures others, by the calls that a program makes: tslab's package,
redis-py, pymemcache. python.py tslab|redis|memcached SOCKET|- OPERATIONS prints JSON: ns of each operation."""

import json
import os
import random
import statistics
import sys
import time

KEYS, ROUNDS, SIZE, LIFETIME = 10000, 5, 256, 1800
NOT_APPLICABLE = 77     # exit code


def time_of(operation, keys, values):
    """Nanoseconds of a round's operation, the median."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for key, value in zip(keys, values):
            operation(key, value)
        times.append((time.perf_counter_ns() - begin) / len(keys))
    return statistics.median(times)


def measure(operations, n):
    """name -> ns, without the loop around it. An operation gets a key and its value."""
    chosen = random.Random(1).choices(range(KEYS), k=n)
    keys = [f'session:{i:08x}'.encode() for i in chosen]
    values = [f'{i:08x}'.encode() * (SIZE // 8) for i in chosen]
    loop = time_of(lambda key, value: None, keys, values)
    return {f'{name}_ns': round(time_of(operation, keys, values) - loop, 1) for name, operation in operations.items()}


def calls_of_tslab():
    import tslab
    pool = tslab.create()
    a_map, cache, sessions = tslab.Map(pool, 'map'), tslab.Cache(pool), tslab.SessionStore(pool, lifetime=LIFETIME)

    def must_not_miss():
        raise KeyError

    return {'put': a_map.put, 'get': lambda key, value: a_map.get(key),
            'cache_set': cache.set, 'cache_get': lambda key, value: cache.get(key),
            'get_or_compute': lambda key, value: cache.get_or_compute(key, must_not_miss),
            'session_save': sessions.set, 'session_load': lambda key, value: sessions.get(key)}


def calls_of_server(kind):
    import other_stores
    sessions = other_stores.STORES[kind](LIFETIME)
    client = sessions.client
    return {'put': lambda key, value: client.set(key, value), 'get': lambda key, value: client.get(key),
            'session_save': sessions.set, 'session_load': lambda key, value: sessions.get(key)}


def main():
    contender, os.environ['STORE_SOCKET'], n = sys.argv[1:]
    try:
        operations = calls_of_tslab() if contender == 'tslab' else calls_of_server(contender)
    except ImportError as e:
        print(e, file=sys.stderr)
        sys.exit(NOT_APPLICABLE)
    print(json.dumps(measure(operations, int(n))))


main()
