"""A daemon that systemd gives the memory of another build, of the same format: it says so, and what to do.

test-other-build.py TSLABD
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon as tslab  # noqa: E402

TSLABD = sys.argv[1]
FORMAT_HASH = 16    # where it is in the header


def take_arena(pid):
    folder = f'/proc/{pid}/fd'
    name = next(fd for fd in os.listdir(folder) if os.readlink(f'{folder}/{fd}').startswith('/memfd:'))
    return os.open(f'{folder}/{name}', os.O_RDWR)


def start_next(daemon, arena, log):
    environment = {**daemon.environment, 'LISTEN_FDS': '1', 'LISTEN_FDNAMES': 'arena'}
    command = ['sh', '-c', f'LISTEN_PID=$$ exec "$@" 3<&{arena}', 'sh', TSLABD, '--size=16M']
    daemon.process = subprocess.Popen(command, env=environment, pass_fds=[arena], stderr=log)
    os.close(arena)
    tslab.wait_for(daemon.answers)


def main():
    with tempfile.TemporaryFile() as log, tslab.Daemon(TSLABD, '--size=16M') as daemon:
        arena = take_arena(daemon.process.pid)
        os.pwrite(arena, bytes(8), FORMAT_HASH)
        daemon.process.kill()
        daemon.process.wait()
        start_next(daemon, arena, log)
        text = os.pread(log.fileno(), 1 << 16, 0).decode()
        assert 'was made by another build' in text and 'Restart the programs' in text, text
        assert 'the libtslab of the same build' in text and ' knows format' not in text, text


main()
