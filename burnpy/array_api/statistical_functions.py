"""Reductions, cumulative sums and products, and differences."""

from __future__ import annotations

from typing import Any

from burnpy.array_api.data_types import FLOATING, NUMERIC, REAL, array, arrays, astype, dtype_from, standard
from burnpy.array_api.manipulation_functions import Axes
from burnpy.backend.dtypes import int64, uint64
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.joining import cat


@standard
def all(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return whether all elements are not 0."""
    return array(x).bool().all(axis, keepdims)


@standard
def any(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return whether any element is not 0."""
    return array(x).bool().any(axis, keepdims)


@standard
def max(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return the largest element; NaN if there is one."""
    return array(x, REAL).amax(axis, keepdims)


@standard
def min(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return the smallest element; NaN if there is one."""
    return array(x, REAL).amin(axis, keepdims)


@standard
def mean(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return the mean."""
    return array(x, FLOATING).mean(axis, keepdims)


@standard
def var(x: Any, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the variance: the squared differences to the mean are divided by n - correction."""
    return array(x, FLOATING).var(axis, keepdims, correction=correction)


@standard
def std(x: Any, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the standard deviation, the root of `var`."""
    return array(x, FLOATING).std(axis, keepdims, correction=correction)


@standard
def sum(x: Any, /, *, axis: Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the sum. Signed ints add up in int64, unsigned ones in uint64, unless ``dtype`` is given."""
    x = _widened(x, dtype)
    return astype(x.sum(axis, keepdims), x.dtype)


@standard
def prod(x: Any, /, *, axis: Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the product, in the dtypes of `sum`."""
    x = _widened(x, dtype)
    return astype(x.prod(axis, keepdims), x.dtype)


@standard
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the sums up to each element along an axis; with ``include_initial``, 0 first."""
    return _cumulative("cumsum", 0, x, axis, dtype, include_initial)


@standard
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the products up to each element along an axis; with ``include_initial``, 1 first."""
    return _cumulative("cumprod", 1, x, axis, dtype, include_initial)


@standard
def diff(x: Any, /, n: int = 1, *, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences between neighbours along an axis, taken n times.

    The standard takes ``n`` by name only; scikit-learn passes it by position.
    """
    given = {name: value for name, value in (("prepend", prepend), ("append", append)) if value is not None}
    first, *others = arrays(array(x, NUMERIC), *given.values(), kinds=NUMERIC)
    return first.diff(n, axis, **dict(zip(given, others, strict=True)))


def _widened(x: Any, dtype: Any) -> Any:
    """Return an array in the dtype in which it adds up."""
    x = array(x, NUMERIC)
    if dtype is not None:
        return astype(x, dtype_from(dtype))
    return x if x.kind in FLOATING else astype(x, uint64 if x.dtype.kind == "u" else int64)


def _cumulative(method: str, initial: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    x = _widened(x, dtype)
    if axis is None:
        if x.ndim != 1:
            raise ArgumentError(f"array() of shape {x.shape} needs an axis; only 1-d arrays do without")
        axis = 0
    out = astype(getattr(x, method)(axis), x.dtype)
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    return cat([out._like(out._backend.full(tuple(shape), initial, out.dtype)), out], axis)
