"""Django's cache and sessions in a pool.

    CACHES = {'default': {'BACKEND': 'tslab.django.Cache', 'LOCATION': 'web'}}
    SESSION_ENGINE = 'tslab.django'

LOCATION is the name of a pool, or empty for $TSLAB_POOL. OPTIONS are `name`, that of the cache in the pool, and those of
tslab.Map: by default a cache evicts, and has half of its pool at most. Of several workers that call get_or_set(), one
makes the value; aget_or_set() and the other calls with an `a` take no thread.

TSLAB_SESSIONS in the settings has `pool`, and `conflict` for the case that two requests change a session at once:
'last' (the later one's session stays, as Django has it), 'merge' (each key that a request has changed is as that request
left it) or 'fail' (the later one is answered by SessionInterrupted, 400).
"""

from __future__ import annotations

import math
import pickle
from typing import Any, Dict, Iterable, List, Mapping, Optional

from django.conf import settings     # type: ignore[import]
from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError     # type: ignore[import]
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache        # type: ignore[import]

import tslab
from tslab._bytes import encoded
from tslab._store import cache_options, pool_of
from tslab.errors import ChangedError
from tslab.map import TTL_MAX, Map, ttl_left
from tslab.pool import EPOCH_CURRENT
from tslab.sessions import merged

_caches: Dict[Any, tslab.Cache] = {}
_stores: Dict[Any, tslab.SessionStore] = {}
_ABSENT = object()


