"""Helpers of the rules that stand on the declarations of operations: ``vjp=``, ``jvp=`` and others, and ``batch=``.

A *vjp* ``(inner, grad, names…)`` maps the gradient of the result to the gradient of one argument; a *jvp* maps a
tangent of one argument to its contribution to the result's tangent. The parameter names after the first two say which
values are saved: an argument by its name, the result as ``out``, an argument's shape as ``x_shape`` and dtype as
``x_dtype``. Rules compute with operations of the inner backend only, so that they are differentiable themselves.

A *batch* rule says how `vmap` computes many calls at once. It serves operations on
`burnpy.batching.batched.Batched`, whose primitives may have one more dimension than they show: the batch, always the
first of the inner primitive. It is one of:

- nothing, for an elementwise operation, whose arguments broadcast, and for one that takes no primitives;
- `SHIFTED`: all primitives get the batch dimension, and the arguments annotated as ``Dim``, ``Dims``, ``Shape`` and
  ``Key`` skip it;
- `Folded`: the batch dimension and the first of each primitive become one dimension, where an operation, such as a
  convolution, works on a batch itself;
- `DRAWN`: random numbers, for each example or for all. Parameters of distributions have one shape, and an argument
  ``alike`` names the dimensions along which all slices draw the same;
- a function ``(batched, *args)`` of the `Batched` device and all arguments, which is called if one is batched;
- nothing, for a derived operation, which is then computed by its default, out of operations with a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from burnpy.backend.primitives import Float, Int, Key, Shape

Vjp: TypeAlias = Callable[..., Any]


class Matrices(NamedTuple):
    """Simpler vjps of a product, for two matrices of one dtype, where nothing broadcasts or promotes."""

    vjps: tuple[Vjp, Vjp]
    dims: tuple[int, int]  #: the dimension of the first, and the dimension of the second, that the result has


class PartialGrad:
    """A contribution to a gradient that is not added yet: ``add(inner, total, *arguments)`` returns the new total.

    ``total`` is the sum so far, or None; ``add`` may reuse its memory. So n slices of a vector cost n, not n², and n
    products of few rows, whose sum has many more elements than their factors, cost little more than one.
    """

    __slots__ = ("add", "arguments", "others", "owned", "room", "sum")

    def __init__(self, add: Callable[..., Any], *arguments: Any) -> None:
        self.add = add
        self.arguments = arguments
        self.others: list[PartialGrad] | None = None  #: contributions of the same kind that are not added yet
        self.sum: Float | None = None  #: the sum of those before
        self.owned = False  #: whether nobody else sees the memory of that sum, which may be overwritten

    def join(self, other: PartialGrad) -> bool:
        """Keep another contribution for `total`, if it is of the same kind: a slice, or a product by one operation.

        Not if all of them together have more elements than the whole. Slices overlap then, and products have many rows:
        nothing is gained by keeping them, and many of them would take much memory.
        """
        if other.add is not self.add or other.arguments[0] != self.arguments[0]:
            return False
        if self.others is None:
            whole, own = self.sizes()
            self.others, self.room = [], whole - own
        self.room -= other.sizes()[1]
        if self.room < 0:
            return False
        self.others.append(other)
        return True

    def sizes(self) -> tuple[int, int]:
        """Return the number of elements of the gradient, and of the arrays kept for this contribution."""
        return _TOGETHER[self.add].sizes(*self.arguments)

    def waits(self) -> bool:
        """Return whether the arrays that are kept for this contribution are small beside the gradient."""
        whole, own = self.sizes()
        return whole >= _MOST_WAITING * own

    def total(self, inner: Any) -> Float:
        """Return the sum of this, the others and those before, in memory that nobody else sees."""
        total = self.sum if self.owned else None
        if self.others:
            parts = [self, *self.others]
            joined = _TOGETHER[self.add].total(inner, total, parts)
            if joined is None:
                for part in parts:
                    total = part.add(inner, total, *part.arguments)
            else:
                total = joined
        else:
            total = self.add(inner, total, *self.arguments)
        return total if self.sum is None or self.owned else inner.accumulate(total, self.sum)


FACTOR_VJPS: Final[set[Vjp]] = set()
"""The vjps that are one product of matrices, which the engine calls with `LaterProducts` where a large gradient has
several contributions."""
_LARGE_GRADIENT, _MOST_WAITING = 1 << 15, 3
"""The number of elements of a large gradient, at least, and how many products whose factors have as many may wait."""
_SUMMED = {"matmul": (1, 0), "matmul_nt": (1, 1), "matmul_tn": (0, 0)}
"""The dimensions of two matrices over which their product sums."""


class Factors(NamedTuple):
    """The gradient ``xᵀ @ y`` that a joint vjp returns for a weight, which the edge to the weight computes."""

    x: Float
    y: Float


class LaterProducts:
    """The products of an inner backend for a large gradient: those of few rows are computed later, with others.

    Args:
        inner: the backend.
        owned: whether the engine alone sees the memory of the gradient. Products of any number of rows are left to the
            engine then, if the backend adds them to memory as it multiplies.
    """

    __slots__ = ("inner", "leaves_all")

    def __init__(self, inner: Any, owned: bool = False) -> None:
        self.inner = inner
        self.leaves_all = owned and inner.adds_products

    def matmul(self, x: Float, y: Float) -> Any:
        """See `Backend.matmul`."""
        return self._later("matmul", x, y) or self.inner.matmul(x, y)

    def matmul_nt(self, x: Float, y: Float) -> Any:
        """See `Backend.matmul_nt`."""
        return self._later("matmul_nt", x, y) or self.inner.matmul_nt(x, y)

    def matmul_tn(self, x: Float, y: Float) -> Any:
        """See `Backend.matmul_tn`."""
        return self._later("matmul_tn", x, y) or self.inner.matmul_tn(x, y)

    def linear_backward(self, grad: Float, x: Float) -> tuple[Any, Float | None]:
        """See `Backend.linear_backward`; the gradient of the bias is None if the other one is computed later.

        If all products are left to the engine, it is computed with the gradient of one input's weights, as a backend
        may give it other bits alone.
        """
        inner, matrix = self.inner, rows(self.inner, x)
        if part := self._later("matmul_tn", matrix, rows(inner, grad)):
            if not self.leaves_all:
                return part, None
            return part, inner.linear_backward(grad, inner.slice(matrix, (BATCH_SLICE, slice(0, 1, 1))))[1]
        grad_weight, grad_bias = inner.linear_backward(grad, x)
        return grad_weight, grad_bias

    def _later(self, operation: str, x: Float, y: Float) -> PartialGrad | None:
        part = PartialGrad(add_product, operation, x, y)
        return part if self.leaves_all or part.waits() else None


def is_large(total: Any) -> bool:
    """Return whether further products that are added to a gradient may be computed by `LaterProducts`."""
    return total.__class__ is PartialGrad or math.prod(total.shape) >= _LARGE_GRADIENT


def add_product(i: Any, total: Float | None, operation: str, x: Float, y: Float) -> Float:
    """Return ``total`` plus a matrix product: the ``add`` of the `PartialGrad` for a factor of a product."""
    if total is None or not i.adds_products:
        product = getattr(i, operation)(x, y)
        return product if total is None else i.accumulate(total, product)
    row, column = _SUMMED[operation]
    return i.accumulate_product(total, x if row else i.mT(x), i.mT(y) if column else y)


def product_sizes(operation: str, x: Float, y: Float) -> tuple[int, int]:
    """Return the number of elements of a product of matrices, and of the matrices."""
    row, column = _SUMMED[operation]
    return x.shape[1 - row] * y.shape[1 - column], math.prod(x.shape) + math.prod(y.shape)


def joined_products(i: Any, total: Float | None, parts: Sequence[PartialGrad]) -> Float:
    """Return a total plus a sum of matrix products, computed as one product of the stacked matrices."""
    name = parts[0].arguments[0]
    x, y = (i.cat([part.arguments[k] for part in parts], dim) for k, dim in enumerate(_SUMMED[name], 1))
    return add_product(i, total, name, x, y)


def add_at_slice(i: Any, total: Float | None, shape: Shape, key: Key, g: Float) -> Float:
    """``total``, or zeros, with g added at ``key``: the ``add`` of the `PartialGrad` of a slice."""
    return i.accumulate_slice(i.full(shape, 0.0, g.dtype) if total is None else total, key, g)


def add_at_index(i: Any, total: Float | None, shape: Shape, dim: int, index: Int, g: Float) -> Float:
    """``total``, or zeros, with g's slices added at ``index``."""
    return i.accumulate_index(i.full(shape, 0.0, g.dtype) if total is None else total, dim, index, g)


