"""The demo's log, served by PHP: it counts as the demo in C does, also where a visitor's sessions end and begin anew."""

import subprocess
import sys

from daemon import SECONDS
from php import EXTENSION, PHP

PROGRAM, BUILD = sys.argv[4:6]


def demo(*arguments):
    return subprocess.run([PHP, '-n', f'-dextension={EXTENSION}', PROGRAM, BUILD, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=SECONDS * 2)


done = demo('--requests', '20000', '--workers=3')
assert done.returncode == 0 and done.stdout.endswith('Both count the same, in all and of each visitor.\n'), done
numbers = dict(line.rsplit(None, 2)[:2] for line in done.stdout.splitlines()[1:-1])
assert numbers['requests'] == '20000' and int(numbers['sessions returning']) > 100, numbers
for wrong in ('--json', '--requests=none'):
    done = demo(wrong)
    assert done.returncode == 1 and done.stderr and not done.stdout, (wrong, done)
assert demo('--help').stdout.startswith('Usage: ')
