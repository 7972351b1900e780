"""Caches: values that can be made again, shared by all processes of a pool."""

from __future__ import annotations

import contextlib
import errno
import math
import sys
import time
from typing import Any, Callable, Dict, Iterable, Optional, Tuple, TypeVar

from tslab._native import ffi, lib
from tslab._store import LOOK_SECONDS, Key, Store, encoded
from tslab.errors import (BusyError, ChangedError, DaemonError, EpochClosedError, Error, FullError, ReplacedError,
                          TooLargeError, is_damaged)
from tslab.map import Map, is_stale, ttl_left
from tslab.pool import EPOCH_CURRENT, Pool

_K = TypeVar('_K', bound=Key)
# Why a value may not be kept, which is no reason to fail.
UNKEPT = FullError, TooLargeError, DaemonError, ReplacedError, EpochClosedError, BusyError


def _bytes(value: Any) -> bytes:
    """For caches of bytes: what goes in comes out."""
    return bytes(memoryview(value))


class Cache(Store):
    """Values by key, shared by all processes of a pool.

        cache = Cache(tslab.open('web'), ttl=300, dumps=pickle.dumps, loads=pickle.loads)
        page = cache.get_or_compute('page 7', lambda: render(7))

    Keys are text or bytes. Values are bytes, unless `dumps` and `loads` make bytes of them and values of bytes. Each
    process that writes to the pool can choose the bytes that `loads` gets: with pickle, all of them must be trusted. A counter that
    incr() made is an int either way.

    `ttl` is the lifetime of values in seconds, where set() names none; math.inf: no end. None: that of the map, which
    may be a tslab.Map with other uses.

    Any thread may use a cache at any time, and so may forked children; a cache is pickled by the name of its pool, and
    one of a subclass with the attributes that this adds, as Python's objects are: without a call of `__init__`. It
    goes on after closed epochs and with a new daemon as SessionStore does. A value that a stray write has damaged is
    deleted where it is found, and that is logged. Calls that write raise TooLargeError,
    FullError and the other errors of Map.
    """

    _contents = 'cached values'

    def __init__(self, pool: Pool, name: str = 'cache', *, ttl: Optional[float] = None,
                 dumps: Callable[[Any], bytes] = _bytes, loads: Callable[[bytes], Any] = _bytes, **options: Any) -> None:
        """`options` are those of Map."""
        super().__init__(pool, name, **options)
        self.ttl, self.dumps, self.loads = ttl, dumps, loads

    def _value(self, data: bytes, entry: Any) -> Any:
        if entry.flags & lib.TSLAB_MAP_COUNTER:
            return int.from_bytes(data, sys.byteorder, signed=True)
        return self.loads(data)

    def _lifetime(self, ttl: Optional[float]) -> Optional[float]:
        return self.ttl if ttl is None else ttl

    def _find(self, key: bytes, accept: int = 0) -> Optional[Tuple[bytes, Any]]:
        try:
            return self._use(Map._find, key, accept)
        except Error as e:
            if not is_damaged(e):
                raise
            self._log_seldom('damaged', 'a cached value is deleted: %s', e)
            with contextlib.suppress(Error):        # as in a pool that this process only reads
                self._use(Map.delete, key)
            return None

    def get(self, key: Key, default: Any = None) -> Any:
        """A key's value, or `default`."""
        found = self._find(encoded(key))
        return default if found is None else self._value(*found)

    def get_multi(self, keys: Iterable[_K]) -> Dict[_K, Any]:
        """The values of those keys that are there."""
        found = ((key, self._find(encoded(key))) for key in keys)
        return {key: self._value(*entry) for key, entry in found if entry is not None}

    def __contains__(self, key: Key) -> bool:
        return self._use(Map.ttl, encoded(key)) is not None

    def get_or_compute(self, key: Key, make: Callable[[], Any], ttl: Optional[float] = None,
                       timeout: float = 30) -> Any:
        """Returns a key's value. If the key is absent, sets it to the value that `make` returns.

        One caller of all processes and threads computes the value; the others wait for it, or get the stale value if
        the map keeps these (`stale`). If that caller raises an exception or is killed, the next one computes. A caller
        that has waited for `timeout` seconds computes the value, too, and so does the next one if a computation takes
        more than 30 seconds. If the pool does not take a value, because it is too large, the pool is full, or a daemon
        is needed and absent, the value is returned all the same, and that is logged. `make` must not ask for the same
        key."""
        data, end = encoded(key), time.monotonic() + timeout
        while True:
            found = self._find(data, lib.TSLAB_MAP_STALE)
            if found is not None and not is_stale(found[1]):
                return self._value(*found)
            claim = ffi.new('struct claim *')
            try:
                try:
                    is_absent = self._write(Map._claim, data, claim)
                except UNKEPT as e:
                    self._tell_unkept(e)
                    return make()
                if not is_absent:
                    continue
                if found is not None and not claim.mine:
                    return self._value(*found)
                if claim.mine or not self._wait(data, claim.version, end):
                    return self._compute(data, claim, make, self._lifetime(ttl))
            except BaseException:
                self._give_up(data, claim)
                raise

    def _wait(self, key: bytes, version: int, end: float) -> bool:
        """In slices, each after a look whether there is a new arena: a claim in the old one may never be fulfilled."""
        while True:
            left = end - time.monotonic()
            if self._use(Map.wait, key, version, min(left, LOOK_SECONDS)):
                return True
            if not left > LOOK_SECONDS:     # nor is NaN
                return False

    def _compute(self, key: bytes, claim: Any, make: Callable[[], Any], ttl: Optional[float]) -> Any:
        value = make()
        try:
            self._write(Map.replace, key, claim.version, self.dumps(value), EPOCH_CURRENT, ttl)
        except ChangedError:
            pass        # a value that was put meanwhile is newer than this one, and so is a deletion
        except UNKEPT as e:
            self._give_up(key, claim)
            self._tell_unkept(e)
        return value

    def _give_up(self, key: bytes, claim: Any) -> None:
        if claim.mine:
            with contextlib.suppress(Error):        # it ends by itself, too
                self._use(Map.delete, key, claim.version)

    def _tell_unkept(self, e: Error) -> None:
        self._log_seldom('unkept', 'a value was computed, and not kept: %s', e)

    def lock(self, key: Key) -> Lock:
        """A lock of all processes, on a key that has no value."""
        return Lock(self, encoded(key))

    def set(self, key: Key, value: Any, ttl: Optional[float] = None) -> None:
        """Sets a key's value, present or absent before."""
        self._write(Map.put, encoded(key), self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl))

    def add(self, key: Key, value: Any, ttl: Optional[float] = None) -> bool:
        """As set(), where the key is absent: whether it was. Of several that add a key, one does."""
        return self._write(Map.insert, encoded(key), self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl))

    def incr(self, key: Key, delta: int = 1, initial: int = 0, ttl: Optional[float] = None) -> int:
        """Adds to a number and returns the sum; no change of others is lost. An absent key counts as `initial`, and
        becomes a counter of 64 bits. A number that was set keeps its lifetime. TypeError: the value is no number."""
        return self._write(self._incr, encoded(key), delta, initial, self._lifetime(ttl))

    def _incr(self, map_: Map, key: bytes, delta: int, initial: int, ttl: Optional[float]) -> int:
        while True:
            try:
                return map_.add(key, delta, initial, ttl)
            except Error as e:
                if e.errno != errno.EINVAL:
                    raise
            found = self._find(key)
            if found is None:
                continue
            data, entry = found
            if entry.flags & lib.TSLAB_MAP_COUNTER:
                return map_.add(key, delta, initial, ttl)       # it was replaced just now; or it is a rate limit
            value: int = self.loads(data) + delta
            with contextlib.suppress(ChangedError):
                map_.replace(key, entry.version, self.dumps(value), EPOCH_CURRENT, ttl_left(entry))
                return value

    def delete(self, key: Key) -> bool:
        """Whether it was there."""
        return self._use(Map.delete, encoded(key))

    def delete_many(self, keys: Iterable[Key]) -> int:
        """How many of them were there."""
        return sum(self.delete(key) for key in keys)

    def clear(self) -> None:
        """Deletes all values that are there when it begins, stale ones, too. A value that is being computed is not
        kept. Locks that are held become free: others may acquire them."""
        self._use(Map.clear)


