"""A decorator that keeps a function's results in a cache."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import inspect
import uuid
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union

from tslab._bytes import Key, encoded
from tslab.map import Lifetime

if TYPE_CHECKING:
    from tslab.cache import Cache

# Two values of these that are equal and of one type have one text, in each process.
_PLAIN = (str, bytes, int, float, complex, type(None), type(...), datetime.date, datetime.datetime, datetime.time,
          datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID)
_SIZE_MAX = 256         # a key that would be longer ends in a digest


def _text(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == 'builtins' else f'{kind.__module__}.{kind.__qualname__}'
    if isinstance(value, enum.Enum):        # not each flag has a name
        return f'{name}.{value.name}' if value.name else f'{name}({_text(value.value)})'
    if kind in _PLAIN:      # some zones have one text on all hosts, as tzlocal() of dateutil
        return f'{value!r}{value.utcoffset()}' if getattr(value, 'tzinfo', None) else repr(value)
    base: Any = next((base for base in kind.__mro__ if base in _PLAIN), None)
    if base:        # its own text may hide the value, and the base's text lacks additions of the class
        return f'{name}({base.__repr__(value)},{value!r})'
    if isinstance(value, (tuple, list)):
        return f'{name}({",".join(map(_text, value))})'
    if isinstance(value, (set, frozenset)):
        return f'{name}({",".join(sorted(map(_text, value)))})'
    if isinstance(value, dict):
        items = [f'{_text(k)}:{_text(v)}' for k, v in value.items()]
        if not isinstance(value, collections.OrderedDict):      # for which order counts
            items.sort()
        return f'{"" if kind is dict else name}{{{",".join(items)}}}'
    raise TypeError(f'an argument of type {type(value).__name__} has no text that names it in all processes: give memoize() '
                    'a `key` that makes one of the arguments')


class Memoize:
    """The decorator of Cache.memoize, with its options or without.

    `ttl`, `timeout`, `stale_on_error` and `early` are as in Cache.get_or_compute(). A result is found by the function's name and arguments, be they
    given by position, by name or by default: numbers, text, bytes, None, dates and the like, and lists, tuples, sets and
    dicts of them. For others, as the `self` of a method, `key` is a function that gets the arguments and returns text or
    bytes. The decorated function has `key_of(...)`, the cache's key for these arguments, and `forget(...)`, which deletes
    the result and returns whether there was one. Lambdas need a `name`. `tags` are the tags of each result, see Cache.invalidate(), or a function
    that gets the arguments and returns them. `name` takes the place of the function's name, so that a program that
    is moved or renamed finds its values.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def __call__(self, function: Optional[Callable[..., Any]] = None, *, ttl: Optional[Lifetime] = None, timeout: float = 30,
                 key: Optional[Callable[..., Key]] = None, name: Optional[str] = None,
                 tags: Union[Sequence[Key], Callable[..., Sequence[Key]]] = (), stale_on_error: bool = False,
                 early: Lifetime = 0) -> Any:
        if function is None:
            return functools.partial(self.__call__, ttl=ttl, timeout=timeout, key=key, name=name, tags=tags,
                                     stale_on_error=stale_on_error, early=early)
        inner, cache = function, self._cache
        if name is None and getattr(inner, '__name__', '') == '<lambda>':
            raise TypeError('all lambdas of a place have one name: give memoize() a `name`')
        name = name or f'{inner.__module__}.{inner.__qualname__}'
        signature = inspect.signature(inner)

        def key_of(*args: Any, **kwargs: Any) -> bytes:
            if key:
                text: Union[str, bytes] = encoded(key(*args, **kwargs))
            else:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                text = ','.join(f'{n}={_text(value)}' for n, value in bound.arguments.items())
            data = encoded(f'{name}(') + encoded(text) + b')'
            return data if len(data) <= _SIZE_MAX else encoded(f'{name}#') + hashlib.sha256(data).hexdigest().encode()

        def tags_of(*args: Any, **kwargs: Any) -> Sequence[Key]:
            return tags(*args, **kwargs) if callable(tags) else tags

        def get(*args: Any, **kwargs: Any) -> Any:
            return cache.get_or_compute(key_of(*args, **kwargs), lambda: inner(*args, **kwargs), ttl, timeout,
                                        tags=tags_of(*args, **kwargs), stale_on_error=stale_on_error, early=early)

        async def get_async(*args: Any, **kwargs: Any) -> Any:
            return await cache.get_or_compute_async(key_of(*args, **kwargs), lambda: inner(*args, **kwargs), ttl, timeout,
                                                    tags=tags_of(*args, **kwargs), stale_on_error=stale_on_error, early=early)

        outer: Any = functools.wraps(inner)(get_async if inspect.iscoroutinefunction(inner) else get)
        outer.key_of = key_of
        outer.forget = lambda *args, **kwargs: cache.delete(key_of(*args, **kwargs))
        return outer
