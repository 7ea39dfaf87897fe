"""Reading PyTorch's ``.pt`` and ``.pth`` files without PyTorch and without executing anything in them.

The sources of weights: files, folders of transformers with one file or several, and dicts.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection, Mapping
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DTypeError,
    KindError,
    RecordError,
    RecordNotFoundError,
    a,
    path_shown,
    raised_by_other_code,
)
from burnpy.backend.storage import beside, inside, is_folder, local_copy, names_in, opened, path_of
from burnpy.record.safetensors_file import (
    LARGEST,
    MARK,
    brief,
    chunks,
    damaged,
    fill,
    new_bytes,
    raw,
    read,
    refuse_no_bools,
    refuse_read,
    swapped,
)
from burnpy.record.torch_pickle import unpickled
from burnpy.record.torch_values import TorchTensor
from burnpy.tensor.call_errors import explained
from burnpy.tensor.host_data import readonly

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHOWN = 10
_VERSION = 1001
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"

_DAMAGES = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError, RuntimeError)
"""The exceptions that reading a damaged archive may raise: a UnicodeDecodeError for malformed names, for example."""


@explained
def read_torch(path: str | os.PathLike[str], key: str | tuple[str | int, ...] | None = None) -> dict[str, Any]:
    """Read the tensors of a state dict that ``torch.save`` wrote, as read-only arrays by PyTorch's names.

    PyTorch need not be installed, and nothing in the file is executed: its pickle is read by an interpreter that can
    create tensors and plain values only. Tensors that share memory in the file share it in the result.

    Args:
        path: the file, in the format of PyTorch 1.6 and later or in the one before.
        key: the key of the state dict in a checkpoint, as in "model" or ("state", "encoder"); required if there are
            several.

    Raises:
        RecordNotFoundError: the file does not exist.
        RecordFileError: the file cannot be read.
        RecordError: it is not a PyTorch file, is damaged, or contains more than tensors: a whole
            model, code.
        CallError: ``path`` is not a path.
        ArgumentError: the key does not exist, or there are several state dicts and no key.
        DTypeError: a tensor has a dtype that burnpy does not support, or bfloat16 without the package ``ml_dtypes``.
    """
    name = path_of(path, "read_torch()")
    source = path_shown(name)
    try:
        with local_copy(name) as place, open(place, "rb") as file:
            start = file.read(len(_LEGACY))
            file.seek(0)
            if start == _LEGACY:
                return _OldReader(file.read(), source).state(key)
            if not start.startswith(b"PK\x03\x04"):
                raise RecordError(f"{source} is not a file written by torch.save{_instead(start)}")
            with zipfile.ZipFile(file) as archive:
                return _Reader(archive, source).state(key)
    except BurnpyError:
        raise
    except (OSError, *_DAMAGES) as error:
        if raised_by_other_code(error):
            raise
        # EINVAL comes from seeking before the file's start, as a damaged archive makes zipfile do.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            refuse_read(error, source)
        raise damaged(source, brief(str(error))) from error


def _instead(start: bytes) -> str:
    """Return what to use for a file that starts like one of safetensors."""
    is_safetensors = start[8:9] == b"{"
    return "; it looks like safetensors: use burnpy.record.from_torch(model, path)" if is_safetensors else ""


class _Reader:
    """A reader of one zip archive that ``torch.save`` wrote."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.archive, self.source = archive, source
        names = archive.namelist()
        pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise RecordError(f"{source} is a zip archive that torch.save did not write")
        self.folder = pickles[0].removesuffix("data.pkl")
        if f"{self.folder}constants.pkl" in names:
            raise RecordError(
                f"{source} is a TorchScript program, and nothing was loaded; save its state instead: "
                "torch.save(model.state_dict(), path)"
            )
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise RecordError(f"{source} is compressed, as torch.save writes none; nothing was loaded")
        if sum(info.file_size for info in archive.infolist()) > _size(archive):
            raise damaged(source, "its parts together are larger than the file")
        self.memories: dict[tuple[str, int], NDArray[Any]] = {}
        self.bools: set[str] = set()
        order = self._bytes("byteorder").tobytes() if f"{self.folder}byteorder" in names else b"little"
        if order not in (b"little", b"big"):
            raise damaged(source, f"its byte order is {order[:40]!r}")
        self.foreign = order.decode() != sys.byteorder

    def state(self, key: str | tuple[str | int, ...] | None) -> dict[str, Any]:
        state = _chosen(self._value(), key, self.source)
        return {name: self._array(name, x) if isinstance(x, TorchTensor) else x for name, x in state.items()}

    def _value(self) -> Any:
        return unpickled(self._bytes("data.pkl").tobytes(), self.source).value

    def _bytes(self, record: str) -> NDArray[Any]:
        """Read a whole record of the archive; zipfile verifies its checksum."""
        name = f"{self.folder}{record}"
        try:
            info = self.archive.getinfo(name)
        except KeyError:
            raise damaged(self.source, f"there is no {brief(name)} in it") from None
        data = new_bytes(info.file_size)
        with self.archive.open(info) as opened:
            file: Any = opened
            for chunk in chunks(raw(data)):
                fill(chunk, file.readinto, self.source)
            file.read(1)  # zipfile compares the checksum when it reaches the end
        return data

    def _array(self, name: str, x: TorchTensor) -> NDArray[Any]:
        try:
            dtype = dtype_of(x.dtype)
        except DTypeError as error:
            raise DTypeError(f"{self.source} has {brief(name)}: {error}") from error
        memory = self._memory(name, x, dtype)
        last = x.offset + sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True))
        if 0 not in x.shape and last >= memory.size // dtype.itemsize:
            raise damaged(self.source, f"{brief(name)} reaches beyond its memory")
        if prod(filter(None, x.shape)) * dtype.itemsize > LARGEST:
            raise damaged(self.source, f"{brief(name)} is of shape {brief(str(x.shape))}, which no array has")
        if 0 in x.shape:
            return readonly(np.empty(x.shape, dtype))
        strides = [stride * dtype.itemsize if size > 1 else 0 for size, stride in zip(x.shape, x.strides, strict=True)]
        return np.ndarray(x.shape, dtype, memory, x.offset * dtype.itemsize, strides)

    def _memory(self, name: str, x: TorchTensor, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the bytes of a tensor's storage in native byte order, read once for all tensors that share it."""
        key, size = x.storage.key, x.storage.size * (1 if x.storage.dtype == "bytes" else dtype.itemsize)
        width = dtype.itemsize if self.foreign else 1  # the size of the elements whose bytes are swapped
        memory = self.memories.get((key, width))
        data = self._bytes(f"data/{key}") if memory is None else memory
        if data.size != size or size % dtype.itemsize:
            raise damaged(
                self.source, f"the memory of {brief(name)} has {data.size} bytes, and should have {brief(str(size))}"
            )
        if dtype.kind == "b" and key not in self.bools:
            refuse_no_bools(data, name, self.source)
            self.bools.add(key)
        if memory is None:
            memory = self.memories[key, width] = readonly(swapped(data, width))
        return memory


class _OldReader(_Reader):
    """A reader of a file of PyTorch before 1.6: pickles and then the memory of the storages, one after another."""

    def __init__(self, data: bytes, source: str) -> None:
        self.source = source
        self.memories, self.bools = {}, set()
        values, at = [], 0
        for _ in range(3):
            value, at, _ = unpickled(data, source, at)
            values.append(value)
        _, version, machine = values
        order = machine.get("little_endian") if isinstance(machine, dict) else None
        if version != _VERSION or type(order) is not bool:
            raise damaged(source, f"its version is {brief(repr(version))}, or its byte order is missing")
        self.foreign = order != (sys.byteorder == "little")
        self.value, at, storages = unpickled(data, source, at)
        keys, at, _ = unpickled(data, source, at)
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or {*keys} != storages.keys():
            raise damaged(source, "its list of storages is not the one of its tensors")
        self.storages: dict[str, NDArray[Any]] = {}
        for key in keys:
            storage = storages[key]
            size = storage.size * dtype_of(storage.dtype).itemsize
            start = at + 8
            if int.from_bytes(data[at:start], "little") != storage.size or start + size > len(data):
                raise damaged(source, f"the storage {brief(key)} has another size than its tensors say")
            self.storages[f"data/{key}"] = np.frombuffer(data, np.uint8, size, start)
            at = start + size

    def _value(self) -> Any:
        return self.value

    def _bytes(self, record: str) -> NDArray[Any]:
        return self.storages[record].copy()  # aligned


def _size(archive: zipfile.ZipFile) -> int:
    """Return the size in bytes of an archive's file."""
    return os.fstat(archive.fp.fileno()).st_size  # type: ignore[union-attr]  # it is open


def _chosen(value: Any, key: str | tuple[str | int, ...] | None, source: str) -> Mapping[str, Any]:
    """Return the state dict at a key; without a key, the only state dict in the file."""
    if key is not None:
        for name in (key,) if isinstance(key, str) else key:
            if not isinstance(value, dict) or name not in value:
                raise ArgumentError(f"{source} has nothing at {brief(repr(key))}; there is {_names(value)}")
            value = value[name]
        if not _is_state(value):
            raise ArgumentError(f"{source} has no state dict at {brief(repr(key))}, but {_candidates(value)}")
        return value  # type: ignore[no-any-return]  # a dict, as `_is_state` has checked
    if _is_state(value):
        return value  # type: ignore[no-any-return]  # as above
    parts = value if isinstance(value, dict) else {}
    distinct = {id(part): part for part in parts.values()}  # a file may have one part under a million names
    states = {ident for ident, part in distinct.items() if _is_state(part)}
    names = [name for name, part in parts.items() if id(part) in states]
    if len(names) == 1:
        return parts[names[0]]  # type: ignore[no-any-return]  # as above
    if names:
        raise ArgumentError(
            f"{source} has several state dicts, {_listed(names)}; say which: key={brief(str(names[0]))!r}"
        )
    raise ArgumentError(f"{source} has no state dict, but {_candidates(value)}; key= says where in it one is")


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(name, str) for name in value)
        and any(isinstance(x, TorchTensor) for x in value.values())
    )


