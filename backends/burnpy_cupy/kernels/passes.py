"""`Passes`: a program as kernels that each need no other's sums over rows: one by rows, and one for those sums."""

from __future__ import annotations

from dataclasses import dataclass

from burnpy.backend.program import Extent, Input, Instruction, Program, ProgramError
from burnpy.backend.program.schedule import Schedule
from burnpy_cupy.kernels.emitter import FLOATS

_TURNED = {Extent.ROW: Extent.COLUMN, Extent.COLUMN: Extent.ROW}


@dataclass(frozen=True)
class Passes:
    """The kernels of a program.

    The second program has rows and columns exchanged, so that what it computes are sums of its own columns. Its inputs
    are those of the whole, and the sums and maxima over columns that it needs, which the first one returns last.
    """

    by_rows: Program | None  #: the outputs that are no sums over rows, and then the values that the second one needs
    by_columns: Program | None  #: the sums over rows
    is_sum: tuple[bool, ...]  #: for each output of the whole, whether the second program returns it


def divide(program: Program) -> Passes:
    """Return the kernels of a program.

    Raises:
        ProgramError: they cannot compute it.
    """
    schedule = Schedule(program, FLOATS, ints=True)
    steps = program.instructions
    is_sum = tuple([schedule.over_rows(k) for k in program.outputs])
    sums = [k for k in program.outputs if schedule.over_rows(k)]
    if any(steps[k].extent is not Extent.ROW for k in sums):
        raise ProgramError("a CUDA kernel does not add up all elements")
    carried = _carried(program, schedule, sums)
    outputs = [k for k in program.outputs if not schedule.over_rows(k)] + carried
    by_rows = Program(program.name, program.inputs, steps, tuple(outputs)) if outputs else None
    return Passes(by_rows, _turned(program, sums, carried) if sums else None, is_sum)


def _carried(program: Program, schedule: Schedule, sums: list[int]) -> list[int]:
    """Return the sums and maxima over columns that sums over rows are computed of."""
    positions: set[int] = set()
    stack = [a for k in sums for a in program.instructions[k].args]
    while stack:
        k = stack.pop()
        if schedule.over_columns(k) or program.instructions[k].op == "gather":
            positions.add(k)
        else:
            stack += program.instructions[k].args
    return sorted(positions)


def _turned(program: Program, sums: list[int], carried: list[int]) -> Program:
    """Return the program of the sums over rows with rows and columns exchanged; carried values are inputs."""
    inputs = [Input(_TURNED.get(extent, extent), dtype) for extent, dtype in program.inputs]
    steps = []
    for k, step in enumerate(program.instructions):
        extent, value = _TURNED.get(step.extent, step.extent), step.value
        if step.op in ("sum", "amax", "length", "index") and isinstance(value, int):
            value = 1 - value
        if k in carried:
            steps.append(Instruction("input", (), extent, step.dtype, len(inputs)))
            inputs.append(Input(extent, step.dtype))
        else:
            steps.append(Instruction(step.op, step.args, extent, step.dtype, value))
    return Program(f"{program.name}, sums over rows", tuple(inputs), tuple(steps), tuple(sums))
