"""Control groups with a limit on memory."""

import contextlib
import os
import pathlib
import time
import unittest

from daemon import wait_for


def memory_folder():
    """The folder of this process's cgroup that can have limits, and the limit's file; None: there is none."""
    for line in pathlib.Path('/proc/self/cgroup').read_text(encoding='utf-8').splitlines():
        number, controllers, path = line.split(':', 2)
        if 'memory' in controllers.split(','):
            return pathlib.Path('/sys/fs/cgroup/memory' + path), 'memory.limit_in_bytes'
        if number == '0' and pathlib.Path('/sys/fs/cgroup' + path + '/memory.max').exists():
            return pathlib.Path('/sys/fs/cgroup' + path).parent, 'memory.max'
    return None


@contextlib.contextmanager
def limited(limit):
    """A cgroup with a limit in bytes, for a process to enter before it executes a program."""
    found = memory_folder()
    if not found:
        raise unittest.SkipTest('no cgroup with limits')
    folder = found[0] / f'tslab-test-{os.getpid()}'
    try:
        folder.mkdir()
        (folder / found[1]).write_text(str(limit))
    except OSError as e:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise unittest.SkipTest(f'no cgroup can be made: {e}') from e
    try:
        yield folder
    finally:
        wait_for(lambda: not (folder / 'cgroup.procs').read_text())
        folder.rmdir()


def used(folder):
    """The bytes in use, without pages of files that nobody used lately: the daemon counts so, too."""
    v2 = (folder / 'memory.current').exists()
    size = int((folder / ('memory.current' if v2 else 'memory.usage_in_bytes')).read_text())
    stat = dict(line.split() for line in (folder / 'memory.stat').read_text().splitlines())
    return size - int(stat['inactive_file' if v2 else 'total_inactive_file'])


def lower(folder, left):
    """Lowers the limit to the bytes in use, and `left` more."""
    size = 0
    while abs(size - (size := used(folder))) > 1 << 16:
        time.sleep(0.5)         # the kernel counts down late
    (folder / memory_folder()[1]).write_text(str(size + left))


def into(folder):
    """Words before a command, which then runs in the cgroup."""
    return ['/bin/sh', '-c', f'echo $$ > {folder}/cgroup.procs && exec "$@"', 'sh']
