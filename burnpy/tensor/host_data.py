"""Data in the host's memory: Python values, NumPy arrays and data frames that `from_data` accepts, and values read out.

NumPy reads nested lists. It also reads strings as numbers, sets as objects and large ints as floats; here those are
errors, whose cause is searched for only after something failed. Data frames and series of pandas and Polars are told
by their attributes: neither package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy import asarray

from burnpy.backend.dtypes import DEFAULT, OWNERS, complex_dtype, converted, dtype_of, int_limits, kind_of
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    CallError,
    DTypeError,
    KindError,
    NotTrackedError,
    ShapeError,
    a,
    class_name,
    counted,
    raised_by_other_code,
)
from burnpy.backend.primitives import INEXACT, DType, KindName
from burnpy.tensor.tensor_base import TensorBase, describe

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Data: TypeAlias = ArrayLike

DTypeLike: TypeAlias = "DType | str | type[Any]"
"""A dtype or a name of one: ``burnpy.float64``, ``"float64"``, ``np.float64``, ``float``."""

_RANK: dict[KindName, int] = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_ACCEPTED: dict[KindName, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "complex": (complex, float, int),
}
"""The Python numbers of each kind."""
_DEEPEST = 64  # NumPy's limit of dimensions


def refuse_masked(data: Any, described: str) -> None:
    """Check that data are no masked array of NumPy; ``described`` is the begin of the message."""
    if hasattr(data, "mask") and hasattr(data, "filled"):
        raise ArgumentError(
            f"{described} {describe(data)}, and tensors have no missing elements; fill them first, as with "
            "array.filled(0)"
        )


def array_of(data: Any, kind: KindName, dtype: Any) -> NDArray[Any]:
    """Return the data as a NumPy array with a dtype of ``kind``; without a copy if it is such an array already."""
    target_dtype = None if dtype is None else dtype_of(dtype, kind)
    first = _first_leaf(data)
    if isinstance(first, TensorBase):
        for leaf in _leaves(data):
            refuse_tracked(leaf, kind)
    refuse_masked(data, f"{OWNERS[kind]}.from_data() got")
    if not isinstance(data, (np.ndarray, list, tuple, int, float, TensorBase)):
        table = frame_array(data, f"{OWNERS[kind]}.from_data() got")
        if table is not None:
            data = first = table
    try:
        array = np.asarray(data)
    except BurnpyError:
        raise
    except Exception as error:  # NumPy calls methods of the data, such as __array__, which may raise anything
        if raised_by_other_code(error) and not _raised_by_data(error):
            raise
        raise _unreadable(data, kind, error) from None
    if hasattr(first, "dtype"):
        result_dtype = dtype_of_typed(data, array, kind, target_dtype)
    else:
        array, result_dtype = _numbers(data, array, kind), target_dtype or DEFAULT[kind]
    if kind == "int":
        _refuse_overflow(array, result_dtype)
    with np.errstate(all="ignore"):  # a large float becomes inf, as everywhere in IEEE 754
        return converted(array, result_dtype)


def _raised_by_data(error: BaseException) -> bool:
    """Return whether an error was raised in a method that NumPy called to read the data, such as ``__array__``."""
    trace = error.__traceback__
    called = trace.tb_next if trace is not None else None
    name = called.tb_frame.f_code.co_name if called is not None else ""
    return name.startswith("__") and name != "__call__"


def rows_of(data: Any, described: str) -> NDArray[Any]:
    """Return the array of any dtype that NumPy makes of a list or of another library's array.

    Args:
        data: the data.
        described: who got what, the beginning of an error message.

    Raises:
        ShapeError: the list is ragged.
    """
    try:
        return np.asanyarray(data)
    except ValueError as error:
        raise ShapeError(f"{described} {describe(data)}, whose parts differ in length; give all the same") from error


def frozen(data: Any, kind: KindName, dtype: Any) -> NDArray[Any]:
    """Return ``data`` itself, for ``copy=False``, after checking that it is an immutable NumPy array of that dtype.

    Raises:
        ArgumentError: it is not an array, its memory can still be written to, or it would have to be converted.
    """
    if not isinstance(data, np.ndarray):
        raise ArgumentError(
            f"from_data(copy=False) takes a read-only NumPy array, not {a(type(data).__name__)}; leave copy=False out"
        )
    trouble = writer(data)
    if trouble:
        raise ArgumentError(
            f"from_data(copy=False) got an array of shape {data.shape} and dtype {data.dtype} that may still "
            f"change, as {trouble}, and takes results of to_numpy() and arrays over bytes; leave copy=False out"
        )
    array = array_of(data, kind, dtype)
    if array.dtype != data.dtype:
        raise ArgumentError(
            f"from_data(copy=False) cannot make dtype {array.dtype} of an array of dtype {data.dtype}, "
            "which takes a copy; leave copy=False out"
        )
    return array


_NUMBERS: dict[str, Any] = {"bool": bool, "float": float, "complex": complex}


def fitting(value: Any, kind: KindName, dtype: DType, operation: str) -> Any:
    """Return ``value`` as a Python number that fits a tensor of ``kind`` and ``dtype``."""
    if isinstance(value, np.generic):
        value = value.item()
    accepted: Any = _ACCEPTED[kind]
    if not isinstance(value, accepted):
        raise DTypeError(f"{operation}() got {describe(value)}; expected a Python {kind}" + _class_for(value, kind))
    if kind == "int":
        low, high = int_limits(dtype)
        if not low <= value <= high:
            raise _overflow(value, dtype)
        return int(value)
    try:
        return _NUMBERS[kind](value)
    except OverflowError:
        raise _overflow(value, dtype) from None


def float_of(value: Any, dtype: DType, operation: str) -> float:
    """Return a number, which is not a bool, as a Python float that fits a tensor of ``dtype``."""
    if isinstance(value, (bool, np.bool_)):
        raise DTypeError(f"{operation}() got {describe(value)}; expected a Python float")
    return fitting(value, "float", dtype, operation)  # type: ignore[no-any-return]  # of the kind


def _first_leaf(data: Any) -> Any:
    for _ in range(_DEEPEST):
        if not isinstance(data, (list, tuple)) or not data:
            break
        data = data[0]
    return data


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from _leaves(part)
    else:
        yield data


def refuse_tracked(leaf: Any, kind: KindName) -> None:
    """Raise an error if ``leaf`` is a tracked tensor."""
    if isinstance(leaf, TensorBase) and leaf.kind in INEXACT and leaf._backend.is_require_grad(leaf._primitive):
        raise NotTrackedError(
            f"{OWNERS[kind]}.from_data() got a tracked tensor of shape {leaf.shape}, whose graph it would drop; "
            "join tensors with burnpy.stack([...]) or burnpy.cat([...]), or call x.detach() first"
        )


def dtype_of_typed(data: Any, array: NDArray[Any], kind: KindName, target_dtype: DType | None) -> DType:
    """Return the dtype of the result for an array, a tensor, or a list of them."""
    found_kind = kind_of(array.dtype)
    if found_kind == kind:
        return target_dtype or array.dtype
    if target_dtype is not None and _RANK[found_kind] < _RANK[kind]:
        return target_dtype
    if kind == "complex":
        return complex_dtype(array.dtype)
    if isinstance(data, TensorBase):
        raise KindError(f"{OWNERS[kind]}.from_data() got {describe(data)}; convert it with x.{kind}()")
    raise DTypeError(
        f"{OWNERS[kind]}.from_data() got an array of shape {array.shape} and dtype {array.dtype}; "
        f"use {OWNERS[found_kind]}.from_data(array), or convert it with array.astype({str(DEFAULT[kind])!r})"
    )


def _numbers(data: Any, array: NDArray[Any], kind: KindName) -> NDArray[Any]:
    """Return the array that NumPy read from Python numbers after checking that they are numbers of ``kind``."""
    if array.size == 0 and array.dtype.kind in "fiubc":
        return array
    if array.dtype.kind in "fiubc" and _RANK[kind_of(array.dtype)] <= _RANK[kind]:
        return array
    for leaf in _leaves(data):
        number = leaf.item() if isinstance(leaf, np.generic) else leaf
        if not isinstance(number, _ACCEPTED[kind]):
            raise _bad_leaf(leaf, kind)
    # All are numbers of the kind, but NumPy read an array of objects: ints that fit neither int64 nor uint64.
    if kind in INEXACT:
        try:
            return np.array(data, np.float64 if kind == "float" else np.complex128)
        except OverflowError:
            raise DTypeError(f"{OWNERS[kind]}.from_data() got an int that is too large for every dtype") from None
    raise _overflow(max(_leaves(data), key=abs), DEFAULT[kind])


def _bad_leaf(leaf: Any, kind: KindName) -> BurnpyError:
    if isinstance(leaf, (bool, int, float, complex, np.generic)):
        return DTypeError(
            f"{OWNERS[kind]}.from_data() got {describe(leaf)}, but holds {kind} values only" + _class_for(leaf, kind)
        )
    return ArgumentError(
        f"{OWNERS[kind]}.from_data() got {describe(leaf)} of type {type(leaf).__name__}; expected numbers, "
        "nested lists of numbers, arrays or tensors"
    )


def _unreadable(data: Any, kind: KindName, error: Exception) -> BurnpyError:
    """Return the error that explains why NumPy cannot create an array from the data."""
    level = [data]
    for depth in range(_DEEPEST):
        lists = [part for part in level if isinstance(part, (list, tuple))]
        if not lists:
            break
        if len(lists) < len(level):
            return ShapeError(f"{OWNERS[kind]}.from_data() got a list that mixes numbers and lists at depth {depth}")
        lengths = sorted({len(part) for part in lists})
        if len(lengths) > 1:
            return ShapeError(
                f"{OWNERS[kind]}.from_data() got a ragged list: at depth {depth} there are lists of length "
                f"{lengths[0]} and {lengths[-1]}; give all the same length"
            )
        level = [part for whole in lists for part in whole]
    shapes = sorted({np.shape(part) for part in level if hasattr(part, "shape")})
    if len(shapes) > 1:
        return ShapeError(f"{OWNERS[kind]}.from_data() got a list of arrays of shapes {shapes[0]} and {shapes[-1]}")
    return ArgumentError(
        f"{OWNERS[kind]}.from_data() cannot import {a(class_name(data))} ({error}); "
        "it takes numbers, nested lists of them, arrays and tensors"
    )


def _refuse_overflow(array: NDArray[Any], dtype: DType) -> None:
    if array.dtype == dtype or array.dtype.kind == "b" or not array.size:
        return
    low, high, (least, most) = int(array.min()), int(array.max()), int_limits(dtype)
    if low < least or high > most:
        raise _overflow(low if low < least else high, dtype)


def _overflow(value: int, dtype: DType) -> DTypeError:
    return DTypeError(f"dtype {dtype} cannot hold {describe(value)}; use a wider dtype, or Tensor for large magnitudes")


def _class_for(value: Any, kind: KindName) -> str:
    """Return the end of an error message: the tensor class for a value that ``kind`` does not accept."""
    classes: dict[KindName, Any] = {
        "bool": bool,
        "int": int,
        "float": (float, np.floating),
        "complex": (complex, np.complexfloating),
    }
    for other, numbers in classes.items():
        if other != kind and isinstance(value, numbers):
            if other == "complex":
                return "; use ComplexTensor, or take its .real"
            return f"; use {OWNERS[other]}, or convert it with {kind}(...)"
    return ""


class Owned(np.ndarray[Any, Any]):
    """A view that marks the memory of a tensor or of a record's array: its owner never writes to it."""

    __slots__ = ()


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array over the same memory that cannot be made writable.

    ``setflags(write=True)`` makes a read-only view of a writable array writable, but not an array over a read-only
    buffer.

    >>> readonly(np.zeros(3)).flags.writeable
    False
    """
    owned: Any = array.view(Owned)
    owned.setflags(False)
    try:
        return asarray(memoryview(owned))
    except ValueError:  # Python buffers do not support bfloat16, only its bits as uint16
        bits: Any = owned.view(np.uint16)
        return asarray(memoryview(bits)).view(array.dtype)


def writer(array: NDArray[Any]) -> str:
    """Return a reason why the memory of an array can still be written to; an empty string if it cannot.

    ``bytes``, and memory behind an array that `readonly` returned, are never written to. Other memory may be, whatever
    the array's own flag says: views from before an array became read-only can still write to it.

    >>> writer(np.frombuffer(b"abcd", np.uint8)), writer(readonly(np.zeros(3)))
    ('', '')
    >>> writer(np.broadcast_to(np.zeros(()), (3,)))
    'it is a view of an array that can be written to'
    """
    owner: Any = array
    while True:
        if isinstance(owner, np.ndarray):
            if owner.flags.writeable:
                return "it can be written to" if owner is array else "it is a view of an array that can be written to"
            if type(owner) is Owned:
                return ""
            if owner.base is None:
                return "views of it from before it was read-only can be written to"
            owner = owner.base
        elif type(owner) is memoryview:
            owner = owner.obj
        elif type(owner) is PickleBuffer:
            owner = memoryview(owner).obj
        else:
            return "" if type(owner) is bytes else f"its memory belongs to {a(type(owner).__name__)}"


Watch: TypeAlias = Callable[[Any, str], None]
"""A callback ``(tensor, method)``: the tensor that was read, and the name of the method, such as ``to_numpy()``."""

watches: list[Watch] = []
"""The active callbacks of all threads. The list is nearly always empty, and then a read costs nothing more."""
_watch: ContextVar[Watch | None] = ContextVar("burnpy_leaving", default=None)


def notify(x: Any, method: str) -> None:
    """Call the innermost callback of this context, if there is one."""
    watch = _watch.get()
    if watch is not None:
        watch(x, method)


@contextmanager
def watching(watch: Watch) -> Generator[None, None, None]:
    """Return a context manager that calls ``watch`` for every value that is read out of a tensor in its block."""
    token = _watch.set(watch)
    watches.append(watch)
    try:
        yield
    finally:
        watches.remove(watch)
        _watch.reset(token)


def is_frame(value: object) -> bool:
    """Return whether a value is a frame: a table whose columns have names."""
    return hasattr(type(value), "columns") and hasattr(type(value), "dtypes")


def columns_of(frame: Any, owner: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a frame by name."""
    if not is_frame(frame):
        raise CallError(f"{owner} got {a(type(frame).__name__)}; expected a frame, or arrays by name, as in x=images")
    columns = _columns(frame, f"{owner} got a frame")
    for name in columns:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{owner} got a frame with the column {name!r:.80}, which is not a string; rename it, or name all "
                "columns together, as in x=frame"
            )
    return columns


