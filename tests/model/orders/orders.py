#!/usr/bin/env python3
"""Weakens every memory order of the core, one after the other, under the weak cases of the explorer that reach it.

        orders.py check BUILD [FILE...]     each weakening that orders.list has a case for turns that case red
        orders.py sweep BUILD [FILE...]     tries all weakenings of these files, and writes their rows of orders.list anew
        orders.py go-on BUILD [FILE...]     the same, for accesses without a row alone
        orders.py with BUILD CASE...        tries the rows that no case shows under these cases, as check/pop-weak

A row of the list: the file, the function with the number of the access in it, the access, the weaker order, and the case
that goes red; or `-` and the number of cases that reach the access and stay green, which is 0 where none does.
"""

import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
LIST = pathlib.Path(__file__).with_name('orders.list')
# As ModelOrder of seam.h.
ORDERS = {'rlx': 0, 'acq': 2, 'rel': 3, 'acqrel': 4, 'sc': 5}
NAMES = {number: name for name, number in ORDERS.items()}
# The orders to try first; and after these, where no case goes red.
WEAKER = {('load', 'acq'): [['rlx']], ('load', 'sc'): [['acq'], ['rlx']], ('store', 'rel'): [['rlx']],
          ('rmw', 'acqrel'): [['acq', 'rel']], ('rmw', 'sc'): [['acqrel'], ['acq', 'rel']],
          ('fence', 'acq'): [['rlx']], ('fence', 'rel'): [['rlx']], ('fence', 'sc'): [['rlx']]}
LIMIT = 20      # seconds; a search that a weaker order makes longer is cut off, and tells nothing
BUDGET = 6      # seconds that the cases take which are tried, the shortest first; there are ten at least

Case = collections.namedtuple('Case', 'program name seconds')


