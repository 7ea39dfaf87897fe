"""Running programs: kernels that are described by instructions, see `burnpy.backend.programs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.foreach import Formula
from burnpy.backend.primitives import Float, Value
from burnpy.backend.schema import GENERAL, derived

if TYPE_CHECKING:
    from burnpy.backend.plans.executor import Executor
    from burnpy.backend.programs import Program


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
