"""Programs that serve while others are measured; a daemon that can be replaced as systemd replaces it."""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time

START = 10      # seconds for a program to start, or to end


class Failed(Exception):
    pass


def end(process):
    process.terminate()
    try:
        process.wait(timeout=START)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def server(command, path):
    """A program that listens at `path`."""
    # Its output is thrown away: the program would stop at a full pipe.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START
            while not os.path.exists(path) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            if not os.path.exists(path):
                raise Failed(f'{command[0]} does not start')
            yield process
        finally:
            end(process)


class Daemon:
    """tslabd on a private socket. We keep its memory, so that another daemon can take it over."""

    def __init__(self, build, *options):
        self.program = str(build / 'daemon' / 'tslabd')
        self.options = options
        self.arena = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='tslab-bench-')
        self.path = os.path.join(self.folder.name, 'bench.sock')
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.folder.name, 'notify'))
        self.ready = threading.Event()
        # A thread reads all the time, as a service manager does: otherwise the daemon would wait when it notifies.
        self.hearing = threading.Thread(target=self.hear, daemon=True)
        self.hearing.start()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(512)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if getattr(self, 'process', None):
            end(self.process)
        self.listener.close()
        self.notify.shutdown(socket.SHUT_RD)
        self.hearing.join()
        self.notify.close()
        if self.arena is not None:
            os.close(self.arena)
        self.folder.cleanup()

    def start(self):
        """Returns the seconds until it says that it is ready."""
        passed = [(self.listener.fileno(), 'socket')]
        if self.arena is not None:
            passed.append((self.arena, 'arena'))
        # Descriptors from 3 on, and the pid of the process that gets them, as systemd passes them. Bash moves them
        # there, as sh need not know numbers over 9.
        moves = ' '.join(f'{3 + i}<&{fd + 100}' for i, (fd, _) in enumerate(passed))
        for fd, _ in passed:
            os.dup2(fd, fd + 100, inheritable=True)
        environment = dict(os.environ, NOTIFY_SOCKET=os.path.join(self.folder.name, 'notify'),
                           LISTEN_FDS=str(len(passed)), LISTEN_FDNAMES=':'.join(name for _, name in passed))
        self.ready.clear()
        begin = time.monotonic()
        self.process = subprocess.Popen(
            ['bash', '-c', f'LISTEN_PID=$$ exec "$@" {moves}', 'bash', self.program, '--pool', 'bench',
             '--log-level=warning', *self.options],
            stdout=subprocess.DEVNULL, env=environment, pass_fds=[fd + 100 for fd, _ in passed])
        for fd, _ in passed:
            os.close(fd + 100)
        if not self.ready.wait(START):
            raise Failed('tslabd does not start')
        return time.monotonic() - begin

    def hear(self):
        while True:
            message, fds, _, _ = socket.recv_fds(self.notify, 4096, 4)
            if not message:
                return          # shut down
            lines = message.decode().split('\n')
            if 'FDSTORE=1' in lines and 'FDNAME=arena' in lines and self.arena is None and fds:
                self.arena = fds.pop()
            # A barrier is answered by closing it.
            for fd in fds:
                os.close(fd)
            if 'READY=1' in lines:
                self.ready.set()

    def replace(self):
        """Kills it and starts the next one on the same memory."""
        self.process.kill()
        self.process.wait()
        return self.start()
