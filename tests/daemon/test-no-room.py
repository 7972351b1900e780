"""A connection that the daemon has no memory for: it says so, accepts none for a while, and then goes on.

test-no-room.py TSLABD TSLABCTL
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon as tslab  # noqa: E402

SKIP = 77
TSLABD, TSLABCTL = sys.argv[1:3]
PAUSED = b'cannot accept connections for a while'


class NextWatchFails:
    """The next descriptor that this process wants to watch is one too many for the kernel."""

    def __init__(self, pid):
        self.command = ['strace', '-o', os.devnull, '-e', 'trace=epoll_ctl',
                        '-e', 'inject=epoll_ctl:error=ENOMEM:when=1', '-p', str(pid)]

    def __enter__(self):
        self.strace = subprocess.Popen(self.command, stderr=subprocess.PIPE)
        line = self.strace.stderr.readline()
        assert b'attached' in line, line

    def __exit__(self, *_):
        self.strace.terminate()
        self.strace.communicate(timeout=tslab.SECONDS)


class LoggedDaemon(tslab.Daemon):
    """Prints to a file."""

    def __init__(self, log, *arguments):
        super().__init__(*arguments)
        self.log = log

    def __enter__(self):
        saved = os.dup(2)
        os.dup2(self.log.fileno(), 2)
        try:
            return super().__enter__()
        finally:
            os.dup2(saved, 2)
            os.close(saved)

    def printed(self, text):
        return text in os.pread(self.log.fileno(), 1 << 16, 0)


def main():
    if not shutil.which('strace') or subprocess.run(['strace', '-o', os.devnull, 'true'],
                                                    stderr=subprocess.DEVNULL).returncode:
        sys.exit(SKIP)
    with tempfile.TemporaryFile() as log, LoggedDaemon(log, TSLABD, '--size=16M') as daemon:
        daemon.ctl(TSLABCTL, 'stats')
        assert not daemon.printed(PAUSED)
        with NextWatchFails(daemon.process.pid), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(tslab.SECONDS)
            s.connect(daemon.socket)
            assert s.recv(1) == b'', 'a connection that nobody watches was kept'
            tslab.wait_for(lambda: daemon.printed(PAUSED))
        daemon.ctl(TSLABCTL, 'stats')  # waits in the backlog until the daemon accepts again


main()
