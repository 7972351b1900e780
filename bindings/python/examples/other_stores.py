"""Redis and memcached on their Unix sockets, with the calls of tslab.SessionStore that Flask's sessions need."""

import os


class RedisStore:
    def __init__(self, lifetime):
        import redis
        self.lifetime = int(lifetime)
        self.client = redis.Redis(unix_socket_path=os.environ['STORE_SOCKET'])

    def get(self, session):
        return self.client.get(session)

    def set(self, session, value):
        self.client.set(session, value, ex=self.lifetime)

    def touch(self, session):
        return bool(self.client.expire(session, self.lifetime))

    def delete(self, session):
        return bool(self.client.delete(session))


class MemcachedStore:
    def __init__(self, lifetime):
        from pymemcache.client.base import Client
        self.lifetime = int(lifetime)
        self.client = Client(os.environ['STORE_SOCKET'], default_noreply=False)

    def get(self, session):
        return self.client.get(session)

    def set(self, session, value):
        self.client.set(session, value, expire=self.lifetime)

    def touch(self, session):
        return self.client.touch(session, expire=self.lifetime)

    def delete(self, session):
        return self.client.delete(session)


STORES = {'redis': RedisStore, 'memcached': MemcachedStore}
