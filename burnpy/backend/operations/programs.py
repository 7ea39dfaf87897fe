"""Running formulas and programs, and operations on lists of primitives, such as the gradients of all parameters.

Programs are kernels that are described by instructions: see `burnpy.backend.programs`. Members of a list may differ
in shape and in dtype. Members at one position of several lists have one shape; they are converted to the dtype of the
first list's member, which the result has too. 16-bit floats are computed in float32 and rounded once. Members are not
changed, and results are newly allocated.

Most operations on lists are elementwise, and written as a *formula*: a function ``f(b, *arrays, *numbers, *flags)`` of
a backend that returns a tuple of results. All go through one method, `Lists.foreach`, which a backend may override.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.dtypes import float32, promote_types
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, DType, Float, Scalar, Value
from burnpy.backend.schema import GENERAL, derived

if TYPE_CHECKING:
    from burnpy.backend.plans.executor import Executor
    from burnpy.backend.programs import Program

Formula: TypeAlias = Callable[..., tuple[Float, ...]]
_NUMBERS = (float, int, bool)


class Spent(list[Float]):
    """Arrays that nobody reads after `Backend.foreach`, which may put the first result in the memory of such a second
    list."""


class Lists(OperationsBase):
    """Elementwise functions and norms of lists."""

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Float]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Bool | None = None,
    ) -> tuple[list[Float], ...]:
        """Compute a formula of the first members of all lists, of the second, and so on; return a list of each result.

        This is no operation of the schema, but how operations on lists and updates of optimizers are computed: the
        default calls the formula for one position after another. A backend that overrides it may trace the formula as a
        program, for which numbers are inputs and flags are not, and run it for all positions in one kernel. Decorators
        handle it as one operation of the formula's name.

        Args:
            formula: an elementwise function of a backend, of one member of each list, of numbers and of flags, which
                returns a tuple of results. It computes with operations that programs have
                (`burnpy.backend.programs.Instruction`), and is a function of a module, so that it is known by identity.
            lists: lists of one length, at least one. The second may be `Spent`.
            numbers: Python numbers or float primitives: of one value, or a vector with a value for each position.
            flags: further arguments, part of the program.
            owned: whether the results after the first may be in the memory of the lists after the second, such as
                an optimizer's states.
            skipped: a bool, 0-d. Where it is true, the first result is the first list, and the others are the lists
                after the second.
        """
        rows = [
            one_position(self, formula, position, row, numbers, flags)
            for position, row in enumerate(zip(*lists, strict=True))
        ]
        results = tuple(map(list, zip(*rows, strict=True))) if rows else no_results(lists)
        return results if skipped is None else unless(self, skipped, (lists[0], *lists[2:]), results)

    def foreach_and_cast(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Float]],
        numbers: tuple[Any, ...],
        flags: tuple[bool, ...],
        owned: bool,
        positions: tuple[int, ...],
        dtype: DType,
    ) -> tuple[tuple[list[Float], ...], list[Float]]:
        """Return `foreach`, and the first result at some positions converted to a dtype, perhaps by the same kernel."""
        results = self.foreach(formula, lists, numbers, flags, owned)
        return results, self.foreach_cast([results[0][k] for k in positions], dtype)

    @derived(GENERAL, flops=1)
    def foreach_mul(self, xs: Sequence[Float], factor: Float | Scalar) -> list[Float]:
        """Multiply each by a number, or each by its own: an element of a vector."""
        return self.foreach(mul_each, (xs,), (factor,))[0]

    @derived(GENERAL, flops=1)
    def foreach_div(self, xs: Sequence[Float], divisor: Float | Scalar) -> list[Float]:
        """Divide each by a number, or each by its own: an element of a vector."""
        return self.foreach(div_each, (xs,), (divisor,))[0]

    @derived(GENERAL, flops=2)
    def foreach_add(self, xs: Sequence[Float], ys: Sequence[Float], alpha: float) -> list[Float]:
        """Add alpha · y to each x."""
        if alpha == 1:
            return self.foreach(add_each, (xs, ys))[0]
        return self.foreach(add_scaled_each, (xs, ys), (alpha,))[0]

    @derived(GENERAL, flops=3)
    def foreach_lerp(self, xs: Sequence[Float], ys: Sequence[Float], weight: float) -> list[Float]:
        """Interpolate: x + weight · (y - x) of each x and y."""
        return self.foreach(lerp_each, (xs, ys), (weight,))[0]

    @derived(GENERAL, flops=2)
    def foreach_clamp(self, xs: Sequence[Float], low: float, high: float) -> list[Float]:
        """Clamp each to [low, high]; NaN stays NaN."""
        return self.foreach(clamp_each, (xs,), (low, high))[0]

    @derived(GENERAL, flops=1)
    def foreach_where(self, condition: Bool, xs: Sequence[Float], ys: Sequence[Float]) -> list[Float]:
        """Return the xs if ``condition``, which is 0-d, is true, else the ys."""
        return self.foreach(where_each, (xs, ys), (self.to_float(condition, float32),))[0]

    @derived(GENERAL, flops=0)
    def foreach_cast(self, xs: Sequence[Float], dtype: DType) -> list[Float]:
        """Convert each to a float dtype."""
        return [self.cast(x, dtype) for x in xs]

    @derived(GENERAL, flops=2)
    def foreach_norm(self, xs: Sequence[Float], p: float) -> Float:
        """Return the p-norm (Σ |x|ᵖ)^(1/p) of all elements of each, p > 0, as a vector; for ∞ the largest magnitude.

        Powers neither overflow nor underflow. The dtype is that to which all promote, and at least float32.
        """
        dtype = widest(xs)
        norms = []
        for x in xs:
            wide = x if x.dtype == dtype else self.cast(x, dtype)
            norms.append(self.reshape(self.vector_norm(wide, p, tuple(range(len(x.shape))), False), (1,)))
        return self.cat(norms, 0) if norms else self.full((0,), 0.0, dtype)

    @derived(GENERAL, flops=2)
    def total_norm(self, xs: Sequence[Float], p: float) -> Float:
        """Return the p-norm of all elements of all arrays together, 0-d: the norm of `foreach_norm`; 0 without
        elements."""
        return self.vector_norm(self.foreach_norm(xs, p), p, (0,), False)


def no_results(lists: Sequence[Sequence[Float]]) -> tuple[list[Float], ...]:
    """Return as many empty lists as a formula of this many lists has results: an update has a gradient more."""
    return tuple([] for _ in lists[1:] or lists)


def unless(
    b: Any, skipped: Bool, before: Sequence[Sequence[Float]], after: Sequence[Sequence[Float]]
) -> tuple[list[Float], ...]:
    """Return the lists before an update where ``skipped``, a 0-d bool primitive, is true; else those after it."""
    kept = iter(b.foreach_where(skipped, [*chain(*before)], [*chain(*after)]))
    return tuple([[*islice(kept, len(column))] for column in after])


def one_position(
    b: Any, formula: Formula, position: int, row: Sequence[Float], numbers: tuple[Any, ...], flags: tuple[bool, ...]
) -> tuple[Float, ...]:
    """Compute a formula of the members at one position, with operations of ``b``; 16-bit floats in float32."""
    dtype = row[0].dtype
    wide = float32 if dtype.itemsize == 2 else dtype
    arrays = [x if x.dtype == wide else b.cast(x, wide) for x in row]
    results = formula(b, *arrays, *numbers_at(b, numbers, position, wide), *flags)
    return results if wide == dtype else tuple([b.cast(x, dtype) for x in results])


def numbers_at(b: Any, numbers: tuple[Any, ...], position: int, dtype: DType) -> list[Any]:
    """Return the numbers of a formula at a position: Python numbers, and primitives in a dtype."""
    return [number if type(number) in _NUMBERS else _at(b, number, position, dtype) for number in numbers]


def _at(b: Any, number: Float, position: int, dtype: DType) -> Float:
    """Return the value of a number at a position, in a dtype."""
    one = b.slice(number, (position,)) if len(number.shape) else number
    return one if one.dtype == dtype else b.cast(one, dtype)


def widest(xs: Sequence[Float]) -> DType:
    """Return the dtype to which all primitives promote, at least float32."""
    dtype = float32
    for x in xs:
        if x.dtype is not dtype:
            dtype = promote_types(dtype, x.dtype)
    return dtype


def mul_each(b: Any, x: Float, factor: Any) -> tuple[Float]:
    """Multiply by a number."""
    return (b.mul(x, factor),)


def div_each(b: Any, x: Float, divisor: Any) -> tuple[Float]:
    """Divide by a number."""
    return (b.div(x, divisor),)


def add_each(b: Any, x: Float, y: Float) -> tuple[Float]:
    """Add."""
    return (b.add(x, y),)


def add_scaled_each(b: Any, x: Float, y: Float, alpha: Any) -> tuple[Float]:
    """Add alpha · y."""
    return (b.add(x, b.mul(y, alpha)),)


def lerp_each(b: Any, x: Float, y: Float, weight: Any) -> tuple[Float]:
    """Interpolate: x + weight · (y - x)."""
    return (b.add(x, b.mul(b.sub(y, x), weight)),)


def where_each(b: Any, x: Float, y: Float, condition: Any) -> tuple[Float]:
    """Return x if a number is not 0, else y."""
    return (b.where(b.ne(condition, 0.0), x, y),)


def clamp_each(b: Any, x: Float, low: Any, high: Any) -> tuple[Float]:
    """Clamp to [low, high]."""
    return (b.clamp(x, low, high),)


class Programs(OperationsBase):
    """Programs, which a backend may compile."""

    @derived(GENERAL, flops=1)  # at the least: how many steps an element takes is up to the program
    def run(self, program: Program, xs: Sequence[Value], numbers: tuple[float, ...]) -> list[Float]:
        """Run a program, whose results are of float dtypes, on the primitives ``xs`` and on numbers.

        The primitives have the shapes that the program says, of any common numbers of rows and columns. The default
        executes the instructions one by one with the operations of the backend, which are differentiable.
        """
        from burnpy.backend.programs.program import execute

        return list(execute(self, program, xs, numbers))

    def fused(self, formula: Formula, xs: Sequence[Float], numbers: tuple[float, ...] = ()) -> tuple[Float, ...]:
        """Compute an elementwise formula of float primitives.

        This is no operation of the schema. The default calls the formula; a backend that overrides it may trace it as a
        program (`burnpy.backend.programs.trace.formula_program`), so that it is one pass over the memory.

        Args:
            formula: a function ``f(b, *xs, *numbers)`` of a backend, which returns a tuple of results. It computes
                with operations that programs have (`burnpy.backend.programs.Instruction`), and is known by identity.
            xs: primitives, at least one. Beside large ones of one shape, others may have one element and no dimension.
            numbers: Python numbers.
        """
        return formula(self, *xs, *numbers)

    def fuses(self, xs: Sequence[Float]) -> bool:
        """Return whether `fused` is one pass for such primitives, so that it is worth recording as one operation."""
        return False

    def executor(self) -> Executor | None:
        """Return what the device offers plans beyond its operations; None if plans call operations alone."""
        return None

    def replayed(
        self, make: Callable[[], Callable[..., list[Any]]], defaults: Sequence[Callable[[], Any]]
    ) -> Callable[..., list[Any]]:
        """Return the replay of a plan in memory of its own: the generated function itself, unless a backend wraps it.

        Args:
            make: returns the generated function, with memory of its own.
            defaults: functions that return the default random generators that it draws from.
        """
        return make()


def not_updated(
    device: Any,
    formula: Formula,
    lists: Sequence[Sequence[Float]],
    numbers: tuple[Any, ...],
    flags: tuple[bool, ...],
    owned: bool,
    skipped: Bool | None,
) -> tuple[list[Float], ...]:
    """Return what `Backend.foreach` does, for an update that is skipped: the lists without the gradients. Other
    formulas, those whose results have other dtypes or shapes than these lists, are computed."""
    before = [[*column] for column in (*lists[:1], *lists[2:])]
    if lists[0] and all(
        x.shape == y.shape and x.dtype == y.dtype for xs in before for x, y in zip(xs, lists[0], strict=True)
    ):
        ones = [device.full((), 1.0, column[0].dtype) for column in lists]
        count = len(one_position(device, formula, 0, ones, numbers, flags))
        if count <= len(before):
            return tuple(before[:count])
    return device.foreach(formula, lists, numbers, flags, owned, skipped)  # type: ignore[no-any-return]  # as declared