def embedding_vjp(i: Any, g: Float, weight_shape: Shape, index: Int, padding: int | None) -> Any:
    """Return the gradient of an embedding's weight. Where additions at an index have one order, the engine adds its
    rows to the gradient of other uses."""
    if i.eager_checks:
        return PartialGrad(add_embedded, weight_shape, padding, index, g)
    return i.embedding_backward(g, index, weight_shape, padding)


def add_embedded(i: Any, total: Float | None, shape: Shape, padding: int | None, index: Int, g: Float) -> Float:
    """``total`` with the gradient of an embedding of this shape added, or that gradient."""
    if total is None:
        return i.embedding_backward(g, index, shape, padding)
    return i.accumulate_index(total, 0, *indexed_rows(i, g, index, padding))


def indexed_rows(i: Any, g: Float, index: Int, padding: int | None) -> tuple[Int, Float]:
    """Return the index of an embedding as 1-d, and its gradient as rows, those at ``padding`` 0."""
    flat = i.discrete.reshape(index, (math.prod(index.shape),))
    gradient = i.reshape(g, (flat.shape[0], g.shape[-1]))
    if padding is not None:
        mask = i.discrete.reshape(i.discrete.ne(flat, padding), (flat.shape[0], 1))
        gradient = i.where(mask, gradient, 0.0)
    return flat, gradient


