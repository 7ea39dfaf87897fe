"""The header of a safetensors file: names, dtypes, shapes and offsets of its tensors. Reading validates all of it.

A file is the header's length (8 bytes, little-endian), the header (JSON), and the tensors' bytes, one after another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.error_origin import raised_by_other_code
from burnpy.backend.errors import RecordError, a
from burnpy.record.memory import LARGEST, brief, damaged

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

LONGEST = 100_000_000
"""The maximum length of a header in bytes, as in the safetensors specification."""
MOST_DIMS = 64
"""The maximum number of dimensions of an array."""
METADATA = "__metadata__"

_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_CODES = {name: code for code, name in _NAMES.items()}


class TensorEntry(NamedTuple):
    """The header's entry for one tensor."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    begin: int  #: the first byte, counted from the end of the header
    end: int  #: one past the last byte


class Header(NamedTuple):
    """A parsed header."""

    places: tuple[TensorEntry, ...]  #: in the order of the file, without gaps
    metadata: dict[str, str]


def code_of(dtype: DType) -> str:
    """Return the safetensors code of a dtype, such as "F32".

    Raises:
        KeyError: the format has no code for it.
    """
    return _CODES[dtype.name]


def written(tensors: Sequence[tuple[str, DType, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    """Return the first bytes of a file with these tensors in this order: the header's length and the header.

    The metadata comes first, in its own order; trailing spaces align the tensors to a multiple of 64 bytes.

    Raises:
        RecordError: the header would exceed its maximum length.
    """
    entries: dict[str, Any] = {METADATA: dict(metadata)}
    begin = 0
    for name, dtype, shape in tensors:
        end = begin + prod(shape) * dtype.itemsize
        entries[name] = {"dtype": code_of(dtype), "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    if len(text) > LONGEST:
        raise RecordError(
            f"names and plain values come to {len(text)} bytes, and a safetensors file has room for {LONGEST}; keep "
            "large lists of numbers as arrays"
        )
    return len(text).to_bytes(8, "little") + text


def parsed(text: bytes, size: int, source: str) -> Header:
    """Parse and validate a header.

    Args:
        text: the header, without its length.
        size: the number of bytes that follow it.
        source: the file's name in messages.

    Raises:
        RecordError: it is damaged, not of this format, or has an unsupported dtype.
    """
    try:
        entries = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        if raised_by_other_code(error):
            raise
        raise RecordError(f"{source} is no safetensors file, or a damaged one: its header cannot be read") from error
    if not isinstance(entries, dict):
        raise damaged(source, f"its header is {a(type(entries).__name__)}")
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise damaged(source, "its metadata are not strings by name")
    places = sorted((_place(name, entry, source) for name, entry in entries.items()), key=lambda place: place[3:])
    end = 0
    for place in places:
        if place.begin != end:
            raise damaged(
                source, f"{brief(place.name)} begins at byte {place.begin}, and the part before it ends at {end}"
            )
        end = place.end
    if end > size:
        raise damaged(source, f"it is cut short: of {end} bytes of tensors it has {size}")
    if end < size:
        raise damaged(source, f"{size - end} bytes follow its last tensor")
    return Header(tuple(places), metadata)


def _place(name: str, entry: Any, source: str) -> TensorEntry:
    shown = brief(name)
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [begin, end]}:
            numbers = [*shape, begin, end]
        case _:
            raise damaged(source, f"its header does not say where {shown} is")
    if any(type(number) is not int or not 0 <= number <= LARGEST for number in numbers):
        raise damaged(source, f"its header has no numbers where the shape and place of {shown} should be")
    if len(shape) > MOST_DIMS:
        raise damaged(source, f"{shown} has {len(shape)} dimensions")
    if code not in _NAMES:
        raise RecordError(
            f"{source} has {shown} of dtype {brief(code)}, which no tensor of burnpy has, and nothing was loaded; "
            f"known are {', '.join(_NAMES)}"
        )
    dtype = dtype_of(_NAMES[code])
    size = prod(filter(None, shape)) * dtype.itemsize  # as NumPy counts: a size of 0 does not excuse the others
    if size > LARGEST or (size if all(shape) else 0) != end - begin:
        what = f"{shown} of shape {brief(str(tuple(shape)))} and dtype {dtype} cannot be {end - begin} bytes"
        raise damaged(source, what)
    return TensorEntry(name, dtype, tuple(shape), begin, end)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("one name twice")
    return entries
