"""The report's text around its tables."""

HEAD = '''
All allocators go through the same loops, touch objects alike, and are pinned to the same processors; their runs
alternate, figures are medians. Where memory is private to a process, threads stand for processes. The notes at the end
name everything that was left out. Raw figures: `results.json`.
'''

QUICK = '**A quick run: the figures show that the programs work, and nothing else.**'

THROUGHPUT = '''
## Throughput
Nanoseconds for allocating, touching and freeing one object of 128 bytes; "free by another": the free alone, of an
object that the other processor allocated.
'''

LATENCY = '''
## Latency
Random churn: of 200,000 places a random one is filled or emptied. Nanoseconds.
'''

THREADS = '''
## Threads
Million operations a second of all threads together.
'''

MEMORY = '''
## Memory
Resident over live bytes after churn of 100,000 objects of 128 bytes; MiB that remain when all are freed. Memory over
live bytes where a random twentieth of 500,000 objects is left, and after each of these was replaced eight times. Size
classes and memory for objects of mixed sizes (lines of an access log). Waves: resident over live bytes after six waves
of 64 MiB.
'''

SAFETY = '''
## Safety
Two processes churn; one of them is killed, or stopped, at a random moment. Hung: the other one is not served any more.
Broken: allocating afterwards crashes, hangs, or gives one object out twice. Lost: objects that nobody can allocate
again. A contender that hung 20 times is let off the rest of 200 trials. An allocator that cannot tell whether the
interrupted operation was done loses the object in hand, as nobody may free it; objects lost besides are counted apart.
Misuse: an object freed twice, and an object freed again after its memory went to somebody else.
'''

STORES = '''
## Stores that web workers use today
By key, nanoseconds. Redis and memcached on a Unix socket by hiredis and libmemcached, one request at a time; APCu inside
PHP (its interpreter included), nginx's shdict inside its LuaJIT, one process each. `memory` is a plain shared mapping: a
memcpy, or a locked add.

Sessions of 256 bytes:
'''

VALUES = '''
Values by size, put and get:
'''

TAGS = '''
One key of 10,000, with 64 bytes, that has no tag, one, or four; and an invalidation of the tag that all keys have.
'''

CYCLE = '''
One key of 10,000, with 64 bytes: a get, a put that replaces the value, a delete with the put after it; then puts of new
keys, and their deletes. `memory` is a memcpy and, as a delete, one locked compare-and-set.
'''

KEYS = '''
By the number of keys: an insert in an empty store, with the page faults of its memory; a get and a put that replaces, of
random keys. Keys of 8 bytes, values of 32. `memory` is the floor: an open-addressed table of indexes into an array in a
memfd, two cache misses a get, where no other process may write. A loop of the floor's gets waits for the memory of
several keys at one time, since a processor begins the next before the last one ended; `get_latency` is a get with a key
that is known only when the last one's value is. LMDB on a file in memory, without syncs: a thousand puts
are a transaction, and each get is one. `tslab-huge` is a pool that `tslab_reap()` put together in huge pages, before the
gets.
'''

UPTIME = '''
Months of uptime, in little: bytes of a map's index for each entry, where each insert deletes the oldest of 1000 entries
in 4 MiB; sessions that come and go in 16 MiB, 10,000 of them live, while one of four processes is killed each second: the
last tenth of the run over its second one. Latency counts only where cache lines that all processes write take as long
at the end as at the beginning: processors that a hypervisor moves apart make it more. And the most free memory with
which a put of a large value fails, over its size.
'''

COUNTERS = '''
Counters: adding 1 to one of 1000 by key; by the version that was looked up before; one process's add while another
process adds to the same counter. A token bucket's limit.
'''

EXPIRY = '''
A million entries expire within a second: another process's gets and puts before, meanwhile, and after.
'''

MISSES = '''
Caches: each request that misses puts its value. Per cent of 300,000 requests that miss, by the limit; behind it
the MiB by which the store's resident memory grew, its index included. The same limit is not the same memory: memcached
gives each of its size classes a megabyte at least, whatever `-m` says, and tslab leaves its index out. So tslab was
measured with more limits, and two rows tell how much it misses where it takes as much memory as another store took with
the column's limit. An access log's pages; Zipf's distribution with exponents of 0.8, 1.0 and 1.2
over 300,000 values of up to 1000 bytes; and with 1.0 over values of 64 bytes to 8 KiB. Redis evicts by
allkeys-lru. Four processes: they take the requests by turns, and all put what they miss. Exact: SIEVE as in its paper, whatever the sizes, for entries as large as tslab's.
'''

EVICT = '''
Puts of 128 bytes that evict, one by one, and a loop that only computes, for a microsecond each time; gets that hit, also in
a map of as many entries that does not evict.
'''

BESIDE = '''
Puts of 100 bytes into a map of so many bytes that evicts, alone in a pool and beside a map of 2 million entries; puts that
fail in a full pool. Microseconds.
'''

RESIDENT = '''
Memory of a map that evicts over its limit of 16 MiB, by the bytes of values: of one size; and of all sizes after another,
each of which takes the place of the last, while 3 % of the entries are in use. Index and tables are included.
'''

CLAIMS = '''
One computation at a time: a claim, its fulfilment and a delete, beside a put and a delete; 8 processes that miss one key,
which one of them computes for a millisecond: the others' wait after that; a claimer killed while 7 wait: the time until
one of these has the claim. Microseconds.
'''

PYTHON = '''
Python programs with 256 bytes: tslab\'s package, redis-py, pymemcache; microseconds.
'''

REQUESTS = '''
## Requests
1200 requests of about 52 KB on 4 threads, and 100,000 on each of 16 threads; microseconds. `control` writes as much,
twice, and allocates nothing.
'''

DEMO = '''
The demo: four worker processes and a daemon serve the sessions of a web server; microseconds for a request.
'''

DAEMON = '''
## The daemon
Closing an epoch of 1 GiB of empty slabs, and punching a hole of as many bytes of a plain memfd; milliseconds. Left: the
part of the peak that is resident afterwards.
'''

GROWTH = '''
Control calls, medians in microseconds. attach: from opening the pool to the first object; advance; close: of an
epoch with 4 MiB; stats.
'''

RESTART = '''
The daemon is killed and another one takes its memory over, while clients are attached; milliseconds until it is
ready, and for the first call to it.
'''

COMMANDS = '''
## Whole commands
From start to end, milliseconds (hyperfine).
'''

NO_LINE = '''
Not computed: measuring the time of a cache line from one processor to another takes two processors.
'''
