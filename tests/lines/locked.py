#!/usr/bin/env python3
"""Locked instructions and fences that a call of the library makes on x86-64, and instructions, counted under callgrind.

        locked.py PROGRAM LIBRARY

PROGRAM is locked.c; another build's library by $LD_LIBRARY_PATH, and its path as LIBRARY. Red: a call makes more of them
than the table says, or fewer, so that the table is to be renewed. An order that is too strong shows here.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

# Calls, of which the second run makes as many more: the difference leaves out the start.
N = 2048
# Locked instructions, and fences, of one call; of a batch of 64 objects both ways.
MOST = {'pair': (1, 0), 'batch': (16, 0), 'look': (0, 0), 'get': (0, 0), 'put': (2, 0)}
LOCKED = re.compile(r'^\s*([0-9a-f]+):\s.*\b(?:lock \w|xchg\w*\s.*\()', re.MULTILINE)
FENCE = re.compile(r'^\s*([0-9a-f]+):\s.*\b[ms]fence', re.MULTILINE)


def addresses(library, pattern):
    text = subprocess.run(['objdump', '-d', '--no-show-raw-insn', library], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return {int(address, 16) for address in pattern.findall(text)}


def count(program, library, operation, n):
    """Address in the library -> the number of executions."""
    with tempfile.NamedTemporaryFile(prefix='tslab-callgrind-') as out:
        subprocess.run(['valgrind', '-q', '--tool=callgrind', '--dump-instr=yes', '--compress-strings=no',
                        '--compress-pos=no', f'--callgrind-out-file={out.name}', program, operation, str(n)], check=True)
        costs, here, is_callee = {}, False, False
        for line in out.read().decode(errors='replace').splitlines():
            if line.startswith('ob='):
                here = os.path.realpath(line[3:].strip()) == library
            elif line.startswith('calls='):
                is_callee = True    # the next line is the callee's cost, which is counted there
            elif line.startswith('0x'):
                address, _, cost = line.split()[:3]
                if here and not is_callee:
                    costs[int(address, 16)] = costs.get(int(address, 16), 0) + int(cost)
                is_callee = False
    return costs


def main(program, library):
    if not shutil.which('valgrind'):
        sys.exit(77)
    library = os.path.realpath(library)
    locked, fences = addresses(library, LOCKED), addresses(library, FENCE)
    wrong = 0
    for operation, most in MOST.items():
        once, twice = count(program, library, operation, N), count(program, library, operation, 2 * N)
        more = {address: n - once.get(address, 0) for address, n in twice.items()}
        found = [sum(n for address, n in more.items() if address in kind) / N for kind in (locked, fences)]
        print(f'{operation}: {found[0]:.2f} locked, {found[1]:.2f} fences, {sum(more.values()) / N:.1f} instructions')
        if tuple(round(n) for n in found) != most:
            print(f'    the table has {most[0]} and {most[1]}')
            wrong += 1
    sys.exit(wrong > 0)


if __name__ == '__main__':
    main(*sys.argv[1:])
