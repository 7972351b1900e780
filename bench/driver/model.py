"""Throughput on more processors than there are here, on paper.

A thread's time for an operation is its time alone, and the time that it waits for cache lines that another processor
wrote last:

    t(P) = t1 + s * (P - 1) / P * L

t1   measured with one thread
s    locked instructions of an operation on lines that threads share: counted, without the instructions on lines of
     objects that only one thread uses. In a pair hit that is the one compare-and-set, on the object's tag.
L    how long a line takes from one processor to another, measured between two that are here
(P - 1) / P   the chance that another processor wrote the line last, if all do the same

The line to which all processors write bounds the whole: operations that write to it w times each cannot follow each
other faster than every w * L. For tslab that is the top word of a slab set, written when a word below it fills or
empties; for a list behind one word it is that word, at each operation.

Both are pessimistic. In the model a line changes hands at every access, but a processor does several operations in a
row before it loses one; and every locked instruction that is not on an object's tag counts as one on a shared line,
though threads begin at home words of their own.

Assumptions: one socket, so that L is the same between any two processors, and does not grow with the load; no other
programs; no limit by memory bandwidth; all threads do the same.
"""

PROCESSORS = [1, 2, 4, 8, 16, 32, 64, 128]
SLOTS = 32              # objects of 128 bytes in a slab
WORDS = 64              # slabs to a word of a set


class Loop:
    """One loop: t1 in ns an operation, shared lines and writes to the hottest line an operation."""

    def __init__(self, name, t1, shared, hottest):
        self.name, self.t1, self.shared, self.hottest = name, t1, shared, hottest

    def time(self, processors, line):
        return self.t1 + self.shared * (processors - 1) / processors * line

    def throughput(self, processors, line):
        """Operations a second, in millions."""
        free = processors / self.time(processors, line) * 1000
        if processors == 1 or self.hottest == 0:
            return free
        return min(free, 1000 / (self.hottest * line))


def loops(summary):
    """The loops for which all figures were measured and counted."""
    def get(case, contender, metric):
        figure = summary.get(case, contender, metric)
        return figure.median if figure else None

    def locked(loop):
        return get('counted', loop, 'locked_per_op')

    pair, batch = get('pair-128', 'tslab-adaptive', 'pair_ns'), get('batch-128', 'tslab-adaptive', 'pair_ns')
    churn = get('scaling-1', 'tslab-adaptive', 'op_ns')
    treiber, mutex = get('scaling-1', 'treiber', 'op_ns'), get('scaling-1', 'mutex-list', 'op_ns')
    found = []
    if pair and locked('pair') is not None:
        found.append(Loop('tslab, pair', pair / 2, max(0, locked('pair') - 0.5), 0))
    if churn and locked('churn') is not None:
        shared = max(0, locked('churn') - 0.5)
        found.append(Loop('tslab, churn of 1024', churn, shared, shared / WORDS))
    if batch and locked('batch') is not None:
        # Half of the operations are frees, each with its one compare-and-set. The others are refills and flushes: slab
        # words, one for SLOTS operations, and the words of sets.
        shared = max(0, locked('batch') - 0.5)
        found.append(Loop('tslab, batch of 1024', batch / 2, shared, shared / WORDS))
    # Every operation writes one word; the mutex's word is written twice, and the list's once.
    if treiber:
        found.append(Loop('Treiber stack', treiber, 1, 1))
    if mutex:
        found.append(Loop('list behind a mutex', mutex, 3, 3))
    return found


def check(summary, line):
    """(name, predicted, measured) ns of an operation with two processors."""
    rows = []
    for loop in loops(summary):
        case, contender, metric, share = {
            'tslab, pair': ('pair-2', 'tslab-adaptive', 'pair_ns', 2),
            'tslab, batch of 1024': ('batch-2', 'tslab-adaptive', 'pair_ns', 2),
            'tslab, churn of 1024': ('scaling-2', 'tslab-adaptive', 'op_ns', 0.5),
            'Treiber stack': ('scaling-2', 'treiber', 'op_ns', 0.5),
            'list behind a mutex': ('scaling-2', 'mutex-list', 'op_ns', 0.5),
        }[loop.name]
        figure = summary.get(case, contender, metric)
        if figure:
            rows.append((loop.name, 2000 / loop.throughput(2, line), figure.median / share))
    return rows
