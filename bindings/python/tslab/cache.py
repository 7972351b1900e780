"""Caches: values that can be made again, shared by all processes of a pool."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import inspect
import math
import sys
import time
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar

from tslab import _wait
from tslab._bytes import Key, encoded
from tslab._native import ffi, lib
from tslab._store import LOOK_SECONDS, Store
from tslab.errors import (BusyError, ChangedError, DaemonError, EpochClosedError, Error, FullError, ReplacedError,
                          TooLargeError, is_damaged)
from tslab.lock import Lock, holds
from tslab.map import CLAIM_SECONDS, Lifetime, Map, _checked_tags, is_stale, seconds, ttl_left
from tslab.memoize import Memoize
from tslab.pool import EPOCH_CURRENT, Pool
from tslab.stats import MapStats

_K = TypeVar('_K', bound=Key)
# Why a value may not be kept, which is no reason to fail.
UNKEPT = FullError, TooLargeError, DaemonError, ReplacedError, EpochClosedError, BusyError

# The claims whose values are being computed in this context, or by a caller of it, and the process that has them.
_computing: contextvars.ContextVar[FrozenSet[Tuple[bytes, int, int]]] = contextvars.ContextVar('computing', default=frozenset())

_NONE = object()
_tasks: Set[Any] = set()    # that compute values before their end
_FOUND, _COMPUTE, _WAIT, _REFRESH = range(4)
_AGAIN_SECONDS = 1      # until a value is computed before its end once more, after that has failed
_EARLY = b'\0early\0'      # and a key: the claim of the caller that computes the key's value before its end


def _bytes(value: Any) -> bytes:
    """For caches of bytes: what goes in comes out."""
    if type(value) is bytes:
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f'a value of a cache without `dumps` and `loads` is bytes, not {type(value).__name__}') from None


def _no_coroutine(value: Any) -> Any:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError('`make` returned a coroutine: pass a coroutine function, or await get_or_compute_async()')
    return value


def _encoded_tags(tags: Sequence[Key]) -> Sequence[bytes]:
    return [encoded(tag) for tag in _checked_tags(tags)] if tags else ()


def _is_due(found: Any, early: Lifetime) -> bool:
    """Whether an entry ends so soon. A counter keeps its version, so a new value might take the place of adds."""
    left = ttl_left(found)
    return left != math.inf and left <= seconds(early) and not found.flags & lib.TSLAB_MAP_COUNTER


class Cache(Store):
    """Values by key, shared by all processes of a pool.

        cache = Cache(tslab.open('web'), ttl=300, dumps=pickle.dumps, loads=pickle.loads)
        page = cache.get_or_compute('page 7', lambda: render(7))

    Keys are text or bytes. Values are bytes, unless `dumps` and `loads` make bytes of them and values of bytes. Each
    process that writes to the pool can choose the bytes that `loads` gets: with pickle, all of them must be trusted.
    Bytes that `loads` refuses, as those of a class that a new version of the program no longer has, count as no value,
    and that is logged. A counter that incr() made is an int either way.

    `ttl` is the lifetime of values, in seconds or as a timedelta, where set() names none; math.inf: no end. None: that
    of the map, which may be a tslab.Map with other uses.

    Any thread may use a cache at any time, and so may forked children; a cache is pickled by the name of its pool, and
    one of a subclass with the attributes that this adds, as Python's objects are: without a call of `__init__`. It
    goes on after closed epochs and with a new daemon as SessionStore does. A value that a stray write has damaged is
    deleted where it is found, and that is logged. Calls that write raise TooLargeError,
    FullError and the other errors of Map.

    Calls that wait, get_or_compute() and those of locks, let other greenlets of gevent and eventlet run meanwhile. With
    asyncio they are awaited: `await cache.get_or_compute('page 7', render)` where `render` is a coroutine function, and
    `async with cache.lock('job')`.
    """

    _contents = 'cached values'

    def __init__(self, pool: Pool, name: str = 'cache', *, ttl: Optional[Lifetime] = None,
                 dumps: Callable[[Any], bytes] = _bytes, loads: Callable[[bytes], Any] = _bytes, **options: Any) -> None:
        """`options` are those of Map."""
        super().__init__(pool, name, **options)
        self.lifetime, self.dumps, self.loads = ttl, dumps, loads

    def _lifetime(self, ttl: Optional[Lifetime]) -> Optional[Lifetime]:
        return self.lifetime if ttl is None else ttl

    # Reading

    def _find(self, key: bytes, accept: int = 0, call: Callable[..., Any] = Map._find) -> Optional[Tuple[bytes, Any]]:
        try:
            found: Optional[Tuple[bytes, Any]] = self._use(call, key, accept)
        except Error as e:
            if not is_damaged(e):
                raise
            self._log_seldom('damaged', 'a cached value is deleted: %s', e)
            self._forget(key)
            return None
        return found

    def _forget(self, key: bytes, *version: int) -> None:
        with contextlib.suppress(Error):            # as in a pool that this process only reads
            self._use(Map.delete, key, *version)

    def _value(self, found: Optional[Tuple[bytes, Any]], default: Any) -> Any:
        if found is None:
            return default
        data, entry = found
        if entry.flags & lib.TSLAB_MAP_COUNTER:
            return int.from_bytes(data, sys.byteorder, signed=True)
        return self._loaded(data, default)

    def _loaded(self, data: bytes, default: Any) -> Any:
        try:
            return self.loads(data)
        except MemoryError:
            raise
        except Exception as e:      # noqa: BLE001 (of `loads`, and of the classes that it finds)
            self._log_seldom('refused', 'cache %r: loads() refuses a value, which counts as none: %s: %s', self.name,
                             type(e).__name__, e)
            return default

    def get(self, key: Key, default: Any = None) -> Any:
        """A key's value, or `default`."""
        data = key if type(key) is bytes else encoded(key)
        if time.monotonic() < self._next_look:      # as _use() does it, whose call takes a quarter of the time
            try:
                found = self._opened.map._get_plain(data)
            except Error:
                found = self._use(Map._get_plain, data)
        else:
            found = self._use(Map._get_plain, data)
        if found is False:
            return default
        if found is True:
            return self._value(self._find(data), default)
        return found if self.loads is _bytes else self._loaded(found, default)

    def get_multi(self, keys: Iterable[_K]) -> Dict[_K, Any]:
        """The values of those keys that are there."""
        absent = object()
        found = ((key, self.get(key, absent)) for key in keys)
        return {key: value for key, value in found if value is not absent}

    def get_and_touch(self, key: Key, ttl: Optional[Lifetime] = None, default: Any = None) -> Any:
        """A key's value, or `default`; its lifetime begins anew."""
        return self.get(key, default) if self.touch(key, ttl) else default

    def __contains__(self, key: Key) -> bool:
        return self.ttl(key) is not None

    def ttl(self, key: Key) -> Optional[float]:
        """How many seconds a value has left, or math.inf; None where there is none."""
        return self._use(Map.ttl, encoded(key))

    def stats(self) -> MapStats:
        """Counts of the cache, since it was made. Does not walk."""
        return self._use(Map.stats)

    # Computing

    def get_or_compute(self, key: Key, make: Callable[[], Any], ttl: Optional[Lifetime] = None,
                       timeout: float = 30, *, tags: Sequence[Key] = (), stale_on_error: bool = False,
                       early: Lifetime = 0) -> Any:
        """Returns a key's value. If the key is absent, sets it to the value that `make` returns.

        One caller of all processes and threads computes the value; the others wait for it, or get the stale value if
        the map keeps these (`stale`). If that caller raises an exception or is killed, the next one computes. A caller
        that has waited for `timeout` seconds computes the value, too, and so does the next one if a computation takes
        more than 30 seconds. If the pool does not take a value, because it is too large, the pool is full, or a daemon
        is needed and absent, the value is returned all the same, and that is logged.

        With `stale_on_error`, a caller whose `make` raises an Exception gets the stale value, if the map keeps one, and
        that is logged; the next caller computes again.

        With `early`, one caller computes the value anew in the last `early` seconds before its end, while all others go on
        with it; nobody waits then. With asyncio that is a task in the background, and the caller goes on, too. If `make`
        raises an Exception there, the value serves until its end, and that is logged. `early` is to be less than the
        lifetime: a new value that is due at once is computed by one call after the other. Counters are never due.

        With `tags`, up to four, the value is absent once invalidate() was called for one of them, be it while `make` runs.

        `make` must not ask for the same key: RuntimeError. If it is a coroutine function, this returns a coroutine. A
        caller in a thread in which asyncio runs, and that does not await, computes the value rather than to stop the
        loop."""
        if inspect.iscoroutinefunction(make):
            return self.get_or_compute_async(key, make, ttl, timeout, tags=tags, stale_on_error=stale_on_error, early=early)
        data, end, tags = encoded(key), time.monotonic() + timeout, _encoded_tags(tags)
        claim = ffi.new('struct claim *')
        try:
            while True:
                state, value = self._seek(data, claim, 0 if early and _wait.runs_loop() else early)
                if state == _FOUND:
                    return value
                if state == _REFRESH:
                    with self._refreshing(data, claim, value, ttl, tags) as result:
                        result.append(_no_coroutine(make()))
                    return result[-1]
                if state == _COMPUTE or _wait.runs_loop() or not self._wait(data, claim.version, end):
                    break
            handles = self._tags(tags)
            with self._is_computing(data, claim):
                value = _no_coroutine(make())
            self._keep(data, claim, value, ttl, handles)
            return value
        except BaseException as e:
            self._give_up(data, claim)
            value = self._stale_for(data, e) if stale_on_error and isinstance(e, Exception) else _NONE
            if value is _NONE:
                raise
            return value

    async def get_or_compute_async(self, key: Key, make: Callable[[], Any], ttl: Optional[Lifetime] = None,
                                   timeout: float = 30, *, tags: Sequence[Key] = (), stale_on_error: bool = False,
                                   early: Lifetime = 0) -> Any:
        """As get_or_compute(), for asyncio. What `make` returns is awaited, if it can be."""
        data, end, tags = encoded(key), time.monotonic() + timeout, _encoded_tags(tags)
        claim = ffi.new('struct claim *')
        try:
            while True:
                state, value = self._seek(data, claim, early)
                if state == _FOUND:
                    return value
                if state == _REFRESH:
                    task = asyncio.ensure_future(self._refresh_async(data, claim, value, ttl, tags, make))
                    _tasks.add(task)        # asyncio itself does not keep it
                    task.add_done_callback(_tasks.discard)
                    return value[0]
                if state == _COMPUTE or not await self._wait_async(data, claim.version, end):
                    break
            handles = self._tags(tags)
            with self._is_computing(data, claim):
                value = make()
                if inspect.isawaitable(value):
                    value = await value
            self._keep(data, claim, value, ttl, handles)
            return value
        except BaseException as e:
            self._give_up(data, claim)
            value = self._stale_for(data, e) if stale_on_error and isinstance(e, Exception) else _NONE
            if value is _NONE:
                raise
            return value

    @contextlib.contextmanager
    def _refreshing(self, key: bytes, claim: Any, present: Tuple[Any, int], ttl: Optional[Lifetime],
                    tags: Sequence[Key]) -> Iterator[List[Any]]:
        """The body appends the new value to the list, which begins with the present one. Its Exceptions are logged, and the
        next try is a second later."""
        early, result, has_failed = _EARLY + key, [present[0]], False
        try:
            handles = self._tags(tags)      # the body has not begun: such an Exception is the caller's
            try:
                with self._is_computing(early, claim):
                    yield result
                if handles is not None and _wait.is_own(claim.pid):     # `make` may have forked this process
                    with contextlib.suppress(ChangedError):     # another value, or a deletion, is newer
                        self._write(Map.replace, key, present[1], self.dumps(result[-1]), EPOCH_CURRENT, self._lifetime(ttl),
                                    handles)
            except UNKEPT as e:
                has_failed = True
                self._tell_unkept(e)
            except Exception as e:      # noqa: BLE001 (of `make`)
                has_failed = True
                self._log_seldom('early', 'a computation before the end of a value failed: %s: %s', type(e).__name__, e)
        finally:
            if not (has_failed and self._put_off(early, claim)):
                self._give_up(early, claim)

    def _put_off(self, early: bytes, claim: Any) -> bool:
        """Keeps the claim for a while, so that not every caller computes in vain. It ends with this process, too."""
        with contextlib.suppress(Error):
            if claim.mine and _wait.is_own(claim.pid):
                self._use(Map._extend, early, ffi.new('tslab_handle *', claim.version), _AGAIN_SECONDS)
                return True
        return False

    async def _refresh_async(self, key: bytes, claim: Any, present: Tuple[Any, int], ttl: Optional[Lifetime],
                             tags: Sequence[Key], make: Callable[[], Any]) -> None:
        with self._refreshing(key, claim, present, ttl, tags) as result:
            value = make()
            result.append(await value if inspect.isawaitable(value) else value)

    def _claim_early(self, key: bytes, claim: Any, version: int) -> bool:
        """Whether the caller is the one that computes the value before its end."""
        with contextlib.suppress(Error):    # the value is there all the same
            self._write(Map._claim, _EARLY + key, claim)
            if claim.mine and self._use(Map._version, key) == version:
                return True
        self._give_up(_EARLY + key, claim)      # if it is the caller's, another has computed the value since the look
        return False

    def _seek(self, key: bytes, claim: Any, early: Lifetime = 0) -> Tuple[int, Any]:
        """The value; or a claim that is the caller's; or whether to wait for that of another. Of a value that ends within
        `early` seconds also the version, if it is the caller's to compute anew."""
        absent = object()
        while True:
            found = self._find(key, lib.TSLAB_MAP_STALE)
            value = self._value(found, absent)
            is_fresh = found is not None and not is_stale(found[1])
            if found is not None and is_fresh and value is not absent:
                if early and _is_due(found[1], early) and self._claim_early(key, claim, found[1].version):
                    return _REFRESH, (value, int(found[1].version))
                return _FOUND, value
            if found is not None and is_fresh:
                self._forget(key, found[1].version)
            claim.version = 0
            try:
                if not self._write(Map._claim, key, claim):
                    continue
            except UNKEPT as e:
                self._tell_unkept(e)
                return _COMPUTE, None
            if claim.mine:
                return _COMPUTE, None
            if value is not absent:
                return _FOUND, value
            if (key, claim.version, claim.pid) in _computing.get():
                raise RuntimeError(f'get_or_compute() of {key!r} within its own computation, which would wait for itself')
            if holds(key, claim.version):
                raise RuntimeError(f'get_or_compute() of {key!r}, which its caller has locked')
            return _WAIT, None

    def _wait(self, key: bytes, version: int, end: float) -> bool:
        """In slices, each after a look whether there is a new arena: a claim in the old one may never be fulfilled. Returns
        False at once for a claim of this thread, which would only pass the time that it has."""
        while True:
            left = end - time.monotonic()
            try:
                if self._use(Map.wait, key, version, min(left, LOOK_SECONDS)):
                    return True
            except Error as e:
                if e.errno != errno.EDEADLK or end == math.inf:
                    raise
                return False
            if not left > LOOK_SECONDS:     # nor is NaN
                return False

    async def _wait_async(self, key: bytes, version: int, end: float) -> bool:
        """Each look is at the map that there is by then, as above."""
        if self._use(Map._waited, key, version, 0):
            return True
        for step in _wait.steps(end):
            await asyncio.sleep(step)
            if self._use(Map._waited, key, version, 0):
                return True
        return False

    @contextlib.contextmanager
    def _is_computing(self, key: bytes, claim: Any) -> Iterator[None]:
        token = _computing.set(_computing.get() | {(key, claim.version, claim.pid)})
        try:
            yield
        finally:
            _computing.reset(token)

    def _tags(self, tags: Sequence[Key]) -> Optional[Sequence[int]]:
        """The tags as they are before the computation. None: the pool does not take them, and so no value with them."""
        checked: Sequence[Key] = _checked_tags(tags)
        try:
            return tuple(self._write(Map.tag, encoded(tag)) for tag in checked)
        except UNKEPT as e:
            self._tell_unkept(e)
            return None

    def _keep(self, key: bytes, claim: Any, value: Any, ttl: Optional[Lifetime], tags: Optional[Sequence[int]]) -> None:
        if not claim.version or not _wait.is_own(claim.pid):    # there was no room for it, or `make` forked this process
            return
        if tags is None:
            self._give_up(key, claim)
            return
        try:
            self._write(Map.replace, key, claim.version, self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl), tags)
        except ChangedError:
            pass        # a value that was put meanwhile is newer than this one, and so is a deletion
        except UNKEPT as e:
            self._give_up(key, claim)
            self._tell_unkept(e)

    def _give_up(self, key: bytes, claim: Any) -> None:
        if claim.mine and _wait.is_own(claim.pid):      # a forked child leaves it to its parent
            self._forget(key, claim.version)    # it ends by itself, too

    def _stale_for(self, key: bytes, e: Exception) -> Any:
        """The value, stale or not, that a caller gets in place of an exception."""
        value = self._value(self._find(key, lib.TSLAB_MAP_STALE), _NONE)
        if value is not _NONE:
            self._log_seldom('failed', 'a computation failed, and a stale value serves: %s: %s', type(e).__name__, e)
        return value

    def _tell_unkept(self, e: Error) -> None:
        self._log_seldom('unkept', 'a value was computed, and not kept: %s', e)

    @property
    def memoize(self) -> Memoize:
        """A decorator: the function's results are values of the cache, see Memoize.

            @cache.memoize
            def price(product, currency='EUR'): ...

            @cache.memoize(ttl=60)
            async def page(number): ...
        """
        return Memoize(self)

    def lock(self, key: Key, ttl: Lifetime = CLAIM_SECONDS) -> Lock:
        """A lock of all processes, on a key that has no value."""
        return Lock(self, encoded(key), ttl)

    # Writing

    def set(self, key: Key, value: Any, ttl: Optional[Lifetime] = None, *, tags: Sequence[Key] = ()) -> None:
        """Sets a key's value, present or absent before. If this fails, the old value stays. With `tags`, up to four, the
        value is absent once invalidate() was called for one of them after this call."""
        self._write(Map.put, encoded(key), self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl), tags)

    def invalidate(self, tag: Key) -> bool:
        """Makes all values with this tag absent, at once and in all processes. Returns whether there was such a tag."""
        return bool(self._write(Map.invalidate, encoded(tag)))

    def _set_or_forget(self, key: Key, value: Any, ttl: Optional[Lifetime] = None) -> bool:
        """As set(), for adapters whose callers go on without a cache. If the pool does not take the value, it is not set
        and that is logged. Then, and after any error, the key is absent: nobody takes the old value for the new one."""
        try:
            self.set(key, value, ttl)
            return True
        except BaseException as e:
            self._forget(encoded(key))
            if not isinstance(e, UNKEPT):
                raise
            self._log_seldom('unkept', 'a value was not kept: %s', e)
            return False

    def set_many(self, values: Mapping[_K, Any], ttl: Optional[Lifetime] = None) -> None:
        """As set() for each."""
        for key, value in values.items():
            self.set(key, value, ttl)

    def add(self, key: Key, value: Any, ttl: Optional[Lifetime] = None) -> bool:
        """As set(), where the key is absent: whether it was. Of several that add a key, one does."""
        return self._write(Map.insert, encoded(key), self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl))

    def replace(self, key: Key, value: Any, ttl: Optional[Lifetime] = None) -> bool:
        """As set(), where the key is present: whether it was."""
        return self._write(Map.change, encoded(key), self.dumps(value), EPOCH_CURRENT, self._lifetime(ttl))

    def touch(self, key: Key, ttl: Optional[Lifetime] = None) -> bool:
        """Begins a value's lifetime anew. Returns whether there is such a value."""
        return self._use(Map.touch, encoded(key), self._lifetime(ttl))

    def incr(self, key: Key, delta: int = 1, initial: int = 0, ttl: Optional[Lifetime] = None) -> int:
        """Adds to a number and returns the sum; no change of others is lost. An absent key counts as `initial`, and
        becomes a counter of 64 bits. A number that was set keeps its lifetime. TypeError: the value is no number, or has
        tags, which the sum would not have."""
        return self._write(self._incr, encoded(key), delta, initial, self._lifetime(ttl))

    def _incr(self, map_: Map, key: bytes, delta: int, initial: int, ttl: Optional[Lifetime]) -> int:
        refused = object()
        while True:
            try:
                return map_.add(key, delta, initial, ttl)
            except Error as e:
                if e.errno != errno.EINVAL:
                    raise
            found = self._find(key)
            if found is None:
                continue
            entry = found[1]
            if entry.flags & lib.TSLAB_MAP_COUNTER:
                return map_.add(key, delta, initial, ttl)       # it was replaced just now; or it is a rate limit
            value = self._value(found, refused)
            if value is refused:
                self._forget(key, entry.version)
                continue
            if entry.flags & lib.TSLAB_MAP_TAGGED:
                raise TypeError(f'incr() of {key!r}, whose tags the sum would not have')
            total: int = value + delta
            with contextlib.suppress(ChangedError):
                map_.replace(key, entry.version, self.dumps(total), EPOCH_CURRENT, ttl_left(entry))
                return total

    def pop(self, key: Key, default: Any = None) -> Any:
        """Deletes a key and returns the value that it had, or `default`. Of several that pop a value, one gets it."""
        return self._value(self._find(encoded(key), call=_taken), default)

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


def _taken(map_: Map, key: bytes, accept: int) -> Optional[Tuple[bytes, Any]]:
    return map_._find(key, accept, lib.take_value)
