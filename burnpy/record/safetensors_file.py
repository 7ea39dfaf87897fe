"""Reading and writing safetensors files: a validated header, named tensors, and a SHA-256 of the whole file.

A file is the header's length (8 bytes, little-endian), the header (JSON), and the tensors' bytes, one after another.

The digest is stored in the metadata and computed over the whole file with zeros in place of the digest itself. A
tensor is copied only if its memory is not contiguous in C order and little-endian.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import FileIO
from math import prod
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from burnpy.backend.dtypes import DTYPES, dtype_of
from burnpy.backend.errors import RecordError, RecordFileError, RecordNotFoundError, a, path_shown, raised_by_other_code
from burnpy.backend.storage import local_copy, replace
from burnpy.tensor.host_data import readonly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType

CHUNK = 1 << 22
"""The number of bytes read, hashed or written at a time, so that they stay in the cache between these steps."""
LARGEST = (1 << 63) - 1
"""The maximum of a size, an offset or a number of bytes."""


def chunks(view: memoryview) -> Iterator[memoryview]:
    """Yield a buffer in chunks of `CHUNK` bytes."""
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def fill(view: memoryview, readinto: Callable[[memoryview], int | None], source: str) -> None:
    """Fill a buffer from a file."""
    while view:
        count = readinto(view)
        if not count:
            raise damaged(source, "it ends too early")
        view = view[count:]


def new_bytes(size: int) -> NDArray[Any]:
    """Return an uninitialized array of ``size`` bytes."""
    return np.empty(size, np.uint8)


def raw(x: NDArray[Any]) -> memoryview:
    """Return a memoryview of an array of bytes."""
    buffer: Any = x
    return memoryview(buffer)


def as_little_endian(x: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, little-endian; a copy only if its memory is laid out otherwise."""
    flat = np.asarray(x, order="C").reshape(-1)
    if sys.byteorder == "big" and x.dtype.itemsize > 1:
        flat = flat.byteswap()
    return raw(flat.view(np.uint8))


def swapped(data: NDArray[Any], width: int) -> NDArray[Any]:
    """Reverse each group of ``width`` bytes in place and return the array; no other reference to it may exist."""
    if width > 1:
        data.view(f"u{width}").byteswap(inplace=True)
    return data


def refuse_no_bools(data: NDArray[Any], name: str, source: str) -> None:
    """Raise an error unless all bytes of a bool tensor are 0 or 1."""
    if data.max(initial=0) > 1:
        raise damaged(source, f"{brief(name)} of dtype bool has bytes that are neither 0 nor 1")


def brief(text: str, most: int = 80) -> str:
    """Truncate text from a file for a message to ``most`` characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def damaged(source: str, what: str) -> RecordError:
    """Return the error for a damaged file."""
    return RecordError(f"{source} is damaged, and nothing was loaded: {what}")


LONGEST = 100_000_000
"""The maximum length of a header in bytes, as in the safetensors specification."""
MOST_DIMS = 64
"""The maximum number of dimensions of an array."""
METADATA = "__metadata__"
MARK = "burnpy"
"""The name in the metadata that files of `burnpy.record.save` have, and no other program's."""

_CODES = {name: row.safetensors for name, row in DTYPES.items()}
_NAMES = {code: name for name, code in _CODES.items() if code}


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
    """Return the safetensors code of a dtype, such as "F32"."""
    return _CODES[dtype.name]


