"""Python's bytes and text, as libtslab takes them."""

from __future__ import annotations

import array
import mmap
from typing import Any, Union

from tslab._native import ffi

# Any object with the buffer protocol will do; these are the ones that type checkers know.
Bytes = Union[bytes, bytearray, memoryview, 'array.array[Any]', mmap.mmap]


def raw(data: Bytes) -> Any:
    """The bytes of `data` as libtslab takes them. Its len() counts bytes, where that of `data` may count items."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    return ffi.from_buffer(view) if view.c_contiguous else view.tobytes()


def c_string(text: str, what: str) -> bytes:
    """The text as C has it, which ends at a NUL: two names that differ after one would be the same."""
    if '\0' in text:
        raise ValueError(f'{what} must not contain a NUL: {text!r}')
    return text.encode()
