"""The table of examples: for each operation, the arguments of its calls, and a reference implementation in NumPy.

The conformance suite, the tests of the backends, of the tensors' methods and of agreement with PyTorch, and the checks
of first and second derivatives all call operations with these arguments. `row` adds the examples of one operation;
`elementwise` makes them for an operation of elements, from its declaration and the domains of its operands. `calls`
yields the arguments of an operation as arrays, in every dtype and layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.autodiff import Forward
from burnpy.backend.backend import operations
from burnpy.backend.dtypes import (
    COMPLEXES,
    FLOATS,
    INTS,
    complex_dtype,
    dtype_of,
    float32,
    is_inexact,
    kind_of,
    part_dtype,
    promote_types,
)
from burnpy.backend.entries import Operation
from burnpy.backend.primitives import KINDS, KindName
from burnpy.backend.schema import Algebra
from burnpy.testing.cases.samples import (
    CASE,
    LAYOUTS,
    Array,
    ByDType,
    ByKind,
    Large,
    Mask,
    Sample,
    Values,
    arranged,
    laid_out,
)

if TYPE_CHECKING:
    from burnpy.backend.entries import Argument
    from burnpy.backend.primitives import DType, Shape

Example: TypeAlias = tuple[Any, ...]
"""The arguments of one call, in the operation's order: samples for primitives, other values unchanged."""
Reference: TypeAlias = Callable[..., Any]
"""The operation in NumPy, a function of arrays (floats in float64) that returns an array or a tuple of arrays."""
Completed: TypeAlias = Callable[[Any, list[Any]], list[Any]]
"""``(device, arguments) -> arguments``, with those that the operation takes from another one computed by that."""


@dataclass(frozen=True)
class Row:
    """The examples of one operation."""

    operation: Operation
    reference: Reference
    examples: Mapping[str, Example]  #: by a name, such as "0-d" or "y broadcast"
    kinds: tuple[KindName, ...]  #: the kinds of the dtypes that it runs in
    int64_only: bool  #: int64 is the only int dtype that it runs in, since its arguments are indices
    gradients: bool  #: whether first and second derivatives are compared with differences
    fresh: bool  #: whether the result is newly allocated, unlike a view or an argument
    loose: float  #: the factor by which rounding errors may exceed those of one operation
    up_to_sign: bool = False  #: whether only the magnitudes of results are compared, as for eigenvectors
    widened: bool = False  #: whether results of 16-bit floats are float32, and those of 8-bit ints are int32
    completed: Completed | None = None  #: replaces the arguments that must be results for the others

    @property
    def consumes(self) -> tuple[int, ...]:
        """The positions of the arguments whose memory the operation may reuse; for lists, the memory of all members."""
        consumes = self.operation.consumes
        return tuple(k for k, argument in enumerate(self.operation.arguments) if argument.name in consumes)

    def flat_results(self, results: Any) -> list[tuple[int, Any]]:
        """Return each primitive among the results of a call, with the position of its result."""
        columns = results if isinstance(results, tuple) else (results,)
        return [(k, x) for k, column in enumerate(columns) for x in (column if self.operation.lists else (column,))]

    def without_phase(self, x: Any) -> Any:
        """Return a result; of complex vectors, whose factors of magnitude 1 are arbitrary, the magnitudes."""
        return x.abs() if self.up_to_sign and x.kind == "complex" else x

    def smooth(self, example: Example) -> bool:
        """Return whether derivatives are checked on an example."""
        # Differences in float32 would be mostly rounding error.
        narrow = any(isinstance(a, ByKind) and a.of_float is float32 for a in example)
        return self.gradients and not narrow and all(a.smooth for a in flat(example) if isinstance(a, Sample))


ROWS: dict[str, Row] = {}


