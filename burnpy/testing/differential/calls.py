"""Calls in samples: operations of the schema as functions of tensors, and their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.backend import operations
from burnpy.backend.dtypes import float64, kind_of
from burnpy.tensor.complex_numbers_lazy import complex as complex_of
from burnpy.tensor.complex_numbers_lazy import view_as_real
from burnpy.tensor.levels import common_device, raised
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.testing.cases.blocks import BLOCKS, Block
from burnpy.testing.cases.samples import ByDType, ByKind, CaseDType
from burnpy.testing.cases.table import ROWS, called
from burnpy.testing.rounding import beneath, narrowed, rounded, saturated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.entries import Operation
    from burnpy.backend.primitives import DType

CLASSES: dict[str, Any] = {"float": Tensor, "int": IntTensor, "bool": BoolTensor}
"""The class of tensors of each kind."""


def call(name: str, *args: Any) -> Any:
    """Call an operation of the schema on tensors, with those of outer levels lifted.

    Elementwise operations are called as methods of tensors where there is one, so that tensors lift their operands.

    Args:
        name: the operation.
        args: its arguments in the order of its declaration: tensors, lists of them, and Python values.

    Returns:
        A tensor, or a tuple of them.

    >>> call("cumsum", Tensor[NumPy].from_data([1.0, 2.0]), 0).tolist()
    [1.0, 3.0]
    """
    op = operation(name)
    tensors = [x for x in _members(args) if isinstance(x, TensorBase)]
    dtype = next((x.dtype for x in tensors if x.kind == "float"), float64)
    given = [_resolved(rounded(a), dtype) for a in args]  # each use of a value has an error of its own
    given = [_complex(a) if d.kind == "Complex" else a for a, d in zip(given, op.arguments, strict=False)]
    if op.elementwise and isinstance(given[0], TensorBase) and hasattr(given[0], name) and len(op.results) == 1:
        return rounded(_real(getattr(given[0], name)(*given[1:])))
    floats = [x.device for x in tensors if x.kind == "float"]
    top: Any = common_device(name, floats, [x.device for x in tensors if x.kind != "float"])
    kinds = {x.kind for x in tensors}
    on = top if op.results == ("Float",) or "float" in kinds or not kinds else top.discrete

    def primitive(a: Any, consumed: bool) -> Any:
        if isinstance(a, list):
            return [primitive(member, consumed) for member in a]
        if not isinstance(a, TensorBase):
            return a
        x = raised(a, top)._primitive
        return top.add(x, 0.0) if consumed else x

    primitives = [primitive(a, d.name in op.consumes) for a, d in zip(given, op.arguments, strict=False)]
    results = called(name, on, primitives)
    wrapped = [new_tensor(TensorBase.kinds[kind_of(r.dtype)], top, r) for r in _members(results)]
    found = [rounded(_real(ROWS[name].without_phase(x))) for x in wrapped]
    return tuple(found) if isinstance(results, (tuple, list)) else found[0]


def _complex(x: Any) -> Any:
    """Return complex numbers made of floats, for an operation that takes such: samples have floats alone."""
    if not isinstance(x, Tensor):
        return x.complex()
    wide = x if x.dtype.itemsize > 2 else x.to_dtype("float32")
    return complex_of(wide, wide.sin())


def _real(x: Any) -> Any:
    """Return the parts of complex numbers as floats, along a new last dimension."""
    return view_as_real(x) if x.kind == "complex" else x


def block(name: str, *args: Any) -> Any:
    """Call a building block of burnpy's own; the result is a list of tensors."""
    return of_block(BLOCKS[name], *args)


def of_block(given: Block, *args: Any) -> list[Any]:
    """Call a building block; with rounding errors, its arguments and results have some, of its tolerance."""
    times = given.loose / 4 if given.loose > 4 else 0.0
    return [rounded(x, times) for x in flat(given.function(*map(rounded, args)))]


@cache
def operation(name: str) -> Operation:
    """Return an operation of the schema."""
    return operations()[name]


def constant(values: Any, like: Tensor[Any]) -> Any:
    """Return a tensor on the device beneath all levels of another; floats in its dtype.

    >>> constant([[True]], Tensor[NumPy].zeros(())).shape
    (1, 1)
    """
    array = np.asarray(values)
    if kind_of(array.dtype) == "float":
        array = narrowed(array).astype(like.dtype)
    return CLASSES[kind_of(array.dtype)].from_data(array, device=beneath(like.device))


def within(x: Tensor[Any], low: float, high: float) -> Tensor[Any]:
    """Map all numbers smoothly to those between two bounds."""
    middle, half = (low + high) / 2, (high - low) / 2 * 0.98
    scaled = x * (1 / max(half, 1.0))
    inside: Tensor[Any] = rounded(saturated(scaled, scaled.tanh()) * half + middle)
    return inside


