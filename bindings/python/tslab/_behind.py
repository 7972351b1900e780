"""Sessions in an engine behind the pool, which several hosts share: Redis or Valkey."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import random
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from tslab._engine import client_of
from tslab._native import ffi, lib
from tslab.errors import ChangedError, EngineError, Error, check, error
from tslab.map import TTL_MAX, Map, ttl_ms
from tslab.near import NearCache, _bytes, _Claim, _Opened

if TYPE_CHECKING:
    from tslab.sessions import SessionStore

_WAIT_MS = 50
_HEARD_SECONDS = 0.05            # a change of this host is read back when tslab-near has heard of it, or after that time not
_AGAIN_SECONDS = 1.0        # an engine that gave no answer is not asked before
_FRESH = 7 / 8              # of a lifetime: a session with more than that left is not touched in the engine

# A client that lost the answer may ask again by itself, as redis-py 6 does. So a change leaves a receipt of its own, by
# which the engine knows the question again: the change is made once, and both answers are the same.
_RECEIPT_MS = 30_000
_ONCE = f"""
if KEYS[2] and redis.call('GET', KEYS[2]) then
    return 1
end
%s
if KEYS[2] then
    redis.call('SET', KEYS[2], '', 'PX', {_RECEIPT_MS})
end
return 1
"""

# The version of a session is the digest of its value: two saves of one value are the same save.
_REPLACE = _ONCE % """
local value = redis.call('GET', KEYS[1])
if (value and redis.sha1hex(value) or '') ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
"""

_DELETE = _ONCE % """
if redis.call('DEL', KEYS[1]) == 0 then
    return 0
end
"""

_HAS_TAG = re.compile(rb'[^{]*\{[^}]+\}')


def _keys(name: bytes) -> List[bytes]:
    """A key, and that of a receipt, which a cluster has in the same slot. It begins with none of the prefixes that
    tslab-near hears of, if that can be. Some keys with a }, and the empty one, have none."""
    receipt = b':change:' + secrets.token_hex(16).encode()
    if name and b'}' not in name:       # a cluster takes no empty tag for one
        return [name, b'{' + name + b'}' + receipt]
    return [name, name + receipt] if _HAS_TAG.match(name) else [name]


def _refuses_one(trouble: Exception) -> bool:
    """Whether the engine is there, and refuses this key alone: of another type, or none of this user's."""
    return 'WRONGTYPE' in str(trouble) or type(trouble).__name__ == 'NoPermissionError'


def _has_moving_slot(trouble: Exception) -> bool:
    """Whether a cluster refuses several keys at once, since their slot moves to another server. Nothing was done."""
    return type(trouble).__name__ == 'TryAgainError' or 'TTL exhausted' in str(trouble)     # after 16 tries of redis-py


def version_of(value: bytes) -> int:
    return int(hashlib.sha1(value).hexdigest(), 16)     # noqa: S324 (Lua in the engine has no other)


class _Copies(NearCache):
    """The near cache of one map's pool."""

    def __init__(self, engine: Any, of: Map, prefix: str, name: str, keeps_last: bool) -> None:
        super().__init__(engine, of.pool, prefix=prefix, name=name)
        self.of = of
        self.patience = self._patience
        self.map = Map(of.pool, name, existing=True)
        if keeps_last:
            check(lib.tslab_near_keep_last(self._opened.near), f'the last values of near cache {name!r}')

    def _trouble(self, trouble: Error) -> None:
        if trouble.errno == errno.EIDRM:        # the store opens the maps anew
            raise trouble
        super()._trouble(trouble)

    def _reopen(self, old: _Opened) -> _Opened:
        return old                              # as above

    def look(self, session: bytes) -> Tuple[bool, Optional[bytes], _Claim]:
        return self._look_or_wait(self._prefix + session, _WAIT_MS)

    def ask(self, session: bytes, claim: _Claim) -> Optional[bytes]:
        value: Optional[bytes] = self._ask_one(self._prefix + session, claim)
        return value

    def give_up(self, session: bytes, claim: _Claim) -> None:
        self._give_up(self._prefix + session, claim)

    def is_fresh(self, session: bytes, lifetime: float) -> Optional[bool]:
        """Whether a session has most of its lifetime left, or is known to be absent (None)."""
        known, value, claim = self._look(self._prefix + session, 0)
        if not known:
            self.give_up(session, claim)
        if known and value is None:
            return None
        left = self.map.ttl(self._prefix + session) if known else None
        return left is not None and left > lifetime * _FRESH

    def last(self, session: bytes) -> Optional[bytes]:
        """The value that this host heard last, if nothing was heard against it."""
        name, found, size = self._prefix + session, ffi.new('void **'), ffi.new('size_t *')
        r = lib.tslab_near_last(self._opened.near, name, len(name), found, size)
        if r == -errno.ENOENT:
            return None
        if r < 0:
            raise error(-r, 'last')
        value = ffi.gc(found[0], lib.free)
        return bytes(ffi.buffer(value, size[0]))

    def forget(self, session: bytes) -> None:
        self._drop(self._prefix + session)

    def drop_copy(self, session: bytes) -> None:
        """The last value stays: nobody knows whether there was a change."""
        self.map.delete(self._prefix + session)

    def begin_change(self, session: bytes) -> _Claim:
        """A claim that ends when tslab-near hears of the change that follows."""
        self.drop_copy(session)
        return self._look(self._prefix + session, 0)[2]

    def await_change(self, session: bytes, claim: _Claim) -> bool:
        """Whether tslab-near has heard of a change by now. An answer to a question from now on may be kept: that of an
        earlier one would be dropped with the change."""
        version = claim.claim.copy
        return bool(version) and self.map.wait(self._prefix + session, version, _HEARD_SECONDS)


