"""The launch of a program of numbers, which plans use for loops with small states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.plans.executor import Number
from burnpy.backend.plans.recording import Ref
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Shape

if TYPE_CHECKING:
    from burnpy_numpy.kernels.compiler.entry import Entry
    from burnpy_numpy.kernels.plans.sequence import KernelCall


class UnrolledLaunch:
    """A kernel that reads and writes single elements of arrays.

    Args:
        function: the kernel.
        operands: the arrays that it reads.
        work: the number of its instructions.
    """

    scratch: Sequence[tuple[Shape, DType]] = ()
    in_place = True
    numbers: Sequence[Ref] = ()

    def __init__(self, function: Entry, operands: Sequence[Ref], work: int) -> None:
        self._function, self.operands, self._work = function, operands, work

    def overwrites(self, number: int) -> Ref | None:
        """Return None: a result needs new memory."""
        return None

    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        """Return the call of the kernel."""
        from burnpy_numpy.kernels.plans.sequence import template_call

        return [template_call(self._function, arrays, (), 0, 1, self._work)]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Any:
        """Write the call of the kernel."""
        source.write(f"{source.bind(self._function, 'f')}(0, 1, {len(arrays)}, {', '.join(arrays)})")
