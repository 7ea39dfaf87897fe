"""`execute`: running a program with the operations of a backend, one for each instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy.backend.primitives import DType
from burnpy.backend.programs.program import Extent, Instruction, Program


def execute(b: Any, program: Program, xs: Sequence[Any], numbers: Sequence[float]) -> tuple[Any, ...]:
    """Return the results of a program; it is differentiable wherever the operations of ``b`` are.

    Args:
        b: the backend.
        program: the program.
        xs: the primitives of the inputs, in order.
        numbers: the numbers of the inputs of extent SCALAR, in order.
    """
    given, rows, columns = program.bind(xs, numbers)
    values: list[Any] = []
    for instruction in program.instructions:
        values.append(_step(b, instruction, [values[a] for a in instruction.args], given, (rows, columns), program))
    return tuple([fresh(b, values[k], program, k, (rows, columns)) for k in program.outputs])


def fresh(b: Any, x: Any, program: Program, k: int, sizes: tuple[int, int]) -> Any:
    """Return a result as new memory in its extent's shape, where an instruction gave a number or an input."""
    op, _, extent, dtype, _ = program.instructions[k]
    on = b if kind_of(dtype_of(dtype)) == "float" else b.discrete
    if op in ("input", "constant", "length"):
        x = on.full((), x, dtype_of(dtype)) if extent is Extent.SCALAR else x
        return on.where(b.discrete.full((), True, dtype_of("bool")), x, x)
    return x if x.shape == extent.shape(*sizes) else on.reshape(x, extent.shape(*sizes))


def _step(
    b: Any, instruction: Instruction, args: list[Any], given: list[Any], sizes: tuple[int, int], program: Program
) -> Any:
    op, positions, extent, name, value = instruction
    dtype = dtype_of(name)
    if op == "input":
        assert isinstance(value, int)
        return given[value]
    if op == "constant":
        return float.fromhex(str(value)) if kind_of(dtype) == "float" else int(str(value))
    if op == "length":
        assert isinstance(value, int)
        return float(sizes[value])
    if op == "index":
        assert isinstance(value, int)
        return b.discrete.reshape(b.discrete.arange(0, sizes[value], 1, dtype), extent.shape(*sizes))
    dtypes = [dtype_of(program.instructions[a].dtype) for a in positions]
    on = b if any(kind_of(d) == "float" for d in dtypes) else b.discrete
    if op == "cast":
        return _cast(b, on, _primitive(on, args[0], dtypes[0]), dtype)
    if op == "expand":
        return on.expand(_primitive(on, args[0], dtypes[0]), extent.shape(*sizes))
    if op in ("sum", "amax"):
        reduce: Callable[..., Any] = getattr(on, op)
        source = program.instructions[positions[0]].extent
        if source is Extent.FULL:
            return reduce(args[0], (value,), value == 1)
        return reduce(args[0], tuple(range(len(args[0].shape))), False)
    if op == "gather":
        return b.gather(args[0], 1, args[1])
    if op == "where":
        choice, x, y = args
        on = b if kind_of(dtype) == "float" else b.discrete
        return on.where(_primitive(b.discrete, choice, dtypes[0]), _primitive(on, x, dtype), y)
    operate: Callable[..., Any] = getattr(on, op)
    return operate(_primitive(on, args[0], dtypes[0]), *args[1:])


def _cast(b: Any, on: Any, x: Any, dtype: DType) -> Any:
    """Convert a primitive to a dtype of any kind, on the device that such a primitive belongs to."""
    if kind_of(x.dtype) == kind_of(dtype):
        return on.cast(x, dtype)
    if kind_of(dtype) == "float":
        return b.to_float(x, dtype)
    return on.to_int(x, dtype) if kind_of(dtype) == "int" else on.to_bool(x)


def _primitive(on: Any, x: Any, dtype: DType) -> Any:
    """Return an operand as a primitive: a Python number becomes a 0-d one."""
    return x if hasattr(x, "dtype") else on.full((), x, dtype)
