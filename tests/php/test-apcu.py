"""apcu_*() beside APCu itself: the same program in both, compared line by line."""

import os
import subprocess

from daemon import SECONDS
from php import PHP, pool, run_tests, settings

program = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'apcu.php')
real = os.path.join(os.path.dirname(os.path.dirname(run_tests('x'))), 'apcu.so')


def output(options, daemon):
    done = subprocess.run([PHP, *options, program], env=daemon.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    assert done.returncode == 0, (done.returncode, done.stdout)
    return done.stdout.splitlines()


with pool() as daemon:
    ours = output(settings(daemon, **{'tslab.apcu_compat': 1}), daemon)
    if not os.path.exists(real):
        print('skipped: APCu is not installed')
        raise SystemExit(77)
    theirs = output(['-n', f'-dextension={real}', '-dapc.enable_cli=1'], daemon)
    different = [(a, b) for a, b in zip(ours, theirs) if a != b]
    assert not different and len(ours) == len(theirs) > 40, (different, len(ours), len(theirs))