class Cache(BaseCache):     # type: ignore[misc]
    def __init__(self, location: str, params: Dict[str, Any]) -> None:
        super().__init__(params)
        self._location, self._options = location, dict(params.get('OPTIONS') or {})

    @property
    def _cache(self) -> tslab.Cache:
        """One for all threads: Django makes a backend for each of them."""
        key = self._location, repr(sorted(self._options.items()))
        cache = _caches.get(key)
        if cache is None or cache.pool.closed:
            pool = pool_of(self._location)
            options = cache_options(pool, self._options)
            cache = _caches[key] = tslab.Cache(pool, options.pop('name', 'django'), dumps=_dumps, loads=pickle.loads,
                                               **options)
        return cache

    def _key(self, key: Any, version: Optional[int]) -> str:
        made: str = self.make_key(key, version=version)
        self.validate_key(made)
        return made

    def _ttl(self, timeout: Any) -> float:
        """Seconds. A value with none is over at once."""
        if timeout == DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return math.inf if timeout is None else min(float(timeout), TTL_MAX)

    def get(self, key: Any, default: Any = None, version: Optional[int] = None) -> Any:
        return self._cache.get(self._key(key, version), default)

    def get_many(self, keys: Iterable[Any], version: Optional[int] = None) -> Dict[Any, Any]:
        made = {self._key(key, version): key for key in keys}
        return {made[key]: value for key, value in self._cache.get_multi(made).items()}

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> None:
        self._set(self._key(key, version), value, self._ttl(timeout))

    def _set(self, key: str, value: Any, ttl: float) -> bool:
        if ttl > 0:
            return self._cache._set_or_forget(key, value, ttl)
        self._cache.delete(key)
        return True

    def set_many(self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> List[Any]:
        made, ttl = {key: self._key(key, version) for key in data}, self._ttl(timeout)
        return [key for key, value in data.items() if not self._set(made[key], value, ttl)]

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> bool:
        made, ttl = self._key(key, version), self._ttl(timeout)
        try:
            return self._cache.add(made, value, ttl) if ttl > 0 else made not in self._cache
        except tslab.cache.UNKEPT as e:
            self._cache._tell_unkept(e)
            return False

    def get_or_set(self, key: Any, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> Any:
        made, ttl = self._key(key, version), self._ttl(timeout)
        if not ttl > 0:
            return super().get_or_set(key, default, timeout, version)
        return self._cache.get_or_compute(made, default if callable(default) else lambda: default, ttl)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> bool:
        made, ttl = self._key(key, version), self._ttl(timeout)
        return self._cache.touch(made, ttl) if ttl > 0 else self._cache.delete(made)

    def incr(self, key: Any, delta: int = 1, version: Optional[int] = None) -> Any:
        made = encoded(self._key(key, version))
        while True:
            found = self._cache._find(made)
            value = self._cache._value(found, _ABSENT)
            if found is None or value is _ABSENT:
                raise ValueError(f'Key {key!r} not found')
            try:
                self._cache._write(Map.replace, made, found[1].version, _dumps(value + delta), EPOCH_CURRENT,
                                   ttl_left(found[1]))
                return value + delta
            except ChangedError:
                pass

    def has_key(self, key: Any, version: Optional[int] = None) -> bool:
        return self._key(key, version) in self._cache

    def delete(self, key: Any, version: Optional[int] = None) -> bool:
        return self._cache.delete(self._key(key, version))

    def clear(self) -> None:
        self._cache.clear()

    # None of these waits, so asyncio needs no thread for them.

    async def aget(self, *args: Any, **kwargs: Any) -> Any:
        return self.get(*args, **kwargs)

    async def aget_many(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_many(*args, **kwargs)

    async def aset(self, *args: Any, **kwargs: Any) -> Any:
        return self.set(*args, **kwargs)

    async def aset_many(self, *args: Any, **kwargs: Any) -> Any:
        return self.set_many(*args, **kwargs)

    async def aadd(self, *args: Any, **kwargs: Any) -> Any:
        return self.add(*args, **kwargs)

    async def atouch(self, *args: Any, **kwargs: Any) -> Any:
        return self.touch(*args, **kwargs)

    async def adelete(self, *args: Any, **kwargs: Any) -> Any:
        return self.delete(*args, **kwargs)

    async def ahas_key(self, *args: Any, **kwargs: Any) -> Any:
        return self.has_key(*args, **kwargs)

    async def aget_or_set(self, key: Any, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None) -> Any:
        made, ttl = self._key(key, version), self._ttl(timeout)
        if not ttl > 0:
            return await super().aget_or_set(key, default, timeout, version)
        return await self._cache.get_or_compute_async(made, default if callable(default) else lambda: default, ttl)


def _dumps(value: Any) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class SessionStore(SessionBase):    # type: ignore[misc]
    """Django makes one for each request."""

    def __init__(self, session_key: Optional[str] = None) -> None:
        super().__init__(session_key)
        self._version, self._base = 0, b''

    @property
    def _options(self) -> Dict[str, Any]:
        return getattr(settings, 'TSLAB_SESSIONS', {})

    @property
    def _store(self) -> tslab.SessionStore:
        pool = self._options.get('pool')
        store = _stores.get(pool)
        if store is None or store.pool.closed:
            store = _stores[pool] = tslab.SessionStore(pool_of(pool), 'django-sessions')
        return store

    def _dumps(self, data: Mapping[str, Any]) -> bytes:
        dumped: bytes = self.serializer().dumps(dict(data))
        return dumped

    def _loads(self, data: bytes) -> Dict[str, Any]:
        """{} where the bytes are those of another serializer, or program."""
        try:
            return dict(self.serializer().loads(data))
        except Exception:   # noqa: BLE001
            return {}

    def load(self) -> Dict[str, Any]:
        found = self._store.get_version(self.session_key) if self.session_key else None
        if found is None:
            self._session_key = None
            return {}
        self._base, self._version = found
        return self._loads(self._base)

    def exists(self, session_key: Optional[str]) -> bool:
        return session_key is not None and session_key in self._store

    def create(self) -> None:
        while True:
            self._session_key = self._get_new_session_key()
            try:
                self.save(must_create=True)
            except CreateError:
                continue
            self.modified = True
            return

    def save(self, must_create: bool = False) -> None:
        if self.session_key is None:
            return self.create()
        session = self._get_session(no_load=must_create)
        data = self._dumps(session)
        lifetime = self.get_expiry_age()
        try:
            if must_create:
                self._version = 0
            elif self._options.get('conflict', 'last') == 'last' or not self._version:
                found = self._store.get_version(self.session_key)
                if found is None:
                    raise UpdateError
                self._version = found[1]
            if lifetime > 0:
                self._store.replace(self.session_key, self._version, data, lifetime)
            else:
                self._store.delete(self.session_key)
        except ChangedError:
            return self._resolve(must_create, session)
        self._base, self._version = data, self._version_of(data)

    def _version_of(self, data: bytes) -> int:
        """The version that a change of what was just saved replaces; of something else: one that nothing has."""
        found = self._store.get_version(self.session_key)
        return found[1] if found and found[0] == data else -1 & (2 ** 64 - 1)

    def _resolve(self, must_create: bool, session: Dict[str, Any]) -> None:
        if must_create:
            raise CreateError
        found = self._store.get_version(self.session_key)
        conflict = self._options.get('conflict', 'last')
        if found is None or conflict == 'fail':
            raise UpdateError
        if conflict == 'merge':
            self._session_cache = merged(self._loads(self._base), session, self._loads(found[0]))
            self._base, self._version = found
        self.save()

    def delete(self, session_key: Optional[str] = None) -> None:
        key = self.session_key if session_key is None else session_key
        if key is not None:
            self._store.delete(key)

    @classmethod
    def clear_expired(cls) -> None:
        """The pool does that by itself."""
