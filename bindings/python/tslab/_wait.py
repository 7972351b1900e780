"""Waits of gevent and eventlet programs: while one greenlet waits, the other greenlets of its thread go on."""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from typing import Any, Callable, Iterator, Optional

_FIRST_SECONDS, _LAST_SECONDS = 0.001, 0.016     # between two looks


def _hub_of_gevent() -> Any:
    """The hub of this thread; None where there is none. get_hub() would make one."""
    module: Any = sys.modules.get('gevent._hub_local')
    return module and module.get_hub_if_exists()


def _hub_of_eventlet() -> Any:
    module: Any = sys.modules.get('eventlet.hubs')
    hub = module and getattr(module._threadlocal, 'hub', None)
    return hub and hub.greenlet


def pause() -> Optional[Callable[[float], object]]:
    """A sleep in which other greenlets of this thread run; None where there are none, so that the thread may stand still.
    A hub itself, as in the callback of a timer, cannot wait for another greenlet."""
    greenlet: Any = sys.modules.get('greenlet')
    if greenlet:
        for name, hub in ('gevent', _hub_of_gevent()), ('eventlet', _hub_of_eventlet()):
            if hub is not None and greenlet.getcurrent() is not hub:
                sleep: Callable[[float], object] = sys.modules[name].sleep
                return sleep
    return None if isinstance(time.sleep, types.BuiltinFunctionType) else time.sleep     # somebody's else


def runs_loop() -> bool:
    """Whether asyncio runs in this thread, and nothing else of its loop would run while a call waits."""
    asyncio: Any = sys.modules.get('asyncio')
    return asyncio is not None and asyncio._get_running_loop() is not None


def is_own(pid: int) -> bool:
    """Whether this process noted its number there. A child that was forked since has a copy, and not the claims and locks of its
    parent."""
    return pid == os.getpid()


def current() -> object:
    """The task, greenlet or thread that calls."""
    if runs_loop():
        return sys.modules['asyncio'].current_task()
    greenlet: Any = sys.modules.get('greenlet')
    return greenlet.getcurrent() if greenlet else threading.get_ident()


def steps(end: float) -> Iterator[float]:
    """The seconds to sleep between looks, until the clock is at `end`."""
    seconds = _FIRST_SECONDS
    while True:
        left = end - time.monotonic()
        if not left > 0:        # nor is NaN
            return
        yield min(seconds, left)
        seconds = min(seconds * 2, _LAST_SECONDS)
