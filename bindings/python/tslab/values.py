"""Values as bytes, in the format that all languages share; bindings/php/README.md has it.

    cache = tslab.Cache(pool, dumps=tslab.values.dumps, loads=tslab.values.loads)

A str is its bytes. All else is one item of CBOR (RFC 8949) behind the tag for "self-described CBOR", lists and dicts as
JSON behind a tag of their own. loads() also reads CBOR of any structure, as other languages may write it.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, List, Tuple

MAGIC = b'\xd9\xd9\xf7'
_TAG_JSON = 262
_TAGS_OTHERS = range(0x54534c00, 0x54534d00)        # serializers that only one language has
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_SIMPLES: Dict[int, Any] = {20: False, 21: True, 22: None, 23: None}
_FLOATS = {25: '>e', 26: '>f', 27: '>d'}
_DEPTH_MAX = 100


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for low, form in (24, '>BB'), (25, '>BH'), (26, '>BI'), (27, '>BQ'):
        if number < 1 << 8 * (struct.calcsize(form) - 1):
            return struct.pack(form, major << 5 | low, number)
    raise ValueError('an int of more than 64 bits')


def _item(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return _head(_SIMPLE, {False: 20, True: 21, None: 22}[value])
    if isinstance(value, int):
        return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
    if isinstance(value, float):
        return struct.pack('>Bd', _SIMPLE << 5 | 27, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _head(_BYTES, len(bytes(value))) + bytes(value)
    text = json.dumps(value, ensure_ascii=False, separators=(',', ':'), allow_nan=False).encode()
    return _head(_TAG, _TAG_JSON) + _head(_TEXT, len(text)) + text


def dumps(value: Any) -> bytes:
    """The bytes of a str, int, float, bool, None, bytes, or of something that JSON has: lists, tuples, and dicts with str as keys."""
    return value.encode() if isinstance(value, str) else MAGIC + _item(value)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, len(MAGIC)

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise ValueError('a value ends too early')
        self.at += n
        return self.data[self.at - n:self.at]

    def head(self) -> Tuple[int, int, int]:
        """The major type, the low bits, and the number; -1: a length that is not told."""
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if low < 24 or low == 31:
            return major, low, low if low < 24 else -1
        if low > 27:
            raise ValueError('a head is none of CBOR')
        return major, low, int.from_bytes(self.take(1 << (low - 24)), 'big')

    def is_at_end(self, size: int, n: int) -> bool:
        """Whether n items were all of them."""
        if size >= 0:
            return n == size
        if self.data[self.at:self.at + 1] != b'\xff':
            return False
        self.at += 1
        return True

    def string(self, major: int, size: int) -> bytes:
        if size >= 0:
            return self.take(size)
        parts: List[bytes] = []
        while not self.is_at_end(-1, 0):
            kind, _, length = self.head()
            if kind != major or length < 0:
                raise ValueError('a part of a string is none')
            parts.append(self.take(length))
        return b''.join(parts)

    def tagged(self, tag: int, depth: int) -> Any:
        if tag in _TAGS_OTHERS:
            raise ValueError('a value is serialized by another language')
        value = self.item(depth)
        return json.loads(value) if tag == _TAG_JSON else value

    def simple(self, low: int, number: int) -> Any:
        if low in _FLOATS:
            return struct.unpack(_FLOATS[low], number.to_bytes(1 << (low - 24), 'big'))[0]
        if number not in _SIMPLES:
            raise ValueError('a simple value is unknown')
        return _SIMPLES[number]

    def item(self, depth: int = 0) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError('a value is nested too deep')
        major, low, number = self.head()
        if number < 0 and major in (_UNSIGNED, _NEGATIVE, _TAG, _SIMPLE):
            raise ValueError('a head is none of CBOR')
        if major == _UNSIGNED:
            return number
        if major == _NEGATIVE:
            return -1 - number
        if major == _BYTES:
            return self.string(major, number)
        if major == _TEXT:
            return self.string(major, number).decode()
        if major == _ARRAY:
            values: List[Any] = []
            while not self.is_at_end(number, len(values)):
                values.append(self.item(depth + 1))
            return values
        if major == _MAP:
            pairs: List[Tuple[Any, Any]] = []
            while not self.is_at_end(number, len(pairs)):
                pairs.append((self.item(depth + 1), self.item(depth + 1)))
            return dict(pairs)
        return self.tagged(number, depth + 1) if major == _TAG else self.simple(low, number)


def loads(data: bytes) -> Any:
    """The value; of other bytes than those of text, bytes. ValueError: a value of a kind that is not known here."""
    if not data.startswith(MAGIC):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    reader = _Reader(data)
    value = reader.item()
    if reader.at != len(data):
        raise ValueError('there is more behind a value')
    return value
