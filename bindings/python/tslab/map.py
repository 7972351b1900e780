"""Maps of byte strings to byte strings, shared by any number of processes."""

from __future__ import annotations

import datetime
import errno
import math
import time
from collections.abc import ItemsView, MutableMapping, ValuesView
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union, cast, overload

from tslab import _wait
from tslab._bytes import BUFFER_SIZE, Buffers, Bytes, Key, c_string, encoded, raw
from tslab._native import ffi, lib
from tslab.errors import ClosedError, Error, check
from tslab.pool import EPOCH_CURRENT, Pool, check_control
from tslab.stats import MapStats, fields, new

_T = TypeVar('_T')
_RAISE = object()       # pop() without a default
_ROOM = 8192            # for a key, and a value that is not large
_ENDLESS_MS = 2 ** 64 - 1
_EVICT = {None: lib.TSLAB_MAP_EVICT_NEVER, 'sieve': lib.TSLAB_MAP_EVICT_SIEVE}
TAGS_MAX = 4            # an entry has so many at most
CLAIM_SECONDS = 30.0
_get, _get_plain, _buffer, _NULL = lib.tslab_map_get, lib.get_plain, ffi.buffer, ffi.NULL
_WAIT_SLICE_MS = 200    # after which signals are served at the latest
_UNPICKLED = '_native', '_owner', '_buffers', 'size_max'       # attributes that a copy of a map has of its own

TTL_MAX: int = lib.TSLAB_MAP_TTL_MAX // 1000            # ten years, in seconds
WAIT_MAX = (2 ** 32 - 1) // 1000                        # 49 days
Lifetime = Union[float, datetime.timedelta]      # seconds


def seconds(ttl: Lifetime) -> float:
    return ttl.total_seconds() if isinstance(ttl, datetime.timedelta) else ttl


def ttl_ms(ttl: Optional[Lifetime]) -> int:
    """A lifetime as libtslab takes it. None is that of the map, infinity has no end."""
    if ttl is None:
        return int(lib.TSLAB_MAP_TTL_DEFAULT)
    ttl = seconds(ttl)
    if ttl == math.inf:
        return int(lib.TSLAB_MAP_TTL_NONE)
    if not 0 < ttl <= TTL_MAX:
        raise ValueError(f'a lifetime is math.inf, or above 0 and up to {TTL_MAX} seconds, not {ttl}')
    # Rounded first: 4.035 * 1000 is a little more than 4035, and a lifetime that was read must not grow when it is set.
    return max(1, math.ceil(round(ttl * 1000, 3)))


def _limit_ms(ttl: Lifetime) -> int:
    """How long a claim stands: 49 days at most."""
    return min(ttl_ms(ttl), WAIT_MAX * 1000)


def ttl_left(found: Any) -> float:
    """The seconds that are left to an entry, of which libtslab told."""
    left: int = found.ttl_left_ms
    return math.inf if left == _ENDLESS_MS else max(1, left) / 1000


def is_stale(found: Any) -> bool:
    return bool(found.flags & lib.TSLAB_MAP_STALE)


def _checked_tags(tags: Sequence[_T]) -> Sequence[_T]:
    if isinstance(tags, (str, bytes)):
        raise TypeError(f'tags is a sequence of tags, not one: ({tags!r},)')
    if len(tags) > TAGS_MAX:
        raise ValueError(f'an entry has at most {TAGS_MAX} tags, not {len(tags)}')
    return tags


class Claim(NamedTuple):
    """A claim on a key, see Map.claim()."""

    version: int
    mine: bool          # it was made just now; otherwise it is of another process, or of another thread of this one


class Entry(NamedTuple):
    """An entry of a map, without its key. A version is used again after 2 thousand million objects of its slab."""

    value: bytes
    epoch: int
    version: int


class _Items(ItemsView[bytes, bytes]):
    _mapping: Map

    def __iter__(self) -> Iterator[Tuple[bytes, bytes]]:
        return ((key, entry.value) for key, entry in self._mapping.entries())


