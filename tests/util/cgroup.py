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


def lower(folder, left):
    """Lowers the limit to what is used, and `left` bytes."""
    name = memory_folder()[1]
    used = {'memory.max': 'memory.current', 'memory.limit_in_bytes': 'memory.usage_in_bytes'}[name]
    size = 0
    while size != (size := int((folder / used).read_text())):
        time.sleep(0.5)         # the kernel counts down late
    (folder / name).write_text(str(size + left))


def into(folder):
    """Words before a command, which then runs in the cgroup."""
    return ['/bin/sh', '-c', f'echo $$ > {folder}/cgroup.procs && exec "$@"', 'sh']