def _candidates(value: Any) -> str:
    return f"a dict of {_names(value)}" if isinstance(value, dict) else _names(value)


def _names(value: Any) -> str:
    """Return the keys of a dict, or the type's name of any other value."""
    return _listed(value) or "nothing" if isinstance(value, dict) else a(type(value).__name__)


def _listed(names: Collection[Any]) -> str:
    """Return the first `_SHOWN` names, and the number of the others."""
    first = ", ".join(brief(str(name)) for name in islice(names, _SHOWN))
    return f"{first} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else first


TorchSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]

INDEX = ".index.json"
"""The end of the name of a file that says in which of several files each tensor is."""
IN_FOLDERS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""The files that a folder may have: the first one that is there is read."""


def state_of(source: TorchSource, key: str | tuple[str | int, ...] | None) -> tuple[Mapping[str, Any], str]:
    """Return a state dict and its name in messages."""
    if isinstance(source, Mapping):
        if key is not None:
            raise ArgumentError(f"from_torch(key={key!r}) is for files; of a dict, give the part that is meant")
        return source, "this state dict"
    untyped: Any = source
    if not isinstance(untyped, (str, os.PathLike)):
        hint = "; give it model.state_dict()" if hasattr(untyped, "state_dict") else ""
        raise KindError(f"from_torch() takes a file's path or a state dict, got {a(type(untyped).__name__)}{hint}")
    path = path_of(source, "from_torch()")
    if is_folder(path):
        path = inside(path, _weights_in(path))
    return (_sharded(path) if path.endswith(INDEX) else _file(path, key)), path_shown(path)


def _weights_in(folder: str) -> str:
    """Return the name of the file with the weights, or with their index, in a folder."""
    names = names_in(folder)
    for name in IN_FOLDERS:
        if name in names:
            return name
    single = [name for name in names if name.endswith(".safetensors")]
    if len(single) != 1:
        what = f"several files, {', '.join(map(brief, single[:6]))}: name one" if single else f"no {IN_FOLDERS[0]}"
        raise RecordNotFoundError(2, f"the folder {path_shown(folder)} has {what}")
    return single[0]


def _file(path: str, key: str | tuple[str | int, ...] | None) -> Mapping[str, Any]:
    """Return the state dict of one file."""
    if not path.endswith(".safetensors") and not _is_safetensors(path):
        return read_torch(path, key)
    contents = read(path, mapped=True)
    if MARK in contents.metadata:
        raise RecordError(
            f"{path_shown(path)} is a record of burnpy, whose layouts are its own, and nothing was loaded; "
            "use burnpy.record.load(path).apply_to(model)"
        )
    return contents.tensors


def _sharded(path: str) -> dict[str, Any]:
    """Return the state dict of several files, given their index."""
    source = path_shown(path)
    try:
        with opened(path) as file:
            index: Any = json.loads(file.read())
    except OSError as error:
        refuse_read(error, source)
    except (ValueError, RecursionError) as error:
        if raised_by_other_code(error):
            raise
        raise damaged(source, "it is not JSON") from error
    places: Any = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and os.path.basename(name) == name for name in places.values()
    ):
        raise damaged(source, "it has no weight_map with the file of each tensor")
    files = {name: _file(beside(path, name), None) for name in sorted({*places.values()})}
    for tensor, name in places.items():
        if tensor not in files[name]:
            raise damaged(source, f"{brief(tensor)} should be in {brief(name)}, and is not")
    return {tensor: files[name][tensor] for tensor, name in places.items()}


def _is_safetensors(path: str) -> bool:
    """Return whether a file starts like a safetensors file, whatever its name."""
    try:
        with opened(path) as file:
            return file.read(9)[8:] == b"{"
    except OSError as error:  # reported when the file is read
        if raised_by_other_code(error):
            raise
        return False
