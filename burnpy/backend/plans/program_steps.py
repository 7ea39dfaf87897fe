"""The steps of a recording that programs can have: how a node is written as instructions on rows and columns.

A *domain* is the shape of the arrays of a program, with the dims that are its rows before a split and those that are
its columns after it. A value is FULL, ROW, COLUMN or SCALAR by how its shape aligns with that.
"""

from __future__ import annotations

import math
from contextvars import Context
from functools import lru_cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import HALVES, bool_, float32, float64, int8, int32, kind_of, uint8
from burnpy.backend.plans.recording import Node, Ref, operations, refs_in
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Extent, Input, Program, ProgramError
from burnpy.backend.programs.program import Schedule
from burnpy.backend.programs.trace import Symbol, Tracer
from burnpy.backend.schema import Algebra

ROW_NORMS = {"normalize": (1, 2), "normalize_backward": (2, 1), "rms_norm": (1, 1), "rms_norm_backward": (2, 1)}
"""The operations, with the numbers of their first arguments, of x's shape, and of the next ones, of the weight's."""


def norm_split(node: Node, longest: int) -> int | None:
    """Return the number of dims before those that a node normalizes; None without a weight for each element of these.

    Args:
        node: a node of one of `ROW_NORMS`.
        longest: the most elements of a row.
    """
    full, row = ROW_NORMS[node.name]
    refs, dims = refs_in(node.args), tuple(node.args[-2])
    shape, dtype, first = refs[0].shape, refs[0].dtype, dims[0]
    last = shape[first:]
    shapes = [shape] * full + [last] * row + [(*shape[:first], *(1,) * len(last))] * (len(refs) - full - row)
    if dtype not in (float32, float64) or any(ref.dtype != dtype for ref in refs) or 0 in shape:
        return None
    fits = dims == tuple(range(first, len(shape))) and [ref.shape for ref in refs] == shapes
    return first if fits and first > 0 and 1 < math.prod(last) <= longest else None


def sums_of(node: Node) -> list[Ref]:
    """Return the results of a node of `ROW_NORMS` that are sums over rows: the gradients of weight and bias."""
    return refs_in(node.results)[1:] if node.name.endswith("backward") else []


def normalized(t: Any, node: Node, args: list[Any]) -> Any:
    """Return the symbols of the results of a node of `ROW_NORMS`, given a tracer and the symbols of its arguments."""
    full, row = ROW_NORMS[node.name]
    values = args[:-2]  # expanded, as one may be a number that is repeated, and its gradient has its shape
    shapes = [(t.rows, t.columns)] * full + [(1, t.columns)] * row + [(t.rows, 1)] * (len(values) - full - row)
    whole = [t.expand(x, shape) for x, shape in zip(values, shapes, strict=True)]
    return getattr(t, node.name)(*whole, (1,), args[-1])


LONGEST = 1 << 16
"""The longest row that a program sums, as a longer sum would be less exact."""
_WIDEST, _NARROWEST = 1 << 12, 1 << 6
"""The number of columns, at most and at least, of arrays that a program sums as a whole."""
DTYPES = (float32, float64, bool_)
REDUCTIONS = {"sum": "dims", "mean": "dims", "amax": "dims", "sum_to": "shape"}
_ROWS = {"softmax": "dim", "log_softmax": "dim", "softmax_backward": "dim", "log_softmax_backward": "dim"}
"""Operations of whole rows that programs compute as exactly as kernels of their own, and the argument that says along
which dim."""

_MASKED = ("masked_mean", "masked_mean_backward")


class Placement(NamedTuple):
    """The extents of a value in a domain, and the splits that give it this one."""

    extent: Extent
    splits: frozenset[int]
    repeated: bool = False  #: whether it is one value for each row once it is repeated along the first dims