def joined_slices(i: Any, total: None, parts: Sequence[PartialGrad]) -> Float | None:
    """Return the sum of slices that make up the whole side by side, such as those of ``x.split(n)``; None for others.
    To join them takes neither zeros nor sums."""
    shape: Shape = parts[0].arguments[0]
    found = spans_of([part.arguments[1] for part in parts], shape)
    if found is None:
        return None
    dim, spans = found
    grads = [parts[k].arguments[2] for _, _, k in spans]
    if sum([stop - start for start, stop, _ in spans]) != shape[dim] or len({g.dtype for g in grads}) > 1:
        return None
    if {len(g.shape) for g in grads} == {len(shape)}:
        return i.cat(grads, dim)
    before, after = shape[:dim], shape[dim + 1 :]
    if {g.shape for g in grads} == {before + after}:
        return i.stack(grads, dim)
    sizes = [stop - start for start, stop, _ in spans]
    return i.cat([i.reshape(g, (*before, n, *after)) for g, n in zip(grads, sizes, strict=True)], dim)


class Together(NamedTuple):
    """How contributions of a kind that may wait for others are added up together."""

    sizes: Callable[..., tuple[int, int]]  #: `PartialGrad.sizes`, of the arguments
    total: Callable[..., Float | None]
    """From a backend, the total to add to, or None, and several contributions to their sum; None to add one after
    another."""


_TOGETHER = {
    add_at_slice: Together(lambda shape, key, g: (math.prod(shape), math.prod(g.shape)), joined_slices),
    add_product: Together(product_sizes, joined_products),
}


