"""`Epilogue`: an elementwise program that follows a convolution, computed before its result is written to memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from burnpy.backend.programs import Extent, Program
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector


class Epilogue(NamedTuple):
    """A program of a convolution's result, and the other arrays that it reads."""

    program: Program  #: elementwise; its inputs of extent COLUMN have one value for each channel
    place: int  #: the number of the input that is the result
    arrays: tuple[Any, ...]  #: the other inputs, C-contiguous: of the result's shape, or one value for each channel

    def part(self, member: int, channel: int) -> Epilogue:
        """Return it for the members and the channels of the result from some on."""
        parts = [x[channel:] if x.ndim == 1 else x[member:, channel:] for x in self.arrays]
        return self._replace(arrays=tuple(parts))


def parameters_of(epilogue: Epilogue | None) -> tuple[Program, int] | tuple[()]:
    """Return the parameters by which templates get an epilogue; empty without one."""
    return () if epilogue is None else (epilogue.program, epilogue.place)


def others_of(parameters: Sequence[Any]) -> int:
    """Return the number of arrays of an epilogue, given its parameters."""
    return len(parameters[0].inputs) - 1 if parameters else 0


def computed(
    w: Loops, x: Vector, how: Sequence[Any], arrays: Sequence[str], index: str, channel: str, mask: str | None
) -> Vector:
    """Write an epilogue for neighbouring elements of a channel, and return its result; without one, ``x``.

    Args:
        w: the kernel.
        x: the elements of the convolution's result.
        how: its parameters, see `parameters_of`.
        arrays: the addresses of the arrays.
        index: the position of the elements in the arrays that have the result's shape.
        channel: the position of the channel in the others.
        mask: the mask of the elements; None for all.
    """
    if not how:
        return x
    program, place = how
    given = [*program.inputs]
    del given[place]
    xs = []
    for (extent, dtype), pointer in zip(given, arrays, strict=True):
        if extent is Extent.FULL:
            xs.append(w.load(w.element(pointer, index, dtype), dtype, mask))
        else:
            xs.append(w.load_one(w.element(pointer, channel, dtype), dtype))
    return w.program(program, [*xs[:place], x, *xs[place:]])[0]
