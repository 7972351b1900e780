"""Sessions of web applications: values, each with a lifetime of its own."""

from __future__ import annotations

import errno
import functools
import logging
import random
import struct
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

from tslab._native import ffi, lib
from tslab.errors import (BusyError, ChangedError, DaemonError, EpochClosedError, Error, FullError, ReplacedError,
                          TooLargeError, check)
from tslab.map import Map
from tslab.pool import Pool

Id = Union[str, bytes]
_Result = TypeVar('_Result')

_log = logging.getLogger('tslab')

_LOOK_SECONDS = 1.0         # how often a process looks after its daemon and the epoch
_LOG_SECONDS = 60.0         # between two messages about one trouble
_SWEEP_SLICE = 256          # entries that a set() or touch() looks at for the memory of others
_TRIES_MAX = 100            # of a millisecond, while another process is at control work

# A value begins with the time at which it is over, in milliseconds of CLOCK_BOOTTIME, and in the top byte the version
# of this format. All processes of a machine have that clock in common, and nobody sets it.
_HEAD = struct.Struct('<Q')
_FORMAT = 1 << 56


def _now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _end_ms(value: bytes) -> int:
    """When a value is over; 0, which is in the past, for a value that no store has written."""
    if len(value) < _HEAD.size:
        return 0
    head: int = _HEAD.unpack_from(value)[0]
    return head - _FORMAT if head >> 56 == _FORMAT >> 56 else 0


class _Opened:
    """A pool with the map of a store, and the walks through it that this process has begun."""

    def __init__(self, number: int, pool: Pool, name: str) -> None:
        self.number, self.pool, self.map = number, pool, Map(pool, name)
        self.size_max = self.map.size_max - _HEAD.size
        self.walks: List[Any] = []          # to delete sessions that are over; whichever thread goes on takes one out


