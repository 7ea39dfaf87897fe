"""What PyTorch's pickles may speak of: storages, dtypes, tensors in storages, and the few functions that make them.

A name in a pickle is looked up here and nowhere else. Nothing of Python is reachable through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from burnpy.backend.errors import RecordError, a


class Name(NamedTuple):
    """A class or function that a pickle names; it stands for it and is never called."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class TorchStorage(NamedTuple):
    """Memory that tensors lie in, in a record of the file."""

    key: str  #: the name of the record
    dtype: str  #: of the storage: a dtype's name, or "bytes" where each tensor says its own
    size: int  #: how many elements it has; bytes, where it is of bytes


class LazyError(ValueError):
    """A tensor whose values are not those in memory."""


class TorchTensor(NamedTuple):
    """A tensor in a storage, not read yet."""

    storage: TorchStorage
    dtype: str
    offset: int  #: of its first element, in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: from one element to the next, in elements


_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_DTYPES = {
    **{dtype: dtype for dtype in _STORAGES.values()},
    **{name: name for name in ("uint16", "uint32", "uint64", "complex32")},
    **{name: name for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")},
}


def storage_of(kind: object, key: object, size: object) -> TorchStorage:
    """The storage that a persistent id stands for.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(key, str) or type(size) is not int or size < 0 or not isinstance(kind, Name):
        raise TypeError("a storage is named by a string, and has a size")
    if str(kind) in ("torch.storage.UntypedStorage", "torch.UntypedStorage"):
        return TorchStorage(key, "bytes", size)
    if kind.module == "torch" and kind.name in _STORAGES:
        return TorchStorage(key, _STORAGES[kind.name], size)
    raise TypeError(f"{kind} is no storage")


def called(function: object, args: object, source: str) -> Any:
    """What a call that a pickle asks for comes to: one of those known here.

    Raises:
        RecordError: it is none of them, or makes a tensor whose values are not those in memory.
        TypeError, ValueError, IndexError: the arguments are of no such call.
    """
    if not isinstance(function, Name) or str(function) not in _CALLS or not isinstance(args, tuple):
        raise refused(f"asks to call {function if isinstance(function, Name) else type(function).__name__}", source)
    try:
        return _CALLS[str(function)](*args)
    except LazyError:
        raise RecordError(
            f"{source} has a tensor that PyTorch negates or conjugates when it is read, and nothing was loaded; save "
            "x.resolve_neg().resolve_conj() in its place"
        ) from None


def named(module: str, name: str, source: str) -> Name:
    """What a pickle names, if it is one of the names known here.

    Raises:
        RecordError: it is none of them.
    """
    found = Name(module, name)
    full = str(found)
    is_storage = full in ("torch.storage.UntypedStorage", "torch.UntypedStorage") or name in _STORAGES
    if full in _CALLS or (module.startswith("torch") and is_storage) or (module == "torch" and name in _DTYPES):
        return found
    raise refused(f"names {full}", source)


def refused(what: str, source: str) -> RecordError:
    """The error that a file wants more than tensors."""
    return RecordError(
        f"{source} {what}, and a file may be made of tensors and plain values only; nothing in it was executed or "
        "loaded. If you trust it, load it with PyTorch and save the state alone: torch.save(model.state_dict(), path)"
    )


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, marks: Any = None
) -> TorchTensor:
    return _tensor_of_dtype(storage, offset, shape, strides, grad, hooks, Name("torch", storage.dtype), marks)


def _tensor_of_dtype(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, marks: Any = None
) -> TorchTensor:
    if marks and any(marks.values()):
        raise LazyError
    if not isinstance(storage, TorchStorage) or not isinstance(dtype, Name) or dtype.name not in _DTYPES:
        raise TypeError("a tensor is in a storage, and has a dtype")
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("a tensor has sizes and strides")
    return TorchTensor(storage, _DTYPES[dtype.name], offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *rest: Any) -> TorchTensor:
    if not isinstance(tensor, TorchTensor):
        raise TypeError("a parameter is made of a tensor")
    return tensor


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    return {hashable(key): value for key, value in pairs}


def hashable(key: Any) -> Any:
    """A key, if it is a plain value.

    Raises:
        TypeError: it is not.
    """
    if key is None or type(key) in (str, int, float, bool, bytes):
        return key
    raise TypeError(f"{a(type(key).__name__)} as a key")


def _plain(values: Any = ()) -> tuple[Any, ...]:
    return tuple(values)


def _text(*args: Any) -> str:
    return ":".join(str(arg) for arg in args if type(arg) in (str, int))


_CALLS: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": _plain,
    "torch.device": _text,
    "builtins.set": _plain,
    "__builtin__.set": _plain,
}
