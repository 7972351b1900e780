"""Runs tests/stress/test-soak for the report, and compares the end of the run with its beginning, as the test does."""

import subprocess

import plan

COLUMNS = {'index': 3, 'committed': 4, 'p50': 5, 'p99': 6, 'lines': 7}
LATENCIES = ['p50', 'p99']
TRIES = 3       # runs, while the time of a cache line does not stay as it was
STEADY = 1.1    # it did, from 1 / STEADY to STEADY of what it was
QUICK_SECONDS = 10


def read_rows(text):
    """The table that the program prints: second, sessions, entries, and the columns above."""
    return [[float(field) for field in line.split()] for line in text.splitlines()
            if line.split() and line.split()[0].isdigit()]


def relative(rows, column):
    """(second, value over the mean of the run's second tenth)"""
    early = [row[column] for row in rows[len(rows) // 10:len(rows) // 5]]
    return [(row[0], row[column] * len(early) / sum(early)) for row in rows]


def growth(rows, column):
    """The mean of the last tenth over that of the second one, as the test compares them."""
    late = [y for _, y in relative(rows, column)[-(len(rows) // 10):]]
    return sum(late) / len(late)


def measure(runner, case, seconds):
    """Rows of one run, or None."""
    program = runner.build / 'bench' / 'bench-soak'
    try:
        done = subprocess.run([str(program), str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=3 * seconds + 60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        runner.note(f'{case.name}: left out: {e}')
        return None
    rows = read_rows(done.stdout)
    if len(rows) != seconds or done.stderr:  # an exit code alone says that something grew, as the figures do
        runner.note(f'{case.name}: exit code {done.returncode}: {done.stderr.strip()[-200:]}')
        return None
    return rows


def run(runner, case):
    seconds = QUICK_SECONDS if runner.arguments.quick else plan.SOAK_SECONDS
    for _ in range(1 if runner.arguments.quick else TRIES):
        rows = measure(runner, case, seconds)
        if rows is None:
            runner.failed = True
            return
        grown = {name: growth(rows, column) for name, column in COLUMNS.items()}
        if 1 / STEADY <= grown[plan.SOAK_YARDSTICK] <= STEADY:
            break
    else:
        runner.note(f'{case.name}: latency is left out: a cache line that processors share took {grown[plan.SOAK_YARDSTICK]:.2f} x '
                    'as long at the end as at the beginning, whatever tslab does')
        grown = {name: value for name, value in grown.items() if name not in LATENCIES}
    runner.add(case.name, 'tslab-map', 0,
               {'sessions': rows[-1][1], **{f'{name}_growth': value for name, value in grown.items()}},
               {name: relative(rows, column) for name, column in COLUMNS.items()})