def placement(shape: Shape, domain: Shape) -> Placement | None:
    """Return how a shape that broadcasts to a domain lies in it; None if it is neither rows nor columns of it.

    >>> placement((3,), (2, 3)).extent, placement((2, 1), (2, 3)).extent, placement((2, 1, 3), (2, 4, 3))
    (<Extent.ROW: 'row'>, <Extent.COLUMN: 'column'>, None)

    A value for each channel is repeated for each member of the batch:

    >>> placement((3, 1, 1), (2, 3, 8, 8))
    Placement(extent=<Extent.COLUMN: 'column'>, splits=frozenset({2}), repeated=True)
    """
    n = len(domain)
    if shape == domain:
        return Placement(Extent.FULL, frozenset(range(n + 1)))
    if math.prod(shape) == 1:
        return Placement(Extent.SCALAR, frozenset(range(n + 1)))
    padded = (1,) * (n - len(shape)) + shape
    if len(padded) != n or any(p not in (1, d) for p, d in zip(padded, domain, strict=True)):
        return None
    rows = [k for k in range(n + 1) if math.prod(padded[:k]) == 1 and padded[k:] == domain[k:]]
    if rows:
        return Placement(Extent.ROW, frozenset(rows))
    columns = [k for k in range(n + 1) if padded[:k] == domain[:k] and math.prod(padded[k:]) == 1]
    if columns:
        return Placement(Extent.COLUMN, frozenset(columns))
    first = next(k for k, p in enumerate(padded) if p != 1)
    repeated = [k for k in range(n) if padded[first:k] == domain[first:k] and math.prod(padded[k:]) == 1]
    return Placement(Extent.COLUMN, frozenset(repeated), True) if repeated else None


class Role(NamedTuple):
    """How a value lies in the rows and columns of a group: with all elements, one for each row, one for each column."""

    extent: Extent
    repeated: bool = False  #: whether it is one value for each row once it is repeated


def role_of(shape: Shape, extent: Extent, repeated: bool = False) -> Role:
    """Return the role of a value; one element is a number, whether it lies there as a row or a column."""
    return Role(Extent.SCALAR if math.prod(shape) == 1 else extent, repeated)


def column_splits(shape: Shape, domain: Shape) -> frozenset[int]:
    """Return the splits of a domain for which a shape holds one element for each row, in order.

    >>> column_splits((2, 4), (2, 4, 3)), column_splits((8, 1), (2, 4, 3))
    (frozenset({2}), frozenset())
    """
    short = _stripped(shape)
    return frozenset(k for k in range(len(domain)) if _stripped(domain[:k]) == short)


def _stripped(shape: Shape) -> Shape:
    """Return a shape without the dims of size 1 at its end."""
    end = len(shape)
    while end and shape[end - 1] == 1:
        end -= 1
    return shape[:end]


class Step(NamedTuple):
    """A node that programs can have."""

    kind: str  #: "elementwise", "rows", "reduction" or "rounding"
    shape: Shape  #: the shape of the domain
    splits: frozenset[int]  #: the splits that it permits
    dims: tuple[int, ...] = ()  #: of a reduction, its dims


def step_of(node: Node) -> Step | None:
    """Return a node as a step of a program; None if programs cannot have it.

    >>> from burnpy.backend.dtypes import float32
    >>> x, y = Ref(0, (2, 3), float32), Ref(1, (2,), float32)
    >>> step_of(Node("mean", (x, (1,), False), y, False, ())).splits
    frozenset({1})
    """
    if node.name in ROW_NORMS:
        split = norm_split(node, LONGEST)
        return None if split is None else Step("rows", refs_in(node.args)[0].shape, frozenset((split,)))
    results = node.results
    if results.__class__ is not Ref or node.effect or results.dtype not in DTYPES or 0 in results.shape:
        return None
    refs = refs_in(node.args)
    if not refs or any(ref.dtype not in DTYPES for ref in refs):
        return None
    if node.name in REDUCTIONS:
        return _reduction(node)
    if node.name in _MASKED:
        mask = refs[1]
        fits = len(mask.shape) == 1 and mask.shape[0] <= LONGEST
        return Step("rows", mask.shape, frozenset((0,))) if fits else None
    if node.name in _ROWS:
        x, dim = refs[0], node.args[-1]
        n = len(x.shape)
        along = dim == n - 1 and x.shape[-1] <= LONGEST and all(ref.shape == x.shape for ref in refs)
        return Step("rows", x.shape, frozenset((n - 1,))) if along else None
    op = operations().get(node.name)
    if op is None or op.lists or len(op.results) != 1 or any(a.sequence for a in op.arguments):
        return None
    alike = op.algebra is Algebra.POINTWISE and all(ref.shape == results.shape for ref in refs)
    if node.name != "accumulate" and not op.elementwise and not alike:
        return None
    return Step("elementwise", results.shape, frozenset(range(len(results.shape) + 1)))


