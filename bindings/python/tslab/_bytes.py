"""Python's bytes and text, as libtslab takes them."""

from __future__ import annotations

import array
import mmap
from typing import Any, List, Union

from tslab._native import ffi

# Any object with the buffer protocol will do; these are the ones that type checkers know.
Bytes = Union[bytes, bytearray, memoryview, 'array.array[Any]', mmap.mmap]
Key = Union[str, Bytes]


def _view(data: Any, what: str, remedy: str) -> memoryview:
    try:
        return memoryview(data)
    except TypeError:
        raise TypeError(f'{what}, not {type(data).__name__}: {remedy}') from None


def _value_view(data: Any) -> memoryview:
    return _view(data, 'a value is bytes', 'encode() text; tslab.Cache takes other objects, with `dumps` and `loads`')


def raw(data: Bytes) -> Any:
    """The bytes of `data` as libtslab takes them. Its len() counts bytes, where that of `data` may count items."""
    if isinstance(data, bytes):
        return data
    view = _value_view(data)
    return ffi.from_buffer(view) if view.c_contiguous else view.tobytes()


def copied(data: Bytes) -> bytes:
    """As above, as Python's bytes."""
    return data if isinstance(data, bytes) else _value_view(data).tobytes()


def encoded(key: Key) -> bytes:
    """The bytes of a key: text is UTF-8."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    return _view(key, 'a key is text or bytes', 'use str() of it').tobytes()


def c_string(text: str, what: str) -> bytes:
    """The text as C has it, which ends at a NUL: two names that differ after one would be the same."""
    if '\0' in text:
        raise ValueError(f'{what} must not contain a NUL: {text!r}')
    return text.encode()


BUFFER_SIZE = 4096      # a get of a larger value takes a buffer of its own


class Buffers(List[Any]):
    """Room for values, that no call is using: append() gives it back. Signal handlers, finalizers and other threads may
    begin a call of their own before one has copied its value out, so no two calls have the same buffer."""

    def take(self) -> Any:
        try:
            return self.pop()
        except IndexError:
            return ffi.new('char[]', BUFFER_SIZE)