def row(
    name: str,
    reference: Reference,
    examples: Sequence[Example] | Mapping[str, Example],
    *,
    kinds: tuple[KindName, ...] | None = None,
    int64_only: bool = False,
    gradients: bool | None = None,
    fresh: bool | None = None,
    loose: float = 1.0,
    up_to_sign: bool = False,
    widened: bool = False,
    completed: Completed | None = None,
) -> None:
    """Add the examples of an operation to the table.

    Args:
        name: the operation, as it is declared in `burnpy.backend.operations`.
        reference: the same computation in NumPy.
        examples: its arguments, by name; a sequence is named after the shapes.
        kinds: the kinds of the dtypes that it runs in; None for those of its first argument.
        int64_only: whether int64 is the only int dtype that it runs in.
        gradients: whether derivatives are checked; None for those of a differentiable operation.
        fresh: whether the result is always newly allocated; None for all operations but views.
        loose: the factor by which rounding errors may exceed those of one operation.
        up_to_sign: whether only magnitudes are compared, of results whose signs are arbitrary.
        widened: whether results of 16-bit floats are float32, and those of 8-bit ints are int32.
        completed: computes the arguments that must be results of another operation for the other arguments.
    """
    op = operations()[name]
    if kinds is None:
        given = [a.kind for a in op.arguments if a.kind]
        kinds = KINDS[next((kind for kind in given if kind != "Bool"), given[0] if given else "Value")]
    smooth = op.algebra is not Algebra.NONDIFFERENTIABLE and any(op.float_results)
    ROWS[name] = Row(
        op,
        reference,
        examples if isinstance(examples, Mapping) else named(examples),
        kinds,
        int64_only,
        smooth if gradients is None else gradients,
        op.view is None if fresh is None else fresh,
        loose,
        up_to_sign,
        widened,
        completed,
    )


def called(name: str, device: Any, args: Sequence[Any]) -> Any:
    """Call an operation on a device, with the arguments of its examples completed."""
    completed = ROWS[name].completed if name in ROWS else None
    return getattr(device, name)(*(args if completed is None else completed(device, [*args])))


def named(examples: Sequence[Example]) -> dict[str, Example]:
    """Return the examples by names that are made of shapes and values.

    >>> from burnpy.testing.cases.samples import x
    >>> list(named([(x(2, 3), (0,), True), (x(), (), False)]))
    ['(2, 3), (0,), True', '(), (), False']
    """
    table: dict[str, Example] = {}
    for example in examples:
        name = ", ".join(map(_described, example)) or "no arguments"
        same = sum(other.partition(" #")[0] == name for other in table)
        table[f"{name} #{same + 1}" if same else name] = example
    return table


def _described(argument: Any) -> str:
    """Describe an argument in a few words; samples do so themselves."""
    if isinstance(argument, list):
        return f"[{', '.join(map(_described, argument))}]"
    return str(argument)


def flat(example: Example) -> list[Any]:
    """Return the arguments, with the members of lists in place of the lists."""
    members: list[Any] = []
    for a in example:
        members += a if isinstance(a, list) else [a]
    return members


