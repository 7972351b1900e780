"""Sessions of web applications: short values that expire together."""

from __future__ import annotations

import errno
import time
from typing import Optional, Union

from tslab.errors import BusyError, ChangedError, DaemonError, EpochClosedError, NotFoundError, TooLargeError
from tslab.map import Map
from tslab.pool import EpochInfo, Pool

Id = Union[str, bytes]

_TURN = 'sessions.turn'    # the root by which processes agree who turns an epoch
_LOOK_SECONDS = 1.0         # how often a process sees whether the epoch is to be turned


class SessionStore:
    """Values by session id, shared by all processes of a pool.

        store = SessionStore(tslab.open('web'), lifetime=1800)
        store.set(session_id, b'...')

    A session lives for `lifetime` seconds after it was set or touched, and up to `lifetime / steps` longer: it is in
    the epoch that was current then, and an epoch expires as a whole, with its memory. The stores of a pool turn its
    epochs, one of them at a time, as a by-product of set() and touch(); so the pool needs steps + 2 epochs in rotation.

    Nobody waits for anybody, and a worker killed in any of these calls leaves the old value or the new one. A value is
    one object: with its id it is at most `size_max` bytes, and set() refuses what is larger (TooLargeError); start the
    pool with a larger class where that is too little, up to 4096.
    """

    def __init__(self, pool: Pool, name: str = 'sessions', *, lifetime: float = 1800, steps: int = 6) -> None:
        if lifetime <= 0 or steps < 1:
            raise ValueError('lifetime and steps are positive')
        self.pool, self.lifetime, self.step = pool, lifetime, lifetime / steps
        self._map = Map(pool, name)
        self._next_look = 0.0

    @property
    def size_max(self) -> int:
        return self._map.size_max

    # Sessions

    def get(self, session: Id) -> Optional[bytes]:
        found = self._map.get_epoch(_key(session))
        if found is None or self._is_over(found[1]):
            return None
        return found[0]

    def set(self, session: Id, value: bytes) -> None:
        """Sets a session's value; its lifetime begins anew."""
        key = _key(session)
        if len(key) + len(value) > self.size_max:
            raise TooLargeError(errno.E2BIG, f'a session of {len(value)} bytes: id and value may have '
                                             f'{self.size_max} together; the pool\'s largest class decides')
        self._tend()
        while True:
            try:
                return self._map.put(key, value)
            except EpochClosedError:
                pass                # it was turned between our look at it and the allocation: there is a new one

    def touch(self, session: Id) -> bool:
        """Begins a session's lifetime anew: whether it is there. A change made by others meanwhile is not undone."""
        self._tend()
        key, current = _key(session), self.pool.epoch_current()
        while True:
            found = self._map.get_epoch(key)
            if found is None or self._is_over(found[1]):
                return False
            if found[1] == current:
                return True
            value, version = self._map.get_version(key) or (None, 0)
            if value is None:
                return False
            try:
                self._map.replace(key, version, value)
                return True
            except (ChangedError, EpochClosedError):
                current = self.pool.epoch_current()

    def delete(self, session: Id) -> bool:
        """Whether it was there."""
        return self._map.delete(_key(session))

    def __contains__(self, session: Id) -> bool:
        return self.get(session) is not None

    def __len__(self) -> int:
        """With those that expired and were not yet deleted. Walks through all of them."""
        return len(self._map)

    # Expiry

    def expire(self) -> int:
        """Deletes the sessions whose lifetime is over and gives their memory back: how many. set() and touch() see to
        it by and by; a pool that is not written to keeps them until this is called."""
        n = 0
        for info in self.pool.epochs():
            if self._has_expired(info):
                n += self._map.expire(info.epoch)
                if info.state != 'drained':
                    self.pool.epoch_close(info.epoch)
        return n

    def _has_expired(self, info: EpochInfo) -> bool:
        return not info.reserved and info.closed is not None and time.time() - info.closed >= self.lifetime

    def _is_over(self, epoch: int) -> bool:
        if epoch == self.pool.epoch_current():
            return False
        try:
            return self._has_expired(self.pool.epoch_info(epoch))
        except OSError as e:
            if e.errno != errno.ESTALE:
                raise
            return True             # its id is in use again: it was over before that

    def _tend(self) -> None:
        """Sees whether the epoch is to be turned, at most once a second."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + min(_LOOK_SECONDS, self.step / 4)
        try:
            info = self.pool.epoch_info(self.pool.epoch_current())
            age = time.time() - info.opened
            if age >= self.step and self._is_our_turn(info.epoch, age):
                self.pool.epoch_advance()
                self.expire()
        except (BusyError, DaemonError):
            pass                    # another's, or a later, look will do

    def _is_our_turn(self, epoch: int, age: float) -> bool:
        """One of all processes turns this epoch; another one, where that did not live to do it."""
        try:
            turned = self.pool.root_get(_TURN)
        except NotFoundError:
            turned = 0
        mark = epoch << 1 | 1       # never 0, which stands for absent
        if turned == mark:
            return age >= 2 * self.step
        try:
            self.pool.root_set(_TURN, mark, turned)
            return True
        except ChangedError:
            return False


def _key(session: Id) -> bytes:
    return session.encode() if isinstance(session, str) else session
