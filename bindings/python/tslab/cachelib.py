"""A cache for cachelib, and so for Flask-Session; for Flask-Caching see tslab.flask.cache:

    app.config.update(SESSION_TYPE='cachelib', SESSION_CACHELIB=tslab.cachelib.Cache('web'))
"""

from __future__ import annotations

import math
import pickle
from typing import Any, Callable, Optional, Union, cast

from cachelib.base import BaseCache
from cachelib.serializers import BaseSerializer

import tslab
from tslab._store import pool_of
from tslab.cache import UNKEPT
from tslab.map import TTL_MAX


_OF_MAP = 'limit_bytes', 'value_max', 'stale', 'evict'


class Cache(BaseCache):
    """A tslab.Cache with the methods of cachelib. If the pool does not take a value, because it is too large, the pool
    is full, or a daemon is needed and absent, the value is not set, the key is absent, and the call says so. Timeouts
    over ten years are ten years. `pool` is a tslab.Pool, or the name of one, or None for $TSLAB_POOL. `options` go to
    cachelib, and to tslab.Map: `evict`, `limit_bytes` and so on."""

    serializer = BaseSerializer()

    def __init__(self, pool: Union[tslab.Pool, str, None] = None, name: str = 'cachelib', default_timeout: Any = 300,
                 **options: Any) -> None:
        of_map = {o: options.pop(o) for o in _OF_MAP if o in options}
        super().__init__(default_timeout, **options)
        self.cache = tslab.Cache(pool_of(pool), name, dumps=self._dumps, loads=self._loads, **of_map)

    def _dumps(self, value: Any) -> bytes:
        data = self.serializer.dumps(value)
        if data is None:        # it has logged why
            raise pickle.PicklingError(f'a value of type {type(value).__name__} cannot be pickled')
        pickled: bytes = data   # cachelib 0.9 declares it so, other versions do not
        return pickled

    def _loads(self, data: bytes) -> Any:
        return self.serializer.loads(data)

    def _ttl(self, timeout: Any) -> float:
        """0 has no end, and what is below is over at once."""
        seconds: float = self._normalize_timeout(timeout)
        return min(max(seconds, 0.001), TTL_MAX) if seconds else math.inf

    def _write(self, refused: Any, call: Callable[..., Any], key: str, value: Any, timeout: Any) -> Any:
        try:
            return call(key, value, ttl=self._ttl(timeout))
        except UNKEPT:
            return refused

    def get(self, key: str) -> Any:
        return self.cache.get(key)

    def has(self, key: str) -> bool:
        return key in self.cache

    def set(self, key: str, value: Any, timeout: Any = None) -> bool:
        return self.cache._set_or_forget(key, value, self._ttl(timeout))

    def add(self, key: str, value: Any, timeout: Any = None) -> bool:
        return bool(self._write(False, self.cache.add, key, value, timeout))

    def inc(self, key: str, delta: int = 1) -> Optional[int]:
        return cast(Optional[int], self._write(None, self.cache.incr, key, delta, None))

    def dec(self, key: str, delta: int = 1) -> Optional[int]:
        return self.inc(key, -delta)

    def delete(self, key: str) -> bool:
        return self.cache.delete(key)

    def clear(self) -> bool:
        self.cache.clear()
        return True
