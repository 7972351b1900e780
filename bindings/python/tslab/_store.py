"""A map that is used for as long as a program runs, whatever happens to the pool."""

from __future__ import annotations

import errno
import logging
import time
from typing import Any, Callable, Dict, Mapping, TypeVar, Union

from tslab.errors import BusyError, EpochClosedError, Error, ReplacedError
from tslab.map import Map
from tslab.pool import Pool, _open_pickled

_Result = TypeVar('_Result')

_log = logging.getLogger('tslab')

LOOK_SECONDS = 1.0          # how often a process looks after its daemon
_LOG_SECONDS = 60.0         # between two messages about one trouble
_TRIES_MAX = 100            # of a millisecond, while another process is at control work


# Attributes that a copy of a store has of its own.
_UNPICKLED = '_opened', '_successors', '_next_look', '_next_log'


def pool_of(pool: Union[Pool, str, None]) -> Pool:
    """A pool, or the one of that name, which this process opens once; None: $TSLAB_POOL, else "default"."""
    if isinstance(pool, Pool):
        return pool
    return _open_pickled({'pool': pool or None, 'reader': False, 'cache': 'adaptive', 'timeout': None, 'comm': None})


def cache_options(pool: Pool, options: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of tslab.Map. By default a framework's cache evicts, and has half of its pool at most: sessions may be
    beside it."""
    return {'evict': 'sieve', 'limit_bytes': pool.capacity // 2, **options}


class _Opened:
    def __init__(self, number: int, pool: Pool, name: str, options: Dict[str, Any]) -> None:
        self.number, self.pool, self.map = number, pool, Map(pool, name, **options)


class Store:
    """Caches and sessions: a map that outlives its pool's memory, and closed epochs."""

    _contents = 'entries'

    def __init__(self, pool: Pool, name: str, **options: Any) -> None:
        self.name = name
        # Copies of this store, and maps in a new arena, find a map or make one.
        self._options = {o: value for o, value in options.items() if o not in ('existing', 'exclusive')}
        self._opened = _Opened(0, pool, name, options)
        self._successors: Dict[int, _Opened] = {}       # by number: of threads that reopen at once, one wins
        self._next_look = 0.0
        self._next_log: Dict[str, float] = {}

    def __getstate__(self) -> Dict[str, Any]:
        return {**{name: value for name, value in vars(self).items() if name not in _UNPICKLED}, 'pool': self.pool}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        Store.__init__(self, state.pop('pool'), state['name'], **state['_options'])
        vars(self).update(state)

    @property
    def pool(self) -> Pool:
        """The pool that it is in: another one after the daemon was replaced."""
        return self._opened.pool

    @property
    def map(self) -> Map:
        """The map that it is in: another one after the daemon was replaced."""
        return self._opened.map

    @property
    def size_max(self) -> int:
        """The size of the largest value, in bytes."""
        return self._opened.map.size_max

    def __len__(self) -> int:
        """How many there are. Walks through all of them."""
        return self._use(Map.__len__)

    def __bool__(self) -> bool:
        """A store is one, also while it is empty."""
        return True

    def _use(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Calls it with the map that there is, after a look at that once a second."""
        now = time.monotonic()
        opened = self._opened
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            if opened.pool.stale:
                opened = self._try_reopen(opened)
        try:
            return call(opened.map, *arguments)
        except Error as e:
            if e.errno != errno.EIDRM and not (isinstance(e, ReplacedError) and opened.pool.stale):
                raise
            return call(self._reopen(opened).map, *arguments)

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
        fresh = _Opened(old.number + 1, old.pool.reopen() if was_replaced else old.pool, self.name, self._options)
        winner = self._successors.setdefault(fresh.number, fresh)       # atomic
        is_late = self._opened is not old       # the entry that it would have met may have been popped by now
        if not is_late:
            self._opened = winner               # also for a winner that an exception kept from it
            self._successors.pop(old.number, None)
        if winner is fresh and not is_late:
            _log.warning('%s: %s %r begin anew; the old ones are gone',
                         'the daemon has a new arena' if was_replaced else 'the index of the arena\'s maps was revoked',
                         self._contents, self.name)
            return fresh
        if winner is fresh:
            self._successors.pop(fresh.number, None)
        if was_replaced:
            fresh.pool.close()
        return self._opened

    def _write(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Where the current epoch is closed to allocation, as by an operator, this opens the next one."""
        for _ in range(_TRIES_MAX):
            try:
                return self._use(call, *arguments)
            except EpochClosedError:
                self._leave_closed(self._opened.pool)
        return self._use(call, *arguments)

    def _leave_closed(self, pool: Pool) -> None:
        current = pool.epoch_current()
        info = pool.epoch_info(current & 0xff)
        if info.epoch != current or info.state == 'open':
            return          # it was advanced meanwhile
        try:
            if pool.epoch_advance_from(current)[0]:
                _log.warning('epoch %d:%d was closed while it was current; %s go to the next one', current & 0xff,
                             current >> 8, self._contents)
        except BusyError:
            time.sleep(0.001)

    def _log_seldom(self, about: str, text: str, *arguments: object) -> None:
        now = time.monotonic()
        if now >= self._next_log.get(about, 0.0):
            self._next_log[about] = now + _LOG_SECONDS
            _log.warning(text, *arguments)

