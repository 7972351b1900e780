"""A backend for aiocache:

    cache = tslab.aiocache.Cache(pool='web', namespace='main', ttl=60)
    await cache.set('key', [1, 2])

`pool` is a tslab.Pool or the name of one; `name` is that of the cache in the pool, and other options are as in tslab.Map
or aiocache. Values are pickled, after a `serializer` of aiocache if there is one. No call waits for another client, so none
takes a thread; the daemon is waited for by the first change of a forked child, and when it has restarted or an epoch was
closed. A value that the pool does not take is not set, and that is logged.
"""

# The package may have no types, or other ones in another version.
# mypy: disable-error-code="import, misc, attr-defined, override, assignment"

from __future__ import annotations

import math
import pickle
from typing import Any, Dict, List, Optional, Union

from aiocache.base import BaseCache
from aiocache.serializers import NullSerializer

import tslab
from tslab._store import cache_options, pool_of

_OPTIONS = 'limit_bytes', 'value_max', 'stale', 'evict'


class Cache(BaseCache):
    NAME = 'tslab'

    def __init__(self, serializer: Any = None, *, pool: Union[tslab.Pool, str, None] = None, name: str = 'aiocache',
                 **options: Any) -> None:
        own = {o: options.pop(o) for o in _OPTIONS if o in options}
        super().__init__(serializer=serializer or NullSerializer(), **options)
        opened = pool_of(pool)
        self._cache = tslab.Cache(opened, name, dumps=pickle.dumps, loads=pickle.loads, **cache_options(opened, own))

    @classmethod
    def parse_uri_path(cls, path: str) -> Dict[str, Any]:
        """The options that tslab://web stands for, where aiocache knows the scheme."""
        return {'pool': path.strip('/')} if path.strip('/') else {}

    async def _get(self, key: str, encoding: Optional[str] = 'utf-8', _conn: Any = None) -> Any:
        return self._cache.get(key)

    _gets = _get

    async def _multi_get(self, keys: List[str], encoding: Optional[str] = 'utf-8', _conn: Any = None) -> List[Any]:
        return [self._cache.get(key) for key in keys]

    async def _set(self, key: str, value: Any, ttl: Optional[float] = None, _cas_token: Any = None, _conn: Any = None) -> Any:
        """A token is the value that is to be replaced."""
        if _cas_token is None:
            return self._cache._set_or_forget(key, value, ttl or math.inf)
        version = self._version_of(key, _cas_token)
        try:
            if version:
                self._cache._write(tslab.Map.replace, key, version, pickle.dumps(value), tslab.EPOCH_CURRENT, ttl or math.inf)
            return True if version else 0
        except tslab.ChangedError:
            return 0

    def _version_of(self, key: str, value: Any) -> int:
        """0: the key has another value, or none."""
        found = self._cache._find(key.encode())
        return int(found[1].version) if found and self._cache._value(found, None) == value else 0

    async def _multi_set(self, pairs: Any, ttl: Optional[float] = None, _conn: Any = None) -> bool:
        return all([await self._set(key, value, ttl) for key, value in pairs])

    async def _add(self, key: str, value: Any, ttl: Optional[float] = None, _conn: Any = None) -> bool:
        if not self._cache.add(key, value, ttl or math.inf):
            raise ValueError(f'Key {key} already exists, use .set to update the value')
        return True

    async def _exists(self, key: str, _conn: Any = None) -> bool:
        return key in self._cache

    async def _increment(self, key: str, delta: int, _conn: Any = None) -> int:
        """A number that was set is one, or its text."""
        while True:
            found = self._cache._find(key.encode())
            value = self._cache._value(found, 0)
            try:
                total = int(value) + delta
            except (TypeError, ValueError):
                raise TypeError('Value is not an integer') from None
            data = pickle.dumps(str(total) if isinstance(value, (str, bytes)) else total)
            try:
                left = tslab.map.ttl_left(found[1]) if found else math.inf
                self._cache._write(tslab.Map.replace, key, found[1].version if found else 0, data, tslab.EPOCH_CURRENT, left)
                return total
            except tslab.ChangedError:
                pass

    async def _expire(self, key: str, ttl: Optional[float], _conn: Any = None) -> bool:
        return self._cache.touch(key, ttl or math.inf)

    async def _delete(self, key: str, _conn: Any = None) -> int:
        return int(self._cache.delete(key))

    async def _clear(self, namespace: Optional[str] = None, _conn: Any = None) -> bool:
        if namespace:
            for key in list(self._cache.map):
                if key.startswith(namespace.encode()):
                    self._cache.delete(key)
        else:
            self._cache.clear()
        return True

    async def _raw(self, command: str, *args: Any, encoding: Optional[str] = 'utf-8', _conn: Any = None, **kwargs: Any) -> Any:
        return getattr(self._cache, command)(*args, **kwargs)

    async def _redlock_release(self, key: str, value: Any) -> int:
        version = self._version_of(key, value)
        try:
            return int(self._cache._use(tslab.Map.delete, key, version)) if version else 0
        except tslab.ChangedError:
            return 0