def step_of_ints(node: Node) -> Step | None:
    """Return a node of quantized numbers as a step; None if it is another.

    It converts ints of 8 or 32 bits to floats, or floats to these, or adds, subtracts or multiplies int32.
    """
    refs, out = refs_in(node.args), node.results
    if out.__class__ is not Ref or not refs or 0 in out.shape:
        return None
    dtypes, floats = {ref.dtype for ref in refs}, (float32, float64)
    from_ints = node.name == "to_float" and dtypes <= {int8, uint8, int32} and out.dtype in floats
    to_ints = node.name == "to_int" and dtypes.issubset(floats) and out.dtype in (int8, uint8, int32)
    sums = node.name in ("add", "sub", "mul") and dtypes == {int32} == {out.dtype}
    shape = out.shape
    return Step("elementwise", shape, frozenset(range(len(shape) + 1))) if from_ints or to_ints or sums else None


def rounding_of(node: Node) -> Step | None:
    """Return a node as the step that rounds a value to 16 bits; None if it is another."""
    if node.name != "cast" or node.results.dtype.name not in HALVES or node.args[0].dtype is not float32:
        return None
    shape = node.results.shape
    return Step("rounding", shape, frozenset(range(len(shape) + 1)))


def _reduction(node: Node) -> Step | None:
    x = node.args[0]
    shape, n = x.shape, len(x.shape)
    if kind_of(x.dtype) != "float":
        return None
    if node.name == "sum_to":
        padded = (1,) * (n - len(node.args[1])) + tuple(node.args[1])
        dims = tuple(k for k in range(n) if padded[k] != shape[k])
    else:
        dims = tuple(sorted(node.args[1]))
    real = {k for k in dims if shape[k] != 1}
    others = {k for k in range(n) if shape[k] != 1} - real
    if not real:
        return None
    splits: set[int] = set()
    for k in range(n + 1):
        if math.prod(shape[k:]) > LONGEST:
            continue
        trailing = all(d >= k for d in real) and all(d < k for d in others)
        leading = all(d < k for d in real) and all(d >= k for d in others)
        if not others:  # everything
            in_rows = k < n or math.prod(shape) <= LONGEST or columns_of_whole(math.prod(shape)) >= _NARROWEST
            if in_rows if node.name != "amax" else math.prod(shape[:k]) == 1:
                splits.add(k)
        elif trailing or (leading and node.name != "amax"):
            splits.add(k)
    return Step("reduction", shape, frozenset(splits), dims) if splits else None


@lru_cache(1024)
def columns_of_whole(count: int) -> int:
    """Return the number of columns of arrays that a program sums as a whole: a divisor of the number of elements.

    >>> columns_of_whole(1_000_000), columns_of_whole(1 << 20)
    (4000, 4096)
    """
    return next(columns for columns in range(min(_WIDEST, count), 0, -1) if not count % columns)


def over_rows(node: Node, split: int) -> bool:
    """Return whether a reduction's result is known after the last row only, for the rows before a split."""
    step = _reduction(node)
    return step is not None and any(d < split and node.args[0].shape[d] != 1 for d in step.dims)


def summed(node: Node, domain: Shape, split: int) -> list[Ref]:
    """Return the results of a node that are known after the last row only."""
    if node.name in ROW_NORMS:
        return sums_of(node)
    over = node.name in ("sum", "mean", "sum_to") and (node.args[0].shape != domain or over_rows(node, split))
    return [node.results] if over and node.results.shape != domain else []


