"""`without_raw_data`: the message of an ONNX file, without the data of large tensors.

A file is a message of Protocol Buffers, and its parser holds a copy of all of it. So the data of large tensors stays in
the file: the fields around it alone are copied, and the tensors refer to their places in the file, as those with
external data do.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from typing import Any

from burnpy.backend.dtypes import dtype_of
from burnpy.interop.onnx.operators.table import DTYPES

LARGE = 1 << 12
"""The size in bytes from which data stays in the file."""

ITSELF = ""
"""The location of data in the file itself."""

_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
}
"""The fields of messages that hold tensors, or messages with tensors: from onnx.proto."""

_DIMS, _DATA_TYPE, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 9, 13, 14
"""The fields of a TensorProto."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""The types of fields."""


def without_raw_data(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file whose large tensors refer to their data in the file; all of it if it is damaged."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < LARGE:
            return file.read()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return b"".join(_message(data, "model", 0, len(data)))
            except (IndexError, ValueError):
                return bytes(data)


def _message(data: Any, kind: str, start: int, stop: int) -> Iterator[bytes]:
    """Yield the parts of a message."""
    inner, kept = _MESSAGES[kind], start
    for number, wire, begin, first, last in _fields(data, start, stop):
        if wire != _BYTES or number not in inner or last - first < LARGE:
            continue
        own = inner[number]
        part = _tensor(data, first, last) if own == "tensor" else b"".join(_message(data, own, first, last))
        yield data[kept:begin]
        yield _bytes_field(number, part)
        kept = last
    yield data[kept:stop]


def _tensor(data: Any, start: int, stop: int) -> bytes:
    """Return a tensor without its raw data, if its dtype and shape tell how much there is."""
    dims, number, place, others = list[int](), 0, (0, 0), list[bytes]()
    for field, wire, begin, first, last in _fields(data, start, stop):
        if field == _RAW_DATA and wire == _BYTES:
            place = first, last
            continue
        others.append(data[begin:last])
        if field == _DIMS:
            at = first
            while at < last:
                size, at = _varint(data, at)
                dims.append(size)
        elif field == _DATA_TYPE and wire == _VARINT:
            number = _varint(data, first)[0]
        elif field in (_EXTERNAL_DATA, _DATA_LOCATION):
            return bytes(data[start:stop])
    size = math.prod(dims) * dtype_of(DTYPES[number]).itemsize if number in DTYPES else -1
    if size != place[1] - place[0] or size < LARGE:
        return bytes(data[start:stop])
    entries = [("location", ITSELF), ("offset", str(place[0])), ("length", str(size))]
    for key, value in entries:
        entry = _bytes_field(1, key.encode()) + _bytes_field(2, value.encode())
        others.append(_bytes_field(_EXTERNAL_DATA, entry))
    return b"".join([*others, bytes([_DATA_LOCATION << 3 | _VARINT, 1])])


def _fields(data: Any, start: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields of a message: their numbers and types, where they begin, and where their values do and end."""
    at = start
    while at < stop:
        begin = at
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire == _VARINT:
            length = _varint(data, at)[1] - at
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError("a group, which ONNX does not have")
        if at + length > stop:
            raise ValueError("a field that is longer than its message")
        yield tag >> 3, wire, begin, at, at + length
        at += length


def _varint(data: Any, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _bytes_field(number: int, value: bytes) -> bytes:
    """Return a field of bytes."""
    return _written(number << 3 | _BYTES) + _written(len(value)) + value


def _written(n: int) -> bytes:
    """Return the bytes of a number; see `_varint`."""
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + _written(n >> 7)