def indices(dim: int, index: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return the key with which NumPy gathers or scatters along ``dim``."""
    grid: list[Any] = list(np.indices(index.shape))
    grid[dim] = index
    return tuple(grid)


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, math.inf, -math.inf, math.nan)
"""Zeros of both signs, the infinities, NaN, and numbers on both sides of 1 and -1."""


def elementwise(
    name: str,
    reference: Reference,
    *,
    special: Sequence[float] = SPECIAL,
    options: Sequence[Example] = ((),),
    also: Sequence[Example] = (),
    loose: float = 1.0,
    **domains: tuple[float, float],
) -> None:
    """Add the examples of an elementwise operation to the table, in most cases by one line.

    The operands have one shape, no dimensions, no elements, and many elements; where they broadcast, each does so
    alone, and has no dimensions alone; each is a number where it may be one; and they have all combinations of special
    values::

        elementwise("sinh", np.sinh)
        elementwise("acosh", np.arccosh, x=(1.1, 3.0))

    Args:
        name: the operation; its operands are the arguments that are primitives.
        reference: the same computation in NumPy.
        special: values that are tried in all combinations, even outside of the domain; none if it is empty.
        options: the values of the other arguments, which follow the operands; each is tried with all examples.
        also: further examples.
        loose: the factor by which rounding errors may exceed the error of one operation.
        **domains: the least and the greatest value of an operand, by its name, between which derivatives are compared
            with differences; for ints the values are three times as large. The default is -2 and 2.

    Raises:
        ValueError: the operation has no operand of such a name.
    """
    operands = [a for a in operations()[name].arguments if a.kind]
    unknown = sorted(domains.keys() - {a.name for a in operands})
    if unknown:
        raise ValueError(f"{name} has no operand {unknown[0]}; it has {', '.join(a.name for a in operands)}")
    within = [_Operand(a, *domains.get(a.name, (-2.0, 2.0))) for a in operands]
    examples = dict(_shaped(within))
    if special:
        examples["special values"] = _combinations(operands, special)
    labels = [""] if len(options) == 1 else [f", {', '.join(map(str, option))}" for option in options]
    table = {
        label + suffix: (*example, *option)
        for suffix, option in zip(labels, options, strict=True)
        for label, example in examples.items()
    }
    row(name, reference, table | named(also), loose=loose)


class _Operand:
    """An operand with its domain."""

    def __init__(self, argument: Argument, low: float, high: float) -> None:
        self.argument, self.low, self.high = argument, low, high

    def sample(self, shape: Shape, *, large: bool = False) -> Sample:
        if self.argument.kind == "Bool":
            return Mask(shape)
        return Large(shape, self.low, self.high) if large else Array(shape, self.low, self.high)

    def number(self) -> ByKind:
        """Return a number in the domain that no sample has, for each kind."""
        middle = 0.75 if self.low <= 0.75 <= self.high else (self.low + self.high) / 2
        return ByKind(middle, max(1, math.ceil(self.high)))


def _shaped(operands: list[_Operand]) -> Iterator[tuple[str, Example]]:
    """Yield examples of every combination of shapes that differs in kind, by name."""

    def shapes(first: Shape, *others: Shape, large: bool = False) -> Example:
        given = [first, *(others[k % len(others)] if others else first for k in range(len(operands) - 1))]
        return tuple(operand.sample(shape, large=large) for operand, shape in zip(operands, given, strict=True))

    def alone(k: int, given: Any, shape: Shape) -> Example:
        """Return an example in which operand k differs from the others, which have ``shape``."""
        return tuple(given if j == k else operand.sample(shape) for j, operand in enumerate(operands))

    yield "matrix", shapes((2, 3))
    yield "three dimensions", shapes((3, 1, 2))
    yield "0-d", shapes(())
    yield "empty", shapes((0, 3))
    yield "large", shapes((96, 100), large=True)
    if len(operands) > 1 and all(operand.argument.elementwise for operand in operands):
        for k, operand in enumerate(operands):
            yield f"{operand.argument.name} broadcast", alone(k, operand.sample((3,)), (2, 3))
            yield f"{operand.argument.name} broadcast along rows", alone(k, operand.sample((2, 1)), (2, 3))
            yield f"{operand.argument.name} 0-d", alone(k, operand.sample(()), (2,))
        yield "all broadcast", shapes((3, 1), (1, 2), (2,))
        yield "empty broadcast", shapes((0, 3), (1, 3), ())
        yield "large broadcast", shapes((96, 100), (100,), (96, 1), large=True)
    for k, operand in enumerate(operands):
        if operand.argument.scalar:
            yield f"{operand.argument.name} a number", alone(k, operand.number(), (2, 3))
            yield f"{operand.argument.name} a number, 0-d", alone(k, operand.number(), ())


def _combinations(operands: list[Argument], special: Sequence[float]) -> Example:
    """Return one example that has all combinations of special values."""
    count = sum(a.kind != "Bool" for a in operands)
    columns = iter(zip(*product(special, repeat=count), strict=True))
    return tuple(Mask((len(special) ** count,)) if a.kind == "Bool" else Values(next(columns)) for a in operands)


ALL_DTYPES = (*FLOATS, *INTS, "bool", *COMPLEXES)


class Arguments:
    """The arguments of one example in a dtype and a layout, as NumPy arrays and as primitives of a device."""

    def __init__(self, row: Row, example: str, dtype: DType, layout: str) -> None:
        self.row, self.example, self.dtype, self.layout = row, example, dtype, layout
        self.given = [_arranged(a, layout) for a in _resolved_arguments(row.operation.name, example, dtype)]
        self.where = f"{row.operation.name} ({example}), {dtype}, {layout}"

    def primitives(self, device: Any, tracked: bool) -> list[Any]:
        """Return the arguments as primitives of ``device``; floats as leaves, or with a tangent, if ``tracked``."""

        def primitive(a: Any) -> Any:
            if isinstance(a, list):
                return [primitive(member) for member in a]
            if not isinstance(a, np.ndarray):
                return a
            if not is_inexact(a.dtype):
                return laid_out(device.discrete, a, self.layout)
            x = laid_out(device, a, self.layout)
            if tracked and isinstance(device, Forward):
                return device.dual(x.value, device.inner.full(x.shape, 1.0, x.dtype))
            return device.require_grad(x) if tracked else x

        return [primitive(a) for a in self.given]

    @property
    def expected(self) -> tuple[Any, ...]:
        """Return the results of the reference, in the expected dtypes; read-only, as they are kept for the process."""
        key = (self.row.operation.name, self.example, self.dtype, self.layout == "expanded")
        if key not in _EXPECTED:
            with np.errstate(all="ignore"):
                returned = self.row.reference(*map(_to_float64, self.given))
                flat = [(k, np.asarray(r)) for k, r in self.row.flat_results(returned)]
                _EXPECTED[key] = tuple(r.astype(self._dtype(k, r.dtype)) for k, r in flat)
            for r in _EXPECTED[key]:
                r.flags.writeable = False
        return _EXPECTED[key]

    def _dtype(self, k: int, reference: DType) -> DType:
        op = self.row.operation
        for a, value in zip(op.arguments, self.given, strict=False):
            if a.name == "dtype":
                return value  # type: ignore[no-any-return]  # an argument of that name is a dtype
        if op.elementwise and op.results[k] == "Int":
            return self.dtype
        if op.results[k] == "Int" and self.row.widened:
            return np.dtype(np.int32)
        if op.results[k] in ("Bool", "Int"):
            return np.dtype(np.bool_ if op.results[k] == "Bool" else np.int64)
        if self.row.widened:
            return promote_types(self.dtype, float32)
        if op.results[k] in ("Float", "Complex") and is_inexact(self.dtype):
            return part_dtype(self.dtype) if op.results[k] == "Float" else complex_dtype(self.dtype)
        return self.dtype if is_inexact(self.dtype) else reference


def _to_float64(a: Any) -> Any:
    """Convert floats to float64 and complex numbers to complex128, in which the reference computes."""
    if isinstance(a, list):
        return [_to_float64(member) for member in a]
    if not isinstance(a, np.ndarray) or not is_inexact(a.dtype):
        return a
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


_EXPECTED: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""The expected results by operation, example, dtype and whether expanded: the other layouts have the same values."""


@lru_cache(maxsize=256)  # one operation's examples, for every layout
def _resolved_arguments(name: str, example: str, dtype: DType) -> list[Any]:
    """Return the arguments of an example as contiguous arrays, and placeholders as their values for the dtype."""
    return [_resolved(a, dtype, seed) for seed, a in enumerate(ROWS[name].examples[example])]


def _resolved(a: Any, dtype: DType, seed: int) -> Any:
    if isinstance(a, Sample):
        return a.array(dtype, seed)
    if isinstance(a, (ByKind, ByDType)):
        return a.of(dtype)
    if isinstance(a, list):
        return [_resolved(member, dtype, 10 * seed + k) for k, member in enumerate(a)]
    return dtype if a is CASE else a


def _arranged(a: Any, layout: str) -> Any:
    """Return copies of arrays as they are in a layout: a backend that writes into its argument spoils no other case."""
    if isinstance(a, list):
        return [_arranged(member, layout) for member in a]
    return arranged(a.copy(), layout) if isinstance(a, np.ndarray) else a


@lru_cache(maxsize=256)  # a test of values asks for one operation's examples several times: by level, tracked or not
def arguments_of(name: str, example: str, dtype: DType, layout: str) -> Arguments:
    """Return the arguments of an example of an operation, with the result of the reference."""
    return Arguments(ROWS[name], example, dtype, layout)


def calls(name: str, dtypes: Iterable[str] = ALL_DTYPES, layouts: Iterable[str] = LAYOUTS) -> Iterator[Arguments]:
    """Yield the arguments of all examples of an operation, in the given dtypes that it supports."""
    row = ROWS[name]
    for dtype in map(dtype_of, dtypes):
        if fits(row, dtype):
            yield from (arguments_of(name, example, dtype, layout) for layout in layouts for example in row.examples)


def fits(row: Row, dtype: DType) -> bool:
    """Return whether a row is run in a dtype."""
    if row.int64_only:
        return dtype.name == "int64"
    if dtype.itemsize == 2 and "Complex" in row.operation.results:
        return False  # complex numbers have parts of 32 or 64 bits
    return kind_of(dtype) in row.kinds
