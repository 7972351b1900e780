"""Exceptions. All are OSErrors, whose `errno` libtslab returned."""

from __future__ import annotations

import errno
import os
from typing import Dict, Optional, Tuple, Type


class Error(OSError):
    """Any error of tslab. The errors that programs tell apart have classes of their own."""


class StaleError(Error):
    """The handle names no live object, or the epoch's era is over."""


class FullError(Error):
    """The arena, the system, the pool's memory limit or the limit of a map has no room for more."""


class EpochClosedError(Error):
    """The epoch is closed to allocation."""


class TooLargeError(Error, ValueError):
    """Larger than the pool's largest class, or the options of the map, allow."""


class NotFoundError(Error, LookupError):
    """There is no such root, pool or map."""


class ChangedError(Error):
    """Somebody else changed it meanwhile."""


class CounterRangeError(Error, OverflowError):
    """The sum is beyond 64 bits; the counter is as it was."""


class LockLostError(ChangedError):
    """A lock was lost before it was released: its `ttl` was over, or the cache was cleared. Another may have it."""


class ReadOnlyError(Error):
    """The pool was opened as a reader."""


class BusyError(Error):
    """Another process is doing control work; try again. `pid` is that process, if it is still at it and the pool is
    private: one that is stopped in the middle stays there until it goes on or ends."""

    pid: Optional[int] = None


class DaemonError(Error, ConnectionError):
    """There is no daemon now, or it did not answer. Calls that need none go on working."""


class ReplacedError(Error):
    """The daemon has another arena by now: close the pool and open it anew."""


class EngineError(Error, ConnectionError):
    """The engine behind a pool gave no answer, or refused. `__cause__` is the error of its client."""


class ClosedError(Error, ValueError):
    """The pool or map was closed in this process."""


def is_damaged(error: Error) -> bool:
    """Whether a stray write has damaged a value. That is for good: a replaced arena has the same number, and is not meant."""
    return error.errno == errno.EUCLEAN and not isinstance(error, ReplacedError)


_KINDS: Dict[int, Tuple[Type[Error], str]] = {
    errno.ESTALE: (StaleError, 'the handle or the era of the epoch is over'),
    errno.ENOMEM: (FullError, 'no memory is left for it, in the pool (see "tslabctl status") or in the system'),
    errno.ENOSPC: (FullError, 'the map is at its limit, or all 255 names of maps and roots are in use: remove maps'),
    errno.ESHUTDOWN: (EpochClosedError, 'the epoch is closed'),
    errno.E2BIG: (TooLargeError, 'larger than the pool, or the map, takes'),
    errno.ENOENT: (NotFoundError, 'there is no such thing'),
    errno.EAGAIN: (ChangedError, 'it was changed meanwhile'),
    errno.EROFS: (ReadOnlyError, 'the pool was opened as a reader'),
    errno.EBUSY: (BusyError, 'another process is doing control work'),
    errno.ENOTCONN: (DaemonError, 'there is no daemon now'),
    errno.ECONNREFUSED: (DaemonError, 'there is no daemon'),
    errno.ECONNRESET: (DaemonError, 'the daemon went away'),
    errno.ETIMEDOUT: (DaemonError, 'the daemon did not answer in time'),
    errno.EUCLEAN: (ReplacedError, 'the daemon has another arena by now'),
    errno.EBADF: (ClosedError, 'it was closed'),
    errno.EPERM: (Error, 'the daemon does not let this process do that'),
    errno.EACCES: (Error, 'no permission to use the socket or, without reader=True, to write'),
    errno.EUSERS: (Error, 'all records of threads, or all entries for processes, are taken, or the daemon has no descriptor left'),
    errno.EDQUOT: (Error, 'this user has nearly all records, entries or connections'),
    errno.EREMOTE: (Error, 'the daemon is of another pid namespace'),
    errno.EOVERFLOW: (CounterRangeError, 'the sum is beyond 64 bits'),
    errno.EDEADLK: (Error, 'this thread has the claim, and would wait for itself'),
    errno.EIDRM: (Error, 'the map was removed, or the index of all maps was revoked: open the map anew'),
    errno.EPROTONOSUPPORT: (Error, 'the pool is of another version or build: use one version, and restart after an upgrade'),
}


def error(number: int, what: str = '') -> Error:
    """The exception for a positive errno."""
    kind, text = _KINDS.get(number, (Error, os.strerror(number)))
    return kind(number, f'{what}: {text}' if what else text)


def check(result: int, what: str = '') -> int:
    """The result of a call, where it is no error."""
    if result < 0:
        raise error(-result, what)
    return result
