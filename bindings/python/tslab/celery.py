"""A result backend for Celery, for workers and callers of one host:

    app = celery.Celery('tasks', broker='redis://localhost', backend='tslab://web')

`web` is the name of a pool, and `tslab://` alone is $TSLAB_POOL. Results live for `result_expires`. They are not evicted: where the
pool is full, a task's result cannot be stored, and Celery says so.
"""

# The package may have no types, or other ones in another version.
# mypy: disable-error-code="import, misc, attr-defined, override, assignment"

from __future__ import annotations

import datetime
import math
from typing import Any, Iterable, List, Optional

from celery.backends.base import KeyValueStoreBackend

import tslab
from tslab._store import pool_of


class Backend(KeyValueStoreBackend):
    supports_native_join = True
    implements_incr = True

    def __init__(self, app: Any, expires: Any = None, backend: Any = None, url: Optional[str] = None, **options: Any) -> None:
        super().__init__(app, **options)
        self.url, self.expires = url, self.prepare_expires(expires)

    @property
    def _results(self) -> tslab.Cache:
        """Opened by the process that first needs it: a worker's parent does not."""
        cache: Optional[tslab.Cache] = self.__dict__.get('_opened')
        if cache is None:
            name = (self.url or '').partition('://')[2].rstrip('/')
            cache = self.__dict__['_opened'] = tslab.Cache(pool_of(name), 'celery')
        return cache

    def _ttl(self) -> Any:
        """None and 0: no end."""
        expires = self.expires
        if isinstance(expires, datetime.timedelta):
            expires = expires.total_seconds()
        return expires or math.inf

    def get(self, key: Any) -> Any:
        value = self._results.get(key)
        return str(value).encode() if isinstance(value, int) else value

    def mget(self, keys: Iterable[Any]) -> List[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._results.set(key, value.encode() if isinstance(value, str) else value, self._ttl())

    def delete(self, key: Any) -> None:
        self._results.delete(key)

    def incr(self, key: Any) -> int:
        return self._results.incr(key, ttl=self._ttl())

    def expire(self, key: Any, value: Any) -> None:
        self._results.touch(key, value or math.inf)

    def __reduce__(self, args: Any = (), kwargs: Any = None) -> Any:
        return super().__reduce__(args, {**(kwargs or {}), 'expires': self.expires, 'url': self.url})