def near(values: Any, x: Tensor[Any]) -> Tensor[Any]:
    """Return constants, each changed by less than 0.3 by an element of x."""
    changed: Tensor[Any] = rounded(constant(values, x) + saturated(x, x.tanh()) * 0.3)
    return changed


def fitted(x: Any, *shape: int) -> Any:
    """Return the elements of x in a shape: reshaped, broadcast, or repeated.

    >>> fitted(Tensor[NumPy].from_data([1.0, 2.0]), 3).tolist()
    [1.0, 2.0, 1.0]
    """
    if x.shape == shape:
        return x
    size, count = math.prod(x.shape), math.prod(shape)
    if size == count:
        return rounded(x.reshape(shape))
    if len(x.shape) <= len(shape) and all(a in (1, b) for a, b in zip(x.shape[::-1], shape[::-1], strict=False)):
        return rounded(x.expand(shape))
    picked = IntTensor.from_data(np.arange(count) % max(size, 1), device=beneath(x.device))
    return rounded(x.reshape((size,)).index_select(0, picked).reshape(shape))


def described(sample: Any, x: Tensor[Any]) -> Tensor[Any]:
    """Return x as a description of an argument varies it, such as the symmetric part of matrices."""
    return new_tensor(Tensor, x.device, sample.varied(x.device, x._primitive))  # type: ignore[no-any-return]  # of that class


def flat(results: Any) -> list[Any]:
    """Return the tensors of a result, which is one or a tuple, list or dict of such."""
    if isinstance(results, dict):
        return flat(list(results.values()))
    return [x for r in results for x in flat(r)] if isinstance(results, (tuple, list)) else [results]


def _members(args: Iterable[Any]) -> list[Any]:
    if not isinstance(args, (tuple, list)):
        return [args]
    return [member for a in args for member in _members(a)]


def _resolved(a: Any, dtype: DType) -> Any:
    if isinstance(a, (ByKind, ByDType)):
        return a.of(dtype)
    return dtype if isinstance(a, CaseDType) else a


@dataclass(frozen=True)
class Ref:
    """The value of an input or of an earlier step, by its number."""

    number: int


@dataclass(frozen=True, eq=False)
class Constant:
    """An array that becomes a tensor, with its expression in source if it has one."""

    array: NDArray[Any]
    source: str | None = None


@dataclass(frozen=True, eq=False)
class Named:
    """A Python value with the expression that names it in source."""

    value: Any
    source: str


@dataclass(frozen=True, eq=False)
class Applied:
    """A call of a function of `calls`, such as ``fitted``."""

    function: str
    args: tuple[Any, ...]


def evaluated(a: Any, values: Sequence[Any], like: Any) -> Any:
    """Return an argument's value: tensors for the values of inputs and earlier steps."""
    if isinstance(a, Ref):
        return values[a.number]
    if isinstance(a, Constant):
        return constant(a.array, like)
    if isinstance(a, Named):
        return a.value
    if isinstance(a, Applied):
        args = [evaluated(x, values, like) for x in a.args]
        return _FUNCTIONS[a.function](*args)
    return [evaluated(x, values, like) for x in a] if isinstance(a, list) else a


def mapped(a: Any, mapping: Callable[[int], int]) -> Any:
    """Return an argument that refers to other numbers."""
    if isinstance(a, Ref):
        return Ref(mapping(a.number))
    if isinstance(a, Applied):
        return replace(a, args=mapped(a.args, mapping))
    return type(a)([mapped(x, mapping) for x in a]) if type(a) in (list, tuple) else a


def refs(a: Any) -> Iterator[int]:
    """Yield the numbers of the values that an argument refers to."""
    if isinstance(a, Ref):
        yield a.number
    elif isinstance(a, Applied):
        yield from refs(a.args)
    elif isinstance(a, (list, tuple)):
        for x in a:
            yield from refs(x)


def written(a: Any, names: Sequence[str]) -> str:
    """Return an argument as Python code, with the names of the values."""
    if isinstance(a, Ref):
        return names[a.number]
    if isinstance(a, Constant):
        return f"constant({a.source or array_source(a.array)}, x0)"
    if isinstance(a, Named):
        return a.source
    if isinstance(a, Applied):
        return f"{a.function}({', '.join(written(x, names) for x in a.args)})"
    if isinstance(a, list):
        return f"[{', '.join(written(x, names) for x in a)}]"
    if isinstance(a, np.ndarray):
        return array_source(a)
    return repr(a)


def array_source(array: NDArray[Any]) -> str:
    """Return the expression of an array, with all its digits."""
    text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    shape = f".reshape({array.shape})" if 0 in array.shape else ""
    return f'np.array({text}, "{array.dtype}"){shape}'


_FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (constant, described, fitted, near, within)}
