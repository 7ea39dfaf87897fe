"""The names that PyTorch's pickles may use: storages, dtypes, tensors in storages, and the functions that create them.

A name in a pickle is looked up in this module's tables only; no Python object is reachable through it. A call takes
bounded time and creates a bounded value, however large its arguments; `Limits` counts the values that calls copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from burnpy.backend.dtypes import DTYPES
from burnpy.backend.errors import RecordError
from burnpy.record.safetensors_file import LARGEST, MOST_DIMS, brief

LONGEST_KEY = 1 << 12
"""The maximum length of a dict key: inserting a key again compares it with the existing one."""
NARROW = 1 << 31
"""Ints of smaller magnitude are accepted as keys without limit: hashes of so few bits cannot be chosen so that a dict
becomes slow."""
WIDE_KEYS = 1 << 12
"""The maximum number of other numbers as keys in a file. Some programs name parameters by their addresses."""
_MOST_ARGUMENTS = 8
_LONGEST_DEVICE = 32


class Name:
    """A stand-in for a class or function that a pickle names; the named object itself is never imported or called."""

    __slots__ = ("call", "dtype", "full", "storage")

    def __init__(
        self, full: str, *, storage: str = "", dtype: str = "", call: Callable[..., Any] | None = None
    ) -> None:
        self.full = full
        self.storage = storage  #: for a storage class: the dtype's name, or "bytes" if each tensor has its own dtype
        self.dtype = dtype
        self.call = call  #: the function called in its place, with the limits and the arguments


class TorchStorage(NamedTuple):
    """A storage: memory of one or more tensors, in one record of the file."""

    key: str  #: the name of the record
    dtype: str  #: the dtype's name, or "bytes" if each tensor has its own dtype
    size: int  #: the number of elements; the number of bytes if ``dtype`` is "bytes"


class TorchTensor(NamedTuple):
    """A description of a tensor in a storage, whose values have not been read yet."""

    storage: TorchStorage
    dtype: str
    offset: int  #: of its first element, in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: from one element to the next, in elements


class Limits:
    """The remaining budget of one pickle for copies and for large numbers as dict keys.

    Args:
        size: the size of the pickle in bytes.
        source: the file's name in messages.
    """

    __slots__ = ("copies", "source", "wide_keys")

    def __init__(self, size: int, source: str) -> None:
        self.source = source
        self.copies = size
        self.wide_keys = WIDE_KEYS

    def copying(self, count: int) -> None:
        """Count ``count`` copied values."""
        self.copies -= count
        if self.copies < 0:
            raise ValueError("copies beyond all measure")

    def key(self, key: Any) -> Any:
        """Return a dict key after checking that it is a plain value that hashes and compares in bounded time.

        Raises:
            TypeError, ValueError: it is not.
        """
        kind = type(key)
        if kind in (str, bytes):
            if len(key) > LONGEST_KEY:
                raise ValueError("a key that is too long")
        elif kind in (int, float):
            if kind is float or not -NARROW < key < NARROW:
                self.wide_keys -= 1
                if self.wide_keys < 0 or not -LARGEST <= key <= LARGEST:
                    raise ValueError("numbers as keys beyond all measure")
        elif key is not None and kind is not bool:
            raise TypeError(f"a {kind.__name__} as a key")
        return key


def storage_of(kind: object, key: object, size: object) -> TorchStorage:
    """Return the storage that a persistent id refers to.

    Raises:
        TypeError: it is not a storage.
    """
    if type(kind) is not Name or not kind.storage or type(key) is not str or not _is_size(size):
        raise TypeError("a storage is of a class of them, is named by a string, and has a size")
    return TorchStorage(key, kind.storage, size)  # type: ignore[arg-type]  # an int, as `_is_size` has checked


def called(function: object, args: object, limits: Limits) -> Any:
    """Return the result of a call in a pickle to one of the supported functions."""
    if type(function) is not Name or function.call is None:
        name = function.full if type(function) is Name else type(function).__name__
        raise refused(f"asks to call {name}", limits.source)
    if type(args) is not tuple or len(args) > _MOST_ARGUMENTS:
        raise TypeError("a call is given a few arguments")
    return function.call(limits, *args)


def named(module: object, name: object, source: str) -> Name:
    """Look up a name in a pickle.

    Raises:
        RecordError: the name is not supported.
        TypeError: the name or its module is not a string.
    """
    if type(module) is not str or type(name) is not str:
        raise TypeError("a name that is not a string")
    known_name = _NAMES.get((module, name))
    if known_name is None:
        raise refused(f"names {brief(module)}.{brief(name)}", source)
    return known_name


def refused(what: str, source: str) -> RecordError:
    """Return the error for a file that contains more than tensors and plain values."""
    return RecordError(
        f"{source} {what}, and a file may be made of tensors and plain values only; nothing in it was executed or "
        "loaded. If you trust it, load it with PyTorch and save the state alone: torch.save(model.state_dict(), path)"
    )


def _tensor(
    limits: Limits, storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, marks: Any = None
) -> TorchTensor:
    if type(storage) is not TorchStorage:
        raise TypeError("a tensor is in a storage")
    return _placed(limits, storage, offset, shape, strides, storage.dtype, marks)


def _tensor_of_dtype(
    limits: Limits,
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    marks: Any = None,
) -> TorchTensor:
    if type(storage) is not TorchStorage or type(dtype) is not Name:
        raise TypeError("a tensor is in a storage, and has a dtype")
    return _placed(limits, storage, offset, shape, strides, dtype.dtype, marks)


def _placed(
    limits: Limits, storage: TorchStorage, offset: Any, shape: Any, strides: Any, dtype: str, marks: Any
) -> TorchTensor:
    if marks:
        _refuse_marks(marks, limits)
    if dtype not in _DTYPES or not _is_size(offset):
        raise TypeError("a tensor has a dtype and a place")
    shape, strides = _sizes(shape), _sizes(strides)
    if len(shape) != len(strides):
        raise ValueError("a tensor has as many sizes as strides")
    return TorchTensor(storage, dtype, offset, shape, strides)


def _refuse_marks(marks: Any, limits: Limits) -> None:
    """Refuse a tensor with a negation or conjugation mark, whose values are not those in memory."""
    if type(marks) is not dict or len(marks) > _MOST_ARGUMENTS:
        raise TypeError("marks are a few, by name")
    if any(marks.values()):
        raise RecordError(
            f"{limits.source} has a tensor that PyTorch negates or conjugates when it is read, and nothing was loaded; "
            "save x.resolve_neg().resolve_conj() in its place"
        )


def _sizes(values: Any) -> tuple[int, ...]:
    if type(values) not in (tuple, list) or len(values) > MOST_DIMS:
        raise TypeError("sizes are a few numbers")
    for value in values:
        if type(value) is not int or not 0 <= value <= LARGEST:
            raise ValueError("a size is a number")
    return tuple(values)  # does not copy if it is a tuple already


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _parameter(limits: Limits, tensor: Any, *rest: Any) -> TorchTensor:
    if type(tensor) is not TorchTensor:
        raise TypeError("a parameter is made of a tensor")
    return tensor


def _ordered(limits: Limits, pairs: Any = ()) -> dict[Any, Any]:
    if not pairs:
        return {}
    if type(pairs) not in (tuple, list):
        raise TypeError("pairs are in a list")
    limits.copying(len(pairs))
    return {limits.key(key): value for key, value in pairs}


def _listed(limits: Limits, values: Any = ()) -> Any:
    """Return the values of a set as a list: creating a set would hash them, which a hostile file can make slow."""
    if type(values) not in (tuple, list):
        raise TypeError("the values of a set are in a list")
    return values


def _size(limits: Limits, values: Any = ()) -> tuple[int, ...]:
    return _sizes(values)


def _device(limits: Limits, kind: Any, index: Any = None) -> str:
    if type(kind) is not str or len(kind) > _LONGEST_DEVICE or not (index is None or _is_size(index)):
        raise TypeError("a device has a name, and perhaps a number")
    return kind if index is None else f"{kind}:{index}"


_STORAGES = {**{f"{row.torch}Storage": name for name, row in DTYPES.items() if row.torch}, "UntypedStorage": "bytes"}
_DTYPES = frozenset(
    {
        *(dtype for dtype in _STORAGES.values() if dtype != "bytes"),
        *("uint16", "uint32", "uint64", "complex32"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    }
)
_CALLS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): _ordered,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_of_dtype,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch", "Size"): _size,
    ("torch", "device"): _device,
    ("builtins", "set"): _listed,
    ("__builtin__", "set"): _listed,
}
_NAMES: Mapping[tuple[str, str], Name] = {
    **{("torch", name): Name(f"torch.{name}", storage=dtype) for name, dtype in _STORAGES.items()},
    ("torch.storage", "UntypedStorage"): Name("torch.storage.UntypedStorage", storage="bytes"),
    **{("torch", name): Name(f"torch.{name}", dtype=name) for name in _DTYPES},
    **{(module, name): Name(f"{module}.{name}", call=call) for (module, name), call in _CALLS.items()},
}
