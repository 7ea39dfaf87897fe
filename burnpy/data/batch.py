"""`Batch`: the tensors of some samples, by name; and what loaders and other datasets use of a dataset."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from operator import index as as_int
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeAlias

import numpy as np

from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import (
    CallError,
    DeviceError,
    ImmutableError,
    IndexRangeError,
    KindError,
    MissingNameError,
    ShapeError,
    a,
    counted,
)
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.host_data import frame_array, readonly, refuse_masked
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B2, B, I, T_co

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import KindName
    from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

Sample: TypeAlias = Mapping[str, Any]
"""A sample: arrays, numbers or other values by name."""

Arrays: TypeAlias = "dict[str, NDArray[Any]]"
"""Samples of a batch by column, each of shape (n, …)."""


class Indexable(Protocol[T_co]):
    """Anything with ``len`` and ``[i]``: a `Dataset`, a list, a dataset of PyTorch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class SampleSource(Generic[T_co], metaclass=Explaining):
    """Samples with the indices 0 to ``len(source) - 1``. A subclass defines ``__len__`` and ``__getitem__``."""

    is_random: bool = False
    """True if samples draw random numbers, as those of `Dataset.map_random` do."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> T_co: ...

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, for which random maps draw from ``rng``: a generator if `is_random`, else
        None."""
        return self[index]

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the samples at some indices as one new array for each column; None where samples come one by one."""
        return None


def checked_index(index: Any, size: int) -> int:
    """Return an index as an int from 0 to size - 1; a negative one counts from the end."""
    try:
        i = as_int(index)
    except TypeError:
        hint = "; for several samples use data.subset(indices)" if isinstance(index, (slice, list, np.ndarray)) else ""
        raise CallError(f"a dataset got the index {describe(index)}; expected an int{hint}") from None
    if not -size <= i < size:
        raise IndexRangeError(f"no sample {i} in a dataset of {size}")
    return i + size if i < 0 else i


_KINDS: dict[str, tuple[KindName, str]] = {
    "Tensor": ("float", "np.float32"),
    "IntTensor": ("int", "np.int64"),
    "BoolTensor": ("bool", "bool"),
    "ComplexTensor": ("complex", "np.complex64"),
}
"""The kinds of the classes that a subclass of `Batch` declares, and a dtype of each as code."""


class Batch(Subscriptable, Generic[B], metaclass=Explaining):
    """The samples of a batch as tensors on backend ``B``, each of shape (n, …), as attributes and by name.

    Floats are a `Tensor`, ints an `IntTensor`, bools a `BoolTensor`, complex numbers a `ComplexTensor`; other values
    are a tuple of n values. To
    type checkers an attribute is Any; a subclass declares the columns that there are, and a batch is checked
    against it when it is made::

        class Digits(Batch[B]):
            x: Tensor[B]
            y: IntTensor[B]

        loader = Loader(data, collate(Digits[Train]), batch_size=64)

    >>> batch = Batch.of({"x": np.zeros((2, 3), np.float32), "y": np.array([1, 0])}, device=NumPy)
    >>> batch
    Batch(2 samples on NumPy: x=float32[3], y=int64[])
    >>> batch.y.tolist(), len(batch), list(batch.keys())
    ([1, 0], 2, ['x', 'y'])
    """

    __slots__ = ("_columns", "_device", "_size")

    _columns: Mapping[str, Any]
    _device: B
    _size: int

    @classmethod
    def of(cls, columns: Mapping[str, Any], *, device: B2 | type[B2]) -> Batch[B2]:
        """Return a batch of arrays, which are copied, or tensors on the device.

        Raises:
            ShapeError: the columns have different numbers of rows.
            KindError: the class declares other columns, or ``columns`` is not a mapping.
        """
        arrays: dict[str, Any] = {}
        given: object = columns
        if not isinstance(given, Mapping):
            raise KindError(f"Batch.of() takes columns by name, got {describe(given)}")
        for name, x in columns.items():
            refuse_masked(x, f"Batch.of() got {name},")
            array = np.array(x) if isinstance(x, np.ndarray) else frame_array(x, f"Batch.of() got {name},")
            arrays[name] = x if array is None else array
        out: Batch[B2] = made(getattr(cls, "__origin__", cls), arrays, device_of(device))
        return out

    @property
    def device(self) -> B:
        """The device of the tensors."""
        return self._device

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._size

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    if not TYPE_CHECKING:  # to type checkers, a batch cannot be iterated

        def __iter__(self):
            """Refuse to unpack a batch as if it were a tuple, which would give names.

            Raises:
                CallError: always.
            """
            names = ", ".join(f"batch.{name}" for name in self._columns)
            raise CallError(
                f"a batch is no tuple of columns, and was unpacked or iterated; write {names}, or batch.keys()"
            )

    def __getitem__(self, name: str) -> Any:
        given: object = name
        if not isinstance(given, str):
            first = next(iter(self._columns), "x")
            raise KindError(
                f"batch[{describe(given)}]: expected the name of a column; select a row from a column: batch.{first}[0]"
            )
        if name not in self._columns:
            raise MissingNameError(lambda: self._missing(name))
        return self._columns[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._columns:
            raise MissingNameError(lambda: self._missing(name))
        return self._columns[name]

    def _missing(self, name: str) -> str:
        close = get_close_matches(name, self._columns, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(self._columns)}"
        return f"this batch has no {name}; {hint}"

    def floats(self, name: str) -> Tensor[B]:
        """Return a column of floats, typed.

        Raises:
            KindError: it is of another kind.
        """
        return self._of_kind(name, "float")  # type: ignore[no-any-return]  # of that class

    def ints(self, name: str) -> IntTensor[B]:
        """Return a column of ints, typed.

        Raises:
            KindError: it is of another kind.
        """
        return self._of_kind(name, "int")  # type: ignore[no-any-return]  # of that class

    def bools(self, name: str) -> BoolTensor[B]:
        """Return a column of bools, typed.

        Raises:
            KindError: it is of another kind.
        """
        return self._of_kind(name, "bool")  # type: ignore[no-any-return]  # of that class

    def _of_kind(self, name: str, kind: KindName) -> Any:
        column = self[name]
        if not isinstance(column, TensorBase.kinds[kind]):
            raise KindError(f"{name} of this batch is {a(type(column).__name__)}; read it as {_read(column, name)}")
        return column

    def inner(self: Batch[Autodiff[I]]) -> Batch[I]:
        """Return the same memory on the inner backend, for validation.

        Raises:
            DeviceError: the batch is on a plain backend.
        """
        if not self._device.differentiates:
            raise DeviceError(f"inner() was called on a batch on {self._device}, which has no inner backend")
        columns = {name: x.inner() if _is_tensor(x) else x for name, x in self._columns.items()}
        out: Batch[I] = _new(type(self), columns, self._device.inner, self._size)
        return out

    def to_device(self, device: B2 | type[B2]) -> Batch[B2]:
        """Return the batch on another device."""
        target: Any = device_of(device)
        columns = {name: x.to_device(target) if _is_tensor(x) else x for name, x in self._columns.items()}
        out: Batch[B2] = _new(type(self), columns, target, self._size)
        return out

    def _flatten_tree(self) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the columns: to `burnpy.func` a batch is a tree, which compiled functions take."""
        device: Any = self._device
        return [*self._columns.values()], (type(self), device.stands_for or device, self._size, *self._columns)

    @classmethod
    def _unflatten_tree(cls, children: Sequence[Any], rest: tuple[Any, ...]) -> Self:
        _, device, size, *names = rest
        own = next((x.device for x in children if _is_tensor(x)), device)  # another one while it is recorded
        return _new(cls, dict(zip(names, children, strict=True)), own, size)  # type: ignore[no-any-return]  # of cls

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"batches do not change: batch.{name} cannot be set or deleted; make another with Batch.of(...)"
        )

    __delattr__: Any = __setattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _new, (type(self), dict(self._columns), self._device, self._size)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={x.dtype}{list(x.shape[1:])}" if isinstance(x, TensorBase) else f"{name}={type(x[0]).__name__}"
            for name, x in self._columns.items()
        )
        return f"{type(self).__name__}({counted(self._size, 'sample')} on {self._device}: {shown})"


