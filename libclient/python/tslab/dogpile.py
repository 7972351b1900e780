"""A backend for dogpile.cache:

    dogpile.cache.register_backend('tslab', 'tslab.dogpile', 'Backend')
    region = dogpile.cache.make_region().configure('tslab', expiration_time=300, arguments={'pool': 'web'})

Arguments: `pool` is the name of a pool or a tslab.Pool; `name` is that of the cache in the pool; `ttl` is how many
seconds values stay there, longer than the region's expiration_time; others are as in tslab.Map.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping

from dogpile.cache.api import NO_VALUE, BytesBackend

import tslab
from tslab.pool import Pool

_OPTIONS = 'name', 'ttl', 'limit_bytes', 'value_max', 'stale', 'evict'


class Backend(BytesBackend):
    def __init__(self, arguments: Mapping[str, Any]) -> None:
        pool = arguments.get('pool')
        options: Dict[str, Any] = {'name': 'dogpile', **{o: arguments[o] for o in _OPTIONS if o in arguments}}
        self.cache = tslab.Cache(pool if isinstance(pool, Pool) else tslab.open(pool), **options)

    def get_mutex(self, key: str) -> Any:
        """One process at a time makes a value, but for values that take longer than 30 seconds."""
        return self.cache.lock(f'\0{key}')

    def has_lock_timeout(self) -> bool:
        return True

    def get_serialized(self, key: str) -> Any:
        return self.cache.get(key, NO_VALUE)

    def get_serialized_multi(self, keys: Iterable[str]) -> List[Any]:
        found = self.cache.get_multi(keys)
        return [found.get(key, NO_VALUE) for key in keys]

    def set_serialized(self, key: str, value: bytes) -> None:
        self.cache.set(key, value)

    def set_serialized_multi(self, mapping: Mapping[str, bytes]) -> None:
        for key, value in mapping.items():
            self.cache.set(key, value)

    def delete(self, key: str) -> None:
        self.cache.delete(key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        self.cache.delete_many(keys)