def model(program, *names, limit=None, **variables):
    """Its exit status, None where it took longer than the limit, and what it printed."""
    try:
        done = subprocess.run([program, *names], env=os.environ | variables, text=True, timeout=limit, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return None, ''
    return done.returncode, done.stdout


class Places:
    """The accesses of the core, by file, function, and their number in it; and the cases that reach each."""

    def __init__(self, build, names=None):
        """All weak cases, or those that `names` has for each program."""
        self.build, self.compiled = build, {}
        self.lines, self.kinds, self.cases = {}, {}, collections.defaultdict(list)
        seen, reached = collections.defaultdict(set), []
        paths = sorted(p for p in pathlib.Path(build, 'tests/model').glob('model-*')
                       if p.is_file() and (names is None or p.name[len('model-'):] in names))

        def run(path):
            return model(path, *(names or {}).get(path.name[len('model-'):], ()), TSLAB_TEST_SITES='1')

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, (status, text) in zip(paths, pool.map(run, paths)):
                if status != 0:
                    sys.exit(f'{path.name}: red with every order as it is\n{text}')
                seconds = 0
                for line in text.splitlines():
                    words = line.split()
                    if words[0] == 'place':
                        seen[self.file(words[1]), words[2]].add(int(words[3]))
                    elif words[0] == 'reached':
                        case = Case(path, words[1], seconds)
                        reached.append((self.file(words[2]), words[3], int(words[4]), words[5], int(words[6]), case))
                    elif line.endswith(' ms'):
                        seconds = int(words[-2]) / 1000
        for (file, function), lines in seen.items():
            for number, line in enumerate(sorted(lines), 1):
                self.lines[file, f'{function}#{number}'] = line
        keys = {(file, function.split('#')[0], line): function for (file, function), line in self.lines.items()}
        for file, function, line, kind, order, case in reached:
            key = file, keys[file, function, line]
            self.cases[key].append(case)
            if order > ORDERS['rlx']:
                self.kinds.setdefault(key, (kind, NAMES[order]))

    def file(self, compiled):
        """The file by its path in the tree; the compiler was told another."""
        file = os.path.relpath(os.path.join(self.build, compiled), ROOT)
        self.compiled[file] = compiled
        return file

    def is_red(self, key, weaker, case, limit=None):
        """None: it was not searched to its end."""
        place = f'{self.compiled[key[0]]}:{self.lines[key]}:{ORDERS[weaker]}'
        status, text = model(case.program, case.name, limit=limit, TSLAB_TEST_WEAKEN=place)
        if status == 2:
            sys.exit(text)
        return None if status is None else status != 0

    def find(self, key, weaker):
        """The case that goes red, or how many stay green."""
        green, seconds = 0, 0
        cases = sorted(set(self.cases[key]), key=lambda case: case.seconds)
        for number, case in enumerate(cases):
            seconds += case.seconds
            if seconds > BUDGET and number >= 10:
                break
            red = self.is_red(key, weaker, case, LIMIT)
            if red:
                return f'{case.program.name[len("model-"):]}/{case.name}'
            green += red is False
        return f'- {green}' + (f' of {len(cases)}' if green < len(cases) else '')

    def weaken(self, key):
        """The rows of one access."""
        rows = []
        for weaker in WEAKER[self.kinds[key]]:
            rows += [(weak, self.find(key, weak)) for weak in weaker]
            if any(not found.startswith('-') for _, found in rows):
                break
        return [(*key, ' '.join(self.kinds[key]), weak, found) for weak, found in rows]


def wanted(file, files):
    return file.startswith(('shm/', 'libclient/')) and (not files or any(file.startswith(f) for f in files))


def read_list():
    rows = [line.split(None, 5) for line in LIST.read_text(encoding='utf-8').splitlines()
            if line and not line.startswith('#')] if LIST.exists() else []
    return [(file, function, f'{kind} {order}', weaker, found) for file, function, kind, order, weaker, found in rows]


def write_list(rows):
    head = [line for line in LIST.read_text(encoding='utf-8').splitlines() if line.startswith('#')] \
        if LIST.exists() else []
    text = [f'{file} {function} {kind} {weaker} {found}' for file, function, kind, weaker, found in sorted(rows)]
    LIST.write_text('\n'.join(head + text) + '\n', encoding='utf-8')


def sweep(build, files, anew=True):
    places = Places(build)
    rows = [row for row in read_list() if not (anew and wanted(row[0], files))]
    known = {row[:2] for row in rows}
    keys = sorted((key for key in places.kinds if wanted(key[0], files) and key not in known),
                  key=lambda key: ([key[0].startswith(file) for file in files + ['']].index(True), key))
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in concurrent.futures.as_completed([pool.submit(places.weaken, key) for key in keys]):
            found = done.result()
            for row in found:
                print(f'{time.monotonic() - began:6.0f}', *row, flush=True)
            rows += found
            write_list(rows)


def go_on(build, files):
    sweep(build, files, anew=False)


def try_cases(build, cases):
    names = collections.defaultdict(set)
    for case in cases:
        program, name = case.split('/')
        names[program].add(name)
    places, rows = Places(build, names), read_list()

    def find(i):
        file, function, kind, weaker, found = rows[i]
        for case in sorted(set(places.cases[file, function]), key=lambda case: case.seconds):
            if found.startswith('-') and places.is_red((file, function), weaker, case, LIMIT):
                found = f'{case.program.name[len("model-"):]}/{case.name}'
        if found != rows[i][4]:
            print(file, function, kind, weaker, found, flush=True)
            rows[i] = file, function, kind, weaker, found

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(find, range(len(rows))))
    write_list(rows)


def check(build, files):
    rows = [row for row in read_list() if wanted(row[0], files) and not row[4].startswith('-')]
    names = collections.defaultdict(set)
    for row in rows:
        program, name = row[4].split('/')
        names[program].add(name)
    places = Places(build, names)

    def complaint(row):
        file, function, kind, weaker, found = row
        program, name = found.split('/')
        if ' '.join(places.kinds.get((file, function), ())) != kind:
            return f'{file} {function}: this is no {kind}; sweep the file anew'
        case = Case(pathlib.Path(build, 'tests/model', f'model-{program}'), name, 0)
        if not places.is_red((file, function), weaker, case):
            return f'{file} {function}: {found} is green with {kind} as {weaker}'
        return None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(complaint, rows) if text]
    print(*complaints, f'{len(rows)} weakenings', sep='\n')
    sys.exit(bool(complaints) or not rows)


if __name__ == '__main__':
    {'sweep': sweep, 'go-on': go_on, 'with': try_cases, 'check': check}[sys.argv[1]](sys.argv[2], sys.argv[3:])
