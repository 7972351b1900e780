"""An engine for near caches that finds the server by itself: follows MOVED and ASK, and asks other servers when one is lost.

redis-py 4.3's RedisCluster goes on asking a primary that is no more.
"""

import time

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from redis.retry import Retry

SECONDS = 0.3       # for one answer
TRIES = 4


class Pipeline:
    def __init__(self, engine):
        self.engine, self.commands = engine, []

    def get(self, key):
        self.commands.append(('GET', key))

    def pttl(self, key):
        self.commands.append(('PTTL', key))

    def execute(self):
        return [self.engine.call(command[1], *command) for command in self.commands]


class Node:
    def __init__(self, client):
        self.redis_connection = client


class Engine:
    """`find_ports()` gives the servers by their ports, anew for each question; no other server is asked. `n` counts the
    questions. Of the last set(): the time of the answer, the server that gave it, and whether a replica had it within
    `wait_ms`."""

    def __init__(self, find_ports, seconds=SECONDS, wait_ms=0):
        self.find_ports, self.seconds, self.wait_ms, self.n = find_ports, seconds, wait_ms, 0
        self.ports = find_ports()
        self.links, self.places = {}, {}
        self.set_ns, self.set_port, self.set_is_copied = 0, 0, False

    def look_for_servers(self):
        ports = self.find_ports()
        if self.ports != ports:
            self.end()
            self.ports = ports

    def pipeline(self, transaction=False):
        return Pipeline(self)

    def get_node_from_key(self, key):
        """As redis-py's RedisCluster has it; pipeline() is for what comes back from there."""
        self.n += 1
        self.look_for_servers()
        return Node(self.link(self.places.get(key) or self.ports[self.n % len(self.ports)]))

    def port_after(self, port):
        return self.ports[(self.ports.index(port) + 1) % len(self.ports) if port in self.ports else 0]

    def link(self, port):
        if port not in self.ports:
            raise ConnectionError(f'server {port} is not to be asked')
        if port not in self.links:
            self.links[port] = redis.Redis('127.0.0.1', port, retry=Retry(NoBackoff(), 0),
                                           socket_timeout=self.seconds, socket_connect_timeout=self.seconds)
        return self.links[port]

    def forget(self, port):
        """The connection goes too: a late answer must not be taken for the next one."""
        link = self.links.pop(port, None)
        if link:
            link.close()
            link.connection_pool.disconnect()
        self.places = {key: place for key, place in self.places.items() if place != port}

    def end(self):
        for port in list(self.links):
            self.forget(port)

    def call(self, key, *command):
        return self.call_at(key, *command)[0]

    def call_at(self, key, *command):
        """The answer, and the port of the server that gave it."""
        self.n += 1
        self.look_for_servers()
        port = self.places.get(key) or self.ports[self.n % len(self.ports)]
        is_asking = False
        error = ConnectionError('too many redirections')
        for _ in range(TRIES):
            try:
                link = self.link(port)
                if is_asking:
                    link.execute_command('ASKING')
                answer = link.execute_command(*command)
                if not is_asking:
                    self.places[key] = port
                return answer, port
            except (ConnectionError, TimeoutError) as e:
                self.forget(port)
                if command[0] not in ('GET', 'PTTL'):
                    raise           # it may have been done
                is_asking, port, error = False, self.port_after(port), e
                time.sleep(0.01)
            except ResponseError as e:
                word, *place = str(e).split()
                self.places.pop(key, None)
                error = ConnectionError(str(e))
                if word not in ('MOVED', 'ASK'):
                    raise error from e      # CLUSTERDOWN, TRYAGAIN, LOADING, READONLY
                is_asking, port = word == 'ASK', int(place[1].rpartition(':')[2])
        raise error

    def set(self, key, value, px=None):
        self.set_port = self.call_at(key, 'SET', key, value, *(('PX', px) if px else ()))[1]
        self.set_ns, self.set_is_copied = time.monotonic_ns(), False
        if self.wait_ms:
            try:
                self.set_is_copied = self.link(self.set_port).execute_command('WAIT', 1, self.wait_ms) > 0
            except redis.RedisError:
                self.forget(self.set_port)

    def delete(self, key):
        return self.call(key, 'DEL', key)
