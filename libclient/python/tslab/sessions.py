"""Sessions of web applications: values, each with a lifetime of its own."""

from __future__ import annotations

import errno
import functools
from typing import Any, Optional, Tuple

from tslab._bytes import raw
from tslab._store import Key, Store, encoded
from tslab.errors import Error, TooLargeError
from tslab.map import Map, ttl_ms
from tslab.pool import EPOCH_CURRENT, Pool


class SessionStore(Store):
    """Values by session id, shared by all processes of a pool.

        store = SessionStore(tslab.open('web'), lifetime=1800)
        store.set(session_id, b'...')

    A session lives for `lifetime` seconds after it was set or touched, at most 49 days. That is a property of each
    session: stores of other lifetimes on the same pool, or even of the same name, do not change it, nor does any program
    that advances the pool's epochs. The time that a machine is suspended counts; setting its clock does not. The memory
    of a session that is over goes back within a second: the daemon sees to that, and in a private pool calls that
    change a map.

    A value has at most `size_max` bytes, a megabyte by default: set() refuses a larger one (TooLargeError).

    Any thread may use a store at any time, and so may forked children; a store is pickled by the name of its pool.
    Nobody waits for anybody. A worker killed in any of these calls leaves the old value or the new one.

    Where the daemon ended with the pool's memory, and there is a new one, the store opens the new pool within a second,
    by itself, and logs a warning (logger `tslab`): it is empty. While there is no daemon the store goes on as it is.
    """

    _contents = 'sessions'

    def __init__(self, pool: Pool, name: str = 'sessions', *, lifetime: float = 1800) -> None:
        ttl_ms(lifetime)        # ValueError
        super().__init__(pool, name)
        self.lifetime = lifetime

    def __reduce__(self) -> Tuple[Any, ...]:
        return functools.partial(type(self), lifetime=self.lifetime), (self.pool, self.name)

    def get(self, session: Key) -> Optional[bytes]:
        """A session's value; None where there is none, or its lifetime is over."""
        return self._use(Map.get, encoded(session))

    def set(self, session: Key, value: bytes) -> None:
        """Sets a session's value; its lifetime begins anew.

        TooLargeError, FullError, DaemonError (the current epoch is closed, and there is no daemon to open another): the
        old value stays.
        """
        key = encoded(session)
        try:
            self._write(Map.put, key, value, EPOCH_CURRENT, self.lifetime)
        except TooLargeError:
            raise TooLargeError(errno.E2BIG, f'a session of {len(raw(value))} bytes, with an id of {len(raw(key))}: '
                                             f'a session may have {self.size_max}') from None

    def touch(self, session: Key) -> bool:
        """Begins a session's lifetime anew: whether it is there. Its value stays as it is, also where others change it
        meanwhile. Where that cannot be done, as in a forked child that finds no daemon, the lifetime stays as it was,
        which is logged: a request that only reads does not fail."""
        key = encoded(session)
        try:
            return self._use(Map.touch, key, self.lifetime)
        except Error as e:
            self._log_seldom('touch', 'a session\'s lifetime could not be prolonged: %s', e)
            return key in self

    def delete(self, session: Key) -> bool:
        """Whether it was there."""
        return self._use(Map.delete, encoded(session))

    def __contains__(self, session: Key) -> bool:
        return self.get(session) is not None