class SessionStore:
    """Values by session id, shared by all processes of a pool.

        store = SessionStore(tslab.open('web'), lifetime=1800)
        store.set(session_id, b'...')

    A session lives for `lifetime` seconds after it was set or touched, and up to `lifetime / steps` longer. That is a
    property of each session: stores of other lifetimes on the same pool, or even of the same name, do not change it,
    nor does any program that advances the pool's epochs. The time that a machine is suspended counts; setting its clock
    does not.

    Memory of sessions that are over is given back by and by, as a by-product of set() and touch(), or at once by
    expire(). Each `lifetime / steps` seconds the first store to notice advances the pool's epoch, so that sessions that
    end together lie together. Where only operators may do that, epochs stay as they are.

    A value has at most `size_max` bytes, a megabyte by default: set() refuses a larger one (TooLargeError).

    Any thread may use a store at any time, and so may forked children; a store is pickled by the name of its pool.
    Nobody waits for anybody, with one exception: the call that advances the epoch waits for the daemon's answer. A
    worker killed in any of these calls leaves the old value or the new one.

    Where the daemon ended with the pool's memory, and there is a new one, the store opens the new pool within a second,
    by itself, and logs a warning (logger `tslab`): it is empty. While there is no daemon the store goes on as it is.
    """

    def __init__(self, pool: Pool, name: str = 'sessions', *, lifetime: float = 1800, steps: int = 6) -> None:
        if lifetime <= 0 or steps < 1:
            raise ValueError('lifetime and steps are positive')
        self.name, self.lifetime, self.steps, self.step = name, lifetime, steps, lifetime / steps
        self._opened = _Opened(0, pool, name)
        self._successors: Dict[int, _Opened] = {}       # by number: of threads that reopen at once, one wins
        self._next_look = 0.0
        self._next_sweep = time.monotonic() + random.random() * self.step      # not all workers at once
        self._next_full_sweep = 0.0
        self._next_log: Dict[str, float] = {}

    def __reduce__(self) -> Tuple[Any, ...]:
        make = functools.partial(SessionStore, lifetime=self.lifetime, steps=self.steps)
        return make, (self.pool, self.name)

    @property
    def pool(self) -> Pool:
        """The pool that the sessions are in: another one after the daemon was replaced."""
        return self._opened.pool

    @property
    def size_max(self) -> int:
        """The size of the largest value, in bytes."""
        return self._opened.size_max

    # Sessions

    def get(self, session: Id) -> Optional[bytes]:
        """A session's value; None where there is none, or its lifetime is over."""
        key = _key(session)
        found = self._use(lambda opened: opened.map.get(key))
        return found[_HEAD.size:] if found is not None and _end_ms(found) > _now_ms() else None

    def set(self, session: Id, value: bytes) -> None:
        """Sets a session's value; its lifetime begins anew.

        TooLargeError, FullError (also after sessions that are over were deleted), EpochClosedError (no other epoch can
        be opened): the old value stays.
        """
        key = _key(session)
        data = self._value(value)
        self._keep_house()
        try:
            self._write(lambda opened: opened.map.put(key, data))
        except TooLargeError:
            raise TooLargeError(errno.E2BIG, f'a session of {len(value)} bytes, with an id of {len(key)}: '
                                             f'a session may have {self.size_max}') from None
        except FullError:
            if not self._make_room():
                raise
            self._write(lambda opened: opened.map.put(key, data))

    def touch(self, session: Id) -> bool:
        """Begins a session's lifetime anew: whether it is there. A change made by others meanwhile is not undone. Where
        that cannot be done, as in a full pool, the lifetime stays as it was, which is logged: a request that only reads
        does not fail."""
        key = _key(session)
        self._keep_house()
        while True:
            found = self._use(lambda opened: opened.map.get_version(key))
            if found is None or _end_ms(found[0]) <= _now_ms():
                return False
            if self._prolong(key, *found):
                return True

    def _prolong(self, key: bytes, value: bytes, version: int) -> bool:
        """False: others changed it meanwhile. A session that was touched within the last step is left alone."""
        if _end_ms(value) - _now_ms() >= self.lifetime * 1000:
            return True
        data = self._value(value[_HEAD.size:])
        try:
            self._write(lambda opened: opened.map.replace(key, version, data))
        except ChangedError:
            return False
        except Error as e:
            self._log_seldom('touch', 'a session\'s lifetime could not be prolonged: %s', e)
        return True

    def delete(self, session: Id) -> bool:
        """Whether it was there, or over and not yet deleted."""
        key = _key(session)
        return self._use(lambda opened: opened.map.delete(key))

    def __contains__(self, session: Id) -> bool:
        return self.get(session) is not None

    def __len__(self) -> int:
        """How many there are, with sessions that are over and not yet deleted. Walks through all of them."""
        return self._use(lambda opened: len(opened.map))

    def _value(self, value: bytes) -> bytes:
        return _HEAD.pack(_FORMAT + _now_ms() + int((self.lifetime + self.step) * 1000)) + value

    # Trouble: new daemons, closed epochs

    def _use(self, call: Callable[[_Opened], _Result]) -> _Result:
        """Calls it with the pool that there is, after a look at that once a second."""
        now = time.monotonic()
        opened = self._opened
        if now >= self._next_look:
            self._next_look = now + min(_LOOK_SECONDS, self.step / 4)
            if opened.pool.stale:
                opened = self._try_reopen(opened)
        try:
            return call(opened)
        except Error as e:
            if e.errno != errno.EIDRM and not (isinstance(e, ReplacedError) and opened.pool.stale):
                raise
            return call(self._reopen(opened))

    def _try_reopen(self, old: _Opened) -> _Opened:
        """Where the new pool cannot be opened, the old memory will do until the next look."""
        try:
            return self._reopen(old)
        except Error as e:
            self._log_seldom('reopen', 'the daemon has a new arena, which cannot be opened: %s', e)
            return old

    def _reopen(self, old: _Opened) -> _Opened:
        """Opens the pool that has replaced the old one, or the map that was revoked there."""
        if self._opened is not old:
            return self._opened
        was_replaced = old.pool.stale
        fresh = _Opened(old.number + 1, old.pool.reopen() if was_replaced else old.pool, self.name)
        winner = self._successors.setdefault(fresh.number, fresh)       # atomic
        if winner is fresh:
            self._opened = fresh
            self._successors.pop(old.number, None)
            _log.warning('%s: sessions %r begin anew; the old ones are gone',
                         'the daemon has a new arena' if was_replaced else 'the index of the arena\'s maps was revoked',
                         self.name)
        elif was_replaced:
            fresh.pool.close()
        return winner

    def _write(self, call: Callable[[_Opened], _Result]) -> _Result:
        """Where the current epoch is closed to allocation, as by an operator, this opens the next one."""
        for _ in range(_TRIES_MAX):
            try:
                return self._use(call)
            except EpochClosedError:
                if not self._leave_closed(self._opened.pool):
                    raise
        return self._use(call)

    def _leave_closed(self, pool: Pool) -> bool:
        """False: it is not the current epoch that is closed, or no other can be opened."""
        current = pool.epoch_current()
        try:
            if pool.epoch_info(current).state == 'open':
                return pool.epoch_current() != current      # it was turned just now
        except Error as e:
            return e.errno == errno.ESTALE
        try:
            if pool.epoch_advance_from(current)[0]:
                _log.warning('epoch %d:%d was closed while it was current; sessions go to the next one', current & 0xff,
                             current >> 8)
        except BusyError:
            time.sleep(0.001)
        except Error:
            return False
        return True

    def _log_seldom(self, about: str, text: str, *arguments: object) -> None:
        now = time.monotonic()
        if now >= self._next_log.get(about, 0.0):
            self._next_log[about] = now + _LOG_SECONDS
            _log.warning(text, *arguments)

    # Expiry

    def expire(self) -> int:
        """Deletes the sessions whose lifetime is over and gives their memory back: how many. set() and touch() see to
        it by and by; a pool that is not written to keeps them until this is called. Walks through all of them."""
        return self._use(self._expire)

    def _expire(self, opened: _Opened) -> int:
        n, _ = self._sweep(opened, ffi.new('struct tslab_map_iter *'), 2 ** 62)
        self._close_old(opened.pool)
        return n

    def _sweep(self, opened: _Opened, walk: Any, n_entries: int) -> Tuple[int, bool]:
        """Goes on with a walk: how many it deleted, and whether there is more."""
        swept = lib.sweep_values(opened.map._map, walk, _FORMAT, _FORMAT + _now_ms() + 1, n_entries)
        check(swept.error, 'deleting sessions')
        return swept.n_deleted, bool(swept.more)

    def _make_room(self) -> bool:
        """Whether anything was deleted. Not by each of the calls that find a pool full."""
        now = time.monotonic()
        if now < self._next_full_sweep:
            return False
        self._next_full_sweep = now + min(_LOOK_SECONDS, self.step)
        return self.expire() > 0

    def _keep_house(self) -> None:
        if not self._opened.walks and time.monotonic() < self._next_sweep:
            return
        try:
            self._use(self._tend)
        except Error as e:
            self._log_seldom('house', 'sessions that are over could not be deleted: %s', e)

    def _tend(self, opened: _Opened) -> None:
        now = time.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + self.step
            opened.walks = [ffi.new('struct tslab_map_iter *')]
            self._turn(opened.pool)
        try:
            walk = opened.walks.pop()
        except IndexError:
            return                  # another thread has it
        if self._sweep(opened, walk, _SWEEP_SLICE)[1]:
            opened.walks.append(walk)

    def _turn(self, pool: Pool) -> None:
        """Advances the epoch where it is older than a step, and no other process did."""
        try:
            current = pool.epoch_info(pool.epoch_current())
            if time.time() - current.opened >= self.step and pool.epoch_advance_from(current.epoch)[0]:
                self._close_old(pool)
        except (BusyError, DaemonError):
            pass                    # another's, or a later, look will do
        except Error as e:
            if e.errno not in (errno.EPERM, errno.ESTALE, errno.ENOSPC, errno.EOPNOTSUPP):
                raise

    def _close_old(self, pool: Pool) -> None:
        """Epochs that have been closed to allocation for so long that their sessions are over: the memory of their
        slabs goes back to the system as these empty, and is not kept for allocations to come."""
        for info in pool.epochs():
            if info.state == 'closing' and not info.reserved and info.closed is not None and \
                    time.time() - info.closed >= self.lifetime + self.step:
                pool.epoch_close(info.epoch)


def _key(session: Id) -> bytes:
    return session.encode() if isinstance(session, str) else session
