"""Counts, under callgrind, the locked instructions, the instructions and the searches in slab sets of an operation. The
model of more processors uses these counts. They do not depend on time, so they are the same on a busy machine."""

import re
import shutil
import subprocess
import tempfile

import plan
import runner as programs

# Operations, a multiple of 1024 * 21. A second run has twice as many: the difference leaves out the program's start.
N = 21504

# name -> (workload, its options, operations for each one of --ops)
LOOPS = {
    'pair': ('instructions', [], 2),
    'batch': ('batch', [], 2 * 22 / 21),    # one more round warms up
    'churn': ('scaling', ['--members', 1], 1),
}
LOCKED = re.compile(r'^\s*([0-9a-f]+):\s.*\b(?:lock \w|xchg\w*\s.*\()', re.MULTILINE)


def locked_addresses(library):
    """Addresses of the instructions that take a cache line for their processor alone."""
    text = subprocess.run(['objdump', '-d', '--no-show-raw-insn', library], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return {int(address, 16) for address in LOCKED.findall(text)}


def read_costs(path):
    """(object file, address in it) -> the number of executions; and the number of calls of searches."""
    costs, obj, called, callee, searches = {}, '', False, '', 0
    with open(path, encoding='utf-8', errors='replace') as file:
        for line in file:
            if line.startswith('ob='):
                obj = line[3:].strip()
            elif line.startswith('calls='):
                called = True   # the next line is the callee's cost, which is counted there
                searches += int(line[6:].split()[0]) if callee.startswith('shm_set_find') else 0
            elif line.startswith('cfn='):
                callee = line[4:].strip()
            elif line.startswith('0x'):
                if not called:
                    address, _, cost = line.split()[:3]
                    key = obj, int(address, 16)
                    costs[key] = costs.get(key, 0) + int(cost)
                called = False
    return costs, searches


def count(runner, library, locked, workload, options, n):
    """(locked instructions, instructions, searches in slab sets) in the library."""
    with tempfile.NamedTemporaryFile(prefix='tslab-callgrind-') as out:
        runner.execute(['valgrind', '--tool=callgrind', '--dump-instr=yes', '--compress-strings=no',
                        '--compress-pos=no', f'--callgrind-out-file={out.name}', *runner.program('tslab-adaptive'),
                        *map(str, options), '--ops', str(n), workload])
        costs, searches = read_costs(out.name)
    costs = {address: cost for (obj, address), cost in costs.items() if obj == library}
    return sum(cost for address, cost in costs.items() if address in locked), sum(costs.values()), searches


def run(runner):
    library = str((runner.build / 'libclient' / 'libtslab.so').resolve())
    if not shutil.which('valgrind') or not shutil.which('objdump'):
        runner.note('locked instructions are not counted: it takes valgrind and objdump')
        return
    locked = locked_addresses(library)
    for name, (workload, options, operations) in LOOPS.items():
        try:
            first = count(runner, library, locked, workload, options, N)
            second = count(runner, library, locked, workload, options, 2 * N)
        except (programs.Failed, OSError, subprocess.SubprocessError) as e:
            runner.note(f'counting {name}: {e}')
            runner.failed = True
            continue
        difference = [(b - a) / N / operations for a, b in zip(first, second)]
        metrics = ('locked_per_op', 'instructions_per_op', 'searches_per_op')
        runner.add('counted', name, 0, dict(zip(metrics, difference)))


assert all(workload in {c.workload for c in plan.cases()} for workload, _, _ in LOOPS.values())
