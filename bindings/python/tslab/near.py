"""A near cache of Redis or Valkey, which all processes of a pool share. tslab-near(8) keeps it coherent."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import struct
import time
import weakref
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple, Union

from tslab import _engine, _wait
from tslab._bytes import BUFFER_SIZE, Buffers, Bytes, c_string, encoded
from tslab._native import ffi, lib
from tslab.errors import ClosedError, Error, check, error
from tslab.map import TTL_MAX, WAIT_MAX, Lifetime, Map, seconds
from tslab.pool import Pool

Key = Union[str, Bytes, int, float]
_Claim = Any            # a struct near_found: what a look that found nothing is to end with

_log = logging.getLogger('tslab')

_BUFFER_MAX = (16 << 20) + 1
_LOG_SECONDS = 60.0         # between two messages about one trouble
_LOOK_SECONDS = 1.0         # how often a process that misses looks whether its pool was replaced
_NOTHING = -2               # PTTL of a key that is absent


def _bytes(key: Key) -> bytes:
    """The key as redis-py takes it: a number is its text."""
    if isinstance(key, (int, float)):
        if isinstance(key, bool):
            raise TypeError('a key is text, bytes or a number, not bool')
        return repr(key).encode()
    return encoded(key)


def _px(ttl: Optional[Lifetime]) -> Optional[int]:
    """A lifetime in milliseconds as the engine takes it."""
    left = math.inf if ttl is None else seconds(ttl)
    if left == math.inf:
        return None
    if not left > 0:
        raise ValueError(f'a lifetime is math.inf, or above 0, not {ttl}')
    return math.ceil(round(left * 1000, 3))


def _packed(items: Iterable[bytes]) -> bytes:
    return b''.join(struct.pack('>I', len(item)) + item for item in items)


def _unpacked(data: bytes) -> List[bytes]:
    items, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], 'big')
        items.append(data[at + 4:end])
        at = end
    return items


class _Kind(NamedTuple):
    """A type of the engine: the client's call that reads it, and how its copy begins and is made."""

    read: str
    mark: bytes
    copied: Callable[[Any], bytes]


# A string that begins so is not kept: it would be taken for one of these.
_MARK = b'\x9d\x03tslab: '
_STRING = _Kind('get', b'', lambda value: bytes(memoryview(value)))
_HASH = _Kind('hgetall', _MARK + b'hash\xf1', lambda value: _packed(item for pair in value.items() for item in pair))
_SET = _Kind('smembers', _MARK + b'set\xf1', _packed)


def _copy_of(value: Any, kind: _Kind) -> Optional[bytes]:
    """None: the engine has no such key. The engine has no empty hashes and sets."""
    if value is None or (kind.mark and not value):
        return None
    try:
        return kind.mark + kind.copied(value)
    except TypeError:
        raise TypeError('the engine returns no bytes') from None


def _strings(answers: Dict[bytes, Any]) -> Dict[bytes, Optional[bytes]]:
    """As MGET has them: None for those of other types."""
    for value in answers.values():
        if isinstance(value, Exception) and not str(value).startswith('WRONGTYPE'):
            raise value
    return {name: None if isinstance(value, Exception) else value for name, value in answers.items()}


class _Opened:
    def __init__(self, pool: Pool, name: str) -> None:
        owner, native = pool._pool, ffi.new('struct tslab_near **')
        check(lib.tslab_near_open(native, owner, c_string(name, 'the name of a near cache'), ffi.NULL),
              f'near cache {name!r}')
        self.pool = pool
        self.owner = owner                  # it must not go before the near cache
        self._native: Optional[Any] = ffi.gc(native[0], lib.tslab_near_close)
        self._name = name
        self._map: Optional[Map] = None

    @property
    def near(self) -> Any:
        native = self._native
        if native is None:
            raise ClosedError(errno.EBADF, 'the near cache was closed')
        return native

    def close(self) -> None:
        self._native = None         # a call of another thread that is under way has it still

    @property
    def map(self) -> Map:
        """For waits for claims."""
        if self._map is None:
            self._map = Map(self.pool, self._name, existing=True)
        return self._map


