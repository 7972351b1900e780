#!/usr/bin/env python3
"""Questions about meson's tests and their logs that ./dev asks.

meson-tests.py known BUILD NAME...  exit status 1 and a message where a name is no test
meson-tests.py covered BUILD        the tests that the coverage is counted from
meson-tests.py cross BUILD          the tests that an emulator of another processor might run
meson-tests.py passed LOG...        the tests that passed
meson-tests.py sum LOG...           each failed test with its reasons and its last lines, then the results of all runs;
                                    exit status 1 where a test failed or none ran
"""

import collections
import json
import pathlib
import re
import sys

KIND = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped', 'IGNORED': 'skipped'}
N_LINES, N_COLUMNS = 16, 160     # a failed test shows its last lines, and before these so many that give a reason
COLOUR = re.compile(r'\x1b\[[0-?]*[ -/]*[@-~]')
REASON = re.compile(r'\bFAIL: |\bERROR\b|Error: |Assertion|: error: |: runtime error: |WARNING: ThreadSanitizer')
EMULATED = {'unit', 'api', 'slab-alloc', 'stress', 'fuzz', 'conformance', 'foreign'}
# The explorer makes all steps one after the other, so that its cases are the same on every processor: these show that
# it works there. All of them would take hours.
EMULATED_MODELS = {'model-explore', 'model-litmus', 'model-bytes', 'model-set'}
COVERED = {'unit', 'api', 'slab-alloc', 'daemon', 'stress'}


def read_tests(build):
    return json.loads((pathlib.Path(build) / 'meson-info' / 'intro-tests.json').read_text(encoding='utf-8'))


def known(build, *names):
    tests = {test['name'] for test in read_tests(build)}
    unknown = [name for name in names if name.split(':')[-1] not in tests]
    if unknown:
        sys.exit(f'dev: no such test: {", ".join(unknown)}')


def covered(build):
    for test in read_tests(build):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        # daemon-ctl, which tests tslabctl, changes to a user that may not write its counts here.
        if suites & COVERED and 'slow' not in suites and test['name'] != 'daemon-ctl':
            print(test['name'])


def cross(build):
    for test in read_tests(build):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if test['name'] in EMULATED_MODELS or (
                suites & EMULATED and 'slow' not in suites and not test['name'].startswith('api-bench-')):
            print(test['name'])


def passed(*logs):
    for path in logs:
        for test in read_results(path):
            if KIND.get(test['result']) == 'passed':
                print(test['name'])


def read_results(path):
    with open(path, encoding='utf-8', errors='replace') as log:
        return [json.loads(line) for line in log if line.strip()]


def print_failed(path, test):
    """Why a test failed, and the end of what it printed: CI keeps only the end of all output."""
    lines = COLOUR.sub('', test.get('stdout', '') + '\n' + test.get('stderr', '')).splitlines()
    telling = [line for line in lines if line.strip() and 'PASSED' not in line and '       OK ]' not in line]
    print(f"\n{test['result']}: {test['name']} ({path})")
    reasons = [line for line in telling[:-N_LINES] if REASON.search(line)]
    for line in reasons[-N_LINES:] + telling[-N_LINES:]:
        print(f'    {shorten(line)}')


def shorten(line):
    """Shows the reason in a long line, or its begin, and no characters that steer a terminal."""
    reason = REASON.search(line)
    begin = max(0, min(reason.end() - N_COLUMNS // 2, len(line) - N_COLUMNS)) if reason else 0
    return ''.join(c if c.isprintable() else ' ' for c in line[begin:begin + N_COLUMNS])


def sum_up(*logs):
    count = collections.Counter()
    for path in logs:
        for test in read_results(path):
            kind = KIND.get(test['result'], 'failed')
            count[kind] += 1
            if kind == 'failed':
                print_failed(path, test)

    ran = count['passed'] + count['failed']
    if not ran:
        print('dev: no test ran', file=sys.stderr)
    skipped = f", {count['skipped']} skipped" if count['skipped'] else ''
    sys.stderr.flush()
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    sys.exit(count['failed'] > 0 or not ran)


if __name__ == '__main__':
    sys.stdout.reconfigure(errors='backslashreplace')       # tests print any character
    {'known': known, 'covered': covered, 'cross': cross, 'passed': passed, 'sum': sum_up}[sys.argv[1]](*sys.argv[2:])