def written(tensors: Sequence[tuple[str, DType, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    """Return the first bytes of a file with these tensors in this order: the header's length and the header. The
    metadata comes first, in its own order; trailing spaces align the tensors to a multiple of 64 bytes."""
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
    """
    try:
        entries = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        if raised_by_other_code(error):
            raise
        raise RecordError(f"{source} is not a safetensors file, or a damaged one: its header cannot be read") from error
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


DIGEST = "sha256"
_ZEROS = b"0" * 64
_START = f'{{"{METADATA}":{{"{DIGEST}":"'.encode()  # the first bytes of the header of a file with a digest
_AT = 8 + len(_START)  # the position of the digest in the file


class Contents(NamedTuple):
    """The contents of a safetensors file."""

    tensors: dict[str, NDArray[Any]]  #: read-only, by name
    metadata: dict[str, str]
    checked: bool  #: whether the file has a digest (which has then been verified)


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str],
    *,
    digest: bool = True,
) -> None:
    """Write a safetensors file, replacing an existing one atomically: see `burnpy.backend.storage`.

    With ``digest``, its metadata have the SHA-256 of the file; a file without one can be mapped into memory.

    Raises:
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written; the old file is unchanged.
        RecordError: names and metadata exceed the maximum length of a header.
    """
    # By descending item size, so that each tensor is aligned.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize)
    own = {DIGEST: _ZEROS.decode()} if digest else {}
    header = written([(name, x.dtype, x.shape) for name, x in ordered], {**own, **metadata})

    def fill_in(file: FileIO) -> None:
        sha = hashlib.sha256(header)
        write_all(file, memoryview(header))
        for _, x in ordered:
            for chunk in chunks(as_little_endian(x)):
                if digest:
                    sha.update(chunk)
                write_all(file, chunk)
        if digest:
            file.seek(_AT)
            write_all(file, memoryview(sha.hexdigest().encode()))

    replace(os.fspath(path), fill_in)


def read(path: str | os.PathLike[str], mapped: bool = False) -> Contents:
    """Read a safetensors file, of burnpy or another program; if it has a digest, verify it.

    Args:
        path: the file.
        mapped: whether the tensors of a file without a digest are views of the file, mapped into memory, which are read
            when they are used. The file must not be written to while they are; it may be replaced or removed.

    Raises:
        RecordNotFoundError: the file does not exist.
        RecordFileError: the file cannot be read.
        RecordError: it is not a safetensors file, or is damaged.
    """
    source = path_shown(path)
    try:
        with local_copy(os.fspath(path)) as place, FileIO(place) as file:
            return _read(file, source, mapped)
    except OSError as error:
        refuse_read(error, source)


def refuse_read(error: OSError, source: str) -> NoReturn:
    """Raise the error of a file that the system does not read; another program's error, or one of burnpy, as it is."""
    if isinstance(error, RecordFileError) or raised_by_other_code(error):
        raise error
    if isinstance(error, FileNotFoundError):
        raise RecordNotFoundError(error.errno, f"there is no file {source}") from error
    raise RecordFileError(error.errno, f"cannot read {source}: {error.strerror or error}") from error


def _read_header(file: FileIO, source: str) -> tuple[bytes, int]:
    """Read the header; return its text and the number of bytes that follow it."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    if start.startswith((b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF")):
        raise RecordError(
            f"{source} is not a safetensors file but one of PyTorch's: burnpy.record.from_torch(model, path) "
            "takes its contents"
        )
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, LONGEST):
        raise RecordError(
            f"{source} is not a safetensors file, or one that was cut short: its {size} bytes do not begin with the "
            "length of a header"
        )
    text = bytearray(length)
    fill(memoryview(text), file.readinto, source)
    return bytes(text), size - 8 - length


def _read(file: FileIO, source: str, mapped: bool) -> Contents:
    text, size = _read_header(file, source)
    header = parsed(text, size, source)
    claimed = header.metadata.get(DIGEST)
    if mapped and claimed is None and sys.byteorder == "little":
        return Contents(_mapped(file, header, 8 + len(text), source), header.metadata, False)
    digest = text[len(_START) : len(_START) + 64]
    in_place = text.startswith(_START) and digest.decode(errors="replace") == claimed
    sha = hashlib.sha256(len(text).to_bytes(8, "little"))
    sha.update(text[: len(_START)] + _ZEROS + text[len(_START) + 64 :])
    tensors = {}
    for name, dtype, shape, begin, end in header.places:
        data = new_bytes(end - begin)
        for chunk in chunks(raw(data)):
            fill(chunk, file.readinto, source)
            if claimed is not None:
                sha.update(chunk)
        if dtype.kind == "b":
            refuse_no_bools(data, name, source)
        data = swapped(data, dtype.itemsize if sys.byteorder == "big" else 1)
        tensors[name] = readonly(data.view(dtype).reshape(shape))
    if claimed is not None and not (in_place and sha.hexdigest() == claimed):
        raise damaged(source, "its SHA-256 differs from the saved one; load another copy or an earlier one")
    return Contents(tensors, header.metadata, claimed is not None)


def _mapped(file: FileIO, header: Header, start: int, source: str) -> dict[str, NDArray[Any]]:
    """Return the tensors of a file as views of it; a copy where a tensor is not aligned."""
    whole = np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_READ), np.uint8)
    tensors = {}
    for name, dtype, shape, begin, end in header.places:
        data = whole[start + begin : start + end]
        if dtype.kind == "b":
            refuse_no_bools(data, name, source)
        if (start + begin) % dtype.itemsize:
            data = data.copy()
        tensors[name] = readonly(data.view(dtype).reshape(shape))
    return tensors


def write_all(file: FileIO, view: memoryview) -> None:
    """Write all bytes of a view to a file without a buffer, which may take a part in each call."""
    while view:
        view = view[file.write(view) or 0 :]
