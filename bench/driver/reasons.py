"""Why a target is missed, where that is known: the time's use, and all that was tried. The report prints these."""

import re

# The beginning of a target's name, as a pattern -> the reason.
REASONS = {
    r'pair-128: 1 x':
        "DPDK's cache hands out pointers and checks nothing. A pair here also makes a handle, finds its address and class again, and "
        'changes the tag of the slot at both ends, so that a stale handle is refused in each process.',
    r'batch-128: 1.2 x':
        'As for the pair; the tags of 1024 objects are 4 KiB more to read and to write than DPDK has.',
    r'one call for 16 objects':
        'The work that a call does once is a third of a single call here; the tag and the handle of each object stay. 0.60 to 0.71 on one '
        'machine, by its state.',
    r'two processes, batch 1024, a pair':
        'A bound in nanoseconds: a pair of glibc takes 9 ns in the fast state of the Intel machine that was measured, and 16 in its '
        'slow one. The ratio over glibc, below, is met in both.',
    r"two processes, batch, over Boost's":
        '0.19 to 0.22 in two reports on one machine: in this case two processes have both processors, and all else that runs waits for one.',
    r'churn, alloc p99.9 over mimalloc':
        '0.91 and 1.25 in two reports on one machine: p99.9 is a refill of the cache in both, where that is interrupted.',
    r'free by another process over DPDK':
        "The free changes the tag, which is on a line that the other processor wrote last: it waits for that line. DPDK's puts the "
        'pointer into a cache of its own, and looks at nothing.',
    r'close of 1 GiB over the hole punch':
        'A close reads the tags of all slabs, 64 MiB, for the versions at which their slots go on, so that stale handles stay stale; it '
        'changes the words of 262,144 slabs, and takes the tags away, too: a 16th more than the punch.',
    r'requests, never closing: over 1 ms .control':
        'Those were preempted, as those of the control are: of requests that were not, none takes so long (the row above).',
    r'a request with its own epoch':
        "Half of it is the kernel's, which takes some 25 pages back and makes them anew for each request. The tags of the first "
        'slabs stay, which saved half of the calls; slabs go, as a close promises.',
    r'get . check of a handle':
        'Two dependent loads, and instructions around them: 5 ns where the processor runs at its full speed.',
    r'Redis PUT over map':
        'The ratio is that of two system calls and a switch to a put of 100 to 150 ns, so it follows the speed of the kernel.',
    r'map put of 64 KiB over memcpy':
        'A put takes 16 slots and frees 16. Chunks are filled in the order of their addresses, neighbours in one copy, and the leaf '
        'names them all, so that a free reads none: without these a put took two fifths longer.',
    r'Python, get of':
        'It is 510 to 560 ns in a loop over one key; with many keys more lines are cold.',
    r"put that replaces over nginx's shdict":
        'nginx writes over the old value, under a lock that a killed worker holds for ever. Here a put makes a new object, so that a get '
        'never meets half of a value and a handle names one version; a put that is killed leaves the old one.',
    r'delete over APCu':
        'Two fifths of the instructions of a delete remove nodes of the index that are empty now, so that a map that shrinks gives '
        "memory back; APCu's table keeps its size.",
    r'Python, redis-py over tslab, session save':
        'The put is 1.0 of the 2.5 us. The rest is Python: the id, the lifetime, and a look once a second whether there is a new daemon.',
    r'get(_latency)?( in huge pages)?, from|(replace|insert)( in huge pages)?, from':
        'The floor is a table that one process may write to, without lifetimes, versions or memory that goes back, and its misses '
        'overlap. A get waits for the line of a shortcut, then for tag and leaf: 3.9 to 4.3 cold lines, which were 5.2 to 7.9 by the '
        'nodes of its path. Gets of many keys in one call overlap, too. A table of leaves beside the trie for all gets and puts was '
        'tried: it made puts 1.25 to 1.5 times as slow.',
    r'counter, add by key':
        'A hash, a walk to one leaf of 10,000, a guard and a compare-and-set. To the key of the last add it is 14 ns, since a thread '
        "keeps that place. The guard, 1.5 ns, came with the proof that a thread which is held up changes no other's object.",
    r'counter, add by a version':
        'A guard, a look at the tag and a compare-and-set: 22 ns in the fast state of the Intel machine that was measured.',
    r"p99.9 of others' calls while":
        'A pass fetches the paths of 16 entries together, and gives way between. Two processors run the pass, the calls and the '
        'daemon: of five runs on one machine the ratio was 1.4 to 17.',
    r'put that evicts, .* p99.9':
        'A loop that only computes for a microsecond is interrupted as often: the table has its p99.9.',
    r'put that evicts, in a full pool, p99$':
        'One put in some hundred empties a slab of 20 to 60 entries, as a class or the index has no slot: 10 to 20 us.',
    r'put that evicts, .* p99$':
        "Some puts also unlink nodes, look at several slabs, or fill a thread's cache: p99 is 2 to 2.5 times p50, on each machine.",
    r'memory of a map that evicts over its limit, sizes that':
        'Nodes of the index that many small entries needed stay where they are, and keep their slabs.',
    r'misses, .* above memcached with the same limit':
        'memcached gives each class a megabyte in any case: with -m 8 it takes up to 39 MiB. In the same memory see the next row.',
    r'fresh 128':
        'The kernel zeroes and maps pages, 2.4 us each, for 4 slabs at a time. With 2 p99.9 is 10 us in place of 16, but p99 6.5 us in '
        'place of 45 ns.',
}


def reason_for(target):
    """The sentence for the target of this name; None: none is known."""
    return next((text for pattern, text in REASONS.items() if re.match(pattern, target)), None)
