"""A storage for limits, and so for Flask-Limiter and slowapi: limits that all workers of a host count together.

    import tslab.limits
    limiter = flask_limiter.Limiter(get_remote_address, app=app, storage_uri='tslab://web')

`web` is the name of a pool, `tslab:///run/tslab/web.sock` its socket, and `tslab://` is $TSLAB_POOL. All strategies: fixed
window, moving window and sliding window counter. None lets more through than its limit, however many workers hit it at once,
and a worker that is killed takes nothing with it. Setting the clock changes nothing. A moving window with a limit above 4096 holds
entries for up to 1/4096 of its length more than that. django-ratelimit counts in a cache of Django: tslab.django.

The limits that were not used for longest go first where the pool is full, or `limit_bytes` says so.
"""

# The package may have no types, or other ones in another version.
# mypy: disable-error-code="import, misc, attr-defined, override, assignment"

from __future__ import annotations

import array
import itertools
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
_WINDOW = struct.Struct('dqq')      # when the current window began, and the counts of the one before and of this one
_COUNT_MAX = 2 ** 53                # above all of ours
_STEPS = 4096                       # of a moving window: an entry for each, and not for each hit, where the limit is higher


def _now() -> float:
    """Nobody sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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
        try:
            count = self._cache.incr(key, amount, ttl=expiry)
        except TypeError:               # another program's value
            self._cache.delete(key)
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

    # A value that is none of ours, as one of a former version, counts as absent, and the next hit replaces it.

    # Moving windows: the times of the entries that were acquired, each with their number, the latest first. Times to come,
    # as of before a reboot, count as of now.

    @staticmethod
    def _moving_key(key: str) -> bytes:
        """Not the key of the fixed window with the same limit."""
        return b'moving ' + encoded(key)

    @staticmethod
    def _times(data: bytes, expiry: float) -> array.array[float]:
        entries, now = array.array('d'), _now()
        if len(data) % (2 * entries.itemsize) == 0:
            entries.frombytes(data)
        if not all(1 <= n < _COUNT_MAX and n.is_integer() for n in entries[1::2]):
            return array.array('d')
        left = ((min(t, now), n) for t, n in zip(entries[::2], entries[1::2]) if t >= now - expiry)
        return array.array('d', itertools.chain.from_iterable(left))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        def acquire(data: bytes) -> Tuple[Optional[bytes], bool]:
            times, now = self._times(data, expiry), _now()
            if sum(times[1::2]) + amount > limit:
                return None, False
            if times and limit > _STEPS and times[0] * _STEPS // expiry == now * _STEPS // expiry:
                times[0], times[1] = now, times[1] + amount
            else:
                times = array.array('d', [now, amount]) + times
            return times.tobytes(), True

        return self._change(self._moving_key(key), expiry, acquire)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        found = self._cache._find(self._moving_key(key))
        times = self._times(found[0] if found else b'', expiry)
        return (time.time() + times[-2] - _now(), int(sum(times[1::2]))) if times else (time.time(), 0)

    # Sliding windows: both counts are one value, and change together. The first one begins with a hit.

    @staticmethod
    def _window(data: bytes, expiry: int, now: float) -> Tuple[float, int, int]:
        """When the window of now began, and both counts."""
        begin, before, current = _WINDOW.unpack(data) if len(data) == _WINDOW.size else (now, 0, 0)
        if not (math.isfinite(begin) and 0 <= before < _COUNT_MAX and 0 <= current < _COUNT_MAX):
            return now, 0, 0
        begin = min(begin, now)         # a time of before a reboot
        n = (now - begin) // expiry
        if n == 0:
            return begin, before, current
        return (begin + expiry, current, 0) if n == 1 else (now, 0, 0)

    @staticmethod
    def _sliding_key(key: str) -> bytes:
        return b'sliding ' + encoded(key)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        def acquire(data: bytes) -> Tuple[Optional[bytes], bool]:
            now = _now()
            begin, before, current = self._window(data, expiry, now)
            if math.floor(before * (begin + expiry - now) / expiry + current) + amount > limit:
                return None, False
            return _WINDOW.pack(begin, before, current + amount), True

        return self._change(self._sliding_key(key), 2 * expiry, acquire)

    def get_sliding_window(self, key: str, expiry: int) -> Tuple[int, float, int, float]:
        found, now = self._cache._find(self._sliding_key(key)), _now()
        begin, before, current = self._window(found[0] if found else b'', expiry, now)
        left = begin + expiry - now
        return before, left if before else 0.0, current, left + expiry if current else 0.0

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._cache.delete(self._sliding_key(key))
