"""Reading and writing safetensors files: named tensors and metadata, in one pass, with a SHA-256 of the whole file.

The digest is stored in the metadata and computed over the whole file with zeros in place of the digest itself. A
tensor is copied only if its memory is not contiguous in C order and little-endian.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from io import FileIO
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.error_origin import raised_by_other_code
from burnpy.backend.errors import RecordError, RecordFileError, RecordNotFoundError, path_shown
from burnpy.record.atomic_write import replace
from burnpy.record.header import LONGEST, METADATA, parsed, written
from burnpy.record.memory import as_little_endian, chunks, damaged, fill, new_bytes, raw, refuse_no_bools, swapped
from burnpy.tensor.readonly import readonly

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGEST = "sha256"
_ZEROS = b"0" * 64
_START = f'{{"{METADATA}":{{"{DIGEST}":"'.encode()  # the first bytes of the header of a file with a digest
_AT = 8 + len(_START)  # the position of the digest in the file


class Contents(NamedTuple):
    """The contents of a safetensors file."""

    tensors: dict[str, NDArray[Any]]  #: read-only, by name
    metadata: dict[str, str]
    checked: bool  #: whether the file has a digest (which has then been verified)


def write(path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, replacing an existing one atomically: see `burnpy.record.atomic_write`.

    Raises:
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written; the old file is unchanged.
        RecordError: names and metadata exceed the maximum length of a header.
    """
    ordered = sorted(
        tensors.items(), key=lambda item: -item[1].dtype.itemsize
    )  # by descending item size, so that each tensor is aligned
    header = written([(name, x.dtype, x.shape) for name, x in ordered], {DIGEST: _ZEROS.decode(), **metadata})

    def fill_in(file: FileIO) -> None:
        sha = hashlib.sha256(header)
        _write_all(file, memoryview(header))
        for _, x in ordered:
            for chunk in chunks(as_little_endian(x)):
                sha.update(chunk)
                _write_all(file, chunk)
        file.seek(_AT)
        _write_all(file, memoryview(sha.hexdigest().encode()))

    replace(os.fspath(path), fill_in)


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a safetensors file, of burnpy or another program; if it has a digest, verify it.

    Raises:
        RecordNotFoundError: the file does not exist.
        RecordFileError: the file cannot be read.
        RecordError: it is not a safetensors file, or is damaged.
    """
    source = path_shown(path)
    try:
        with FileIO(os.fspath(path)) as file:
            return _read(file, source)
    except OSError as error:
        if raised_by_other_code(error):
            raise
        if isinstance(error, FileNotFoundError):
            raise RecordNotFoundError(error.errno, f"there is no file {source}") from error
        raise RecordFileError(error.errno, f"cannot read {source}: {error.strerror or error}") from error


def _read_header(file: FileIO, source: str) -> tuple[bytes, int]:
    """Read the header; return its text and the number of bytes that follow it."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    if start.startswith((b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF")):
        raise RecordError(
            f"{source} is no safetensors file but one of PyTorch's: burnpy.record.from_torch(model, path) "
            "takes its contents"
        )
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, LONGEST):
        raise RecordError(
            f"{source} is no safetensors file, or one that was cut short: its {size} bytes do not begin with the "
            "length of a header"
        )
    text = bytearray(length)
    fill(memoryview(text), file.readinto, source)
    return bytes(text), size - 8 - length


def _read(file: FileIO, source: str) -> Contents:
    text, size = _read_header(file, source)
    header = parsed(text, size, source)
    claimed = header.metadata.get(DIGEST)
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


def _write_all(file: FileIO, view: memoryview) -> None:
    while view:
        view = view[file.write(view) or 0 :]
