"""A redis-server, tslab-near beside it, and an engine that counts, for tests of near caches.

The first arguments of these tests are TSLABD TSLABCTL TSLAB_NEAR.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

import redis
from daemon import SECONDS, free_port, wait_for

TSLAB_NEAR = os.path.abspath(sys.argv[3])


class Redis:
    """A server of our own, which keeps nothing."""

    def __init__(self, *arguments):
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix='tslab-near-')
        self.arguments = arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ['redis-server', '--bind', '127.0.0.1', '--port', str(self.port), '--save', '', '--dir', self.dir,
             '--daemonize', 'no', '--loglevel', 'warning', *self.arguments], stdout=subprocess.DEVNULL)
        wait_for(self.answers)

    def answers(self):
        """Also that it has loaded what it keeps."""
        try:
            return self.client().ping()
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False

    def client(self, **more):
        return redis.Redis('127.0.0.1', self.port, **more)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.kill()
        shutil.rmtree(self.dir)


class Sentinel:
    """Watches a primary on that port, by the name of main, with another one."""

    def __init__(self, port):
        self.port, self.dir = free_port(), tempfile.mkdtemp(prefix='tslab-near-')
        path = os.path.join(self.dir, 'sentinel.conf')
        with open(path, 'w') as file:
            file.write(f'bind 127.0.0.1\nport {self.port}\ndir {self.dir}\nsentinel monitor main 127.0.0.1 {port} 1\n'
                       'sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n')
        self.process = subprocess.Popen(['redis-server', path, '--sentinel'], stdout=subprocess.DEVNULL)
        wait_for(self.answers)

    def answers(self):
        try:
            with self.client() as client:
                return client.ping()
        except redis.ConnectionError:
            return False

    def client(self):
        return redis.Redis('127.0.0.1', self.port)

    def n_others(self):
        """Sentinels and replicas that it knows of."""
        with self.client() as client:
            state = client.sentinel_masters()['main']
        return state['num-other-sentinels'], state['num-slaves']

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.dir)


class Near:
    def __init__(self, daemon, server, *arguments):
        self.daemon, self.server, self.arguments = daemon, server, arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [TSLAB_NEAR, '--pool', self.daemon.socket, '--server', f'127.0.0.1:{self.server.port}', '--prefix', 'p:',
             *self.arguments], stderr=subprocess.PIPE, text=True)

    def kill(self):
        self.process.kill()
        return self.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def wait(self):
        try:
            text = self.process.communicate(timeout=SECONDS)[1]
        except subprocess.TimeoutExpired as e:
            self.process.kill()
            raise AssertionError('tslab-near does not end') from e
        return self.process.returncode, text


class Counted:
    """An engine that counts the questions that it is asked."""

    def __init__(self, engine):
        self._engine, self.n = engine, 0

    def pipeline(self, **more):
        self.n += 1
        return self._engine.pipeline(**more)

    def __getattr__(self, name):
        return getattr(self._engine, name)
