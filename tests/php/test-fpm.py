"""php-fpm behind nginx: sessions and a counter over workers that are killed, also by the kernel where memory is short, a
reload, and a daemon that is gone and comes back."""

import collections
import http.client
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from daemon import SECONDS, free_port, wait_for
from php import EXTENSION, PHP, pool, run

PAGE = r'''<?php
session_start();
$_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
$n = $_SESSION['n'];
session_write_close();
$cache = new Tslab\Cache();
echo $n, ' ', $cache->increment('total'), ' ', getmypid();
'''

chance = random.Random(int(os.environ.get('TSLAB_TEST_SEED') or 1))
version = re.match(r'\d+\.\d+', subprocess.run([PHP, '-n', '-r', 'echo PHP_VERSION;'], stdout=subprocess.PIPE, text=True,
                                               check=True).stdout).group()
fpm = shutil.which(f'php-fpm{version}', path='/usr/sbin:/usr/local/sbin:/sbin') or shutil.which('php-fpm')
nginx = shutil.which('nginx', path='/usr/sbin:/usr/local/sbin:/sbin')
if not fpm or not nginx:
    print('skipped: php-fpm and nginx are needed')
    raise SystemExit(77)


def ask(port, cookie=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
    connection.request('GET', '/', headers={'Cookie': f'PHPSESSID={cookie}'} if cookie else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    given = re.search(r'PHPSESSID=([^;]+)', answer.getheader('Set-Cookie') or '')
    connection.close()
    return answer.status, text, given.group(1) if given else cookie


with tempfile.TemporaryDirectory() as work, pool() as daemon:
    os.chmod(work, 0o755)
    port = free_port()
    with open(f'{work}/index.php', 'w') as page:
        page.write(PAGE)
    with open(f'{work}/fpm.conf', 'w') as conf:
        conf.write(f'''[global]
error_log = {work}/fpm.log
daemonize = no
[www]
{'user = root' if os.geteuid() == 0 else ''}
{'group = root' if os.geteuid() == 0 else ''}
listen = {work}/fpm.sock
pm = static
pm.max_children = 4
pm.max_requests = 200
catch_workers_output = yes
''')
    with open(f'{work}/nginx.conf', 'w') as conf:
        conf.write(f'''pid {work}/nginx.pid; daemon off; error_log {work}/nginx.log; {'user root;' if os.geteuid() == 0 else ''}
events {{ }}
http {{ access_log off; client_body_temp_path {work}/body; fastcgi_temp_path {work}/fastcgi; proxy_temp_path {work}/proxy;
uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
server {{ listen 127.0.0.1:{port.port if hasattr(port, 'port') else port}; location / {{ fastcgi_pass unix:{work}/fpm.sock;
fastcgi_param SCRIPT_FILENAME {work}/index.php; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param HTTP_COOKIE $http_cookie; }} }} }}
''')
    number = port.port if hasattr(port, 'port') else port
    ini = {'extension': EXTENSION, 'tslab.pool': daemon.socket, 'session.save_handler': 'tslab', 'session.save_path': '"wait=20"',
           'log_errors': 1, 'error_log': f'{work}/php.log'}
    server = subprocess.Popen([fpm, '-n', '-R', '-y', f'{work}/fpm.conf', *(f'-d{k}={v}' for k, v in ini.items())],
                              env=daemon.environment)
    web = subprocess.Popen([nginx, '-c', f'{work}/nginx.conf', '-p', work], env=daemon.environment, stderr=subprocess.DEVNULL)
    try:
        def serves():
            assert server.poll() is None and web.poll() is None
            try:
                return ask(number)[0] == 200
            except OSError:
                return False

        def workers():
            with open(f'/proc/{server.pid}/task/{server.pid}/children') as children:
                return [int(pid) for pid in children.read().split()]

        def messages():
            """How often the log of PHP has each message."""
            if not os.path.exists(f'{work}/php.log'):
                return {}
            with open(f'{work}/php.log') as log:
                return collections.Counter(re.sub(r'^\[.*?\] ', '', line) for line in log)

        def all_share():
            """Until each worker adds to the counter that a program on the command line sees."""
            seen = {}

            def is_shared():
                before = int(run(daemon, 'echo (new Tslab\\Cache())->increment("total");'))
                _, text, _ = ask(number)
                if len(text.split()) == 3:
                    seen[text.split()[2]] = int(text.split()[1]) == before + 1
                return len(seen) == 4 and all(seen.values())

            wait_for(is_shared)

        wait_for(serves)

        # One session, from several workers; requests at once take turns by its lock.
        _, text, cookie = ask(number)
        assert text.split()[0] == '1', text
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(ask(number, cookie)[1])) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(int(text.split()[0]) for text in seen) == list(range(2, 10)), seen

        # Workers are killed while they are asked; the session goes on, and no answer is wrong.
        stop, killed = threading.Event(), []

        def kill():
            while not stop.wait(chance.random() * 0.01):
                for pid in chance.sample(workers(), 1) if len(workers()) == 4 else []:
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        last, good = 9, 0
        try:
            while len(killed) < 50 or good < 20:
                try:
                    status, text, _ = ask(number, cookie)
                except OSError:
                    continue
                if status != 200 or len(text.split()) < 3:
                    continue        # nginx tells of the worker that was killed, or has the head of its answer alone
                n = int(text.split()[0])
                assert n > last, (n, last)
                last, good = n, good + 1
        finally:
            stop.set()
            killer.join()
        print(good, 'answers came while', len(killed), 'workers were killed')

        # A reload: new workers, the same pool.
        def is_ready(times):
            with open(f'{work}/fpm.log') as log:
                return log.read().count('ready to handle connections') == times

        wait_for(lambda: is_ready(1))
        server.send_signal(signal.SIGUSR2)
        wait_for(lambda: is_ready(2))
        wait_for(serves)
        assert int(ask(number, cookie)[1].split()[0]) > last

        # Without a daemon, workers that have the pool open go on with it.
        all_share()
        last = int(ask(number, cookie)[1].split()[0])
        daemon.process.kill()
        daemon.process.wait()
        status, text, _ = ask(number, cookie)
        assert status == 200 and text.split()[0] == str(last + 1), text

        # New workers find nothing: each answers, and tells the log once of each map.
        assert messages() == {}, messages()
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
        answers = []
        wait_for(lambda: serves() and not answers.append(ask(number, cookie)) and len(answers) > 40)
        assert {(status, text.split()[0], len(text.split())) for status, text, _ in answers} == {(200, '1', 2)}, answers
        told = messages()
        assert len(told) == 2 and all(1 <= n <= 4 for n in told.values()), told

        # A daemon with another arena: all workers open it, those that are new as well as those that had the old one.
        daemon.process = subprocess.Popen([*daemon.command, '--fresh'], env=daemon.environment)
        wait_for(daemon.answers)
        wait_for(lambda: len(ask(number, cookie)[1].split()) == 3)
        all_share()
        daemon.process.kill()
        daemon.process.wait()
        daemon.process = subprocess.Popen([*daemon.command, '--fresh'], env=daemon.environment)
        wait_for(daemon.answers)
        all_share()
        assert messages() == told, (messages(), told)
    finally:
        web.terminate()
        server.terminate()
        web.wait(SECONDS)
        server.wait(SECONDS)