def _new(cls: type[Batch[Any]], columns: Mapping[str, Any], device: Any, size: int) -> Any:
    batch = object.__new__(cls)
    for name, value in (("_columns", columns), ("_device", device), ("_size", size)):
        object.__setattr__(batch, name, value)
    return batch


def made(cls: type[Any], columns: Mapping[str, Any], device: Any) -> Any:
    """Return a batch of columns: tensors, tuples, and arrays of no one else, whose memory the tensors take over."""
    refuse_undeclared(cls, columns)
    sizes = {name: x.shape[0] if hasattr(x, "shape") and x.shape else len(x) for name, x in columns.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{counted(size, 'row')} of {name}" for name, size in sizes.items())
        raise ShapeError(f"a batch was made of {shown}; every column has one row for each sample")
    tensors = {name: _column(x, device) if isinstance(x, np.ndarray) else x for name, x in columns.items()}
    return _new(cls, tensors, device, next(iter(sizes.values()), 0))


def _is_tensor(x: Any) -> bool:
    return isinstance(x, TensorBase)


def _column(array: NDArray[Any], device: Any) -> Any:
    """Return an array as a tensor; one of text or times as a tuple, as samples of these are."""
    if array.dtype.kind in "USMm":
        return tuple(array)
    owner: Any = TensorBase.kinds[kind_of(array.dtype)]
    return owner.from_data(readonly(np.ascontiguousarray(array)), copy=False, device=device)


def refuse_undeclared(cls: type[Any], columns: Mapping[str, Any]) -> None:
    """Check columns against what a subclass of `Batch` declares."""
    for name, declared in declarations(cls).items():
        if name not in columns:
            raise KindError(f"{cls.__name__} declares {name}, which the samples lack; they have {', '.join(columns)}")
        column = columns[name]
        if declared not in _KINDS:
            continue
        kind = kind_of(column.dtype) if hasattr(column, "dtype") else None
        wanted, dtype = _KINDS[declared]
        if kind != wanted:
            what = f"dtype {column.dtype}" if kind else a(type(column).__name__)
            raise KindError(
                f"{cls.__name__} declares {name}: {declared}, and the samples have {what}; declare another kind, or "
                f"convert it in a transform, as with x.astype({dtype})"
            )


def declarations(cls: type[Any]) -> dict[str, str]:
    """Return the columns that a subclass of `Batch` declares, with the names of their classes."""
    out: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Batch) and base is not Batch:
            for name, annotation in _annotations(base).items():
                shown = annotation if isinstance(annotation, str) else repr(annotation)
                match = re.match(r"[\w.]*?(\w+)(\[|$)", shown.replace("'", ""))
                if match and not name.startswith("_"):
                    out[name] = match[1]
    return out


def _annotations(cls: type[Any]) -> Mapping[str, Any]:
    annotations: Mapping[str, Any]
    if sys.version_info >= (3, 14):
        import annotationlib

        annotations = annotationlib.get_annotations(cls, format=annotationlib.Format.STRING)
    else:
        annotations = vars(cls).get("__annotations__", {})
    return annotations


def _read(column: object, name: str) -> str:
    """Return the code that reads a column of a batch with its type."""
    kind = column.kind if isinstance(column, TensorBase) else ""
    return f"batch.{kind}s({name!r})" if kind in ("float", "int", "bool") else f"batch[{name!r}]"
