"""A bench that is interrupted, or killed, keeps the figures of the cases that it ended.

test-interrupted.py BENCH-RUN BUILD
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

# A program that a script starts in the background ignores SIGINT, and so do the programs that it executes.
signal.signal(signal.SIGINT, signal.default_int_handler)

SECONDS = 60
COMMAND = ['--runs', '1', '--scale', '0.001', '--only', 'glibc,none']


def interrupted(run, build, arguments, which, folder):
    """Ends the run by that signal in its second case; returns its exit code."""
    with subprocess.Popen([sys.executable, run, *COMMAND, '--output', folder, *arguments], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env={**os.environ, 'TSLAB_BUILD': build}) as bench:
        for line in bench.stderr:
            print(line, end='')
            if line.startswith('bench: pair-128'):
                bench.send_signal(which)
                break
        bench.communicate(timeout=SECONDS)
    return bench.returncode


def expect_first_case(folder):
    found = json.loads((folder / 'results.json').read_text(encoding='utf-8'))
    kept = {(r['case'], r['contender']) for r in found['results']}
    assert {('pair-64', 'glibc'), ('pair-64', 'none')} <= kept, kept
    assert not any(case.startswith('churn') for case, _ in kept), 'it was not interrupted'
    assert 'pair-64' in (folder / 'table.txt').read_text(encoding='utf-8')
    return found


def main():
    run, build = sys.argv[1:]
    for arguments in ['pair', 'churn'], ['report']:
        for which in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            with tempfile.TemporaryDirectory(prefix='tslab-test-') as name:
                folder = pathlib.Path(name) / 'new'
                code = interrupted(run, build, arguments, which, folder)
                found = expect_first_case(folder)
                if which == signal.SIGKILL:
                    continue
                assert code == 1, code
                assert any('interrupted' in note for note in found['notes']), found['notes']
                if arguments == ['report']:
                    assert 'interrupted' in (folder / 'report.md').read_text(encoding='utf-8')


main()