def traced(t: Tracer, node: Node, symbols: list[Any], domain: Shape, split: int, whole: bool) -> Any:
    """Trace a node in a program, and return the symbol of its result, or a tuple of several.

    Args:
        t: the tracer.
        node: a node that is a `Step`.
        symbols: those of its arguments that are values, in order.
        domain: the domain.
        split: its split.
        whole: whether all reductions are of whole arrays, whose rows and columns are not those of the split.

    Raises:
        ProgramError: a program cannot have it.
    """
    given = iter(symbols)
    args = [next(given) if x.__class__ is Ref else x for x in node.args]
    if node.name == "accumulate":
        return t.add(*args)
    if node.name in ROW_NORMS:
        return normalized(t, node, args)
    if node.name in _MASKED:
        return _masked(t, node.name, *args)
    if node.name in _ROWS:
        return getattr(t, node.name)(*[t.expand(x, (t.rows, t.columns)) for x in args[:-1]], 1)
    if node.name in REDUCTIONS:
        return _traced_reduction(t, node, args[0], domain, split, whole)
    return getattr(t, node.name)(*args)


def _traced_reduction(t: Tracer, node: Node, x: Any, domain: Shape, split: int, whole: bool) -> Any:
    """Trace a reduction over the rows or the columns of a program, or over both."""
    step = _reduction(node)
    assert step is not None
    shape = node.args[0].shape
    is_column = shape != domain
    if not is_column and x.shape != (t.rows, t.columns):
        x = t.expand(x, (t.rows, t.columns))
    reduced = [d for d in step.dims if shape[d] != 1]
    along_rows = any(d < split for d in reduced) or (is_column and bool(step.dims))
    along_columns = whole or (not is_column and any(d >= split for d in reduced))
    dims = (0,) * along_rows + (1,) * along_columns
    if node.name == "mean" and dims == (0,) and x.shape[0] != 1:  # a kernel knows a sum over rows after the last one
        return t.sum(t.div(x, t.length(0, x.dtype)), dims, True)
    return getattr(t, "sum" if node.name == "sum_to" else node.name)(x, dims, True)


def _masked(t: Tracer, name: str, x: Any, mask: Any) -> Any:
    """Return a mean over a row where a mask is true, or its gradient."""
    count = t.sum(t.cast(mask, x.dtype), (1,), True)
    if name == "masked_mean":
        return t.div(t.sum(t.where(mask, t.expand(x, mask.shape), 0.0), (1,), True), count)
    return t.where(mask, t.expand(t.div(x, count), mask.shape), 0.0)


def traceable(node: Node, extents: list[Extent]) -> bool:
    """Return whether an elementwise node can be traced for arguments of these extents, with its own dtype as result."""
    refs = refs_in(node.args)
    try:
        rest = tuple([_hashable(x) for x in node.args if x.__class__ is not Ref])
        return _tried(
            node.name, tuple([(e, r.dtype) for e, r in zip(extents, refs, strict=True)]), rest, _Args(node.args),
            node.results.dtype,
        )  # fmt: skip
    except TypeError:  # an argument that is not hashable
        return False


class _Args(tuple):  # type: ignore[type-arg]  # of anything
    """Arguments that are not in a cache's key."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _hashable(x: Any) -> Any:
    """Return a key of a plain argument, by which 1, 1.0 and True differ."""
    return (type(x), x.hex()) if type(x) is float else (type(x), x)


@lru_cache(4096)
def _tried(
    name: str, inputs: tuple[tuple[Extent, DType], ...], rest: tuple[Any, ...], args: _Args, dtype: DType
) -> bool:
    return Context().run(_try, name, inputs, args, dtype)  # no mode of the caller applies to traced operations


def _try(name: str, inputs: tuple[tuple[Extent, DType], ...], args: _Args, dtype: DType) -> bool:
    t = Tracer.unregistered(7, 13)
    symbols = iter([t.input(k, Input(extent, d.name)) for k, (extent, d) in enumerate(inputs)])
    values = [next(symbols) if x.__class__ is Ref else x for x in args]
    try:
        out = getattr(t, "add" if name == "accumulate" else name)(*values)
        if not isinstance(out, Symbol) or out.dtype != dtype:
            return False
        full = t.expand(out, (t.rows, t.columns))
        Schedule(Program(name, tuple(Input(e, d.name) for e, d in inputs), tuple(t.instructions), (full.position,)))
    except (ProgramError, TypeError, AttributeError):
        return False
    return True
