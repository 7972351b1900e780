"""The system calls of the allocation path: none, while committed slabs are free, but one write to the daemon's
eventfd each time the reserve crosses its low mark. And nobody ever waits on an address in the arena.

test-syscalls.py TSLABD TSLABCTL SYSCALLS-WORKER
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon as tslab  # noqa: E402

SKIP = 77
N_CROSSINGS = 5
TSLABD, TSLABCTL, WORKER = sys.argv[1:4]

# With -f every line begins with a thread. A call that another thread cut in two counts where it begins.
CALL = re.compile(r'^\d+ +(?P<call>(?P<name>\w+)\((?P<arguments>.*))$')
WAKE = re.compile(r'^write\(\d+<anon_inode:\[eventfd\]>, "\\1\\0\\0\\0\\0\\0\\0\\0", 8')
LOOK = re.compile(r'^getpid\(|^tgkill\(\d+, \d+, 0\b')


def can_trace():
    if not shutil.which('strace'):
        return False
    return subprocess.run(['strace', '-f', '-o', os.devnull, 'true'], stderr=subprocess.DEVNULL).returncode == 0


def say(worker, text):
    worker.stdin.write(text + '\n')
    worker.stdin.flush()


def hear(worker):
    line = worker.stdout.readline().strip()
    assert line, 'the worker ended'
    return line


def trace(daemon, mode, *arguments, before=lambda: None, after=lambda: None):
    """Runs the worker; its arena's ranges, and its calls in order."""
    with tempfile.NamedTemporaryFile(mode='r', prefix='tslab-strace-') as log:
        worker = subprocess.Popen(['strace', '-f', '-y', '-q', '-o', log.name, WORKER, mode, daemon.socket,
                                   *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=daemon.environment)
        ranges = []
        while (line := hear(worker)) != 'ready':
            ranges.append([int(end, 16) for end in line.split('-')])
        before()
        try:
            say(worker, 'go')
            assert hear(worker) == 'done'
        finally:
            after()
        say(worker, 'end')
        assert worker.wait(tslab.SECONDS) == 0
        calls = [m for m in map(CALL.match, log) if m]
    assert ranges, 'the worker has no arena'
    return ranges, calls


def between_markers(calls):
    at = {name: i for i, m in enumerate(calls) for name in ('begin', 'end')
          if m['call'].startswith(f'write(-1, "{name}"')}
    assert 'begin' in at and 'end' in at, 'no markers: the trace is of no use'
    return [m['call'] for m in calls[at['begin'] + 1:at['end']]]


def in_arena(ranges, match):
    address = re.match(r'0x([0-9a-f]+)', match['arguments'])
    return address and any(begin <= int(address[1], 16) < end for begin, end in ranges)


def check_no_futex(ranges, calls):
    """In all of its life, of attaching and ending too."""
    for match in calls:
        if match['name'].startswith('futex'):
            assert not in_arena(ranges, match), f'a lock in the arena: {match["call"]}'


def check_quiet(daemon, mode):
    ranges, calls = trace(daemon, mode)
    check_no_futex(ranges, calls)
    # A few slabs go to and fro, far above the low mark.
    made = between_markers(calls)
    assert not made, f'{mode}: {len(made)} system calls: {made[:5]}'
    return ranges, calls


def check_crossings(daemon):
    """With the daemon stopped: it neither fills the reserve up nor does the clients' work."""
    stats = daemon.ctl(TSLABCTL, 'stats')
    n_slabs = stats['retained_bytes'] // 4096
    ranges, calls = trace(daemon, 'crossing', n_slabs, N_CROSSINGS,
                          before=lambda: daemon.process.send_signal(signal.SIGSTOP),
                          after=lambda: daemon.process.send_signal(signal.SIGCONT))
    check_no_futex(ranges, calls)
    made = between_markers(calls)
    other = [call for call in made if not WAKE.match(call)]
    assert not other, f'crossing: {len(other)} system calls: {other[:5]}'
    assert len(made) == N_CROSSINGS, f'the low mark was crossed {N_CROSSINGS} times: {made}'


def check_shared_record():
    """More threads than records: they wait for each other, in their own memory. After each 10 ms a thread that waits
    looks whether the holder has ended."""
    with tslab.Daemon(TSLABD, '--size=16M', '--threads=2') as daemon:
        ranges, calls = trace(daemon, 'threads')
        check_no_futex(ranges, calls)
        made = between_markers(calls)
        waits = [call for call in made if call.startswith('futex(')]
        looks = [call for call in made if LOOK.match(call)]
        other = set(made) - set(waits) - set(looks)
        assert not other, f'shared record: {list(other)[:5]}'
        assert len(looks) <= 2 * len(waits), f'{len(looks) / 2} looks at holders in {len(waits)} waits'
        assert waits, 'four threads that share a record never met: the trace sees no futex at all'


def reserve_is_full(daemon):
    last = [0]

    def condition():
        free, before = daemon.ctl(TSLABCTL, 'stats')['retained_bytes'], last[0]
        last[0] = free
        return free >= 1 << 20 and free == before

    tslab.wait_for(condition)


def main():
    if not can_trace():
        print('strace is not there, or not permitted')
        return SKIP
    with tslab.Daemon(TSLABD, '--size=64M') as daemon:
        reserve_is_full(daemon)
        check_quiet(daemon, 'quiet')
        check_quiet(daemon, 'threads')
        check_crossings(daemon)
    check_shared_record()
    return 0


if __name__ == '__main__':
    sys.exit(main())
