"""The kernel of a program of numbers: each input and each result is one element of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.backend.programs import Program
from burnpy_numpy.kernels.compiler.entry import TABLE_ENTRY, Entry
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import loaded

if TYPE_CHECKING:
    from burnpy.backend.plans.loops import Place


def unrolled_kernel(
    program: Program, inputs: Sequence[Place], outputs: Sequence[Place], arrays: tuple[int, int]
) -> Entry | None:
    """Return the function of the kernel, whose table has the arrays that it reads, and then those that it writes.

    All elements are read before one is written. None, with a warning, if compiling fails.

    Args:
        program: the program, with an input for each element.
        inputs: the places of its inputs.
        outputs: the places of its outputs.
        arrays: the numbers of arrays that it reads and writes.
    """
    key = f"{program.key} {[*map(tuple, inputs)]} {[*map(tuple, outputs)]} {arrays}"
    return loaded("unrolled", key, lambda: _text(program, inputs, outputs, arrays))


def _text(program: Program, inputs: Sequence[Place], outputs: Sequence[Place], arrays: tuple[int, int]) -> str:
    w = Loops(1, sum(arrays), 0)
    xs: list[Vector] = []
    for place, given in zip(inputs, program.inputs, strict=True):
        xs.append(w.load(w.element(w.table[place.array], str(place.element), given.dtype), given.dtype, None))
    for place, x in zip(outputs, w.program(program, xs), strict=True):
        w.store(x, w.element(w.table[arrays[0] + place.array], str(place.element), x.dtype), None)
    return w.function() + TABLE_ENTRY
