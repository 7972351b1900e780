"""Workers that are killed at random while they count, store, compute, take turns and save sessions: nothing is hung, lost
or wrong. TSLAB_TEST_FULL: 10,000 kills, TSLAB_TEST_KILLS: so many; beside it, in a table, a fiftieth as many of workers that
use APCu, if it is installed."""

import json
import os
import random
import subprocess
import tempfile

from daemon import SECONDS
from php import PHP, module, pool, settings

KILLS = int(os.environ.get('TSLAB_TEST_KILLS') or (10000 if os.environ.get('TSLAB_TEST_FULL') else 100))
SEED = int(os.environ.get('TSLAB_TEST_SEED') or random.randrange(1 << 31))
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'kills.php')
SESSIONS = {'session.save_handler': 'tslab', 'session.use_cookies': 0, 'session.cache_limiter': '',
            'session.save_path': '"map=sessions;wait=60"', 'tslab.apcu_compat': 1}
APCU_HANGS = 3      # seconds: a worker of APCu does nothing for so long
NAMES = ('kills', 'hung', 'lost', 'wrong')


def kills(options, environment, store, n, seconds):
    posix = [f'-dextension={path}' for path in [module('posix')] if path]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([PHP, '-n', *posix, *options, PROGRAM, store, str(n), str(SEED), folder, str(seconds)],
                              env=environment, stdout=subprocess.PIPE, text=True, check=True)
    print(store, done.stdout)
    return judge(json.loads(done.stdout))


def judge(found):
    """Counts what is missing, or too much, of what was told to be done."""
    for done, begun, total in (('done', 'begun', 'sum'), ('saves', 'saves_begun', 'saved')):
        if total in found:
            found['lost'] += max(0, found[done] - found[total])
            found['wrong'] += max(0, found[total] - found[begun])
    return found


def apcu(n):
    """Workers that hang do so for ever; then the whole group is started anew."""
    total = dict.fromkeys(NAMES, 0)
    while total['kills'] < n:
        found = kills([f'-dextension={module("apcu")}', '-dapc.enable_cli=1'], os.environ, 'apcu', n - total['kills'],
                      APCU_HANGS)
        for name in NAMES:
            total[name] += found[name]
    return total


print('seed', SEED)
with pool() as daemon:
    table = {'tslab': kills(settings(daemon, **SESSIONS)[1:], daemon.environment, 'tslab', KILLS, SECONDS)}
if module('apcu'):
    table['APCu'] = apcu(KILLS // 50)
for store, found in table.items():
    print(f'{store:8}', *(f'{found[name]:8} {name}' for name in NAMES))
ours = table['tslab']
assert ours['kills'] >= KILLS and not (ours['hung'] or ours['lost'] or ours['wrong']), ours