class _Values(ValuesView[bytes]):
    _mapping: Map

    def __iter__(self) -> Iterator[bytes]:
        return (entry.value for _, entry in self._mapping.entries())

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class Map(MutableMapping[bytes, bytes]):
    """A map of a pool, by name. The call makes the map if there is none.

    Calls do not wait for other processes, except wait() and, for a short time, those that <tslab_map.h> names. A
    process that is killed in the middle of a call leaves the old value or the new one. New values go to the current
    epoch, or to the epoch that put() names. A value has at most `size_max` bytes, and a key 40 less than the pool's
    largest class: TooLargeError otherwise.

    Other processes may change the map at any time. Each call about one key is atomic, even pop(), popitem() and
    setdefault(): of several that pop one entry, one gets it. update(), clear() and walks through the map are not
    atomic: they go from entry to entry. len() walks through all of the map. dict(map) asks for each key in turn, and
    raises KeyError if one is gone by then; dict(map.items()) does not.

    An entry may have a lifetime in seconds, or as a timedelta, up to ten years. When it is over, the key is absent, and within a second the
    memory goes back.

    Keys are text, which is UTF-8, and keys and values are bytes, or any object with the buffer protocol, taken byte by
    byte. They come back as bytes. Any thread may use a map at any time, even a signal handler or a finalizer in the middle of another call. A forked child
    goes on using its parent's map. A map is pickled by its name and that of its pool.

    Calls that write raise FullError if there is no memory for more (the old value stays), TooLargeError, ReadOnlyError
    in a pool that was opened as a reader, EpochClosedError and StaleError for the epoch, and the errors of attaching in
    a forked child (see Pool). All calls raise Error with EIDRM if the map was removed (Pool.map_remove()), or an operator
    revoked the index of the maps: open the map again. Calls that read a value, pop() too, raise Error with EUCLEAN if a stray write has damaged it; a put
    replaces it.
    """

    def __init__(self, pool: Pool, name: str, *, existing: bool = False, exclusive: bool = False,
                 ttl: Optional[Lifetime] = None, limit_bytes: int = 0, value_max: int = 0, stale: Lifetime = 0,
                 evict: Optional[str] = None) -> None:
        """`existing`: NotFoundError if there is no such map; `exclusive`: Error with EEXIST if there is one. A name has
        1 to 43 bytes of printable UTF-8, and takes one of the pool's 255 names until Pool.map_remove() (FullError with ENOSPC).

        The other arguments belong to the map, and count only if this call makes it. `ttl`: the lifetime of entries that
        are put without one (None: no end). `limit_bytes`: the memory that all entries may take (0: as much as there
        is; less than the smallest entry takes, 64: Error with EINVAL). `value_max`: the size of the largest value (0: a megabyte). `stale`: for how many seconds get_stale() still
        returns expired values. With `evict="sieve"`, entries that were not used for long make room for others, below
        the limit and in a full pool; without it puts raise FullError then."""
        if evict not in _EVICT:
            raise ValueError(f'evict is None or \'sieve\', not {evict!r}')
        options = new('tslab_map_options')
        options.ttl_ms = 0 if ttl is None or seconds(ttl) == math.inf else ttl_ms(ttl)
        options.evict = _EVICT[evict]
        try:
            options.limit_bytes, options.value_max, options.stale_ms = limit_bytes, value_max, math.ceil(seconds(stale) * 1000)
        except OverflowError as e:
            raise ValueError(f'out of range: limit_bytes={limit_bytes}, value_max={value_max}, stale={stale}') from e
        options.flags = (existing and lib.TSLAB_MAP_EXISTING) | (exclusive and lib.TSLAB_MAP_EXCLUSIVE)
        owner, native = pool._pool, ffi.new('struct tslab_map **')
        check_control(owner, lib.tslab_map_open(native, owner, c_string(name, 'the name of a map'), options),
                      f'map {name!r}' + (f' with limit_bytes={limit_bytes}' if limit_bytes else ''))
        self.pool, self.name = pool, name
        self._options = {'ttl': ttl, 'limit_bytes': limit_bytes, 'value_max': value_max, 'stale': stale, 'evict': evict}
        self._owner = owner                 # it must not go before the map
        self._native: Optional[Any] = ffi.gc(native[0], lib.tslab_map_close)
        self.size_max: int = lib.tslab_map_size_max(self._native)
        self._buffers = Buffers()

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _UNPICKLED}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        # Where the daemon has a new arena by then, this makes the map anew.
        Map.__init__(self, state['pool'], state['name'], **state['_options'])
        vars(self).update(state)

    @property
    def _map(self) -> Any:
        native = self._native
        if native is None or self.pool.closed:
            raise ClosedError(errno.EBADF, 'the map was closed')
        return native

    def close(self) -> None:
        """Closes the map in this process; it stays in the pool."""
        self._native = None

    def _check(self, size: int, key: Key) -> int:
        """The size of a value, where it is no error."""
        if size == -errno.EUCLEAN and not self.pool.stale:      # a pop in a forked child attaches it, too
            raise Error(errno.EUCLEAN, f'a stray write has damaged the value of key {encoded(key)!r} of map {self.name!r}; '
                                       'a put replaces it')
        return check(size, 'a key')

    # Reading

    @overload
    def get(self, key: Key) -> Optional[bytes]: ...

    @overload
    def get(self, key: Key, default: Union[bytes, _T]) -> Union[bytes, _T]: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """A key's value, or `default`. A copy, whole as it was at one moment."""
        # As _map and take() do it, without their calls, which take a third of the time.
        data, buffers, native = key if type(key) is bytes else encoded(key), self._buffers, self._native
        if native is None or self.pool._native is None:
            native = self._map
        try:
            buffer = buffers.pop()
        except IndexError:
            buffer = buffers.take()
        n = _get(native, data, len(data), buffer, BUFFER_SIZE, _NULL)
        value = _buffer(buffer, n)[:] if n >= 0 else None
        buffers.append(buffer)
        if value is not None:
            return value
        if n == -errno.EMSGSIZE:
            found = self._get(key)
            return default if found is None else found.value
        return default if n == -errno.ENOENT else self._check(n, key)

    def __getitem__(self, key: Key) -> bytes:
        value = self.get(key)
        if value is None:
            raise KeyError(encoded(key))
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(cast(Key, key)) is not None

    def _find(self, key: Key, accept: int = 0, call: Any = lib.get_value) -> Optional[Tuple[bytes, Any]]:
        """The value and the other facts of an entry, or None."""
        key, buffer, size = encoded(key), self._buffers.take(), BUFFER_SIZE
        while True:
            found = call(self._map, key, len(key), accept, buffer, size)
            if found.size != -errno.EMSGSIZE:
                break
            if size == BUFFER_SIZE:
                self._buffers.append(buffer)
            size = found.whole
            buffer = ffi.new('char[]', size)
        value = None if found.size == -errno.ENOENT else bytes(ffi.buffer(buffer, self._check(found.size, key)))
        if size == BUFFER_SIZE:
            self._buffers.append(buffer)
        return None if value is None else (value, found)

    def _get_plain(self, key: bytes) -> Union[bytes, bool]:
        """A value that is small, and no counter, fast. False: the key is absent; True: _find() is to look."""
        buffers, native = self._buffers, self._native       # as in get()
        if native is None or self.pool._native is None:
            native = self._map
        try:
            buffer = buffers.pop()
        except IndexError:
            buffer = buffers.take()
        n = _get_plain(native, key, len(key), buffer, BUFFER_SIZE)
        value: Union[bytes, bool] = _buffer(buffer, n)[:] if n >= 0 else bool(n != -errno.ENOENT)
        buffers.append(buffer)
        return value

    def _get(self, key: Key) -> Optional[Entry]:
        found = self._find(key)
        return None if found is None else Entry(found[0], found[1].epoch, found[1].version)

    def ttl(self, key: Key) -> Optional[float]:
        """How many seconds an entry has left, or math.inf; None where there is none."""
        key = encoded(key)
        found = lib.get_value(self._map, key, len(key), 0, ffi.NULL, 0)
        if found.size == -errno.ENOENT:
            return None
        if found.size != -errno.EMSGSIZE:
            self._check(found.size, key)
        return ttl_left(found)

    def _version(self, key: bytes) -> int:
        """The version of a value; 0: there is none."""
        return int(lib.get_value(self._map, key, len(key), 0, ffi.NULL, 0).version)

    def get_stale(self, key: Key) -> Optional[Tuple[bytes, bool]]:
        """Returns a value and whether it is stale, that is, expired less than `stale` seconds ago; None if there is
        neither."""
        found = self._find(key, lib.TSLAB_MAP_STALE)
        return found and (found[0], is_stale(found[1]))

    def get_epoch(self, key: Key) -> Optional[Tuple[bytes, int]]:
        """The value and the epoch that it is in, or None."""
        found = self._get(key)
        return found and (found.value, found.epoch)

    def get_version(self, key: Key) -> Optional[Tuple[bytes, int]]:
        """The value and its version, for replace(), or None."""
        found = self._get(key)
        return found and (found.value, found.version)

    def _positions(self) -> Iterator[Tuple[bytes, Optional[Entry]]]:
        cursor, room = ffi.new('struct tslab_map_cursor *'), ffi.new('char[]', _ROOM)
        info = ffi.new('struct tslab_map_info *', {'size': ffi.sizeof('struct tslab_map_info')})
        while True:
            r = lib.tslab_map_next(self._map, cursor, room, _ROOM, info)
            if r != -errno.EUCLEAN and check(r) == 0:
                return
            key, entry = ffi.buffer(room, info.key_size)[:], None
            if not info.flags & lib.TSLAB_MAP_KEY_ONLY:
                value = ffi.buffer(room + info.key_size, info.value_size)[:]
                entry = Entry(value, info.epoch, info.version)
            yield key, entry

    def entries(self) -> Iterator[Tuple[bytes, Entry]]:
        """Yields (key, Entry) of all entries, in no particular order. It may run while others write: an entry that is
        there from the first step to the last is met once. If a stray write has damaged values, Error with EUCLEAN
        follows after all other entries; iteration over keys has these keys, too."""
        damaged = []
        for key, entry in self._positions():
            if entry is not None:
                yield key, entry
                continue
            try:
                entry = self._get(key)      # a large value, or the one that came after it
            except Error as e:
                if e.errno != errno.EUCLEAN:
                    raise
                damaged.append(key)
                continue
            if entry is not None:
                yield key, entry
        if damaged:
            raise Error(errno.EUCLEAN, f'a stray write has damaged the values of {len(damaged)} keys in map {self.name!r}; '
                                       f'puts replace them; the first is {damaged[0]!r}')

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self._positions())

    def items(self) -> ItemsView[bytes, bytes]:
        """(key, value) of all; each is met with the value that it had at that moment. Fails as entries() does."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        return _Values(self)

    def __len__(self) -> int:
        """Walks through all of them."""
        return check(lib.tslab_map_count(self._map))

    def __bool__(self) -> bool:
        """Whether there is any entry. Stops at the first."""
        return any(True for _ in self)

    # Writing

    def _put(self, mode: int, key: Key, value: Bytes, epoch: int, ttl: Optional[Lifetime], version: int = 0,
             tags: Sequence[Union[Key, int]] = ()) -> int:
        key, value = encoded(key), raw(value)
        handles = [tag if isinstance(tag, int) else self.tag(tag) for tag in _checked_tags(tags)] if tags else ffi.NULL
        r: int = lib.put_value(self._map, mode, key, len(key), version, value, len(value), epoch, ttl_ms(ttl), handles,
                               len(tags))
        return r

    def put(self, key: Key, value: Bytes, epoch: int = EPOCH_CURRENT, ttl: Optional[Lifetime] = None,
            tags: Sequence[Union[Key, int]] = ()) -> None:
        """Sets a key's value, present or absent before. After `ttl` seconds the key is absent again; None: the map's
        own lifetime, math.inf: no end. With up to four `tags`, text or bytes, it is also absent once one of these was
        invalidated; what tag() returned before the value was computed counts from then."""
        check(self._put(lib.TSLAB_MAP_PUT, key, value, epoch, ttl, 0, tags), 'putting a key')

    def tag(self, tag: Key, epoch: int = EPOCH_CURRENT) -> int:
        """A tag as it is now, for put() and replace() within an hour. An entry that is put with it is absent if the tag
        is invalidated after this call, even if that is before the put: so ask before you compute the value."""
        tag, handle = encoded(tag), ffi.new('tslab_handle *')
        check(lib.tslab_map_tag(self._map, tag, len(tag), epoch, handle), 'asking for a tag')
        return int(handle[0])

    def invalidate(self, tag: Key) -> bool:
        """Makes all entries that have this tag absent at once, for all processes, however many there are. Returns whether
        there was such a tag. Their memory goes back within some seconds."""
        tag = encoded(tag)
        r = lib.tslab_map_invalidate(self._map, tag, len(tag))
        return bool(r != -errno.ENOENT and check(r, 'invalidating a tag') == 0)

    def touch(self, key: Key, ttl: Optional[Lifetime] = None) -> bool:
        """Gives an entry a new lifetime of so many seconds from now. Returns whether there is such an entry. Its value
        stays where it is, so this needs no memory."""
        key = encoded(key)
        r = lib.tslab_map_touch(self._map, key, len(key), ttl_ms(ttl))
        return bool(r != -errno.ENOENT and check(r, 'touching a key') == 0)

    def add(self, key: Key, delta: int = 1, initial: int = 0, ttl: Optional[Lifetime] = None) -> int:
        """Adds to a counter and returns the sum. An absent key counts as `initial`; `ttl` is the lifetime of a counter
        that this call makes. get() returns a counter as 8 bytes. CounterRangeError: the sum is beyond 64 bits, and the
        counter is as it was; Error with EINVAL: the value was put."""
        key, value = encoded(key), ffi.new('int64_t *')
        check(lib.tslab_map_add(self._map, key, len(key), delta, initial, ttl_ms(ttl), value), 'adding to a key')
        return int(value[0])

    def set_counter(self, key: Key, value: int, ttl: Optional[Lifetime] = None) -> None:
        """Sets a counter in place: adds of others come before it or after it. `ttl` as for add()."""
        key, options = encoded(key), new('tslab_map_add_options')
        options.mode, options.ttl_ms = lib.TSLAB_MAP_ADD_SET, ttl_ms(ttl)
        check(lib.tslab_map_add_with(self._map, key, len(key), value, options, ffi.NULL), 'setting a counter')

    def limit(self, key: Key, per_second: float, burst: int, cost: int = 1) -> Optional[float]:
        """Takes tokens from the key's bucket, which gets so many a second and holds up to `burst`. Returns None, or if
        there are too few, the number of seconds until there are enough."""
        key, retry_ms = encoded(key), ffi.new('uint64_t *')
        r = check(lib.tslab_map_limit(self._map, key, len(key), per_second, burst, cost, retry_ms), 'limiting a key')
        return retry_ms[0] / 1000 if r == 1 else None

    def __setitem__(self, key: Key, value: Bytes) -> None:
        self.put(key, value)

    def insert(self, key: Key, value: Bytes, epoch: int = EPOCH_CURRENT, ttl: Optional[Lifetime] = None) -> bool:
        """As put(), where the key is absent: whether it was."""
        r = self._put(lib.TSLAB_MAP_INSERT, key, value, epoch, ttl)
        return bool(r != -errno.EEXIST and check(r, 'inserting a key') == 0)

    def change(self, key: Key, value: Bytes, epoch: int = EPOCH_CURRENT, ttl: Optional[Lifetime] = None) -> bool:
        """As put(), where the key is present: whether it was."""
        r = self._put(lib.TSLAB_MAP_UPDATE, key, value, epoch, ttl)
        return bool(r != -errno.ENOENT and check(r, 'changing a key') == 0)

    def replace(self, key: Key, version: int, value: Bytes, epoch: int = EPOCH_CURRENT,
                ttl: Optional[Lifetime] = None, tags: Sequence[Union[Key, int]] = ()) -> None:
        """As put(), where the value is of this version, 0 for absent; ChangedError where it is not."""
        check(self._put(lib.TSLAB_MAP_REPLACE, key, value, epoch, ttl, version, tags), 'replacing a key')

    def delete(self, key: Key, version: Optional[int] = None) -> bool:
        """Deletes a key and frees its entry. Returns whether it was there. With a version: ChangedError if the value
        has another one."""
        key = encoded(key)
        if version is None:
            r = lib.tslab_map_delete(self._map, key, len(key))
        else:
            r = lib.tslab_map_delete_version(self._map, key, len(key), version)
        return bool(r != -errno.ENOENT and check(r, 'deleting a key') == 0)

    def claim(self, key: Key, epoch: int = EPOCH_CURRENT, ttl: Lifetime = CLAIM_SECONDS) -> Optional[Claim]:
        """Claims a key, if the key is absent. Of all callers the first one gets the claim, and computes the value; the
        others call wait(). Returns None if the key has a value.

        replace() with the claim's version fulfils the claim, delete() with that version gives it up. Both raise
        ChangedError if the claim is no more, since the key was put or deleted meanwhile. A claim ends after `ttl`, 30
        seconds by default, and with its process."""
        key, claim = encoded(key), ffi.new('struct claim *')
        try:
            return Claim(claim.version, claim.mine) if self._claim(key, claim, epoch, ttl) else None
        except BaseException:
            if claim.mine:
                lib.tslab_map_delete_version(self._map, key, len(key), claim.version)
            raise

    def _claim(self, key: Key, claim: Any, epoch: int = EPOCH_CURRENT, ttl: Lifetime = CLAIM_SECONDS) -> bool:
        """Whether `claim` has a claim now. The caller gives that up if an exception comes, as of a signal handler."""
        key = encoded(key)
        r = lib.claim_key(self._map, key, len(key), epoch, _limit_ms(ttl), claim)
        return r in (0, -errno.EBUSY) or (r != -errno.EEXIST and check(r, 'claiming a key') == 0)

    def extend(self, key: Key, version: int, ttl: Lifetime = CLAIM_SECONDS) -> int:
        """Lets a claim stand for another `ttl` from now, and returns the version that it has then. ChangedError if the
        claim is no more."""
        key, claim = encoded(key), ffi.new('tslab_handle *', version)
        self._extend(key, claim, ttl)
        return int(claim[0])

    def _extend(self, key: bytes, claim: Any, ttl: Lifetime) -> None:
        check(lib.tslab_map_claim_extend(self._map, key, len(key), _limit_ms(ttl), claim), 'extending a claim')

    def wait(self, key: Key, version: int, timeout: float = WAIT_MAX) -> bool:
        """Waits until a claim is no more. Returns False if the time limit in seconds is over before that. Version 0
        means any claim. Other greenlets of the thread run meanwhile; with asyncio, await wait_async(). Error with EDEADLK
        at once: no greenlets run here, and this thread made the claim, or extended it last."""
        key, end, pause = encoded(key), time.monotonic() + timeout, _wait.pause()
        if self._waited(key, version, 0):
            return True
        if pause:
            for step in _wait.steps(end):
                pause(step)
                if self._waited(key, version, 0):
                    return True
            return False
        while True:
            left_ms = (end - time.monotonic()) * 1000       # may be math.inf
            if not left_ms > 0:                             # nor is NaN
                return False
            if self._waited(key, version, math.ceil(min(left_ms, _WAIT_SLICE_MS))):
                return True

    async def wait_async(self, key: Key, version: int, timeout: float = WAIT_MAX) -> bool:
        """As wait(), for asyncio."""
        import asyncio      # noqa: PLC0415 (other programs need not load it)
        key, end = encoded(key), time.monotonic() + timeout
        if self._waited(key, version, 0):
            return True
        for step in _wait.steps(end):
            await asyncio.sleep(step)
            if self._waited(key, version, 0):
                return True
        return False

    def _waited(self, key: bytes, version: int, ms: int) -> bool:
        """Whether a claim is no more, after so many milliseconds at most."""
        r = lib.tslab_map_wait(self._map, key, len(key), version, ms)
        return r not in (-errno.ETIMEDOUT, -errno.EINTR) and check(r, 'waiting for a key') == 0

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise KeyError(encoded(key))

    @overload
    def pop(self, key: Key) -> bytes: ...

    @overload
    def pop(self, key: Key, default: Union[bytes, _T]) -> Union[bytes, _T]: ...

    def pop(self, key: Key, default: Any = _RAISE) -> Any:
        """Deletes a key and returns the value that it had; if it is absent, returns `default` or raises KeyError. Of
        several callers that pop a value, one gets it. What others add to a counter is in that value, or in a new
        counter."""
        found = self._find(key, call=lib.take_value)
        if found is not None:
            return found[0]
        if default is _RAISE:
            raise KeyError(encoded(key))
        return default

    def popitem(self) -> Tuple[bytes, bytes]:
        """Deletes some entry: its key and its value. KeyError where there is none."""
        was_gone = True
        while was_gone:
            was_gone = False
            for key in self:
                value = self.pop(key, None)
                if value is not None:
                    return key, value
                was_gone = True
        raise KeyError('the map is empty')

    def setdefault(self, key: Key, default: Bytes = b'') -> bytes:
        """Returns the value of a key, and sets it to `default` if it is absent. All callers get the same value."""
        while True:
            value = self.get(key)
            if value is not None:
                return value
            if self.insert(key, default):
                return bytes(default)

    def clear(self) -> None:
        """Deletes all entries that are there when it begins, claims and stale values, too: so a value that is being
        computed does not come. It walks through the map once; entries that others put meanwhile may stay."""
        check(lib.tslab_map_expire(self._map, lib.TSLAB_MAP_EPOCH_ALL), f'clearing map {self.name!r}')

    def expire(self, epoch: int) -> int:
        """Deletes all entries of an epoch, and returns how many. It walks through the whole map; close the epoch first.
        """
        return check(lib.tslab_map_expire(self._map, epoch), f'expiring epoch {epoch & 0xff}')

    def stats(self) -> MapStats:
        """Counts of the map, since it was made. Does not walk."""
        struct = new('tslab_map_statistics')
        check(lib.tslab_map_statistics(self._map, struct), f'counting map {self.name!r}')
        return MapStats(**fields(MapStats, struct))