class Lock:
    """A lock of all processes, made from a claim by Cache.lock(). It becomes free when its owner is killed, when
    Cache.clear() is called, and after 30 seconds in any case. It may be acquired in one thread and released in another.
    """

    def __init__(self, cache: Cache, key: bytes) -> None:
        self._cache, self._key, self._version = cache, key, 0

    def acquire(self, wait: bool = True) -> bool:
        return self._acquire(ffi.new('struct claim *'), wait)

    def _acquire(self, claim: Any, wait: bool) -> bool:
        try:
            while self._cache._write(Map._claim, self._key, claim):
                if claim.mine:
                    self._version = claim.version
                    return True
                if not wait:
                    return False
                self._cache._wait(self._key, claim.version, math.inf)
            raise Error(errno.EEXIST, f'the key of a lock has a value: {self._key!r}')
        except BaseException:
            self._cache._give_up(self._key, claim)
            raise

    def release(self) -> None:
        self.__exit__()

    def locked(self) -> bool:
        return not self._cache._use(Map.wait, self._key, 0, 0)

    def __enter__(self) -> Lock:
        claim = ffi.new('struct claim *')
        try:
            self._acquire(claim, True)
            return self
        except BaseException:
            self._cache._give_up(self._key, claim)
            raise

    def __exit__(self, *_: object) -> None:
        version = self._version
        try:
            self._version = 0
            if version:
                with contextlib.suppress(ChangedError):
                    self._cache._use(Map.delete, self._key, version)
        except BaseException:
            if version:
                with contextlib.suppress(Error):
                    self._cache._use(Map.delete, self._key, version)
            raise
