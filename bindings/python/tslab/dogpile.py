"""A backend for dogpile.cache:

    dogpile.cache.register_backend('tslab', 'tslab.dogpile', 'Backend')
    region = dogpile.cache.make_region().configure('tslab', expiration_time=300, arguments={'pool': 'web'})

Arguments: `pool` is the name of a pool or a tslab.Pool; `name` is that of the cache in the pool; `ttl` is how many
seconds values stay there, longer than the region's expiration_time; `limit_bytes`, `value_max`, `stale` and `evict` are as
in tslab.Map. Others are ignored, as dogpile.cache wants it.

A value that the pool does not take, because it is too large, the pool is full, or a daemon is needed and absent, is not
kept, and that is logged (logger `tslab`): requests go on without a cache.
"""

from __future__ import annotations

import json
import pickle
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from dogpile.cache.api import NO_VALUE, BytesBackend, CantDeserializeException

import tslab
from tslab._bytes import encoded
from tslab.cache import UNKEPT
from tslab.lock import Lock
from tslab.pool import Pool

_OPTIONS = 'name', 'ttl', 'limit_bytes', 'value_max', 'stale', 'evict'


class _Foreign(bytes):
    """Bytes of another program. A region parses the part before the bar itself, and then asks the deserializer."""

    def partition(self, separator: Any) -> Tuple[bytes, bytes, bytes]:
        return b'{}', b'|', self


def _loads(payload: bytes) -> Any:
    try:
        return pickle.loads(payload)
    except Exception as e:      # noqa: BLE001 (the bytes are no pickle, or one of another program's classes)
        raise CantDeserializeException() from e


def _marked(value: bytes) -> bytes:
    """The value; as that of another program where a region cannot read how old it is."""
    try:
        metadata = json.loads(value.partition(b'|')[0])
    except (ValueError, RecursionError):
        return _Foreign(value)
    return value if isinstance(metadata, dict) and {'ct', 'v'} <= metadata.keys() else _Foreign(value)


class _Mutex(Lock):
    """Where the pool has no room for a lock, each caller makes the value for itself."""

    def _acquire(self, claim: Any, end: float) -> bool:
        try:
            return super()._acquire(claim, end)
        except UNKEPT as e:
            self._cache._tell_unkept(e)
            return True


class Backend(BytesBackend):
    deserializer = staticmethod(_loads)     # where the region has none of its own

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        pool = arguments.get('pool')
        options: Dict[str, Any] = {'name': 'dogpile', **{o: arguments[o] for o in _OPTIONS if o in arguments}}
        self.cache = tslab.Cache(pool if isinstance(pool, Pool) else tslab.open(pool), **options)

    def get_mutex(self, key: str) -> Any:
        """One process at a time makes a value, but for values that take longer than 30 seconds."""
        return _Mutex(self.cache, b'\xff' + encoded(key))      # no text begins so

    def has_lock_timeout(self) -> bool:
        return True

    def get_serialized(self, key: str) -> Any:
        return self.get_serialized_multi([key])[0]

    def get_serialized_multi(self, keys: Iterable[str]) -> List[Any]:
        found = self.cache.get_multi(keys)
        values = (found.get(key) for key in keys)
        return [_marked(value) if isinstance(value, bytes) else NO_VALUE for value in values]  # a number is a counter

    def set_serialized(self, key: str, value: bytes) -> None:
        self.cache._set_or_forget(key, value)

    def set_serialized_multi(self, mapping: Mapping[str, bytes]) -> None:
        for key, value in mapping.items():
            self.set_serialized(key, value)

    def delete(self, key: str) -> None:
        self.cache.delete(key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        self.cache.delete_many(keys)
