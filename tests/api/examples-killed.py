"""The examples end by themselves, whichever of their processes is killed: examples-killed.py EXAMPLE..."""

import contextlib
import os
import signal
import subprocess
import sys
import time

SECONDS = 30
N = 3
# A program under AddressSanitizer looks for leaks by a child of its own, and waits for ever if that is killed.
ENVIRONMENT = {**os.environ, 'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}


def children_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
        return [int(child) for child in f.read().split()]


def run_and_kill(example, delay):
    """Kills the child that comes first, `delay` seconds after it began, unless it has ended by then."""
    process = subprocess.Popen([example], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
                               start_new_session=True)
    try:
        while process.poll() is None and not (children := children_of(process.pid)):
            pass
        time.sleep(delay)
        if process.poll() is None and children[0] in children_of(process.pid):
            with contextlib.suppress(ProcessLookupError):    # it ended just now
                os.kill(children[0], signal.SIGKILL)
        status = process.wait(SECONDS)
        assert status in (0, 1), f'{example} ended with {status}, {delay} s after its child'
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


for path in sys.argv[1:]:
    for i in range(N):
        run_and_kill(path, i * 0.01)