class Behind:
    """The sessions are in the engine. The pool has copies, which tslab-near keeps coherent. If `while_away` is "stale",
    it also has the values that this host heard last (tslab_near_last() in C), which a change drops as it does copies."""

    def __init__(self, store: SessionStore, engine: Any, *, prefix: str, near: str, while_away: str) -> None:
        if while_away not in ('fail', 'stale'):
            raise ValueError(f'while_away is "fail" or "stale", not {while_away!r}')
        self.engine, self.prefix, self.near, self.while_away = client_of(engine), prefix, near, while_away
        self._made_of = engine
        self._store = store
        self._is_stale = while_away == 'stale'
        self._prefix = _bytes(prefix)
        self._copies = self._open(store.map)
        self._asks_again = 0.0

    def options(self) -> Dict[str, Any]:
        """Arguments that make this."""
        return {'engine': self._made_of, 'prefix': self.prefix, 'near': self.near, 'while_away': self.while_away}

    def _open(self, of: Map) -> _Copies:
        return _Copies(self.engine, of, self.prefix, self.near, self._is_stale)

    def _of(self, of: Map) -> _Copies:
        """The store opens its map anew when the pool was replaced."""
        copies = self._copies
        if copies.of is not of:
            self._copies = copies = self._open(of)
        return copies

    # The store's calls

    def _error(self, trouble: Exception) -> EngineError:
        error = EngineError(errno.EHOSTDOWN, f'the engine with the sessions: {trouble}')
        error.__cause__ = trouble
        return error

    def _is_away(self, claim: _Claim) -> bool:
        """Where copies are covered, the engine is there again."""
        return self._is_stale and not claim.claim.cover and time.monotonic() < self._asks_again

    def get(self, of: Map, session: bytes) -> Optional[bytes]:
        copies = self._of(of)
        known, value, claim = copies.look(session)
        if known:
            return value
        if self._is_away(claim):
            return copies.last(session)
        try:
            return copies.ask(session, claim)
        except Error as e:
            if not isinstance(e, EngineError):
                raise
            trouble, refuses_one = e, False
        except Exception as e:      # noqa: BLE001 (of the client's own classes)
            trouble, refuses_one = self._error(e), _refuses_one(e)
        if not self._is_stale:
            raise trouble
        if not refuses_one:
            self._asks_again = time.monotonic() + _AGAIN_SECONDS
        self._store._log_seldom('away', '%s; sessions are read as they were', trouble)
        return copies.last(session)

    def _drop(self, session: bytes, drop: Callable[[_Copies, bytes], None]) -> None:
        """A call of its own: where the maps were revoked meanwhile, the drop is made again, and not the change."""
        with contextlib.suppress(Error):
            self._store._use(lambda of: drop(self._of(of), session))

    def _tell(self, of: Map, session: bytes, change: Callable[[bytes], Any]) -> Any:
        """A change of a session's key in the engine. That it fails does not stop reads: an engine that is out of memory
        refuses changes alone. The copy goes on an error, too: the change may have come to pass."""
        copies = self._of(of)
        claim = copies.begin_change(session) if self._is_stale else None
        try:
            result = copies.patience.ask(lambda: change(self._prefix + session))
        except Exception as e:      # noqa: BLE001
            self._drop(session, _Copies.drop_copy)
            raise self._error(e) from e
        except BaseException:
            self._drop(session, _Copies.drop_copy)
            raise
        is_heard = bool(result) and claim is not None and copies.await_change(session, claim)
        self._drop(session, _Copies.forget)
        if is_heard:
            self._read_back(copies, session)
        return result

    def _read_back(self, copies: _Copies, session: bytes) -> None:
        """So that this host knows what it changed, should the engine go away. Another worker may have done that by now."""
        known, _, claim = copies.look(session)
        if not known:
            with contextlib.suppress(Exception):
                copies.ask(session, claim)

    def _eval(self, script: str, name: bytes, *arguments: Any) -> Any:
        keys = _keys(name)
        try:
            return self.engine.eval(script, len(keys), *keys, *arguments)
        except Exception as e:      # noqa: BLE001
            if len(keys) == 1 or not _has_moving_slot(e):
                raise
            return self.engine.eval(script, 1, name, *arguments)

    def _save(self, of: Map, session: bytes, change: Callable[[bytes], Any]) -> None:
        if not self._tell(of, session, change):
            raise ChangedError(errno.EAGAIN, 'the session was changed meanwhile')

    def set(self, of: Map, session: bytes, value: bytes, lifetime: float) -> None:
        px = ttl_ms(min(lifetime, TTL_MAX))
        self._save(of, session, lambda name: self.engine.set(name, value, px=px))

    def replace(self, of: Map, session: bytes, version: int, value: bytes, lifetime: float) -> None:
        px, digest = ttl_ms(min(lifetime, TTL_MAX)), f'{version:040x}' if version else ''
        self._save(of, session, lambda name: self._eval(_REPLACE, name, digest, value, px))

    def touch(self, of: Map, session: bytes, lifetime: float) -> bool:
        copies = self._of(of)
        is_fresh = copies.is_fresh(session, lifetime)
        if is_fresh is not False:
            return bool(is_fresh)
        if self._is_stale and time.monotonic() < self._asks_again:
            return copies.last(session) is not None
        try:
            return bool(self._tell(of, session, lambda name: self.engine.pexpire(name, ttl_ms(min(lifetime, TTL_MAX)))))
        except EngineError as e:
            if not self._is_stale:
                raise
            self._store._log_seldom('touch', 'a session\'s lifetime could not be prolonged: %s', e)
            return copies.last(session) is not None

    # The sessions of a user are a set. Its key is none of a session, whose ids are not that long; it is not copied.

    def _user(self, user: bytes) -> bytes:
        return b'{' + self._prefix + b'user:' + user + b'}:sessions'

    def _ask_set(self, call: Callable[[], Any]) -> Any:
        try:
            return self._copies.patience.ask(call)
        except Exception as e:      # noqa: BLE001
            raise self._error(e) from e

    def assign(self, user: bytes, session: bytes) -> None:
        name = self._user(user)
        self._ask_set(lambda: self.engine.sadd(name, session))
        self._ask_set(lambda: self.engine.pexpire(name, TTL_MAX * 1000))
        # Each call looks at two others, so that of many logins no more sessions are left than twice those that live.
        others = [id_ for id_ in self.assigned(user) if id_ != session]
        for id_ in random.sample(others, min(2, len(others))):
            if self._ask_set(lambda: self.engine.pttl(self._prefix + id_)) == -2:       # noqa: B023 (called at once)
                self.unassign(user, [id_])

    def assigned(self, user: bytes) -> List[bytes]:
        return sorted(self._ask_set(lambda: self.engine.smembers(self._user(user))))

    def unassign(self, user: bytes, sessions: List[bytes]) -> None:
        if sessions:
            self._ask_set(lambda: self.engine.srem(self._user(user), *sessions))

    def delete(self, of: Map, session: bytes) -> bool:
        """Where the engine is away, the session has ended at least here; and so it has where this worker is killed."""
        self._drop(session, _Copies.forget)
        try:
            return bool(self._tell(of, session, lambda name: self._eval(_DELETE, name)))
        finally:
            self._drop(session, _Copies.forget)
