"""Collators, which make a batch of samples: `collate` for tensors of one shape, and functions of the user.

Samples that do not fit together raise an error that names the column and the shapes.

A collator works in two steps. ``arrays`` runs in a worker: it stacks samples into NumPy arrays and applies the
transform to the whole batch at once. ``batch`` runs in the thread that takes the batch, and puts the arrays on the
device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.errors import ArgumentError, CallError, DeviceError, DTypeError, KindError, ShapeError, a
from burnpy.data.batch import Arrays, Batch, declarations, made
from burnpy.data.order_and_randomness import BatchRandom
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.host_data import refuse_masked
from burnpy.typevars import B, T_co

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.backend import Backend


def stacked(samples: Sequence[Any], indices: Sequence[int]) -> dict[str, Any]:
    """Return the columns of samples that are mappings: arrays of shape (n, …), or tuples for values other than numbers.
    Python floats become float32 and complex numbers complex64, as in `Tensor.from_data`; arrays keep their dtype."""
    return {name: stacked_column(name, values, indices) for name, values in by_name(samples, indices).items()}


def by_name(samples: Sequence[Any], indices: Sequence[int]) -> dict[str, list[Any]]:
    """Return the values of samples by name, a list of n for each."""
    for sample, i in zip(samples, indices, strict=True):
        if not isinstance(sample, Mapping):
            raise KindError(
                f"sample {i} is {a(type(sample).__name__)}, and a batch is made of mappings from names; write "
                'data.map(lambda s: {"x": s[0], "y": s[1]}), or from_sequence(data, names=("x", "y"))'
            )
        if sample.keys() != samples[0].keys():
            raise ArgumentError(
                f"sample {indices[0]} has {', '.join(samples[0])}, and sample {i} has {', '.join(sample)}; the samples "
                "of a batch have the same names"
            )
    return {name: [sample[name] for sample in samples] for name in samples[0]}


def stacked_column(name: str, values: Sequence[Any], indices: Sequence[int]) -> NDArray[Any] | tuple[Any, ...]:
    """Return one column; see `stacked`."""
    arrays = [as_array(value) for value in values]
    if any(x is None for x in arrays):
        if all(x is None for x in arrays):
            return tuple(values)
        j = next(j for j, x in enumerate(arrays) if (x is None) != (arrays[0] is None))
        raise KindError(
            f"{name} is {a(type(values[0]).__name__)} in sample {indices[0]} and {a(type(values[j]).__name__)} in "
            f"sample {indices[j]}; the samples of a batch have the same types"
        )
    numbers: list[NDArray[Any]] = [x for x in arrays if x is not None]
    refuse_mixed(name, numbers, indices)
    shape = numbers[0].shape
    for x, i in zip(numbers, indices, strict=True):
        if x.shape != shape:
            raise ShapeError(
                f"{name} has shape {shape} in sample {indices[0]} and {x.shape} in sample {i}, which do not stack; "
                "crop or resize them in data.map(...), or pad them with burnpy.data.pad_collate(...)"
            )
    return np.stack(numbers)


def refuse_mixed(name: str, arrays: Sequence[NDArray[Any]], indices: Sequence[int]) -> None:
    """Check that arrays are of one kind, such as floats, and have a common dtype of that kind."""
    for x, i in zip(arrays, indices, strict=True):
        if x.dtype != arrays[0].dtype and not _joinable(x.dtype, arrays[0].dtype):
            raise DTypeError(
                f"{name} is {arrays[0].dtype} in sample {indices[0]} and {x.dtype} in sample {i}; convert it in "
                "data.map(...)"
            )


def _joinable(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether two dtypes have a common one of their kind; int64 and uint64 have float64 only."""
    try:
        return _kind(one) == _kind(other) == _kind(np.result_type(one, other))
    except TypeError:  # bfloat16 and float16
        return False


def as_array(value: Any) -> NDArray[Any] | None:
    """Return a number, a list of numbers, an array or a tensor as an array; None for anything else, such as text."""
    if hasattr(value, "__array__"):
        if isinstance(value, np.ndarray):
            refuse_masked(value, "a sample has")
        array = np.asarray(value)
        return array if array.dtype.kind in "biufcV" else None
    if isinstance(value, bool | int):
        return np.asarray(value)
    if isinstance(value, (float, complex)):
        return np.asarray(value, _SINGLE["f" if isinstance(value, float) else "c"])
    if isinstance(value, (list, tuple)):
        try:
            array = np.array(value)
        except ValueError:
            return None
        if array.dtype.kind not in "biufc":
            return None
        typed = hasattr(_first(value), "dtype")
        return array if typed else array.astype(_SINGLE.get(array.dtype.kind, array.dtype))
    return None


