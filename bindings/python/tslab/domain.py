"""Domains: scopes around one epoch, which threads enter and leave."""

from __future__ import annotations

import errno
from typing import Any, Optional

from tslab._native import ffi, lib
from tslab.errors import ClosedError, check


class Domain:
    """A scope around one epoch. Pool.domain() makes one:

        with pool.domain(auto_close=True) as domain:
            handle, view = pool.alloc(100, domain.epoch)

    Inside, this process has a reference to the epoch. With `auto_close` the last thread to leave, in all processes,
    closes the epoch. Any number of threads may be inside, each any number of times. A thread must leave its domains in
    the reverse order of entering, so generators and coroutines must not suspend inside one. A process that is killed
    inside is inside no more, but closes nothing.

    Entering raises EpochClosedError if the epoch is closed, and StaleError if its era is over. Leaving raises
    DaemonError if the epoch was to be closed and there was no daemon; the domain was left all the same.
    """

    def __init__(self, pool: Any, native_pool: Any, epoch: int, auto_close: bool) -> None:
        native = ffi.new('struct tslab_domain **')
        check(lib.tslab_domain_open(native, native_pool, epoch, lib.TSLAB_DOMAIN_AUTO_CLOSE if auto_close else 0),
              f'a domain of epoch {epoch & 0xff}')
        self._pool, self._owner = pool, native_pool     # which must not go before the domain
        self._native: Optional[Any] = ffi.gc(native[0], lib.tslab_domain_close)
        self.epoch: int = lib.tslab_domain_epoch(native[0])

    def _domain(self) -> Any:
        if self._native is None or self._pool.closed:
            raise ClosedError(errno.EBADF, 'the domain was closed')
        return self._native

    def enter(self) -> None:
        self.__enter__()

    def leave(self) -> None:
        """Error with EINVAL where this thread entered another domain last."""
        self.__exit__()

    def __enter__(self) -> Domain:
        entered = ffi.new('bool *')
        try:
            check(lib.enter_domain(self._domain(), entered), f'entering epoch {self.epoch & 0xff}')
            return self
        except BaseException:
            if entered[0]:
                lib.tslab_domain_leave(self._native)
            raise

    def __exit__(self, *_: object) -> None:
        left = None
        try:
            left = ffi.new('bool *')
            check(lib.leave_domain(self._domain(), left), f'leaving epoch {self.epoch & 0xff}')
        except BaseException:
            if not left or not left[0]:
                lib.tslab_domain_leave(self._native)
            raise