class NearCache:
    """Reads of `engine`, a redis.Redis or RedisCluster that returns bytes, by way of a pool.

        cache = tslab.NearCache(redis.Redis(), tslab.open('web'), prefix='page:', ttl=60)
        cache.get('/index')         # the engine's 'page:/index'

    A hit does not leave the host. No value that get() returns is older than the bound of tslab-near, a second by
    default, which this host's tslab-near keeps by the server's own invalidation; mostly changes are seen within a
    millisecond or two. Where tslab-near does not run, or has lost the server, each get() asks the engine, and so it does
    if `prefix` begins with none of the prefixes that tslab-near was given. All programs of a near cache read one database
    of one engine, from its primaries.

    One of the processes that miss a key asks the engine; the others wait for its answer, but not longer
    than `wait` seconds. Entries live for `ttl` seconds at most (None: as long as there is room and nothing changes them),
    and never longer than the engine's. That a key is absent is known, too.

    It is pickled with its engine, if that can be: a URL can, a redis.Redis cannot.

    Any thread may use it, and so may forked children, if `engine` allows that. Errors of the engine are raised as they
    are; trouble of the pool is logged, and the engine is asked. Where two questions in a
    row to a server, not a cluster, were waited for in vain, one caller of the process asks it once a second, and the others
    get its error at once. So give a client time limits; a client that is made from a URL has half a second.
    """

    _package = 'redis'          # a client that is made from a URL is of this one

    def __init__(self, engine: Any, pool: Pool, *, prefix: Key, ttl: Optional[Lifetime] = None, name: str = 'near',
                 wait: Lifetime = 0.05) -> None:
        lifetime, wait = math.inf if ttl is None else seconds(ttl), seconds(wait)
        if lifetime != math.inf and not 0.001 <= lifetime <= TTL_MAX:
            raise ValueError(f'a lifetime is math.inf, or 1 ms to {TTL_MAX} seconds, not {lifetime}')
        if not 0 <= wait <= WAIT_MAX:
            raise ValueError(f'a wait is 0 to {WAIT_MAX} seconds, not {wait}')
        self._made_of = {'engine': engine, 'prefix': prefix, 'ttl': ttl, 'name': name, 'wait': wait}
        self.engine, self.name = _engine.client_of(engine, self._package), name
        _engine.check(self.engine, self._package != 'redis')
        self._patience = _engine.Patience(self.engine)
        self._opened = _Opened(pool, name)
        self._next_look = 0.0
        self._prefix = _bytes(prefix)
        self._ttl_ms: int = lib.TSLAB_MAP_TTL_NONE if lifetime == math.inf else int(lifetime * 1000)
        self._wait_ms = int(wait * 1000)
        self._buffers = Buffers()
        self._logged = -_LOG_SECONDS

    def __getstate__(self) -> Dict[str, Any]:
        return {'pool': self.pool, **self._made_of}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        type(self).__init__(self, **state)

    @property
    def pool(self) -> Pool:
        """The pool that it is in: another one after the daemon was replaced."""
        return self._opened.pool

    def close(self) -> None:
        """Closes it in this process: later calls raise ClosedError. The copies stay, and so does the engine's client."""
        self._opened.close()

    def __enter__(self) -> NearCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reopen(self, old: _Opened) -> _Opened:
        """Opens the pool that has replaced the old one, or the map that was revoked there. If that fails, the old one
        is used until the next look."""
        if self._opened is old:
            try:
                self._opened = _Opened(old.pool.reopen() if old.pool.stale else old.pool, self.name)
            except Error as e:
                self._trouble(e)
        return self._opened

    def _look_after(self, opened: _Opened) -> None:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            if opened.pool.stale:
                self._reopen(opened)

    def _log_seldom(self, text: object) -> None:
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            _log.warning('near cache %r: %s', self.name, text)

    def _trouble(self, trouble: Error) -> None:
        self._log_seldom(f'{trouble}; the engine is asked instead')

    def _look(self, name: bytes, wait_ms: int, kind: _Kind = _STRING) -> Tuple[bool, Optional[bytes], _Claim]:
        """Whether the value is known, the value, and else the claim. A value of another kind is not known."""
        size, opened = BUFFER_SIZE, self._opened
        buffer = self._buffers.take()
        found = lib.near_get(opened.near, name, len(name), buffer, size, wait_ms)
        while found.size == -errno.EMSGSIZE and size < _BUFFER_MAX:
            size = min(size * 8, _BUFFER_MAX)
            buffer = ffi.new('char[]', size)
            found = lib.near_get(opened.near, name, len(name), buffer, size, wait_ms)
        value = ffi.buffer(buffer, found.size)[:] if found.size >= 0 else None
        if size == BUFFER_SIZE:
            self._buffers.append(buffer)
        if value is not None:
            return value.startswith(kind.mark) if kind.mark else not value.startswith(_MARK), value, found
        if found.size == -errno.ENODATA:
            return True, None, found
        if found.size != -errno.ENOENT:
            self._trouble(error(-found.size, 'get'))
        if found.size == -errno.EIDRM:
            self._reopen(opened)
        self._look_after(opened)
        return False, None, found

    def _look_or_wait(self, name: bytes, wait_ms: int, kind: _Kind = _STRING) -> Tuple[bool, Optional[bytes], _Claim]:
        """As above. Where greenlets run, the others of the thread go on while this one waits for another's answer."""
        if not _wait.pause():
            return self._look(name, wait_ms, kind)
        found = self._look(name, 0, kind)
        if not self._is_to_wait(found, wait_ms):
            return found
        try:
            self._opened.map.wait(name, 0, wait_ms / 1000)
        except Error as e:
            self._trouble(e)
        return self._look(name, 0, kind)

    @staticmethod
    def _is_to_wait(found: Tuple[bool, Optional[bytes], _Claim], wait_ms: int) -> bool:
        return not found[0] and not found[2].claim.copy and wait_ms != 0

    def _fill(self, name: bytes, claim: _Claim, server: Optional[bytes], value: Optional[bytes], left_ms: int) -> bool:
        """False: the server that answered is not the one that is heard, and the answer may be old."""
        ttl_ms = self._ttl_ms
        if left_ms >= 0:
            ttl_ms = max(1, min(ttl_ms, left_ms, lib.TSLAB_MAP_TTL_MAX))
        if server is None and claim.claim.copy:
            self._log_seldom('no copy is kept: the server does not tell its run id; let the user of the engine call INFO')
        r = lib.tslab_near_fill(self._opened.near, name, len(name), ffi.addressof(claim, 'claim'), server or ffi.NULL,
                                ffi.NULL if value is None else value, len(value or b''), ttl_ms)
        if r < 0 and r not in (-errno.EAGAIN, -errno.E2BIG, -errno.EREMCHG):
            self._trouble(error(-r, 'fill'))
        return server is None or bool(r != -errno.EREMCHG)

    def _ask(self, claims: Dict[bytes, _Claim], kind: _Kind = _STRING) -> Dict[bytes, Any]:
        """Asks the engine for values, in one round trip a server; an exception stands for one that it refuses. A claim
        ends here, whatever happens."""
        values, old = self._ask_once(claims, kind)
        for connection in old.values():
            connection.disconnect()         # another server is at the address by now, and does not close the old ones
        if old:
            values.update(self._ask_once({name: claims[name] for name in old}, kind)[0])
        return values

    def _ask_once(self, claims: Dict[bytes, _Claim], kind: _Kind) -> Tuple[Dict[bytes, Any], Dict[bytes, Any]]:
        """Also the connections by which answers came that may be old."""
        left = dict(claims)
        values: Dict[bytes, Any] = {}
        old: Dict[bytes, Any] = {}
        is_heard = any(claim.claim.cover for claim in claims.values())
        try:
            for answers in _engine.ask(self.engine, list(claims), kind.read, self._patience, is_heard):
                old.update(self._keep(answers, values, left, kind))
            return values, old
        finally:
            for name, claim in left.items():
                self._give_up(name, claim)

    def _keep(self, answers: _engine.Answers, values: Dict[bytes, Any], left: Dict[bytes, _Claim], kind: _Kind) -> Dict[bytes, Any]:
        """Makes copies of answers. Returns the connections by which answers came that may be old."""
        old: Dict[bytes, Any] = {}
        for name, value, left_ms in zip(answers.names, answers.replies[::2], answers.replies[1::2]):
            values[name] = value
            if isinstance(value, Exception):
                continue
            copy = _copy_of(value, kind)
            if not isinstance(left_ms, int) or (copy is None) != (left_ms == _NOTHING):
                continue            # refused, or it ended between the two questions
            if copy is not None and not kind.mark and copy.startswith(_MARK):
                continue
            if not self._fill(name, left.pop(name), answers.server, copy, left_ms):
                old[name] = answers.connection
        return old

    def _ask_one(self, name: bytes, claim: _Claim, kind: _Kind = _STRING) -> Any:
        value = self._ask({name: claim}, kind)[name]
        if isinstance(value, Exception):
            raise value
        return value

    def _give_up(self, name: bytes, claim: _Claim) -> None:
        if claim.claim.copy:
            lib.tslab_near_give_up(self._opened.near, name, len(name), ffi.addressof(claim, 'claim'))

    def get(self, key: Key) -> Optional[bytes]:
        """The engine's value of `prefix` and `key`; None: it has none."""
        name = self._prefix + _bytes(key)
        known, value, claim = self._look_or_wait(name, self._wait_ms)
        result: Optional[bytes] = value if known else self._ask_one(name, claim)
        return result

    def hgetall(self, key: Key) -> Dict[bytes, bytes]:
        """The engine's hash of `prefix` and `key`, whole; {}: it has none. Fields with lifetimes of their own are as they
        were when the hash was read, until a change is told."""
        items = self._members(key, _HASH)
        return dict(zip(items[::2], items[1::2]))

    def smembers(self, key: Key) -> Set[bytes]:
        """The engine's set of `prefix` and `key`, whole."""
        return set(self._members(key, _SET))

    def _members(self, key: Key, kind: _Kind) -> List[bytes]:
        name = self._prefix + _bytes(key)
        known, data, claim = self._look_or_wait(name, self._wait_ms, kind)
        if not known:
            data = _copy_of(self._ask_one(name, claim, kind), kind)
        return [] if data is None else _unpacked(data[len(kind.mark):])

    def mget(self, keys: Iterable[Key]) -> List[Optional[bytes]]:
        """The values of several keys, each as get() has it, but None for those of other types, as in MGET; the engine is
        asked once for all that are missing."""
        names = [self._prefix + _bytes(key) for key in keys]
        values, missing = self._look_many(names)
        if missing:
            values.update(_strings(self._ask(missing)))
        return [values[name] for name in names]

    def _look_many(self, names: List[bytes]) -> Tuple[Dict[bytes, Optional[bytes]], Dict[bytes, _Claim]]:
        values: Dict[bytes, Optional[bytes]] = {}
        missing: Dict[bytes, _Claim] = {}
        for name in dict.fromkeys(names):
            known, value, claim = self._look(name, 0)
            if known:
                values[name] = value
            else:
                missing[name] = claim
        return values, missing

    def _own_name(self, key: Key) -> bytes:
        """The engine's name of a key that is to be changed; a near cache that was closed changes nothing."""
        self._opened.near       # noqa: B018 (ClosedError)
        return self._prefix + _bytes(key)

    def set(self, key: Key, value: Any, ttl: Optional[Lifetime] = None) -> None:
        """Sets the engine's value, with a lifetime (None, math.inf: without an end). This process reads it at once, others
        on hosts with a tslab-near as soon as the server has told."""
        name, px = self._own_name(key), _px(ttl)
        try:
            self._patience.ask(lambda: self.engine.set(name, value, px=px))
        finally:
            self._drop(name)                # on an error, too: it may have been set

    def delete(self, *keys: Key) -> None:
        """Deletes the engine's keys."""
        names = [self._own_name(key) for key in keys]
        try:
            for name in names:
                self._patience.ask(lambda: self.engine.delete(name))        # noqa: B023 (called at once)
        finally:
            for name in names:
                self._drop(name)

    def drop(self, *keys: Key) -> None:
        """Drops this host's copies of keys that somebody changed in the engine: the next get() of each asks it."""
        for key in keys:
            self._drop(self._prefix + _bytes(key))

    def _drop(self, name: bytes) -> None:
        r = lib.tslab_near_drop(self._opened.near, name, len(name))
        if r < 0:
            self._trouble(error(-r, 'drop'))


