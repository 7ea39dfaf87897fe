"""Histograms of one variable or several: counts, or sums of weights, of the samples between edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from burnpy.backend.dtypes import bool_, float64, int64
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.levels import has_values
from burnpy.tensor.operand_checks import need_floats, number, refuse_unless, together
from burnpy.tensor.ordering import searchsorted
from burnpy.tensor.reduction import FloatReductions
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class IntCounting(TensorBase[B]):
    """Counts of non-negative ints."""

    __slots__ = ()

    def bincount(self, weights: Any = None, minlength: int = 0) -> Any:
        """Return the counts of each int from 0 to the largest in a 1-d x, int64; with ``weights``, their sums, a
        `Tensor`.

        The size of the result depends on the values, so that a GPU is synchronized. In a compiled function and under
        `vmap` it is ``minlength``, and a larger int is an error.

        Args:
            weights: a tensor of x's shape; None to count. The result has its dtype (float64 of ints and bools), and
                gradients go to the weights.
            minlength: the smallest size of the result.

        Raises:
            ShapeError: x is not 1-d, or the weights have another shape.
            DTypeError: an int is negative.
            ArgumentError: ``minlength`` is negative, or needed and not given.

        >>> IntTensor[NumPy].from_data([1, 3, 1]).bincount(minlength=5).tolist()
        [0, 2, 0, 1, 0]
        """
        least = integer(minlength, "minlength", "bincount")
        if self.ndim != 1:
            raise ShapeError(f"bincount() got shape {self.shape}; it counts a 1-d tensor: x.flatten()")
        if least < 0:
            raise ArgumentError(f"bincount() got minlength={least}; it can be 0 or more")
        d = self._device.discrete
        index = self._primitive if self.dtype == int64 else d.cast(self._primitive, int64)
        count = least
        if not has_values(self):
            index = _below(self, index, least)
        elif self.shape[0]:
            lowest = int(d.to_numpy(d.amin(index, (0,), False)))
            if lowest < 0:
                raise DTypeError(f"bincount() got {lowest}; expected ints of at least 0")
            count = max(least, int(d.to_numpy(d.amax(index, (0,), False))) + 1)
        if weights is None:
            ones = d.full(self.shape, 1, int64)
            return self._int(d.index_add(d.full((count,), 0, int64), 0, index, ones))
        if not isinstance(weights, TensorBase):
            raise KindError(f"bincount() takes its weights as a tensor, got {describe(weights)}")
        if weights.shape != self.shape:
            raise ShapeError(
                f"bincount() got shape {self.shape} with weights of shape {weights.shape}; they must be equal"
            )
        summed: Any = together("bincount", self, weights)[1]
        if weights.kind not in INEXACT:
            summed = weights._float(weights._device.to_float(weights._primitive, float64))
        b, values = summed._backend, summed._primitive
        return summed._like(b.index_add(b.full((count,), 0, values.dtype), 0, index, values))


class Histograms(FloatReductions[B]):
    """Histograms of the elements."""

    __slots__ = ()

    def histc(self, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Self:  # PyTorch's names
        """Return the number of elements in each of ``bins`` intervals of equal width from ``min`` to ``max``, in x's
        dtype.

        With equal bounds these are the smallest and the largest element. Elements beyond the bounds, and NaN, are not
        counted; the last interval includes ``max``. The result carries no gradient.

        Raises:
            ArgumentError: there is no interval, or ``max`` is less than ``min``, or a bound is not finite, as the
                smallest or the largest element.

        >>> Tensor[NumPy].from_data([1.0, 2.0, 2.5, 4.0]).histc(3, 1.0, 4.0).tolist()
        [1.0, 2.0, 1.0]
        """
        count = integer(bins, "number of bins", "histc")
        low, high = (float(number(self, bound, "histc")) for bound in (min, max))
        if count < 1:
            raise ArgumentError(f"histc() got {count} bins; it needs at least 1")
        if not (math.isfinite(high - low) and low <= high):
            raise ArgumentError(f"histc() got bins from {low} to {high}; the bounds are finite, and ascend")
        b, d = self._backend, self._device.discrete
        # In float64, so that a sample next to an edge, and of 16 bits all, are not rounded into another interval.
        flat = b.cast(b.reshape(b.detach(self._primitive), (math.prod(self.shape),)), float64)
        if low == high and flat.shape[0]:
            least, most = b.amin(flat, (0,), False), b.amax(flat, (0,), False)
        else:
            least, most = (b.cast(b.full((), bound, self.dtype), float64) for bound in (low, high))
        equal = b.eq(least, most)
        least, most = b.where(equal, b.sub(least, 1.0), least), b.where(equal, b.add(most, 1.0), most)
        refuse_unless(
            self.device,
            b.isfinite(b.sub(most, least)),
            ArgumentError("histc() got samples that are NaN or infinite, or too far apart; give min= and max="),
        )
        inside = d.bitwise_and(b.ge(flat, least), b.le(flat, most))
        place = b.floor(b.mul(b.div(b.sub(flat, least), b.sub(most, least)), float(count)))
        place = d.minimum(b.to_int(b.where(inside, place, 0.0), int64), count - 1)
        counts = d.index_add(d.full((count,), 0, int64), 0, place, d.to_int(inside, int64))
        return self._like(b.to_float(counts, self.dtype))

    def histogram(
        self,
        bins: int | Self,
        *,
        range: tuple[float, float] | None = None,  # PyTorch's names
        weight: Self | None = None,
        density: bool = False,
    ) -> Histogram[Self]:
        """Return the number of elements in each bin, in x's dtype, and the edges of the bins.

        A bin has the elements from its lower edge on, below its upper edge; the last one includes both. Elements
        beyond the edges, and NaN, are not counted.

        Args:
            bins: the number of bins of equal width; or their edges, a vector that ascends.
            range: the ends of the bins; by default the smallest and the largest element.
            weight: the weight of each element, of x's shape; sums of them replace counts. The gradient goes to them.
            density: whether to divide by the sum of all bins, and by their widths, so that the integral is 1.

        Raises:
            ArgumentError: there are no bins, or their ends are not finite, or edges do not ascend.
            ShapeError: the weights have another shape, or edges are not a vector.
            DTypeError: the weights or the edges have another dtype than x.

        >>> Tensor[NumPy].from_data([1.0, 2.0, 2.5, 4.0]).histogram(3).hist.tolist()
        [1.0, 2.0, 1.0]
        """
        samples = self._like(self._backend.reshape(self._primitive, (*self.shape, 1)))
        hist, edges = counted("histogram", samples, [bins], [range], weight, density)
        return Histogram(hist, edges[0])


class Histogram(NamedTuple, Generic[V]):
    """The result of ``x.histogram(bins)``."""

    hist: V
    """The number of samples in each bin, their weights, or their density."""
    bin_edges: V
    """The edges of the bins, one more than bins."""


class HistogramDD(NamedTuple, Generic[V]):
    """The result of `histogramdd`."""

    hist: V
    """The number of samples in each bin, their weights, or their density, with a dimension for each variable."""
    bin_edges: tuple[V, ...]
    """The edges of the bins of each variable."""


@explained
def histogramdd(
    x: Tensor[B],
    bins: int | Sequence[int] | Sequence[Tensor[B]],
    *,
    range: Sequence[float] | None = None,  # PyTorch's name
    weight: Tensor[B] | None = None,
    density: bool = False,
) -> HistogramDD[Tensor[B]]:
    """Count the samples of several variables in the bins of a grid; see `Tensor.histogram`, of one variable.

    Args:
        x: the samples, of shape (…, variables).
        bins: the number of bins, one for all variables or one for each; or the edges of the bins of each variable, 1-d
            and ascending.
        range: the ends of the bins, (low₀, high₀, low₁, high₁, …); by default the smallest and the largest sample.
        weight: the weight of each sample, of x's shape without the last dimension. The gradient goes to the weights.
        density: whether to divide by the sum of all bins, and by their volumes.

    Raises:
        ShapeError: x has no last dimension of samples, or another argument does not fit its shape.
        ArgumentError: there are no bins, or their ends are not finite, or edges do not ascend.
        DTypeError: the weights or the edges have another dtype than x.

    >>> x = Tensor[NumPy].from_data([[0.0, 1.0], [0.25, 0.0], [1.0, 1.0]])
    >>> histogramdd(x, 2).hist.tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    need_floats("histogramdd", x)
    if x.ndim < 2:
        raise ShapeError(f"histogramdd() got shape {x.shape}; expected (…, variables), such as (samples, variables)")
    variables = x.shape[-1]
    each: Any = [bins] * variables if isinstance(bins, int) else bins
    if not isinstance(each, (list, tuple)) or len(each) != variables:
        raise ArgumentError(
            f"histogramdd() got bins={describe(bins)} for {variables} variables; give an int, or a list with an int "
            "or a vector of edges for each variable"
        )
    ends: Any = range
    if ends is not None and (not isinstance(ends, (list, tuple)) or len(ends) != 2 * variables):
        raise ArgumentError(
            f"histogramdd() got range={describe(ends)} for {variables} variables; give {2 * variables} numbers, (low, "
            "high, …)"
        )
    ranges = [None] * variables if ends is None else list(zip(ends[::2], ends[1::2], strict=True))
    hist, edges = counted("histogramdd", x, each, ranges, weight, density)
    return HistogramDD(hist, edges)