def frame_array(value: Any, described: str) -> NDArray[Any] | None:
    """Return a frame as an array of shape (n, columns), a series as one of shape (n,), and None of another value.

    Args:
        value: any value.
        described: the begin of messages, as in "ArrayDataset() got x,".
    """
    if is_frame(value):
        return np.stack(list(_columns(value, f"{described} a frame").values()), axis=1)
    kind = type(value)
    if hasattr(kind, "isna") or hasattr(kind, "null_count"):
        return _column_numbers(value, f"{described} a series that")
    return None


def _columns(frame: Any, described: str) -> dict[Any, NDArray[Any]]:
    if hasattr(frame, "collect"):
        raise CallError(f"{described} that is lazy; write frame.collect()")
    names = list(frame.columns)
    if not names:
        raise ArgumentError(f"{described} without columns")
    if len({*names}) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"{described} with {names.count(name)} columns called {name}; rename them")
    return {name: _column_numbers(frame[name], f"{described} whose column {name}") for name in names}


def _column_numbers(series: Any, described: str) -> NDArray[Any]:
    """Return the numbers or bools of a series."""
    missing = int(series.isna().sum()) if hasattr(series, "isna") else _nulls(series)
    if missing:
        raise DTypeError(
            f"{described} has {counted(missing, 'missing value')}, and tensors have none; fill or drop them, or "
            "pass .to_numpy() for NaN"
        )
    array: NDArray[Any] = series.to_numpy()
    if array.dtype.kind == "O" and hasattr(series.dtype, "numpy_dtype"):  # of nullable dtypes, before pandas 2.2
        array = array.astype(series.dtype.numpy_dtype)
    if array.dtype.kind not in "biuf":
        raise KindError(
            f"{described} has the dtype {series.dtype}, and tensors hold numbers and bools; encode it as numbers, or "
            "leave it out"
        )
    return array


def _nulls(series: Any) -> int:
    """Return the number of missing values in a series of Polars, also inside its arrays."""
    while not series.null_count() and hasattr(series.dtype, "inner"):
        series = series.explode()
    return int(series.null_count())
