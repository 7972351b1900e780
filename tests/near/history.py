"""Versions of keys, as processes wrote and read them, with times; a read that is older than allowed is found.

A key's versions are numbers that grow; 0 says that the key is absent. Times are nanoseconds of CLOCK_MONOTONIC, which all
processes share. Each process appends to a file of its own:

    install KEY VERSION BEGIN END PORT COPIED    the engine has that version since some moment between BEGIN and END;
                                                 END 0: nobody knows whether, or when. PORT: the server that said so;
                                                 COPIED: a replica has it, too. KEY * stands for all keys.
    lossy PORT END                               what that server took until END may be lost, if no replica has it
    read WORKER KEY VERSION A B C D N            N reads: the first from A to B, the last from C to D
    count WORKER READS QUESTIONS ERRORS          at the end of a worker
    fault TEXT                                   what a process saw to be wrong by itself
"""

import bisect
import collections
import dataclasses
import time

NEVER = 1 << 62
RUN_NS = 20_000_000     # reads of one version are one line for so long


class Log:
    def __init__(self, path):
        self.file = open(path, 'a', buffering=1)

    def close(self):
        self.file.close()

    def install(self, key, version, begin, end, port=0, copied=True):
        self.file.write(f'install {key} {version} {begin} {end} {port} {int(copied)}\n')

    def lossy(self, port):
        self.file.write(f'lossy {port} {time.monotonic_ns()}\n')

    def fault(self, text):
        self.file.write(f'fault {text}\n')

    def count(self, worker, reads, questions, errors):
        self.file.write(f'count {worker} {reads} {questions} {errors}\n')


class Reads:
    """The reads of one worker, equal ones in one line."""

    def __init__(self, log, worker):
        self.log, self.worker, self.runs = log, worker, {}

    def add(self, key, version, begin, end):
        run = self.runs.get(key)
        if run and run[0] == version and end - run[1] < RUN_NS:
            run[3], run[4], run[5] = begin, end, run[5] + 1
            return
        if run:
            self.write(key, run)
        self.runs[key] = [version, begin, end, begin, end, 1]

    def write(self, key, run):
        self.log.file.write(f'read {self.worker} {key} {" ".join(map(str, run))}\n')

    def end(self):
        for key, run in self.runs.items():
            self.write(key, run)
        self.runs = {}


@dataclasses.dataclass
class Install:
    version: int
    begin: int
    end: int            # NEVER: not known
    certain: bool       # not lost by a failover
    replaced: int = NEVER


@dataclasses.dataclass
class Read:
    worker: str
    key: str
    version: int
    first_begin: int
    first_end: int
    last_begin: int
    last_end: int
    n: int


@dataclasses.dataclass
class Verdict:
    faults: list        # texts
    oldest_ns: int      # the longest time between the replacement of a version and the begin of a read of it
    delays_ns: list     # for each write: until the last worker had read it, of the workers that looked meanwhile
    reads: int
    questions: int
    errors: int
    writes: int
    skipped: int        # versions of which nobody knows whether they were replaced: any read of them will do


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


class History:
    def __init__(self, paths):
        self.installs = collections.defaultdict(list)
        self.reads, self.lossy, self.faults = [], {}, []
        self.totals = [0, 0, 0]
        raw = []
        for path in paths:
            with open(path) as file:
                for line in file:
                    kind, *fields = line.split()
                    if kind == 'install':
                        raw.append((fields[0], *map(int, fields[1:])))
                    elif kind == 'lossy':
                        self.lossy[int(fields[0])] = int(fields[1])
                    elif kind == 'read':
                        self.reads.append(Read(fields[0], fields[1], *map(int, fields[2:])))
                    elif kind == 'fault':
                        self.faults.append(' '.join(fields))
                    else:
                        self.totals = [a + int(b) for a, b in zip(self.totals, fields[1:])]
        self.keys = {entry[0] for entry in raw if entry[0] != '*'} | {read.key for read in self.reads}
        for key in self.keys:
            self.installs[key].append(Install(0, 0, 0, True))
        for key, version, begin, end, port, copied in raw:
            certain = end != 0 and (bool(copied) or begin > self.lossy.get(port, 0))
            for one in self.keys if key == '*' else [key]:
                self.installs[one].append(Install(version, begin, end or NEVER, certain))
        for installs in self.installs.values():
            self.find_replacements(installs)

    @staticmethod
    def find_replacements(installs):
        """A version is replaced when the first of the installs that certainly came after it was done."""
        installs.sort(key=lambda install: install.begin)
        begins = [install.begin for install in installs]
        ends = [NEVER] * (len(installs) + 1)
        for i in reversed(range(len(installs))):
            ends[i] = min(ends[i + 1], installs[i].end if installs[i].certain else NEVER)
        for install in installs:
            install.replaced = ends[bisect.bisect_left(begins, max(install.end, install.begin + 1))]

    def find_age(self, by_version, version, begin, end):
        """For how long the version had been replaced when the read began; None: it was never there."""
        there = [install.replaced for install in by_version.get(version, ()) if install.begin <= end]
        return max(0, begin - max(there)) if there else None

    def judge(self, bound_ns):
        by_key, faults, oldest = {}, list(self.faults), 0
        for key, installs in self.installs.items():
            by_key[key] = collections.defaultdict(list)
            for install in installs:
                by_key[key][install.version].append(install)
        for read in self.reads:
            for begin, end in (read.first_begin, read.first_end), (read.last_begin, read.last_end):
                age = self.find_age(by_key[read.key], read.version, begin, end)
                if age is None:
                    faults.append(f'{read.worker} read {read.key} = {read.version}, which nobody had written')
                elif age > bound_ns:
                    faults.append(f'{read.worker} read {read.key} = {read.version} at {begin}, '
                                  f'{age / 1e6:.1f} ms after it had been replaced')
                oldest = max(oldest, age or 0)
        everything = [install for installs in self.installs.values() for install in installs]
        return Verdict(faults, oldest, self.find_delays(), *self.totals, len(everything) - len(self.keys),
                       sum(install.replaced == NEVER for install in everything) - len(self.keys))

    def find_delays(self):
        """For each write: the time from its answer until the last worker that read the key then had it, or a later one."""
        runs = collections.defaultdict(list)
        for read in self.reads:
            runs[read.key, read.worker].append(read)
        worst = {}
        for (key, _), reads in runs.items():
            reads.sort(key=lambda read: read.first_begin)
            writes = [install for install in self.installs[key] if install.version and install.certain]
            writes.sort(key=lambda install: install.version)
            at = 0
            for write, following in zip(writes, writes[1:]):
                while at < len(reads) and reads[at].version < write.version:
                    at += 1
                if at < len(reads) and reads[at].first_begin < following.begin:
                    delay = max(0, reads[at].first_end - write.end)
                    worst[key, write.version] = max(worst.get((key, write.version), 0), delay)
        return list(worst.values())