_SINGLE = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}
"""The dtypes of Python's numbers by kind, as in `Tensor.from_data`."""


def _first(value: Any) -> Any:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _kind(dtype: np.dtype[Any]) -> str:
    return {"i": "int", "u": "int", "b": "bool", "c": "complex"}.get(dtype.kind, "float")


Bt = TypeVar("Bt", bound=Batch[Any])

Transform: TypeAlias = Callable[["Mapping[str, NDArray[Any]]", BatchRandom], "Mapping[str, Any]"]
"""A function of a batch's columns, arrays of shape (n, …), and of random numbers for each sample."""


@dataclass(frozen=True)
class Samples(metaclass=Explaining):
    """The samples of a batch, as a collator receives them."""

    indices: NDArray[Any]  #: their indices in the loader's dataset, shape (n,)
    items: Sequence[Any]  #: the samples; empty if ``columns`` has them
    columns: Arrays | None  #: the samples by column, where the dataset gives them at once
    rng: BatchRandom  #: random numbers for each sample
    count: int  #: how many of them make the batch; those after them are there to be mixed with these


class Collator(Generic[T_co], metaclass=Explaining):
    """Makes batches of type ``T_co``."""

    mixes: int = 0
    """The number of times samples are mixed with others of their batch: calls of `BatchRandom.partners`."""

    @abstractmethod
    def arrays(self, samples: Samples) -> Any:
        """Return the batch as arrays; runs in a worker."""

    @abstractmethod
    def batch(self, arrays: Any) -> T_co:
        """Return the batch, from the result of ``arrays``; runs in the thread that takes it."""

    @property
    def copies_ahead(self) -> bool:
        """True if a batch is copied to its device while the one before is used."""
        return False

    def started(self, arrays: Any) -> Callable[[], T_co]:
        """Start to make a batch, and return a function that returns it."""
        return lambda: self.batch(arrays)


class FunctionCollator(Collator[T_co]):
    """Makes a batch by one function of the list of samples, in the worker."""

    def __init__(self, function: Callable[[list[Any]], T_co]) -> None:
        self.function = function

    def arrays(self, samples: Samples) -> Any:
        """Return the function's result for the list of samples."""
        items = samples.items
        if samples.columns is not None:
            columns = samples.columns
            items = [{name: x[j] for name, x in columns.items()} for j in range(len(samples.indices))]
        return self.function(list(items))

    def batch(self, arrays: Any) -> T_co:
        """Return the result of ``arrays`` unchanged."""
        return arrays  # type: ignore[no-any-return]  # the function's result


class TensorCollator(Collator[Bt]):
    """Makes a `Batch`, or a subclass, of samples that are mappings; `collate` returns one."""

    def __init__(self, cls: type[Any], device: Any, transforms: tuple[Transform, ...]) -> None:
        self.cls, self.device, self.transforms = cls, device, transforms
        self.mixes = sum(bool(getattr(transform, "mixes", False)) for transform in transforms)

    def stack(self, samples: Samples) -> dict[str, Any]:
        """Return the columns of the batch before the transforms."""
        return stacked(samples.items, samples.indices.tolist()) if samples.columns is None else samples.columns

    def arrays(self, samples: Samples) -> Any:
        """Return the columns after the transforms, by name."""
        columns: Mapping[str, Any] = self.stack(samples)
        for transform in self.transforms:
            columns = transform(columns, samples.rng)
            if not isinstance(columns, Mapping):
                raise CallError(
                    f"the transform {_name(transform)} returned {a(type(columns).__name__)}; it returns a mapping of "
                    "arrays, as {**columns, 'x': x}"
                )
        if samples.count < len(samples.indices):
            return {name: x[: samples.count] for name, x in columns.items()}
        return dict(columns)

    def batch(self, arrays: Any) -> Bt:
        """Return the batch, on the device."""
        return made(self.cls, arrays, self.device)  # type: ignore[no-any-return]  # of that class

    @property
    def copies_ahead(self) -> bool:
        """True on a GPU."""
        return bool(self.device.copies_ahead)

    def started(self, arrays: Any) -> Callable[[], Bt]:
        """Start to copy a batch to the device."""
        return self.device.ahead(lambda: self.batch(arrays))  # type: ignore[no-any-return]  # of that class

    def __reduce__(self) -> tuple[Any, ...]:  # a worker needs no device, which may be one that it cannot open
        return _rebuilt, (type(self), {**vars(self), "cls": Batch, "device": None})


