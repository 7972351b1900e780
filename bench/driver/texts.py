"""What the report says around its tables."""

HEAD = '''
All allocators go through the same loops, touch objects alike, and are pinned to the same processors; their runs
alternate, figures are medians. Where memory is private to a process, threads stand for processes. Left out where
nothing is: see the notes. Raw figures: `results.json`.
'''

QUICK = '**A quick run: the figures say that things work, and nothing else.**'

THROUGHPUT = '''
## Throughput
Nanoseconds for allocating, touching and freeing one object of 128 bytes; "free by another": freeing alone, of what
the other processor allocated.
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
Resident over live bytes after churn of 100,000 objects of 128 bytes; MiB that remain when all are freed. Size
classes and memory for objects of mixed sizes (lines of an access log). Waves: what is resident after six waves of
64 MiB, over what then lives.
'''

SAFETY = '''
## Safety
Two processes churn; one of them is killed, or stopped, at a random moment. Hung: the other one is not served any
more. Broken: allocating afterwards crashes, hangs, or gives an object to two. Lost: objects that nobody can have
again. Where an allocator cannot tell whether the operation that was broken off was done, the object in hand is one,
as nobody may free it; what is lost besides is counted apart. Misuse: an object freed twice, and one freed again
after its memory went to somebody else.
'''

SESSIONS = '''
## What web workers use today
Get and put of a 256-byte session by key, nanoseconds; Redis and memcached on a Unix socket by hiredis and
libmemcached, APCu inside PHP (its interpreter included).
'''

REQUESTS = '''
## Requests
1200 requests of about 52 KB on 4 threads, and 100,000 on each of 16; microseconds. `control` writes as much, twice,
and allocates nothing.
'''

DEMO = '''
The demo: four worker processes and a daemon serve the sessions of a web server; microseconds for a request.
'''

DAEMON = '''
## The daemon
Closing an epoch of 1 GiB of empty slabs, and punching a hole of as many bytes of a plain memfd; milliseconds.
'''

GROWTH = '''
Control calls, medians in microseconds. attach: from opening the pool to the first object; advance; close: of an
epoch with 4 MiB; stats.
'''

RESTART = '''
The daemon is killed and another one takes its memory up, while clients are attached; milliseconds until it is
ready, and for the first call to it.
'''

COMMANDS = '''
## Whole commands
From start to end, milliseconds (hyperfine).
'''

NO_LINE = '''
Not worked out: it takes two processors to measure how long a line takes from one to the other.
'''
