"""Which kernel an operation of the backend runs: a function of the operation, its arguments' dtypes and the settings."""

from __future__ import annotations

from functools import cache
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.program import Extent, Input, Program, ProgramError, trace
from burnpy_numpy.compiled.kernel import Kernel, enabled, kernel_of


def kernel_for(name: str, extents: tuple[str, ...], dtype: str, rest: tuple[Any, ...]) -> Kernel | None:
    """Return the kernel of an operation; None if it has none, or kernels are off."""
    if not enabled():
        return None
    program = program_of(name, extents, dtype, rest)
    return None if program is None else kernel_of(program)


@cache
def program_of(name: str, extents: tuple[str, ...], dtype: str, rest: tuple[Any, ...]) -> Program | None:
    """Return the program of an operation, whose arrays have one dtype; None if it cannot be written as one."""
    inputs = tuple([Input(Extent(extent), dtype) for extent in extents])
    try:
        return trace(getattr(Backend, name), inputs, *rest, name=name)
    except ProgramError:
        return None
