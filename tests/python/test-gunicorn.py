"""The example application under gunicorn, with four workers, real HTTP and real kills.

    test-gunicorn.py TSLABD TSLABCTL EXAMPLES-FOLDER [unittest arguments]
"""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

TSLABD, TSLABCTL, EXAMPLES = map(os.path.abspath, sys.argv[1:4])
HOST = '127.0.0.1'
WORKERS = 4
SESSIONS = 100
KILLS = 100 if os.environ.get('TSLAB_TEST_FULL') else 12
SEED = int(os.environ.get('TSLAB_TEST_SEED', '1'))
DEADLINE = 60       # for one request, which is not to hang
GRACE = 5           # seconds; a worker that is told to end while it begins never hears it, and is killed after these
REAL_WRK = shutil.which('wrk')


class Browser:
    """Keeps one session's cookie; a new connection for each request, so that any worker may get it."""

    def __init__(self, port):
        self.port, self.cookie = port, None
        self.asked = self.visits = 0

    def ask(self, method, path, body=None):
        self.asked += 1
        connection = http.client.HTTPConnection(HOST, self.port, timeout=DEADLINE)
        headers = {'Content-Type': 'application/x-www-form-urlencoded'} if body else {}
        if self.cookie:
            headers['Cookie'] = self.cookie
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise AssertionError(f'{path}: {response.status} {text[:200]!r}')
            if response.getheader('Set-Cookie'):
                self.cookie = response.getheader('Set-Cookie').split(';')[0]
            return json.loads(text)

    def persist(self, *arguments):
        """Asks until a worker answers that is not killed in the middle of it."""
        end = time.monotonic() + DEADLINE
        while True:
            try:
                return self.ask(*arguments)
            except (ConnectionError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise

    def visit(self):
        """A visit that was answered is counted, and one whose worker was killed once at most: nothing is lost."""
        asked = self.asked
        visits = self.persist('GET', '/')['visits']
        if not self.visits < visits <= self.visits + self.asked - asked:
            raise AssertionError(f'{visits} visits after {self.visits} and {self.asked - asked} requests')
        self.visits = visits

    def check(self, user):
        seen = self.persist('GET', '/user')['user']
        if seen != user:
            raise AssertionError(f'a session of {seen!r} in place of {user!r}')


@contextlib.contextmanager
def application(d, *options, lifetime=1000):
    """gunicorn with the example: its process and its port."""
    port = daemon.free_port()
    environment = {**d.environment, 'LIFETIME': str(lifetime), 'PYTHONPATH': f'{os.environ["PYTHONPATH"]}:{EXAMPLES}'}
    process = subprocess.Popen([sys.executable, '-m', 'gunicorn', '--workers', str(WORKERS), '--bind',
                                f'{HOST}:{port}', '--log-level', 'warning', '--timeout', '120',
                                '--graceful-timeout', str(GRACE), *options, 'sessions_app:app'],
                               env=environment, cwd=d.dir)
    try:
        daemon.wait_for(lambda: answers(process, port))
        yield process, port
    finally:
        process.terminate()
        process.wait(DEADLINE)


def answers(process, port):
    assert process.poll() is None, 'gunicorn ended'
    with contextlib.suppress(OSError, http.client.HTTPException):
        return 'pid' in Browser(port).ask('GET', '/read')
    return False


def worker_pids(master):
    with open(f'/proc/{master.pid}/task/{master.pid}/children', encoding='ascii') as children:
        return [int(pid) for pid in children.read().split()]


class Application(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon.Daemon(TSLABD, '--size=64M', '--retain=0'))

    def ctl(self, *arguments):
        return self.daemon.ctl(TSLABCTL, *arguments)

    def test_one_session_many_workers(self):
        with application(self.daemon) as (_, port):
            browser = Browser(port)
            self.assertEqual(browser.ask('POST', '/login', 'user=ann'), {'user': 'ann'})
            pids = set()

            def another_worker():
                answer = browser.ask('GET', '/user')
                self.assertEqual(answer['user'], 'ann')
                pids.add(answer['pid'])
                return len(pids) > 1

            daemon.wait_for(another_worker)
            self.assertIsNone(Browser(port).ask('GET', '/user')['user'])
            visits = [browser.ask('GET', '/')['visits'] for _ in range(20)]
            self.assertEqual(visits, list(range(1, 21)))
            before = browser.cookie
            browser.ask('POST', '/logout', 'x=1')
            browser.cookie = before
            self.assertIsNone(browser.ask('GET', '/user')['user'])

    def test_forged_ids_are_not_taken_over(self):
        with application(self.daemon) as (_, port):
            browser = Browser(port)
            forged = browser.cookie = 'session=' + 'A' * 43
            browser.ask('POST', '/login', 'user=eve')
            self.assertNotEqual(browser.cookie, forged)

    def test_workers_are_killed_under_load(self):
        rng = random.Random(SEED)
        with application(self.daemon) as (master, port):
            browsers = self.log_in(port, SESSIONS)
            wrk = subprocess.Popen([REAL_WRK, '-t1', '-c8', '-d600s', f'http://{HOST}:{port}/'],
                                   stdout=subprocess.PIPE, text=True)
            try:
                self.kill_workers(master, browsers, rng)
            finally:
                wrk.send_signal(signal.SIGINT)
                output, _ = wrk.communicate(timeout=DEADLINE)
            self.assertGreater(float(re.search(r'Requests/sec:\s*([0-9.]+)', output)[1]), 0, output)
            self.check_all(browsers)
        self.check_pool()

    def test_workers_of_all_kinds(self):
        """Each kind is killed, and reloaded; with --max-requests workers end by themselves all the time, with --reload
        each time that a file changes."""
        rng = random.Random(SEED)
        changing = os.path.join(self.daemon.dir, 'changing')
        kinds = {
            'sync': [],
            'gthread': ['--worker-class', 'gthread', '--threads', '4'],
            'preload': ['--preload'],
            'reload': ['--reload', '--reload-extra-file', changing],
            'max-requests': ['--max-requests', '20', '--max-requests-jitter', '10'],
        }
        for kind, options in kinds.items():
            with open(changing, 'w', encoding='ascii'):
                pass
            with self.subTest(kind), application(self.daemon, *options) as (master, port):
                browsers = self.log_in(port, 10)
                for _ in range(KILLS // 6):
                    self.kill_workers(master, browsers, rng, kills=2)
                    os.utime(changing)
                    master.send_signal(signal.SIGHUP)
                    self.check_all(browsers)
        self.check_pool()

    def log_in(self, port, n):
        browsers = [Browser(port) for _ in range(n)]
        for i, browser in enumerate(browsers):
            browser.persist('POST', '/login', f'user=user{i}')
        return browsers

    def check_all(self, browsers):
        for i, browser in enumerate(browsers):
            browser.check(f'user{i}')
            browser.visit()

    def check_pool(self):
        daemon.wait_for(lambda: self.ctl('stats')['clients'] == 0)
        check = self.ctl('check')
        self.assertTrue(check['ok'], f'{check}, seed {SEED}')

    def kill_workers(self, master, browsers, rng, kills=KILLS):
        """Meanwhile all sessions are read and written through the workers that are left."""
        over = threading.Event()
        failures = []

        def browse(first):
            try:
                while not over.is_set():
                    for i in range(first, len(browsers), 2):
                        browsers[i].visit()
                        browsers[i].check(f'user{i}')
            except Exception as e:  # noqa: BLE001 (shown below)
                failures.append(e)

        threads = [threading.Thread(target=browse, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            daemon.wait_for(lambda: len(worker_pids(master)) == WORKERS)
            time.sleep(rng.random() * 0.1)      # a random place to be killed at, not a wait for anything
            victim = rng.choice(worker_pids(master) or [0])
            if victim == 0:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            daemon.wait_for(lambda: victim not in worker_pids(master))
        over.set()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual(failures, [], f'seed {SEED}')

    def test_daemon_is_replaced(self):
        """The new one has another arena. Every request is answered, and soon all workers have the new sessions."""
        with application(self.daemon) as (_, port):
            pids, over, failures = set(), threading.Event(), []
            daemon.wait_for(lambda: pids.add(Browser(port).ask('GET', '/read')['pid']) or len(pids) == WORKERS)

            def browse():
                browser = Browser(port)
                try:
                    while not over.is_set():
                        for path in '/', '/read', '/user':
                            browser.ask('GET', path)
                except Exception as e:  # noqa: BLE001 (shown below)
                    failures.append(e)

            threads = [threading.Thread(target=browse) for _ in range(2)]
            for thread in threads:
                thread.start()
            self.daemon.process.kill()
            self.daemon.process.wait()
            time.sleep(0.2)                     # requests while there is no daemon
            self.daemon.process = subprocess.Popen([*self.daemon.command, '--fresh'], env=self.daemon.environment)
            daemon.wait_for(self.daemon.answers)
            daemon.wait_for(lambda: self.ctl('stats')['clients'] == WORKERS)
            browser, seen = Browser(port), set()
            browser.ask('POST', '/login', 'user=ann')
            while seen < pids:
                answer = browser.ask('GET', '/user')
                self.assertEqual(answer['user'], 'ann')
                seen.add(answer['pid'])
            over.set()
            for thread in threads:
                thread.join(DEADLINE)
            self.assertEqual(failures, [])

    def test_memory_returns(self):
        with application(self.daemon, lifetime=1) as (_, port):
            reclaimed = self.ctl('stats')['counters']['slabs_reclaimed']
            for i in range(300):
                Browser(port).ask('POST', '/login', f'user={"x" * 20000}{i}')
            daemon.wait_for(lambda: self.ctl('stats')['live_bytes'] < 100000)
            daemon.wait_for(lambda: self.ctl('stats')['counters']['slabs_reclaimed'] > reclaimed + 30)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
