"""Operations on lists, such as updates of all parameters, in few launches."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from functools import cache
from operator import attrgetter, getitem
from types import SimpleNamespace
from typing import Any, NamedTuple

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.operations.programs import Formula, no_results
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Input, Program, ProgramError, trace
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, headers_of
from burnpy_cupy.kernels.emitter import FUNCTIONS, expression
from burnpy_cupy.kernels.foreach_tables import THREADS, contiguous, run_norms, table_launches, table_source
from burnpy_cupy.kernels.programs import OPTIONS, kernels_enabled, ran
from burnpy_cupy.runtime import empty

_AHEAD = 4
"""The number of elements that a thread reads before it writes one, as a result may be in the memory of an array."""
_DTYPE = attrgetter("dtype")
_NOTHING = SimpleNamespace(data=SimpleNamespace(ptr=0))
"""Stands for an array that is not written."""
Lists = Sequence[Sequence[Any]]


class CuPyForeach(ArrayBackend):
    """A formula of lists is one launch for each dtype and some 40 to 160 arrays; a norm is one more. Arrays that are
    not C-contiguous are copied first. 16-bit floats are computed in float32, powers added up in float64."""

    def foreach(
        self,
        formula: Formula,
        lists: Lists,
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        if not kernels_enabled():
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        groups = _by_dtypes(lists)
        if not groups:
            return no_results(lists)
        gated = skipped is not None
        held = tuple([None if isinstance(number, (int, float)) else number.dtype for number in numbers])
        columns: list[list[Any]] = []
        for dtypes, positions in groups.items():
            kernel = None
            if not is_half(dtypes[0]) or len(set(dtypes)) == 1:
                kernel = foreach_kernel(self.xp, formula, dtypes, held, flags, gated)
            part = lists if len(groups) == 1 else [[xs[k] for k in positions] for xs in lists]
            if kernel is None:
                values = tuple(
                    [
                        x if h is None or not x.ndim else self._call(getitem, x, positions)
                        for h, x in zip(held, numbers, strict=True)
                    ]
                )
                part_results = super().foreach(formula, part, values, flags, owned, skipped)
            else:
                part_results = self._call(_run_foreach, self.xp, kernel, part, positions, numbers, owned, skipped)
            if len(groups) == 1:
                return part_results
            columns = columns or [[None] * len(lists[0]) for _ in part_results]
            for column, results in zip(columns, part_results, strict=True):
                for k, result in zip(positions, results, strict=True):
                    column[k] = result
        return tuple(columns)

    def foreach_and_cast(
        self,
        formula: Formula,
        lists: Lists,
        numbers: tuple[Any, ...],
        flags: tuple[bool, ...],
        owned: bool,
        positions: tuple[int, ...],
        dtype: DType,
    ) -> tuple[tuple[list[Any], ...], list[Any]]:
        groups, kernel = _by_dtypes(lists), None
        if kernels_enabled() and len(groups) == 1 and not is_half(lists[0][0].dtype):
            (dtypes,) = groups
            held = tuple([None if isinstance(number, (int, float)) else number.dtype for number in numbers])
            kernel = foreach_kernel(self.xp, formula, dtypes, held, flags, False, dtype)
        if kernel is None:
            return super().foreach_and_cast(formula, lists, numbers, flags, owned, positions, dtype)
        every = tuple(range(len(lists[0])))
        *results, rounded = self._call(_run_foreach, self.xp, kernel, lists, every, numbers, owned, None, positions)
        return tuple(results), [rounded[k] for k in positions]

    def foreach_cast(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        if not kernels_enabled():
            return super().foreach_cast(xs, dtype)
        return self.foreach(cast_to(dtype.name), (xs,))[0]

    def foreach_norm(self, xs: Sequence[Any], p: float) -> Any:
        if p not in (1, 2, math.inf) or not kernels_enabled():
            return super().foreach_norm(xs, p)
        return self._call(run_norms, self.xp, xs, float(p), True)

    def total_norm(self, xs: Sequence[Any], p: float) -> Any:
        if p not in (1, 2, math.inf) or not kernels_enabled():
            return super().total_norm(xs, p)
        return self._call(run_norms, self.xp, xs, float(p), False)


def _by_dtypes(lists: Lists) -> dict[tuple[DType, ...], tuple[int, ...]]:
    """Return the positions of members of the same dtypes, by these."""
    kinds = [[*map(_DTYPE, xs)] for xs in lists]
    first, count = tuple([each[0] for each in kinds if each]), len(lists[0])
    if count and all(each.count(each[0]) == count for each in kinds):
        return {first: tuple(range(count))}
    groups: dict[tuple[DType, ...], list[int]] = {}
    for position, dtypes in enumerate(zip(*kinds, strict=True)):
        groups.setdefault(dtypes, []).append(position)
    return {dtypes: tuple(positions) for dtypes, positions in groups.items()}


@cache
def cast_to(dtype: str) -> Formula:
    """Return the formula that converts to a dtype."""

    def cast_each(b: Any, x: Any) -> tuple[Any]:
        return (b.cast(x, dtype_of(dtype)),)

    return cast_each


def _run_foreach(
    xp: Any,
    kernel: ForeachKernel,
    lists: Lists,
    positions: tuple[int, ...],
    numbers: tuple[Any, ...],
    owned: bool,
    skipped: Any,
    converted: Container[int] = (),
) -> tuple[list[Any], ...]:
    """Return the results of a kernel. Those after the first are in the memory of states if they are owned. The lists
    have the members at some positions alone; an array of numbers has one for all positions. If the kernel converts the
    first result, too, it does so for some members, and the others have `_NOTHING`."""
    arrays = [contiguous(xp, xs) for xs in lists]
    outs: list[list[Any]] = []
    for k, dtype in enumerate(kernel.dtypes):
        if kernel.converts and k == len(kernel.dtypes) - 1:
            members = enumerate(lists[0])
            outs.append([empty(xp, x.shape, dtype) if at in converted else _NOTHING for at, x in members])
        elif owned and 0 < k < len(lists) - 1:  # in the memory of a state, if it can be
            pairs = zip(lists[k + 1], arrays[k + 1], strict=True)
            outs.append([y if x is y and x.dtype is dtype else empty(xp, x.shape, dtype) for x, y in pairs])
        else:
            outs.append([empty(xp, x.shape, dtype) for x in lists[0]])
    values: list[Any] = [] if skipped is None else [skipped.data.ptr]
    given = "Q" * len(values)
    for number in numbers:
        if isinstance(number, (int, float)):
            values.append(number)
            given += "d"
        else:
            values += [number.data.ptr, number.strides[0] // number.itemsize if number.ndim else 0]
            given += "Qq"
    for _, launch, addresses in table_launches(xp, kernel.function, given, [*arrays, *outs], positions):
        launch(*values, *addresses)
        ran(kernel)
    return tuple(outs)


class ForeachKernel(NamedTuple):
    """A kernel of a formula, for arrays of one dtype, as `burnpy.backend.explain` lists it."""

    program: Program
    text: str
    function: Any  #: cupy.RawKernel
    dtypes: tuple[DType, ...]  #: of the results
    converts: bool  #: whether the last result is the first one, converted, for those members that have memory for it


@cache
def foreach_kernel(
    xp: Any,
    formula: Formula,
    dtypes: tuple[DType, ...],
    numbers: tuple[DType | None, ...],
    flags: tuple[bool, ...],
    gated: bool,
    dtype: DType | None = None,
) -> ForeachKernel | None:
    """Return the kernel of a formula; None if it is not elementwise, or has instructions that kernels have not.

    Args:
        xp: the module cupy.
        formula: the formula.
        dtypes: the dtype of the arrays of each list; all but the first are converted to the first dtype.
        numbers: for each number the dtype of the array that holds it, None if it is Python's.
        flags: its flags.
        gated: whether the kernel takes a bool by which it copies parameters and states instead.
        dtype: a dtype to which it converts the first result, too.
    """
    first, arrays = dtypes[0], len(dtypes)
    inputs = [Input(Extent.FULL, each.name) for each in dtypes] + [Input(Extent.SCALAR, first.name)] * len(numbers)

    def converted(b: Any, *args: Any) -> tuple[Any, ...]:
        results = formula(b, *[b.cast(x, first) for x in args[:arrays]], *args[arrays:])
        return results if dtype is None else (*results, b.cast(results[0], dtype))

    try:
        program = trace(converted, tuple(inputs), *flags, name=formula.__name__)
        if not program.elementwise:
            return None
        name = f"burnpy_each_{re.sub('[^A-Za-z0-9]+', '_', program.name)}"
        text = _text(program, name, arrays, [None if held is None else held.name for held in numbers], gated, dtype)
    except ProgramError:
        return None
    results = tuple([dtype_of(program.instructions[k].dtype) for k in program.outputs])
    return ForeachKernel(program, text, xp.RawKernel(text, name, OPTIONS), results, dtype is not None)


def _text(
    program: Program, name: str, arrays: int, numbers: Sequence[str | None], gated: bool, dtype: DType | None
) -> str:
    """Return the source of an elementwise program for all arrays of lists."""
    steps, outputs = program.instructions, program.outputs
    parameters, before = _numbers(arrays, numbers)
    if gated:
        parameters.insert(0, "const bool* const skipped")
    inside: list[str] = []
    for k, step in enumerate(steps):
        kind, scalar = REGISTER[step.dtype], step.extent is Extent.SCALAR
        if step.op == "input":
            text = f"({kind})number{step.value}" if scalar else f"({kind})x{step.value}[k]"
        else:
            text = expression(step, [f"v{a}" for a in step.args], [steps[a].dtype for a in step.args])
        (before if scalar else inside).append(f"const {kind} v{k} = {text};")
    types = [C_NAMES[given.dtype] for given in program.inputs[:arrays]]
    pointers = [f"const {type_}* const in{k} = (const {type_}*)" for k, type_ in enumerate(types)]
    results = [C_NAMES[steps[k].dtype] for k in outputs]
    pointers += [f"{type_}* const out{k} = ({type_}*)" for k, type_ in enumerate(results)]
    before += [f"{pointer}arrays[{k}];" for k, pointer in enumerate(pointers)]
    inside += [f"out{number}[at] = v{k};" for number, k in enumerate(outputs)]
    if dtype is not None:
        inside[-1] = f"if (out{len(outputs) - 1}) {inside[-1]}"
    if gated:
        before.append("const bool copies = *skipped;")
        copied = [f"out{k}[at] = x{k + (k > 0)}[k];" for k in range(len(outputs))]
        inside = [f"if (copies) {{ {' '.join(copied)} continue; }}", *inside]
    source = [
        f"{headers_of({step.dtype for step in steps})}{FUNCTIONS}",
        table_source(len(pointers)),
        f'extern "C" __global__ __launch_bounds__({THREADS}) void {name}({", ".join(parameters)}) {{',
        "  BURNPY_FIND",
        *[f"  {line}" for line in before],
        f"  for (long long first = start + threadIdx.x; first < end; first += {_AHEAD * THREADS}) {{",
        *[f"    {type_} x{k}[{_AHEAD}];" for k, type_ in enumerate(types)],
        *_each_ahead([f"x{k}[k] = in{k}[at];" for k in range(arrays)]),
        *_each_ahead(inside),
        "  }",
        "}",
        "",
    ]
    return "\n".join(source)


def _numbers(arrays: int, numbers: Sequence[str | None]) -> tuple[list[str], list[str]]:
    """Return the parameters of a kernel after its arrays, and the lines that read the numbers that arrays hold."""
    parameters, lines = list[str](), list[str]()
    for k, held in enumerate(numbers):
        if held:
            parameters.append(f"const {C_NAMES[held]}* const numbers{k}, const long long step{k}")
            value = f"({REGISTER[held]})numbers{k}[table.positions[row] * step{k}]"
            lines.append(f"const double number{arrays + k} = {value};")
        else:
            parameters.append(f"const double number{arrays + k}")
    return [*parameters, "const burnpy_table table"], lines


def _each_ahead(lines: list[str]) -> list[str]:
    """Return the loop over the elements that a thread has at a time."""
    return [
        "#pragma unroll",
        f"    for (int k = 0; k < {_AHEAD}; k++) {{",
        f"      const long long at = first + k * {THREADS};",
        "      if (at >= end) break;",
        *[f"      {line}" for line in lines],
        "    }",
    ]
