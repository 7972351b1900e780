"""A storage for limits, and so for Flask-Limiter and slowapi: limits that all workers of a host count together.

    import tslab.limits
    limiter = flask_limiter.Limiter(get_remote_address, app=app, storage_uri='tslab://web')

`web` is the name of a pool, `tslab:///run/tslab/web.sock` its socket, and `tslab://` is $TSLAB_POOL. All strategies: fixed
window, moving window and sliding window counter. None lets more through than its limit, however many workers hit it at once,
and a worker that is killed takes nothing with it. A moving window, which keeps the time of each entry, has a limit of
100,000 at most. django-ratelimit counts in a cache of Django: tslab.django.

The limits that were not used for longest go first where the pool is full, or `limit_bytes` says so.
"""

# The package may have no types, or other ones in another version.
# mypy: disable-error-code="import, misc, attr-defined, override, assignment"

from __future__ import annotations

import array
import math
import struct
import time
import urllib.parse
from typing import Any, Callable, Optional, Tuple, Type, TypeVar, Union

from limits.storage import MovingWindowSupport, Storage

try:
    from limits.storage.base import SlidingWindowCounterSupport
except ImportError:         # before limits 4
    SlidingWindowCounterSupport = object

import tslab
from tslab._bytes import encoded
from tslab._store import cache_options, pool_of
from tslab.errors import ChangedError, Error
from tslab.map import Map
from tslab.pool import EPOCH_CURRENT

_R = TypeVar('_R')
_WINDOWS = struct.Struct('qqq')     # the number of the current window, and the counts of the one before and of this one
_ENTRIES_MAX = 100_000              # fit into a value of any map


class TslabStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    STORAGE_SCHEME = ['tslab']

    def __init__(self, uri: Optional[str] = None, *, pool: Union[tslab.Pool, str, None] = None, name: str = 'limits',
                 limit_bytes: Union[int, str] = 0, **options: Any) -> None:
        super().__init__(uri, **options)
        parts = urllib.parse.urlsplit(uri or '')
        opened = pool_of(pool or parts.netloc or parts.path)
        self._cache = tslab.Cache(opened, name, **cache_options(opened, {'limit_bytes': int(limit_bytes)}))

    @property
    def base_exceptions(self) -> Union[Type[Exception], Tuple[Type[Exception], ...]]:
        return Error

    def incr(self, key: str, expiry: float, elastic_expiry: Any = False, amount: int = 1) -> int:
        if not isinstance(elastic_expiry, bool):    # limits 5 has no such argument, and may pass the next one in its place
            amount, elastic_expiry = elastic_expiry, False
        count = self._cache.incr(key, amount, ttl=expiry)
        if elastic_expiry:
            self._cache.touch(key, expiry)
        return count

    def get(self, key: str) -> int:
        value = self._cache.get(key, 0)
        return value if isinstance(value, int) else 0

    def get_expiry(self, key: str) -> float:
        return time.time() + (self._cache.ttl(key) or 0)

    def check(self) -> bool:
        return not self._cache.pool.closed

    def reset(self) -> Optional[int]:
        n = len(self._cache)
        self._cache.clear()
        return n

    def clear(self, key: str) -> None:
        self._cache.delete(key)
        self._cache.delete(self._moving_key(key))

    def _change(self, key: bytes, ttl: float, change: Callable[[bytes], Tuple[Optional[bytes], _R]]) -> _R:
        """Puts the result of `change`, if there is one; once more if another caller was faster."""
        while True:
            found = self._cache._find(key)
            new, result = change(found[0] if found else b'')
            if new is None:
                return result
            try:
                self._cache._write(Map.replace, key, found[1].version if found else 0, new, EPOCH_CURRENT, ttl)
                return result
            except ChangedError:
                pass

    # Moving windows: the times of the entries that were acquired, the latest first. The clock is the wall's, as limits
    # compares it with that; one that was set back finds times to come, which count as of now.

    @staticmethod
    def _moving_key(key: str) -> bytes:
        """Not the key of the fixed window with the same limit."""
        return b'moving ' + encoded(key)

    @staticmethod
    def _times(data: bytes, expiry: float) -> array.array[float]:
        times, now = array.array('d'), time.time()
        times.frombytes(data[:len(data) // times.itemsize * times.itemsize])
        return array.array('d', (min(t, now) for t in times if t >= now - expiry))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        if limit > _ENTRIES_MAX:
            raise ValueError(f'a moving window keeps the time of each entry, {_ENTRIES_MAX} at most, not {limit}: take a sliding '
                             'window counter')

        def acquire(data: bytes) -> Tuple[Optional[bytes], bool]:
            times = self._times(data, expiry)
            if len(times) + amount > limit:
                return None, False
            return (array.array('d', [time.time()] * amount) + times).tobytes(), True

        return self._change(self._moving_key(key), expiry, acquire)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        found = self._cache._find(self._moving_key(key))
        times = self._times(found[0] if found else b'', expiry)
        return (times[-1], len(times)) if times else (time.time(), 0)

    # Sliding windows: both counts are one value, and change together.

    @staticmethod
    def _windows(data: bytes, expiry: int, now: float) -> Tuple[int, int, int]:
        """The number of the window that it is now, and both counts."""
        window = int(now / expiry)
        last, before, current = _WINDOWS.unpack(data) if len(data) == _WINDOWS.size else (window, 0, 0)
        last = min(last, window)        # the clock was set back
        return window, {window: before, window - 1: current}.get(last, 0), current if last == window else 0

    @staticmethod
    def _sliding_key(key: str) -> bytes:
        return b'sliding ' + encoded(key)

    @staticmethod
    def _left(expiry: int, now: float) -> float:
        """The seconds until the window is over."""
        return (1 - now / expiry % 1) * expiry

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        def acquire(data: bytes) -> Tuple[Optional[bytes], bool]:
            now = time.time()
            window, before, current = self._windows(data, expiry, now)
            if math.floor(before * self._left(expiry, now) / expiry + current) + amount > limit:
                return None, False
            return _WINDOWS.pack(window, before, current + amount), True

        return self._change(self._sliding_key(key), 2 * expiry, acquire)

    def get_sliding_window(self, key: str, expiry: int) -> Tuple[int, float, int, float]:
        found, now = self._cache._find(self._sliding_key(key)), time.time()
        _, before, current = self._windows(found[0] if found else b'', expiry, now)
        left = self._left(expiry, now)
        return before, left if before else 0.0, current, left + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._cache.delete(self._sliding_key(key))