@overload
def collate(*, device: B | type[B], transform: Transform | Sequence[Transform] = ...) -> Collator[Batch[B]]: ...
@overload
def collate(
    batch: type[Bt], *, device: Backend | type[Backend] = ..., transform: Transform | Sequence[Transform] = ...
) -> Collator[Bt]: ...
@explained
def collate(
    batch: type[Any] = Batch, *, device: Any = None, transform: Transform | Sequence[Transform] = ()
) -> Collator[Any]:
    """Return a collator of samples that are mappings: stacks each column, transforms the batch, and makes tensors.

    Args:
        batch: the class of the batches with its backend, as ``Digits[Train]``; see `Batch`.
        device: the device of the tensors, instead of ``batch``.
        transform: functions of the columns (NumPy arrays of shape (n, …)) and of a `BatchRandom`, applied in turn.

    Raises:
        DeviceError: there is no backend.

    >>> from burnpy.data import ArrayDataset, Loader
    >>> def noise(columns, rng):
    ...     return {**columns, "x": columns["x"] + rng.normal(shape=columns["x"].shape[1:])}
    >>> data = ArrayDataset(x=np.zeros((4, 2), np.float32), y=np.arange(4))
    >>> loader = Loader(data, collate(device=NumPy, transform=noise), batch_size=2)
    >>> [batch.y.tolist() for batch in loader]
    [[0, 1], [2, 3]]
    """
    cls, target = batch_class(batch, device, "collate")
    return TensorCollator(cls, target, checked_transforms(transform, "collate"))


def batch_class(batch: Any, device: Any, owner: str) -> tuple[type[Any], Any]:
    """Return the class of batches and the device from ``Digits[Train]`` or ``device=``."""
    cls: Any = getattr(batch, "__origin__", batch)
    if not (isinstance(cls, type) and issubclass(cls, Batch)):
        raise CallError(f"{owner}() got {batch!r}; expected a subclass of Batch with its backend, as Digits[NumPy]")
    declarations(cls)
    if device is None:
        arguments: Any = getattr(batch, "__args__", ())
        if len(arguments) != 1 or isinstance(arguments[0], TypeVar):
            raise DeviceError(
                f"{owner}() does not know the backend of its batches; write {owner}(device=NumPy), or "
                f"{owner}({cls.__name__}[NumPy])"
            )
        device = arguments[0]
    return cls, device_of(device)


def checked_transforms(transform: Any, owner: str) -> tuple[Transform, ...]:
    """Return one transform or several as a tuple."""
    transforms = tuple(transform) if isinstance(transform, Sequence) else (transform,)
    for one in transforms:
        if not callable(one):
            raise ArgumentError(f"{owner}() got {a(type(one).__name__)} as transform; expected functions of a batch")
    return transforms


def _rebuilt(cls: type[Any], fields: dict[str, Any]) -> Any:
    out = object.__new__(cls)
    vars(out).update(fields)
    return out


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


