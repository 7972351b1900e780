"""Sessions of web applications: values, each with a lifetime of its own."""

from __future__ import annotations

import errno
import math
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from tslab._behind import Behind, version_of
from tslab._bytes import Key, copied, encoded, raw
from tslab._store import Store
from tslab.cache import Cache
from tslab.errors import ChangedError, Error, TooLargeError
from tslab.lock import Lock
from tslab.map import CLAIM_SECONDS, TTL_MAX, Entry, Lifetime, Map, seconds, ttl_ms
from tslab.near import _packed, _unpacked
from tslab.pool import EPOCH_CURRENT, Pool

_Result = TypeVar('_Result')
_ENTRY_SIZE = 40        # an entry takes so much beside its key
_LIFETIME = 1800
_LOOKS = 2              # at other users, for each assignment


def _lifetime(lifetime: Lifetime) -> float:
    """Seconds, and as many as can be where it is more. ValueError: it is not above 0."""
    number = seconds(lifetime)
    ttl_ms(min(number, TTL_MAX))
    return number if number == math.inf else min(number, TTL_MAX)


def merged(base: Mapping[Any, Any], mine: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> Dict[Any, Any]:
    """For frameworks whose sessions are dicts: their session, with the keys that mine has set, changed or deleted since
    base."""
    absent = object()
    changed = {key: mine.get(key, absent) for key in {**base, **mine} if mine.get(key, absent) != base.get(key, absent)}
    return {key: value for key, value in {**theirs, **changed}.items() if value is not absent}


def _ids(data: Optional[bytes]) -> List[bytes]:
    return _unpacked(data or b'')


class SessionStore(Store):
    """Values by session id, shared by all processes of a pool.

        store = SessionStore(tslab.open('web'), lifetime=1800)
        store.set(session_id, b'...')

    A session lives for `lifetime` after it was set or touched: seconds or a timedelta, half an hour by default, and ten
    years at most. That is a property of each session: stores of other lifetimes on the same pool, or even of the same
    name, do not change it, nor does any program that advances the pool's epochs. The time that a machine is suspended
    counts; setting its clock does not. The memory of a session that is over goes back within a second: the daemon sees to
    that, and in a private pool calls that change a map.

    A value has at most `size_max` bytes, a megabyte by default: set() refuses a larger one (TooLargeError).

    Any thread may use a store at any time, and so may forked children; a store is pickled by the name of its pool.
    No call waits for another worker. A worker killed in any of these calls leaves the old value or the new one. A call
    waits for the daemon where it must ask it: to attach a forked child at its first change, to leave an epoch that was
    closed, and, if the daemon is gone, once a second to find the next one. If something listens there that gives no
    answer, as systemd for a daemon that cannot start, one call of a process waits for it up to the `timeout` of the pool (5
    seconds), and later ones 50 ms.

    Where the daemon ended with the pool's memory, and there is a new one, the store opens the new pool within a second,
    by itself, and logs a warning (logger `tslab`): it is empty. While there is no daemon the store goes on as it is.

    Sessions that several hosts share, and that survive the pool and the host, are in an engine behind it:

        store = SessionStore(tslab.open('web'), behind=redis.Redis('db', socket_timeout=0.5), while_away='stale')

    `behind` is a redis.Redis or RedisCluster that returns bytes; sessions have the keys `prefix` + id there. A change is
    made in the engine; a read takes this host's copy, which tslab-near(8) keeps coherent in the near cache `near`, and asks
    the engine where there is none. So it reads the changes of other hosts after some milliseconds, and after its own
    host's change nothing older. touch() asks the engine only once an eighth of the lifetime is over.

    While the engine gives no answer, calls that change a session raise EngineError. With `while_away="fail"` reads do,
    too, at the latest when the bound of tslab-near is over. With "stale" they return what this host was last told of
    the session, for as long as its lifetime lasts, and the engine is asked once a second. Give the client a
    `socket_timeout`: without one, calls wait for a host that is gone as long as the kernel does. Such a store is pickled
    with its client, if that can be: a redis.Redis cannot.

    A program that gives its sessions to users can list them, and end them all, as after a change of the password:

        store.assign(session_id, 'ann')             # at the login, once the session is set
        store.end_sessions('ann', but=session_id)

    `with store.lock(session_id):` keeps others out that lock it, too; replace() is for those that do not wait.
    """

    _contents = 'sessions'

    def __init__(self, pool: Pool, name: str = 'sessions', *, lifetime: Optional[Lifetime] = None, behind: Any = None,
                 prefix: str = 'session:', near: str = 'near', while_away: str = 'fail') -> None:
        super().__init__(pool, name, evict=None if behind is None else 'sieve')
        self._chosen = None if lifetime is None else _lifetime(lifetime)
        self.lifetime = _LIFETIME if self._chosen is None else self._chosen
        self._behind = None if behind is None else Behind(self, behind, prefix=prefix, near=near, while_away=while_away)
        self._beside: Dict[str, Cache] = {}
        self._init_look()

    def _init_look(self) -> None:
        self._users: Iterator[Tuple[bytes, Entry]] = iter(())
        self._users_lock = threading.Lock()

    def __getstate__(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {**super().__getstate__(), '_beside': {}, '_behind': self._behind and self._behind.options()}
        return {name: value for name, value in state.items() if name not in ('_users', '_users_lock')}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        self._init_look()
        self._behind = state['_behind'] and Behind(self, **state['_behind'])

    def get(self, session: Key) -> Optional[bytes]:
        """A session's value; None where there is none, or its lifetime is over."""
        if self._behind:
            return self._use(self._behind.get, encoded(session))
        if time.monotonic() < self._next_look:      # as Cache.get()
            try:
                return self._opened.map.get(session)
            except Error:
                pass
        return self._use(Map.get, session)

    def get_version(self, session: Key) -> Optional[Tuple[bytes, int]]:
        """The value and its version, for replace(), or None."""
        if not self._behind:
            return self._use(Map.get_version, encoded(session))
        value = self.get(session)
        return None if value is None else (value, version_of(value))

    def lifetime_of(self, framework: Lifetime) -> float:
        """The lifetime of a session for which the framework has one, too, as Flask's PERMANENT_SESSION_LIFETIME: that one,
        or the store's own if it was given one and that is shorter."""
        return min(_lifetime(framework), math.inf if self._chosen is None else self._chosen)

    def set(self, session: Key, value: bytes, lifetime: Optional[Lifetime] = None) -> None:
        """Sets a session's value; its lifetime begins anew. `lifetime`: another one than the store's.

        TooLargeError, FullError, DaemonError (the current epoch is closed, and there is no daemon to open another): the
        old value stays. EngineError: the engine may have the old value or the new one.
        """
        key, life = encoded(session), self._life(lifetime)
        if self._behind:
            self._use(self._behind.set, key, copied(value), life)
        else:
            self._put(key, value, Map.put, key, value, EPOCH_CURRENT, life)

    def _life(self, lifetime: Optional[Lifetime]) -> float:
        return self.lifetime if lifetime is None else _lifetime(lifetime)

    def replace(self, session: Key, version: int, value: bytes, lifetime: Optional[Lifetime] = None) -> None:
        """Sets the value as set() does, if the present value has this version (0: it is absent); otherwise
        ChangedError. So no change is lost that was made since get_version()."""
        key, life = encoded(session), self._life(lifetime)
        if self._behind:
            self._use(self._behind.replace, key, version, copied(value), life)
        else:
            self._put(key, value, Map.replace, key, version, value, EPOCH_CURRENT, life)

    def _put(self, key: bytes, value: bytes, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._write(call, *arguments)
        except TooLargeError:
            id_max = self.pool.size_max - _ENTRY_SIZE
            raise TooLargeError(errno.E2BIG, f'a session id of {len(key)} bytes: it may have {id_max}' if len(key) > id_max else
                                f'a session of {len(raw(value))} bytes: it may have {self.size_max}') from None

    def touch(self, session: Key, lifetime: Optional[Lifetime] = None) -> bool:
        """Begins a session's lifetime anew. Returns whether the session is there. Its value stays as it is, also if
        others change it meanwhile. If that cannot be done, as in a forked child that finds no daemon, the lifetime
        stays as it was, and that is logged: a request that only reads does not fail."""
        key, life = encoded(session), self._life(lifetime)
        if self._behind:
            return self._use(self._behind.touch, key, life)
        try:
            return self._use(Map.touch, key, life)
        except Error as e:
            self._log_seldom('touch', 'a session\'s lifetime could not be prolonged: %s', e)
            return key in self

    def delete(self, session: Key) -> bool:
        """Whether it was there."""
        if self._behind:
            return self._use(self._behind.delete, encoded(session))
        return self._use(Map.delete, encoded(session))

    def _map_beside(self, what: str) -> Cache:
        """A map of its own, which is made when it is first needed."""
        if what not in self._beside:
            self._beside[what] = Cache(self.pool, f'{self.name}.{what}')
        return self._beside[what]

    def lock(self, session: Key, ttl: Lifetime = CLAIM_SECONDS) -> Lock:
        """A lock of this host's processes for a session, be it there or not: see tslab.lock.Lock."""
        return self._map_beside('locks').lock(session, ttl)

    # The sessions of a user are a list of ids, which may name sessions that have ended.

    def assign(self, session: Key, user: Key) -> None:
        """Says whose session it is, once it is set. That holds for ten years after the last call for this user. A session
        that gets another id is assigned anew. Each call also looks at two other users, and forgets those without sessions."""
        key, id_ = encoded(user), encoded(session)
        if self._behind:
            self._behind.assign(key, id_)
        else:
            self._change_ids(key, lambda ids: [*(i for i in ids if i != id_ and i in self), id_])
            self._forget_users()

    def _forget_users(self) -> None:
        """Else a record would be left of each user that ever was."""
        if not self._users_lock.acquire(blocking=False):
            return          # another thread is at it
        try:
            users = self._map_beside('users')
            for _ in range(_LOOKS):
                user, entry = next(self._users, (None, None))
                if user is None or entry is None:
                    self._users = users._use(Map.entries)
                elif not any(id_ in self for id_ in _ids(entry.value)):
                    users._use(Map.delete, user, entry.version)
        except ChangedError:
            pass            # a session was assigned meanwhile
        except Error:
            self._users = iter(())      # the assignment is done: another will see to it
        finally:
            self._users_lock.release()

    def sessions_of(self, user: Key) -> List[bytes]:
        """The ids of a user's sessions that are there; the one that was assigned last comes last, where no engine has them."""
        return [id_ for id_ in self._ids_of(encoded(user)) if id_ in self]

    def _ids_of(self, user: bytes) -> List[bytes]:
        return self._behind.assigned(user) if self._behind else _ids(self._map_beside('users').get(user))

    def end_sessions(self, user: Key, but: Optional[Key] = None) -> int:
        """Deletes the sessions of a user, but for one, as that of the request. Returns how many there were. A session that is
        assigned meanwhile may stay."""
        kept = None if but is None else encoded(but)
        # Sessions that seem to have ended, too: while the engine is away nobody knows that, and a deletion fails.
        ended = [id_ for id_ in self._ids_of(encoded(user)) if id_ != kept]
        n = sum(self.delete(id_) for id_ in ended)
        if self._behind:
            self._behind.unassign(encoded(user), ended)
        else:
            self._change_ids(encoded(user), lambda ids: [i for i in ids if i not in ended and i in self])
        return n

    def _change_ids(self, user: bytes, change: Callable[[List[bytes]], List[bytes]]) -> None:
        users = self._map_beside('users')
        while True:
            found = users._use(Map.get_version, user)
            data, version = found or (b'', 0)
            ids = change(_ids(data))
            try:
                if ids:
                    users._write(Map.replace, user, version, _packed(ids), EPOCH_CURRENT, TTL_MAX)
                elif found:
                    users._use(Map.delete, user, version)
                return
            except ChangedError:
                pass

    def __len__(self) -> int:
        """How many there are. Walks through all of them. TypeError where an engine has them."""
        if self._behind:
            raise TypeError('the engine has the sessions: count them there')
        return super().__len__()

    def __contains__(self, session: Key) -> bool:
        return self.get(session) is not None