class AsyncNearCache(NearCache):
    """As NearCache, for a redis.asyncio.Redis: calls that may ask the engine are awaited. Clusters are refused.

        cache = tslab.AsyncNearCache(redis.asyncio.Redis(), tslab.open('web'), prefix='page:', ttl=60)
        await cache.get('/index')

    A client serves one event loop. With a URL in its place the cache makes one for each loop, and `engine` is that of the
    running one.
    """

    _package = 'redis.asyncio'

    def __init__(self, *args: Any, **options: Any) -> None:
        self._first: Dict[str, Any] = {}
        self._by_loop: weakref.WeakKeyDictionary[Any, Dict[str, Any]] = weakref.WeakKeyDictionary()
        super().__init__(*args, **options)

    def _here(self) -> Dict[str, Any]:
        """The client and its patience: a client that was made of a URL has connections of one loop, useless in others."""
        url = self._made_of['engine']
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._first
        if not isinstance(url, str):
            return self._first
        here = self._by_loop.get(loop)
        if here is None:
            for other in [ref() for ref in self._by_loop.keyrefs()]:     # a copy: other threads add theirs
                if other is not None and other.is_closed():
                    self._by_loop.pop(other, None)      # its client holds it
            engine = _engine.client_of(url, self._package)
            here = self._by_loop[loop] = {'engine': engine, 'patience': _engine.Patience(engine)}
        return here

    @property
    def engine(self) -> Any:
        return self._here()['engine']

    @engine.setter
    def engine(self, engine: Any) -> None:
        self._first['engine'] = engine

    @property
    def _patience(self) -> Any:
        return self._here()['patience']

    @_patience.setter
    def _patience(self, patience: Any) -> None:
        self._first['patience'] = patience

    async def _look_or_wait(self, name: bytes, wait_ms: int,      # type: ignore[override]
                            kind: _Kind = _STRING) -> Tuple[bool, Optional[bytes], _Claim]:
        found = self._look(name, 0, kind)
        if not self._is_to_wait(found, wait_ms):
            return found
        try:
            await self._opened.map.wait_async(name, 0, wait_ms / 1000)
        except Error as e:
            self._trouble(e)
        return self._look(name, 0, kind)

    async def _ask(self, claims: Dict[bytes, _Claim], kind: _Kind = _STRING) -> Dict[bytes, Any]:     # type: ignore[override]
        values, old = await self._ask_once(claims, kind)
        for connection in old.values():
            await connection.disconnect()
        if old:
            values.update((await self._ask_once({name: claims[name] for name in old}, kind))[0])
        return values

    async def _ask_once(self, claims: Dict[bytes, _Claim],        # type: ignore[override]
                        kind: _Kind) -> Tuple[Dict[bytes, Any], Dict[bytes, Any]]:
        left = dict(claims)
        values: Dict[bytes, Any] = {}
        is_heard = any(claim.claim.cover for claim in claims.values())
        try:
            answers = await _engine.ask_async(self.engine, list(claims), kind.read, self._patience, is_heard)
            return values, self._keep(answers, values, left, kind)
        finally:
            for name, claim in left.items():
                self._give_up(name, claim)

    async def _ask_one(self, name: bytes, claim: _Claim, kind: _Kind = _STRING) -> Any:
        value = (await self._ask({name: claim}, kind))[name]
        if isinstance(value, Exception):
            raise value
        return value

    async def get(self, key: Key) -> Optional[bytes]:             # type: ignore[override]
        name = self._prefix + _bytes(key)
        known, value, claim = await self._look_or_wait(name, self._wait_ms)
        result: Optional[bytes] = value if known else await self._ask_one(name, claim)
        return result

    async def hgetall(self, key: Key) -> Dict[bytes, bytes]:      # type: ignore[override]
        items = await self._members(key, _HASH)
        return dict(zip(items[::2], items[1::2]))

    async def smembers(self, key: Key) -> Set[bytes]:             # type: ignore[override]
        return set(await self._members(key, _SET))

    async def _members(self, key: Key, kind: _Kind) -> List[bytes]:       # type: ignore[override]
        name = self._prefix + _bytes(key)
        known, data, claim = await self._look_or_wait(name, self._wait_ms, kind)
        if not known:
            data = _copy_of(await self._ask_one(name, claim, kind), kind)
        return [] if data is None else _unpacked(data[len(kind.mark):])

    async def mget(self, keys: Iterable[Key]) -> List[Optional[bytes]]:   # type: ignore[override]
        names = [self._prefix + _bytes(key) for key in keys]
        values, missing = self._look_many(names)
        if missing:
            values.update(_strings(await self._ask(missing)))
        return [values[name] for name in names]

    async def _change(self, change: Callable[[Any], Any]) -> None:
        await self._patience.ask_async(lambda: _engine.change_async(self.engine, change))

    async def set(self, key: Key, value: Any, ttl: Optional[Lifetime] = None) -> None:    # type: ignore[override]
        name, px = self._own_name(key), _px(ttl)
        try:
            await self._change(lambda client: client.set(name, value, px=px))
        finally:
            self._drop(name)

    async def delete(self, *keys: Key) -> None:                   # type: ignore[override]
        names = [self._own_name(key) for key in keys]
        try:
            for name in names:
                await self._change(lambda client: client.delete(name))      # noqa: B023 (awaited at once)
        finally:
            for name in names:
                self._drop(name)