class PaddingCollator(TensorCollator[Bt]):
    """Makes batches whose columns are as long as the longest sample; `pad_collate` returns one."""

    def __init__(
        self, cls: type[Any], device: Any, transforms: tuple[Transform, ...], fills: Mapping[str, float], multiple: int
    ) -> None:
        super().__init__(cls, device, transforms)
        self.fills, self.multiple = dict(fills), multiple

    def stack(self, samples: Samples) -> dict[str, Any]:
        """Return the padded columns, and the lengths and the mask of each column in ``fills``."""
        indices: list[int] = samples.indices.tolist()
        if samples.columns is None:
            values = by_name(samples.items, indices)
        else:
            values = {name: list(column) for name, column in samples.columns.items()}
        out: dict[str, Any] = {}
        for name, column in values.items():
            if name not in self.fills:
                out[name] = stacked_column(name, column, indices)
                continue
            padded, lengths = self._padded(name, column, indices)
            out[name], out[f"{name}_lengths"] = padded, lengths
            out[f"{name}_mask"] = np.arange(padded.shape[1]) < lengths[:, None]
        missing = self.fills.keys() - values.keys()
        if missing:
            raise ArgumentError(
                f"pad_collate() cannot pad {', '.join(sorted(missing))}: the samples have {', '.join(values)}"
            )
        return out

    def _padded(
        self, name: str, column: Sequence[Any], indices: Sequence[int]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        arrays: list[NDArray[Any]] = []
        for value, i in zip(column, indices, strict=True):
            array = as_array(value)
            if array is None or not array.ndim:
                raise ShapeError(f"pad_collate() cannot pad {name}, which in sample {i} is not an array with a length")
            arrays.append(array)
        chosen = [j for j, array in enumerate(arrays) if len(array)]  # an empty list has a dtype by chance
        filled = [arrays[j] for j in chosen] or arrays
        refuse_mixed(name, filled, [indices[j] for j in chosen] or indices)
        rest = filled[0].shape[1:]
        for array, i in zip(arrays, indices, strict=True):
            if array.shape[1:] != rest and len(array):
                raise ShapeError(
                    f"{name} has shape {filled[0].shape} in sample {indices[0]} and {array.shape} in sample {i}; "
                    "padding makes up for different lengths of the first dimension alone"
                )
        lengths = np.array([len(array) for array in arrays], np.int64)
        longest = -(-int(lengths.max(initial=0)) // self.multiple) * self.multiple
        out = np.full((len(arrays), longest, *rest), self.fills[name], np.result_type(*filled))
        for row, array in zip(out, arrays, strict=True):
            row[: len(array)] = array.reshape(len(array), *rest)
        return out, lengths


@overload
def pad_collate(
    *,
    device: B | type[B],
    pad: Mapping[str, float],
    multiple: int = ...,
    transform: Transform | Sequence[Transform] = ...,
) -> Collator[Batch[B]]: ...
@overload
def pad_collate(
    batch: type[Bt],
    *,
    device: Backend | type[Backend] = ...,
    pad: Mapping[str, float],
    multiple: int = ...,
    transform: Transform | Sequence[Transform] = ...,
) -> Collator[Bt]: ...
@explained
def pad_collate(
    batch: type[Any] = Batch,
    *,
    device: Any = None,
    pad: Mapping[str, float],
    multiple: int = 1,
    transform: Transform | Sequence[Transform] = (),
) -> Collator[Any]:
    """Return a collator that pads columns to the longest sample of the batch.

    For a padded column ``x`` of shape (n, longest, …) the batch also has ``x_lengths``, the lengths (n,), and
    ``x_mask``, True where there is something, (n, longest).

    Args:
        batch: the class of the batches with its backend, as ``Text[Train]``; see `Batch`.
        device: the device of the tensors, instead of ``batch``.
        pad: the columns that are padded, each with its padding value.
        multiple: padded lengths are multiples of this.
        transform: functions of the padded columns; see `collate`.

    Raises:
        DeviceError: there is no backend.
        ArgumentError: ``multiple`` is not positive, or there is nothing to pad.

    >>> from burnpy.data import Loader
    >>> words = [{"ids": [3, 1]}, {"ids": [2]}, {"ids": [5, 4, 6]}]
    >>> (batch,) = Loader(words, pad_collate(device=NumPy, pad={"ids": 0}), batch_size=3)
    >>> batch.ids.tolist(), batch.ids_lengths.tolist()
    ([[3, 1, 0], [2, 0, 0], [5, 4, 6]], [2, 1, 3])
    >>> batch.ids_mask.tolist()[1]
    [True, False, False]
    """
    if multiple < 1 or not pad:
        raise ArgumentError(
            f"pad_collate() got pad={dict(pad)} and multiple={multiple}; expected at least one column, as "
            'pad={"ids": 0}, and a positive multiple'
        )
    cls, target = batch_class(batch, device, "pad_collate")
    return PaddingCollator(cls, target, checked_transforms(transform, "pad_collate"), pad, multiple)
