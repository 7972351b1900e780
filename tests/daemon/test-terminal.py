"""Log lines on a terminal begin with the time; those into a pipe do not, since its reader adds one: test-terminal.py TSLABD."""

import datetime
import os
import pty
import re
import subprocess
import sys
import tempfile

TSLABD = sys.argv[1]
READY = rb'tslabd: info: pool default is ready'


def first_line(stderr, reader):
    """The first line that a daemon writes to this descriptor."""
    with tempfile.TemporaryDirectory(prefix='tslab-test-') as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_') and k != 'JOURNAL_STREAM'}
        daemon = subprocess.Popen([TSLABD, '--size=4M'], stderr=stderr, env={**environment, 'TSLAB_RUNTIME_DIR': folder})
        os.close(stderr)
        line = b''
        while not line.endswith(b'\n'):
            line += os.read(reader, 1)
        daemon.terminate()
        assert daemon.wait(60) == 0
        os.close(reader)
    return line


master, slave = pty.openpty()
line = first_line(slave, master)
match = re.match(rb'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ' + READY, line)
assert match, f'on a terminal: {line}'
age = datetime.datetime.now() - datetime.datetime.fromisoformat(match.group(1).decode())
assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1), f'the time now: {line}'

reader, writer = os.pipe()
line = first_line(writer, reader)
assert line.startswith(READY), f'in a pipe: {line}'