def spans_of(keys: Sequence[Key], shape: Shape) -> tuple[int, list[tuple[int, int, int]]] | None:
    """Return the only dimension in which slices of a shape differ, and for each its start, its stop and its key's place
    among the keys, in ascending order; None if slices may overlap.

    >>> spans_of([(slice(2, 9, 1),), (1,)], (9, 4))
    (0, [(1, 2, 1), (2, 9, 0)])
    """
    dims: set[int] = set()
    spans: list[tuple[int, int, int]] = []
    for k, key in enumerate(keys):
        if None in key:
            return None
        own, span = None, (0, shape[0] if shape else 1, k)
        for d, (item, size) in enumerate(zip(key, shape, strict=False)):
            start, stop, step = item.indices(size) if isinstance(item, slice) else _one(item, size)
            if step != 1:
                return None
            if stop - start != size:
                if own is not None:
                    return None
                own, span = d, (start, max(start, stop), k)
        dims.add(own or 0)
        spans.append(span)
    spans.sort()
    if len(dims) > 1 or any(one[1] > other[0] for one, other in pairwise(spans)):
        return None
    return dims.pop(), spans


def _one(item: int | None, size: int) -> tuple[int, int, int]:
    """Return the start, stop and step of a single index."""
    place = (item or 0) % size
    return place, place + 1, 1


def identity(inner: Any, grad: Float) -> Float:
    """Return the vjp of the identity: the gradient, unchanged."""
    return grad


def precise(rule: Vjp) -> Vjp:
    """Return a vjp or jvp whose own products are in float32 on a device that rounds operands of products (`Mixed`)."""

    @wraps(rule)
    def precise_rule(i: Any, *args: Any) -> Any:
        return rule(i.full_precision, *args)

    return precise_rule


SHIFTED: Final = "shifted"
"""The rule of operations for which leading dimensions are a batch, or which name the dimensions that they work on."""
DRAWN: Final = "drawn"
"""The rule of operations that draw random numbers."""


class Folded(NamedTuple):
    """The rule of operations on batches: the batch dimension is folded into the first one.

    Where an argument of ``shared`` is batched, the operation is computed by its default.
    """

    folded: tuple[str, ...]  #: primitives with the batch first; a shape, whose first size is multiplied
    shared: tuple[str, ...] = ()  #: primitives that all examples use, such as weights


BatchRule: TypeAlias = Literal["shifted", "drawn"] | Folded | Callable[..., Any]
BATCH_SLICE: Final = slice(None, None, 1)
"""The entry of a `Key` that selects the whole batch."""


def rows(i: Any, x: Float) -> Float:
    """Reshape x to a matrix whose rows are all but the last dimension."""
    return x if len(x.shape) == 2 else i.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def fold(b: Any, x: Any, at: int = 0) -> Any:
    """Return the inner primitive of x with the batch folded into dimension ``at``, which it precedes.

    A shared x is repeated.
    """
    value, i = b.spread(x), b.inner_of(x)
    shape = value.shape
    if at:
        rest = range(at + 1, len(shape))
        value = i.permute(value, (*range(1, at + 1), 0, *rest))
        shape = value.shape
    return i.reshape(value, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def unfold(b: Any, i: Any, value: Any, rows: int, at: int = 0) -> Any:
    """Return an inner primitive whose dimension ``at`` is folded as a primitive of ``b``; the inverse of `fold`.

    ``rows`` is the size of that dimension for one example, which an empty batch does not show.
    """
    shape = value.shape
    value = i.reshape(value, (*shape[:at], b.size, rows, *shape[at + 1 :]))
    if at:
        value = i.permute(value, (at, *range(at), *range(at + 1, len(shape) + 1)))
    return b.batched(value)


def selected_ndim(shape: Shape, key: Key) -> int:
    """Return the number of dimensions of ``x[key]``, for an x of this shape.

    >>> selected_ndim((2, 3, 4), (0, None, slice(1)))
    3
    """
    return len(shape) - sum([isinstance(entry, int) for entry in key]) + sum([entry is None for entry in key])
