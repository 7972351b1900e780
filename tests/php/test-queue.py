"""Laravel's queue with a real redis-server: workers of one master, as of Horizon, whose jobs and restarts use the pool. Workers
are killed, told to end in the middle of a wait for a lock, and restarted by the cache; no job is lost."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from daemon import SECONDS, free_port, wait_for
from php import PHP, module, pool, settings

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'frameworks')
LARAVEL = os.path.join(os.path.abspath(sys.argv[4]), 'laravel/src')
SEED = os.environ.get('TSLAB_TEST_SEED') or '1'
JOBS, KILLS = 150, 12
NEEDED = ('Queue', 'Redis', 'Events', 'Bus', 'Cache')

extensions = [module(name) for name in ('igbinary', 'redis', 'posix', 'tokenizer', 'mbstring', 'ctype', 'iconv')]
if not shutil.which('redis-server') or not module('redis') or \
        not all(os.path.exists(f'/usr/share/php/Illuminate/{name}/autoload.php') for name in NEEDED):
    print('skipped: redis-server, php-redis and Laravel\'s queue are needed')
    raise SystemExit(77)

with tempfile.TemporaryDirectory() as work, pool() as daemon:
    with open(f'{work}/autoload.php', 'w') as autoload:
        autoload.write("<?php spl_autoload_register(fn ($name) => is_file($file = "
                       f"'{LARAVEL}/' . basename(strtr($name, '\\\\', '/')) . '.php') && require $file);\n")
    os.mkdir(f'{work}/vendor')
    os.rename(f'{work}/autoload.php', f'{work}/vendor/autoload.php')
    port = free_port()
    redis = subprocess.Popen(['redis-server', '--port', str(port), '--bind', '127.0.0.1', '--save', '', '--dir', work],
                             stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: subprocess.run(['redis-cli', '-p', str(port), 'ping'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True).stdout == 'PONG\n')
        done = subprocess.run([PHP, *settings(daemon), *(f'-dextension={path}' for path in extensions if path),
                               f'{HERE}/queue.php', str(port), str(JOBS), str(KILLS), SEED],
                              env={**daemon.environment, 'VENDOR': f'{work}/vendor'}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS * 3)
    finally:
        redis.terminate()
        redis.wait()
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert found['done'] and found['killed'] >= KILLS, found
    assert not (found['wrong'] or found['hung'] or found['failed'] or found['exceptions']), found
    assert found['waiting'] == found['ended by SIGTERM'] == found['restarted'] == 3, found
