"""No file that daemon, tslabctl or library open gets the number of a standard stream that is closed, and with that what
the program prints. In the memory of a pool, a line of a log would be text over its header.

test-streams.py TSLABCTL TSLABD VERB-CLIENT
"""

import os
import subprocess
import sys
import tempfile
import time

TSLABCTL, TSLABD, CLIENT = map(os.path.abspath, sys.argv[1:4])
SECONDS = 60


def close_all():
    os.closerange(0, 3)


def start(command, environment, **how):
    return subprocess.Popen(command, env=environment, **how)


def run(environment, *arguments, **how):
    return subprocess.run([TSLABCTL, *arguments], env=environment, timeout=SECONDS, check=False, **how)


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, 'timeout'
        time.sleep(0.01)


def names(pid):
    """The descriptors of the process: their files, by number."""
    return {int(fd): os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')}


def is_whole(environment):
    """tslabctl reads the header of the memory, as each program does that begins to use the pool."""
    done = run(environment, 'leaks', capture_output=True)
    return done.returncode == 0 and run(environment, 'check', capture_output=True).returncode == 0


def check_tslabctl(environment):
    # the value is not put, since there is no such map, and tslabctl would say so
    for verb in (['put', 'm', 'k', 'v'], ['get', 'm', 'k'], ['leaks'], ['stats'], ['nonsense'], ['top', '--once', '-d0.1']):
        done = run(environment, *verb, preexec_fn=close_all)
        assert done.returncode in (1, 2), verb      # it can print nothing
    done = run(environment, 'stats', preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE)
    assert done.returncode == 1 and b'cannot write the output: Bad file descriptor' in done.stderr, done
    assert run(environment, 'stats', preexec_fn=lambda: os.close(2), stdout=subprocess.PIPE).returncode == 0
    assert is_whole(environment)


def check_library(environment):
    """A program without stderr: its files stay away from the number."""
    with start([CLIENT, f'{environment["TSLAB_RUNTIME_DIR"]}/default.sock'], environment, stdin=subprocess.PIPE,
               stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(2)) as client:
        wait_for(lambda: any('memfd:tslab:' in name for name in names(client.pid).values()))
        numbers = [fd for fd, name in names(client.pid).items() if 'memfd:' in name or 'socket:' in name]
        client.kill()
    assert min(numbers) > 2, numbers


def main():
    with tempfile.TemporaryDirectory(prefix='tslab-streams-') as folder:
        environment = {**os.environ, 'TSLAB_RUNTIME_DIR': folder, 'MEMORY_PRESSURE_WATCH': '/dev/null'}
        daemon = start([TSLABD, '--size=16M'], environment, preexec_fn=close_all)
        try:
            wait_for(lambda: run(environment, 'status', '--check', capture_output=True).returncode == 0)
            assert not any('memfd' in name or folder in name for fd, name in names(daemon.pid).items() if fd < 3)
            assert is_whole(environment)            # though the daemon has written to its log
            check_tslabctl(environment)
            check_library(environment)
        finally:
            daemon.terminate()
            daemon.wait(SECONDS)


main()
