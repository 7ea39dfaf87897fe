"""Running programs: kernels that are described by instructions, see `burnpy.backend.program`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float, Value
from burnpy.backend.schema import Algebra, derived

if TYPE_CHECKING:
    from burnpy.backend.program import Program


class Programs(OperationsBase):
    """Programs, which a backend may compile."""

    @derived(Algebra.GENERAL, flops=1)  # at the least: how many steps an element takes is up to the program
    def run(self, program: Program, xs: Sequence[Value], numbers: tuple[float, ...]) -> list[Float]:
        """Run a program, whose results are of float dtypes, on the primitives ``xs`` and on numbers.

        The primitives have the shapes that the program says, of any common numbers of rows and columns. The default
        executes the instructions one by one with the operations of the backend, which are differentiable.
        """
        from burnpy.backend.program.execute import execute

        return list(execute(self, program, xs, numbers))