def counted(
    operation: str, x: Any, bins: Sequence[Any], ranges: Sequence[Any], weight: Any, density: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the histogram of samples of shape (…, variables), and the edges of each variable.

    Args:
        operation: the name for messages.
        x: the samples.
        bins: for each variable the number of bins, or a vector of their edges.
        ranges: for each variable the ends of the bins, or None.
        weight: the weights of the samples, or None.
        density: whether to divide by the sum, and by the volumes of the bins.
    """
    vectors = [each for each in bins if isinstance(each, TensorBase)]
    for each in vectors:
        _check_dtype(operation, x, each, "edges")
        if each.ndim != 1 or each.shape[0] < 2:
            raise ShapeError(f"{operation}() got edges of shape {each.shape}; expected a vector of 2 or more")
    if weight is not None:
        _check_dtype(operation, x, weight, "weight")
        if weight.shape != x.shape[:-1]:
            raise ShapeError(f"{operation}() got weight of shape {weight.shape}; the samples have shape {x.shape[:-1]}")
    x, *others = together(operation, x, *vectors, *([] if weight is None else [weight]))
    given, b, d = iter(others), x._backend, x._device.discrete
    samples = x.detach().reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    edges: list[Any] = []
    place, inside = x._int(d.full((samples.shape[0],), 0, int64)), x._bool(d.full((samples.shape[0],), True, bool_))
    for k, (count, ends) in enumerate(zip(bins, ranges, strict=True)):
        column = samples[:, k]
        edge = next(given).detach() if isinstance(count, TensorBase) else _even(operation, column, count, ends)
        refuse_unless(
            x.device, (edge[1:] >= edge[:-1])._primitive, ArgumentError(f"{operation}() got edges that do not ascend")
        )
        last = edge.shape[0] - 2
        place = place * (last + 1) + (searchsorted(edge, column, right=True) - 1).clamp(0, last)
        inside = (column >= edge[0]) & (column <= edge[-1]) & inside
        edges.append(edge)
    shape = tuple([edge.shape[0] - 1 for edge in edges])
    size = math.prod(shape)
    if weight is None:
        counts = d.index_add(d.full((size,), 0, int64), 0, place._primitive, d.to_int(inside._primitive, int64))
        hist = x._like(b.to_float(counts, x.dtype))
    else:
        kept = b.where(inside._primitive, next(given).flatten()._primitive, 0.0)
        hist = x._like(b.index_add(b.full((size,), 0.0, x.dtype), 0, place._primitive, kept))
    hist = hist.reshape(shape)
    if density:
        hist = hist / hist.sum()
        for k, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).reshape((-1, *(1,) * (len(edges) - 1 - k)))
    return hist, tuple(edges)


def _even(operation: str, x: Any, bins: Any, ends: Any) -> Any:
    """Return the edges of bins of equal width, between two numbers or, for None, the extremes of a vector x. Ends that
    are equal move apart by 0.5 each; without elements they are 0 and 1, as in NumPy."""
    count = integer(bins, "number of bins", operation)
    if count < 1:
        raise ArgumentError(f"{operation}() got {count} bins; it needs at least 1")
    b, dtype = x._backend, x.dtype
    if ends is not None:
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise ArgumentError(f"{operation}() got range={describe(ends)}; expected two numbers, (low, high)")
        least, most = (float(number(x, end, operation)) for end in ends)
        if not (math.isfinite(most - least) and least <= most):
            raise ArgumentError(f"{operation}() got bins from {least} to {most}; the ends are finite, and ascend")
    else:
        least, most = 0.0, 1.0
    low, high = (b.full((), end, dtype) for end in (least, most))
    if ends is None and x.shape[0]:
        low, high = (extreme(x._primitive, (0,), False) for extreme in (b.amin, b.amax))
    equal = b.eq(low, high)
    low, high = b.where(equal, b.sub(low, 0.5), low), b.where(equal, b.add(high, 0.5), high)
    width = b.sub(high, low)
    refuse_unless(
        x.device,
        b.isfinite(width),
        ArgumentError(f"{operation}() got samples that are NaN or infinite, or too far apart; give range=(low, high)"),
    )
    share = b.linspace(0.0, 1.0, count + 1, dtype)
    edges = b.minimum(b.add(b.mul(share, width), low), high)
    return x._like(b.where(b.eq(share, 1.0), high, edges))


def _check_dtype(operation: str, x: Any, other: Any, name: str) -> None:
    """Check that another argument is a float tensor of x's dtype."""
    if not isinstance(other, TensorBase) or other.kind != "float":
        raise KindError(f"{operation}() takes {name} as a Tensor, got {describe(other)}")
    if other.dtype != x.dtype:
        raise DTypeError(f"{operation}() got dtype {x.dtype} with {name} of dtype {other.dtype}; they must be equal")


def _below(x: TensorBase[Any], index: Any, size: int) -> Any:
    """Return an index whose ints are checked to be below a size where they cannot be read."""
    if not size:
        raise ArgumentError(
            "bincount() gives a result whose size depends on values, which a compiled function and vmap() cannot "
            "have; pass minlength=, a number above every int"
        )
    refused = lambda value: DTypeError(  # noqa: E731
        f"bincount() got {value}; in a compiled function and under vmap() it counts ints from 0 to minlength - 1, "
        f"which is {size - 1}"
    )
    return x._device.discrete.bounded(index, 0, size - 1, refused, None) if x.shape[0] else index
