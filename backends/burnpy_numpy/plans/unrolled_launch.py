"""The launch of a program of numbers, which plans use for loops with small states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.plans.executor import Number
from burnpy.backend.plans.recording import Ref
from burnpy.backend.plans.source import Source
from burnpy_numpy.plans.launches import NumPyLaunch

if TYPE_CHECKING:
    from burnpy_numpy.kernels.compiler.entry import Entry
    from burnpy_numpy.kernels.plans.sequence import KernelCall


class UnrolledLaunch(NumPyLaunch):
    """A kernel that reads and writes single elements of arrays.

    Args:
        function: the kernel.
        operands: the arrays that it reads.
        instructions: the number of its instructions.
    """

    in_place = True

    def __init__(self, function: Entry, operands: Sequence[Ref], instructions: int) -> None:
        self._function, self.operands, self._instructions = function, operands, instructions

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        from burnpy_numpy.kernels.plans.sequence import template_call

        return [template_call(self._function, arrays, (), 0, 1, self._instructions)]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Any:
        """Write the call of the kernel."""
        source.write(f"{source.bind(self._function, 'f')}(0, 1, {len(arrays)}, {', '.join(arrays)})")
