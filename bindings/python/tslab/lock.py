"""Locks of all processes of a pool."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Optional, Tuple

from tslab import _wait
from tslab._native import ffi
from tslab.errors import ChangedError, Error, LockLostError
from tslab.map import CLAIM_SECONDS, Lifetime, Map, seconds, ttl_ms
from tslab.pool import EPOCH_CURRENT

if TYPE_CHECKING:
    from tslab.cache import Cache

_held: weakref.WeakValueDictionary[Tuple[bytes, int], Lock] = weakref.WeakValueDictionary()


def holds(key: bytes, version: int) -> bool:
    """Whether the calling task, greenlet or thread has the lock, and would wait for itself."""
    lock = _held.get((key, version))
    return lock is not None and lock._owner == _wait.current() and _wait.is_own(lock._pid)


class Lock:
    """A lock of all processes, made by Cache.lock().

        with cache.lock('report', ttl=600) as lock:
            for page in report:
                write(page)
                lock.extend()       # another 600 seconds

    It becomes free when it is released, when its owner is killed, when Cache.clear() is called, and when `ttl` is over
    since it was acquired or extended, 30 seconds by default. An owner that goes on after that has lost it: extend() and
    the end of a `with` block raise LockLostError, and release() returns False. It may be acquired in one thread and
    released in another; a forked child does not have its parent's. With asyncio: `async with`, or acquire_async().
    """

    def __init__(self, cache: Cache, key: bytes, ttl: Lifetime = CLAIM_SECONDS) -> None:
        ttl_ms(ttl)         # ValueError
        self._cache, self._key, self._version, self._pid = cache, key, 0, 0
        self.ttl = seconds(ttl)
        self._owner: object = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Whether it is acquired. Waits for `timeout` seconds at most, as long as it takes with -1, and not at all
        without `blocking`. A caller that has it already would wait for itself: RuntimeError where that has no end, or
        else False, at once in a thread without greenlets."""
        return self._acquire(ffi.new('struct claim *'), _end(blocking, timeout))

    def _acquire(self, claim: Any, end: float) -> bool:
        try:
            while not self._try(claim, end):
                if not self._cache._wait(self._key, claim.version, end):
                    return False
            return True
        except BaseException:
            self._cache._give_up(self._key, claim)
            raise

    async def acquire_async(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As acquire(), for asyncio."""
        claim, end = ffi.new('struct claim *'), _end(blocking, timeout)
        try:
            while not self._try(claim, end):
                if not await self._cache._wait_async(self._key, claim.version, end):
                    return False
            return True
        except BaseException:
            self._cache._give_up(self._key, claim)
            raise

    def _try(self, claim: Any, end: float) -> bool:
        if not self._cache._write(Map._claim, self._key, claim, EPOCH_CURRENT, self.ttl):
            raise Error(errno.EEXIST, f'the key of a lock has a value: {self._key!r}')
        if claim.mine:
            self._set(claim.version)
        elif end == math.inf and holds(self._key, claim.version):
            raise RuntimeError(f'lock {self._key!r} is held by its caller, which would wait for itself')
        return bool(claim.mine)

    def _set(self, version: int) -> None:
        self._pid, self._version, self._owner = os.getpid(), version, _wait.current()
        _held[self._key, version] = self

    def extend(self, ttl: Optional[Lifetime] = None) -> None:
        """Holds it for another `ttl` from now, or for that of the lock. LockLostError: it is no longer held; another may
        have it."""
        version = self._version if _wait.is_own(self._pid) else 0
        claim = ffi.new('tslab_handle *', version)
        try:
            if not version:
                raise self._lost()
            self._cache._write(Map._extend, self._key, claim, self.ttl if ttl is None else ttl)
        except ChangedError:
            self._version = 0
            raise self._lost() from None
        finally:
            if claim[0] != version:         # also where a signal handler raises an exception behind the call
                self._set(claim[0])
                _held.pop((self._key, version), None)

    def release(self) -> bool:
        """Whether it was held until now. False: it was lost before, and may be another's by now; or was not acquired."""
        version, self._version = self._version, 0
        return version != 0 and self._free(version)

    def _free(self, version: int) -> bool:
        if not _wait.is_own(self._pid):     # a forked child leaves it to its parent
            return False
        _held.pop((self._key, version), None)
        try:
            return self._cache._use(Map.delete, self._key, version)
        except ChangedError:
            return False

    def locked(self) -> bool:
        """Whether anybody has it."""
        return not self._cache._use(Map.wait, self._key, 0, 0)

    def __enter__(self) -> Lock:
        claim = ffi.new('struct claim *')
        try:
            self._acquire(claim, math.inf)
            return self
        except BaseException:
            self._cache._give_up(self._key, claim)
            raise

    def __exit__(self, kind: object, *_: object) -> None:
        version = self._version
        try:
            self._version = 0
            was_held = not version or not _wait.is_own(self._pid) or self._free(version)
        except BaseException:
            if version:
                with contextlib.suppress(Error):
                    self._free(version)
            raise
        if not was_held and kind is None:
            raise self._lost()

    def _lost(self) -> LockLostError:
        return LockLostError(errno.EAGAIN, f'lock {self._key!r} was lost before it was released: its {self.ttl:g} s were '
                                           'over, or the cache was cleared')

    async def __aenter__(self) -> Lock:
        await self.acquire_async()
        return self

    async def __aexit__(self, *details: Optional[object]) -> None:
        self.__exit__(*details)


def _end(blocking: bool, timeout: float) -> float:
    if timeout == -1:
        return math.inf if blocking else 0
    if not blocking:
        raise ValueError('a lock that is not to be waited for takes no timeout')
    if timeout < 0:
        raise ValueError(f'a timeout is -1, or 0 and more, not {timeout}')
    return time.monotonic() + timeout
