"""Statistical functions: reductions, cumulative sums and products, differences; and searching, sorting and sets."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from burnpy.array_api.creation_and_manipulation import Axes
from burnpy.array_api.data_types import ALL, FLOATING, NUMERIC, REAL, array, arrays, astype, dtype_from, standard
from burnpy.backend.dtypes import int64, uint64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.tensor.complex_numbers_lazy import complex as join
from burnpy.tensor.joining import cat
from burnpy.tensor.joining import where as chosen
from burnpy.tensor.ordering import searchsorted as positions


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


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


@standard
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first largest element, of all or along an axis."""
    return array(x, REAL).argmax(axis, keepdims)


@standard
def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first smallest element, of all or along an axis."""
    return array(x, REAL).argmin(axis, keepdims)


@standard
def count_nonzero(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return how many elements are not 0."""
    return array(x).bool().sum(axis, keepdims)


@standard
def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Return the indices of the elements that are not 0, one array for each axis."""
    if not array(x).ndim:
        raise ShapeError("nonzero() takes an array of one axis or more, got a 0-d one")
    return x.nonzero(as_tuple=True)  # type: ignore[no-any-return]  # a tuple


@standard
def searchsorted(x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    """Return the indices at which the elements of ``x2`` keep the 1-d ``x1`` sorted."""
    sequence, values = arrays(x1, x2, kinds=REAL)
    return positions(sequence, values, side=side, sorter=sorter)


@standard
def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """Return the elements of ``x1`` where the condition is True, and of ``x2`` elsewhere.

    Without both, return ``nonzero(condition)``: scikit-learn relies on it, although the standard has no such form.
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    return chosen(array(condition, ("bool",)), *arrays(x1, x2))


@standard
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Sort along an axis; the order of equal elements is always kept."""
    return array(x, REAL).sort(axis, descending).values


@standard
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the indices that sort along an axis; the order of equal elements is always kept."""
    return array(x, REAL).argsort(axis, descending)


@standard
def unique_all(x: Any, /) -> UniqueAll:
    """Return the different elements in ascending order, where each is first, where it is in them, and its count."""
    values, inverse, counts = _unique(x)
    first = inverse.reshape(-1).argsort()[counts.cumsum(0) - counts]
    return UniqueAll(values, first, inverse, counts)


@standard
def unique_counts(x: Any, /) -> UniqueCounts:
    """Return the different elements in ascending order, and how often each occurs."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


@standard
def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return the different elements in ascending order, and the index in them of each element."""
    return UniqueInverse(*_unique(x)[:2])


@standard
def unique_values(x: Any, /) -> Any:
    """Return the different elements in ascending order."""
    return _unique(x)[0] if array(x).kind == "complex" else x.unique()


def _unique(x: Any) -> tuple[Any, Any, Any]:
    """Return the different elements in ascending order, of complex numbers by real and then by imaginary part, where
    each element is in them, and their counts."""
    if array(x).kind != "complex":
        return x.unique(return_inverse=True, return_counts=True)  # type: ignore[no-any-return]  # three tensors
    (re, row), (im, column) = [part.unique(return_inverse=True) for part in (x.real, x.imag)]
    width = im.numel() or 1
    places, inverse, counts = (row * width + column).unique(return_inverse=True, return_counts=True)
    return join(re[places // width], im[places % width]), inverse, counts


@standard
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Return whether each element of ``x1`` is one of ``x2``."""
    first, second = arrays(x1, x2, kinds=ALL)
    found = (first.unsqueeze(-1) == second.reshape(-1)).any(-1)
    return ~found if invert else found
