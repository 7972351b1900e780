"""The runtime directory is full when the daemon starts. Once there is room, the daemon writes the name of its memory
into the lock file, by which the next daemon finds the memory.

test-lock-full.py TSLABD INJECT-CLIENT INJECT.SO
"""

import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon as tslab  # noqa: E402

TSLABD, CLIENT, INJECT = sys.argv[1:4]
PWRITE = 18
FAILURES = 3    # as the lock is taken, as the memory is named, and once again


def has_name(path):
    with open(path, encoding='ascii') as lock:
        lines = lock.read().split('\n')
    return len(lines) == 3 and len(lines[1]) == 32


def client_start(daemon):
    client = subprocess.Popen([CLIENT, daemon.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.stdin.write('open\n')
    client.stdin.flush()
    assert client.stdout.readline().endswith(': done\n')
    return client


def main():
    order = f'TSLAB_INJECT={PWRITE}:1:{FAILURES}:{errno.ENOSPC}'
    full = tslab.Daemon(TSLABD, '--size=16M')
    full.command = ['env', f'LD_PRELOAD={INJECT}', order, *full.command]
    with full as daemon:
        # As the daemon is ready it has tried twice.
        tslab.wait_for(lambda: has_name(os.path.join(daemon.dir, 'default.lock')))
        client = client_start(daemon)
        daemon.process.kill()
        daemon.process.wait()
        done = subprocess.run([TSLABD, '--size=16M'], env=daemon.environment, stderr=subprocess.PIPE, text=True,
                              timeout=tslab.SECONDS, check=False)
        assert done.returncode == 1 and f'--adopt={client.pid}' in done.stderr, done
        client.stdin.close()
        assert client.wait(tslab.SECONDS) == 0
        daemon.process = subprocess.Popen([TSLABD, '--size=16M'], env=daemon.environment)
        tslab.wait_for(daemon.answers)


main()
