"""A hit of tslab.NearCache, of redis-py, and of redis-py's own cache where it has one: nanoseconds, as JSON.

    python.py PORT POOL OPERATIONS
"""

import json
import statistics
import sys
import time

import redis
import tslab

PORT, POOL, N = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ROUNDS = 7
VALUE = b'x' * 256


def client(**more):
    return redis.Redis('127.0.0.1', PORT, **more)


def own_cache():
    """redis-py's, since 5.1: one of each process. None: this version has none."""
    try:
        from redis.cache import CacheConfig
        from redis.connection import CacheProxyConnection
    except ImportError:
        return None
    CacheProxyConnection.MIN_ALLOWED_VERSION = '7.0.0'      # it asks for 7.4, and uses nothing that 7.0 lacks
    return client(protocol=3, cache_config=CacheConfig())


def measure(get, key, n):
    """Nanoseconds of a call that hits: it is made twice before."""
    times = []
    assert [get(key) for _ in range(2)] == [VALUE] * 2
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(n):
            get(key)
        times.append((time.perf_counter_ns() - begin) / n)
    return statistics.median(times)


def wait_for_cover(near):
    for _ in range(1000):
        near.get('hit')
        if near._look(b'p:hit', 0)[0]:
            return
        time.sleep(0.01)
    sys.exit('nothing is covered: does tslab-near run?')


def main():
    engine = client()
    engine.set('p:hit', VALUE)
    with tslab.open(POOL) as pool:
        near = tslab.NearCache(engine, pool, prefix='p:')
        table = tslab.Map(pool, 'bench')
        table[b'p:hit'] = VALUE
        wait_for_cover(near)
        found = {'near_ns': measure(near.get, 'hit', N), 'map_ns': measure(table.get, b'p:hit', N),
                 'engine_ns': measure(engine.get, 'p:hit', max(N // 100, 10))}
        del near
    cached = own_cache()
    if cached is not None:
        found['redis_cache_ns'] = measure(cached.get, 'p:hit', max(N // 10, 10))
    print(json.dumps(found))


main()
