"""tslab: objects in memory that a group of processes shares.

    import tslab

    with tslab.open('web') as pool:
        handle, view = pool.alloc(100)
        view[:5] = b'hello'
        pool.root_set('greeting', handle)

Handles are the same in every process; views are this process's memory, and nothing is copied. See tslab(3).
"""

import importlib as _importlib
from typing import Any as _Any

from tslab import values
from tslab._native import ffi as _ffi
from tslab._native import lib as _lib
from tslab.cache import Cache
from tslab.domain import Domain
from tslab.errors import (BusyError, ChangedError, ClosedError, CounterRangeError, DaemonError, EngineError,
                          EpochClosedError, Error, FullError, LockLostError, NotFoundError, ReadOnlyError, ReplacedError,
                          StaleError, TooLargeError)
from tslab.map import Entry, Map
from tslab.near import AsyncNearCache, NearCache
from tslab.pool import EPOCH_CURRENT, EpochInfo, Pool, create, open  # noqa: A004
from tslab.sessions import SessionStore
from tslab.stats import Count, MapStats, Stats, ThreadStats

__version__ = _ffi.string(_lib.tslab_version()).decode()

__all__ = ['EPOCH_CURRENT', 'AsyncNearCache', 'BusyError', 'Cache', 'ChangedError', 'ClosedError', 'Count',
           'CounterRangeError', 'DaemonError', 'Domain', 'EngineError', 'Entry', 'EpochClosedError', 'EpochInfo',
           'Error', 'FullError', 'Map', 'MapStats', 'NearCache', 'NotFoundError', 'Pool', 'ReadOnlyError',
           'ReplacedError', 'SessionStore', 'StaleError', 'Stats', 'ThreadStats', 'TooLargeError', 'create', 'open',
           'values']


def __getattr__(name: str) -> _Any:
    """These need packages of the same names, so only programs that name them import them."""
    if name in ('aiocache', 'cachelib', 'celery', 'django', 'dogpile', 'flask', 'limits', 'starlette'):
        return _importlib.import_module(f'tslab.{name}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
