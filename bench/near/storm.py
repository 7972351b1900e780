"""A storm of misses: in each worker, many ask at once for a key that nobody has yet, by NearCache and by get_or_compute().

    storm.py PORT POOL threads|gevent|asyncio WORKERS ROUNDS

JSON: the longest time for which a thread, greenlet or task that does nothing else stood still beside them, the longest time
from the value's arrival to the last request that had it, and the questions, or computations, for each key.
"""

import asyncio
import json
import multiprocessing
import sys
import threading
import time

PORT, POOL, HUB, WORKERS, ROUNDS = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
REQUESTS = 20
MAKE_SECONDS = 0.03
TICK_SECONDS = 0.001

if HUB == 'gevent':
    import gevent.monkey
    gevent.monkey.patch_all()
    import gevent


def spawn(call):
    if HUB == 'gevent':
        return gevent.spawn(call)
    thread = threading.Thread(target=call)
    thread.start()
    return thread


class Heart:
    """Beats each millisecond, and knows its longest pause beyond that."""

    longest, stopped = 0.0, False

    def beat(self, before):
        now = time.monotonic()
        self.longest = max(self.longest, now - before - TICK_SECONDS)
        return now

    def run(self):
        before = time.monotonic()
        while not self.stopped:
            time.sleep(TICK_SECONDS)
            before = self.beat(before)

    async def run_async(self):
        before = time.monotonic()
        while not self.stopped:
            await asyncio.sleep(TICK_SECONDS)
            before = self.beat(before)


def work(start, results):
    import redis
    import redis.asyncio
    import tslab
    made, late, heart, pool = [], 0.0, Heart(), tslab.open(POOL)
    cache = tslab.Cache(pool, 'storm')

    def make():
        time.sleep(MAKE_SECONDS)
        made.append(time.monotonic())
        return str(made[-1]).encode()

    async def make_async():
        await asyncio.sleep(MAKE_SECONDS)
        made.append(time.monotonic())
        return str(made[-1]).encode()

    def ended(value):
        nonlocal late
        late = max(late, time.monotonic() - float(value))

    def run():
        near = tslab.NearCache(redis.Redis('127.0.0.1', PORT), pool, prefix='p:')
        pulse = spawn(heart.run)
        # Others of the thread do not run beside a wait for other processes.
        begin = start.wait if HUB == 'threads' else lambda: gevent.get_hub().threadpool.apply(start.wait)
        for i in range(ROUNDS):
            begin()
            requests = [spawn(lambda i=i: (near.get(f'storm {i}'), ended(cache.get_or_compute(f'{i}', make))))
                        for _ in range(REQUESTS)]
            for request in requests:
                request.join()
        heart.stopped = True
        pulse.join()

    async def run_async():
        near = tslab.AsyncNearCache(redis.asyncio.Redis(host='127.0.0.1', port=PORT), pool, prefix='p:')
        pulse = asyncio.ensure_future(heart.run_async())

        async def request(i):
            await near.get(f'storm {i}')
            ended(await cache.get_or_compute(f'{i}', make_async))

        for i in range(ROUNDS):
            await asyncio.to_thread(start.wait)
            await asyncio.gather(*(request(i) for _ in range(REQUESTS)))
        heart.stopped = True
        await pulse
        await near.engine.close()

    if HUB == 'asyncio':
        asyncio.run(run_async())
    else:
        run()
    results.put((heart.longest, late, len(made)))


def main():
    start, results = multiprocessing.Barrier(WORKERS), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(start, results)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    longest, late, made = zip(*(results.get(timeout=50) for _ in workers))
    for worker in workers:
        worker.join()
    print(json.dumps({f'{HUB}_stands_still_ms': max(longest) * 1000, f'{HUB}_late_ms': max(late) * 1000,
                      f'{HUB}_computations': sum(made) / ROUNDS}))


main()
