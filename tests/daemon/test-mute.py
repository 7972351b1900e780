"""A service manager that keeps its socket open, and reads nothing: the daemon starts, answers, reads its settings again,
and ends, as without a manager.

test-mute.py TSLABCTL TSLABD
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

TSLABCTL, TSLABD = map(os.path.abspath, sys.argv[1:3])
SECONDS = 20


def fill(path):
    """Nobody reads, and there is room for no more messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        try:
            while True:
                sender.sendto(b'X=1', path)
        except BlockingIOError:
            pass


def read_all(manager):
    manager.setblocking(False)
    texts = []
    try:
        while True:
            texts.append(manager.recv(4096))
    except BlockingIOError:
        return texts


def try_reload(environment, path, log, manager):
    """There is room for the message that the daemon reads its settings again, and not for the one that it has read them:
    systemd hears the second once it reads again.
    """
    read_all(manager)
    with subprocess.Popen([TSLABD, '--size=16M'], env=environment, stderr=log) as daemon:
        try:
            wait_for(lambda: b'READY=1' in read_all(manager))
            reloading = []
            while not reloading:                    # another message of the daemon may take the place
                read_all(manager)
                fill(path)
                manager.recv(4096)
                daemon.send_signal(signal.SIGHUP)
                time.sleep(1.5)
                reloading = [text for text in read_all(manager) if text.startswith(b'RELOADING=1')]
            wait_for(lambda: b'READY=1' in read_all(manager))
        finally:
            daemon.kill()


def try_short(environment, path, log, manager):
    """There is no room for a while only: the sign of life that was due meanwhile comes before systemd would kill the
    daemon, and the state that changed meanwhile is told, too.
    """
    environment = {**environment, 'WATCHDOG_USEC': '4000000'}
    read_all(manager)
    with subprocess.Popen([TSLABD, '--size=16M'], env=environment, stderr=log) as daemon, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            wait_for(lambda: answers(environment))
            read_all(manager)
            while count_signs_of_life(manager, 0.1) == 0:
                pass
            end = time.monotonic() + 3.8
            fill(path)
            connection.connect(environment['TSLAB_RUNTIME_DIR'] + '/default.sock')
            time.sleep(2.7)
            texts = read_all(manager)
            assert not any(b', 1 connections' in text for text in texts), texts
            texts = []
            while (left := end - time.monotonic()) > 0:
                manager.settimeout(left)
                try:
                    texts.append(manager.recv(4096))
                except TimeoutError:
                    pass
            assert b'WATCHDOG=1' in texts, texts
            assert any(b', 1 connections' in text for text in texts), texts
        finally:
            daemon.kill()


def try_gone(environment):
    """The manager is gone for good: one line at the start, and one for each reload."""
    environment = {**environment, 'NOTIFY_SOCKET': environment['NOTIFY_SOCKET'] + '-gone'}
    with tempfile.TemporaryFile() as log, subprocess.Popen([TSLABD, '--size=16M'], env=environment, stderr=log) as daemon:
        try:
            wait_for(lambda: answers(environment))
            daemon.send_signal(signal.SIGHUP)
            time.sleep(3.5)
        finally:
            daemon.kill()
        log.seek(0)
        text = log.read().decode()
        assert text.count('could not tell systemd') == 2, text


def count_signs_of_life(manager, seconds):
    n = 0
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        manager.settimeout(left)
        try:
            n += manager.recv(4096) == b'WATCHDOG=1'
        except TimeoutError:
            pass
    return n


def answers(environment):
    return subprocess.run([TSLABCTL, 'status', '--check'], env=environment, timeout=SECONDS, check=False,
                          capture_output=True).returncode == 0


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, 'timeout'
        time.sleep(0.05)


def try_daemon(environment, path, log, manager=None):
    """`manager`: it reads its socket for a while."""
    with subprocess.Popen([TSLABD, '--size=16M'], env=environment, stderr=log) as daemon:
        try:
            if manager:
                assert 4 <= count_signs_of_life(manager, 2.5) <= 7
            wait_for(lambda: answers(environment))
            fill(path)
            for _ in range(4):                      # ticks, which tell the state and check systemd's store
                time.sleep(1)
                assert answers(environment)
            daemon.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            assert answers(environment)
            daemon.terminate()
            assert daemon.wait(SECONDS) == 0
        finally:
            daemon.kill()


def main():
    with tempfile.TemporaryDirectory(prefix='tslab-mute-') as folder, tempfile.TemporaryFile() as log, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = f'{folder}/notify'
        manager.bind(path)
        environment = {**os.environ, 'TSLAB_RUNTIME_DIR': folder, 'MEMORY_PRESSURE_WATCH': '/dev/null', 'NOTIFY_SOCKET': path,
                       'WATCHDOG_USEC': '1000000'}
        try_daemon(environment, path, log, manager)     # it is full later
        try_daemon(environment, path, log)              # it is full as the daemon starts
        log.seek(0)
        text = log.read().decode()
        assert text.count('does not read its socket') == 2, text    # once for each
        del environment['WATCHDOG_USEC']
        try_reload(environment, path, log, manager)
        try_short(environment, path, log, manager)
        try_gone(environment)


main()
