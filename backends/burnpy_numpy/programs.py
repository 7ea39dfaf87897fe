"""Programs, formulas and operations on lists, such as updates of all parameters, in one pass over the memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.programs import Formula, no_results, numbers_at, one_position, widest
from burnpy.backend.primitives import Dims, Shape, value_range
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.pointwise import BINARY, UNARY, alike
from burnpy_array.reduction import SAFE
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.kernels.kernel import (
    LEAST,
    LONGEST,
    MANY,
    family_kernels,
    formula_kernel,
    has_kernels,
    kernels_enabled,
    lookup,
    operation_kernel,
    program_kernel,
)
from burnpy_numpy.numpy_calls import constant
from burnpy_numpy.pointwise import Layout, layout

if TYPE_CHECKING:
    from burnpy.backend.programs import Program
    from burnpy_numpy.kernels.launch import Kernel
    from burnpy_numpy.plans.executor import NumPyExecutor

_plans: dict[tuple[Any, ...], tuple[Kernel, int, int, Shape] | None] = lookup()
_MOST_PLANS = 1024


def row_plan(key: tuple[Any, ...]) -> tuple[Kernel, int, int, Shape] | None:
    """Return how an operation over the last dimensions is computed by a kernel.

    Args:
        key: the operation; the extent of each array, see `operation_kernel`, one of them "full"; the other arguments;
            the last dimensions; the shapes of the arrays; and their dtypes.

    Returns:
        The kernel, the number of rows, the number of columns, and the shape of a number for each row; None without a
        kernel for these arrays.
    """
    try:
        return _plans[key]
    except KeyError:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        return _plans.setdefault(key, _new_row_plan(*key))


def _new_row_plan(
    name: str, extents: tuple[str, ...], rest: tuple[Any, ...], dims: Dims, *described: Any
) -> tuple[Kernel, int, int, Shape] | None:
    shapes, dtypes = described[: len(extents)], described[len(extents) :]
    shape, dtype = shapes[extents.index("full")], dtypes[extents.index("full")]
    others, last = shape[: dims[0]], shape[dims[0] :]
    rows, columns = math.prod(others), math.prod(last)
    if rows * columns < LEAST or columns > LONGEST or len(last) != len(dims) or dtype not in (float32, float64):
        return None
    for extent, each, its_dtype in zip(extents, shapes, dtypes, strict=True):
        if its_dtype is not (int64 if extent == "index" else dtype):
            return None
        if (
            math.prod(each) != rows
            if extent == "column"
            else each != {"full": shape, "row": last, "index": others}[extent]
        ):
            return None
    kernel = operation_kernel(name, extents, dtype, rest)
    return None if kernel is None else (kernel, rows, columns, (*others, *(1,) * len(dims)))


class NumPyPrograms(ArrayBackend):
    """Programs and formulas by kernels, else operation by operation."""

    def run(self, program: Program, xs: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        return list(self._call(_run, super().run, program, xs, numbers))

    def fuses(self, xs: Sequence[Any]) -> bool:
        """Fuse arrays with one element beside others of one shape, too, which a kernel reads once."""
        large = [x for x in xs if x.size > 1]
        if not large or not _one_dtype(xs):
            return False
        many = (large[0].size >= LEAST and alike(large)) or (large[0].size >= MANY and _halves(large))
        return many and kernels_enabled()

    def executor(self) -> NumPyExecutor | None:
        if not kernels_enabled():
            return None
        from burnpy_numpy.plans.executor import NumPyExecutor  # not imported before the first plan

        return NumPyExecutor(self)

    def fused(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...] = ()) -> tuple[Any, ...]:
        if (xs[0].size >= LEAST and alike(xs)) or (xs[0].size >= MANY and _halves(xs)):
            kernel = formula_kernel(formula, xs, len(numbers))
            if kernel is not None:
                return tuple(kernel.each_alike(xs, numbers))
        else:
            outs = self._fused_parts(formula, xs, numbers)
            if outs is not None:
                return outs
        return super().fused(formula, xs, numbers)

    def _fused_parts(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...]) -> tuple[Any, ...] | None:
        """Compute a formula of arrays where some have one element, or are rows or columns of the result. It returns
        None without a kernel for it."""
        dtype = xs[0].dtype
        key = formula, len(numbers), dtype, tuple([x.shape if x.dtype is dtype else None for x in xs])
        try:
            found = _joined[key]
        except KeyError:
            if len(_joined) >= _MOST_JOINED:
                _joined.clear()
            found = _joined[key] = self._kernel_of_parts(formula, xs, numbers)
        if found is None:
            return None
        kernel, parts, joins = found
        if joins:
            return tuple(kernel.outputs(parts.arrays(xs), (parts.shape,), parts.rows, parts.columns, numbers))
        outs = kernel(parts.arrays(xs), numbers, parts.rows, parts.columns)
        return tuple([out.reshape(parts.shape if out.size > 1 else ()) for out in outs])

    def _kernel_of_parts(
        self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...]
    ) -> tuple[Kernel, Layout, bool] | None:
        """Return the kernel of `_fused_parts`, the layout of its arrays, and whether it `_joins` them."""
        if singles := min(x.size for x in xs) == 1 and self.fuses(xs):
            shape = next(x.shape for x in xs if x.size > 1)
            extents = tuple(["full" if x.size > 1 else "column" for x in xs])
            parts: Layout | None = Layout(shape, 1, math.prod(shape), extents, None)
        else:
            parts = _layout_of(xs)
        kernel = None if parts is None else formula_kernel(formula, xs, len(numbers), parts.extents)
        if parts is None or kernel is None:
            return None
        joins = _joins(kernel.program)
        return (kernel, parts, joins) if singles or joins else None


_joined: dict[tuple[Any, ...], tuple[Kernel, Layout, bool] | None] = lookup()
_MOST_JOINED = 1 << 12
"""The number of formulas and shapes from which these kernels are looked for anew."""


def _joins(program: Program) -> bool:
    """Return whether a program has one output, which depends on all inputs: their shapes broadcast to its."""
    steps, needed = program.instructions, set(program.outputs)
    for k in reversed(range(len(steps))):
        if k in needed:
            needed.update(steps[k].args)
    return len(program.outputs) == 1 and all(k in needed for k, step in enumerate(steps) if step.op == "input")


def _layout_of(xs: Sequence[Any]) -> Layout | None:
    """Return the layout of arrays of one dtype that kernels have."""
    dtype = xs[0].dtype
    if not has_kernels(dtype) or any(x.dtype is not dtype for x in xs):
        return None
    return layout(tuple([x.shape for x in xs]))


def _halves(xs: Sequence[Any]) -> bool:
    """Return whether arrays are of one shape and of one dtype of 16-bit floats."""
    x = xs[0]
    return is_half(x.dtype) and all(y.dtype is x.dtype and y.shape == x.shape for y in xs)


def _one_dtype(xs: Sequence[Any]) -> bool:
    return all(x.dtype is xs[0].dtype and (x.size > 1 or not x.ndim) for x in xs)


def _run(
    default: Callable[..., Sequence[Any]], program: Program, xs: Sequence[Any], numbers: tuple[float, ...]
) -> Sequence[Any]:
    """Return the results of a program: by its kernel, else by its default."""
    xs = [np.asarray(x) for x in xs]
    given, rows, columns = program.bind(xs, numbers)
    if not program.elementwise:
        for step in program.instructions:
            if step.op == "gather":
                _check_index(program, given, step.args[1], columns)
    if rows * columns >= LEAST and (columns <= LONGEST or program.elementwise):
        kernel = program_kernel(program)
        if kernel is not None:
            return kernel(xs, numbers, rows, columns)
    return default(program, xs, numbers)


def _check_index(program: Program, given: list[Any], position: int, columns: int) -> None:
    """Refuse a gather whose index, an input, names no column: a kernel would read what is not the array's."""
    from burnpy.backend.programs import ProgramError  # not imported before the first program

    step = program.instructions[position]
    if step.op != "input" or not isinstance(step.value, int):
        raise ProgramError(f"program {program.name} gathers by an index that is not one of its inputs")
    index = given[step.value]
    least, most = value_range(index) if index.size else (0, -1)
    if least < 0 or most >= columns:
        raise ProgramError(f"program {program.name} got an index out of the range of its {columns} columns")


_BLOCK_ELEMENTS = 1 << 15
"""The number of elements of a block: the six arrays that Adam needs take 0.8 MB of the cache in float32."""
_FUNCTIONS = {
    name: getattr(np, {**BINARY, **UNARY}[name])
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "sign", "sqrt")
}
"""NumPy's functions whose results are exact or rounded once, and so the same in blocks as in whole arrays."""


class NumPyForeachBlocks(ArrayBackend):
    """Formulas of lists. Arrays of at most one block, and formulas of other functions, are computed as a whole."""

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Any]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        if skipped is not None or not any(x.size > _BLOCK_ELEMENTS for x in lists[0]):
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        calls = _calls(formula, len(lists), len(numbers), flags)
        rows: list[Sequence[Any]] = []
        for position, row in enumerate(zip(*lists, strict=True)):
            if calls is None or row[0].size <= _BLOCK_ELEMENTS or not _divisible(row):
                rows.append(one_position(self, formula, position, row, numbers, flags))
            else:
                values = [*numbers_at(self, numbers, position, row[0].dtype), *calls.constants]
                rows.append(self._call(_in_blocks, calls, row, values, owned))
        return tuple(map(list, zip(*rows, strict=True))) if rows else no_results(lists)


class _Calls(NamedTuple):
    """Calls of NumPy's functions, each with the places of one or two arguments and of its result. Places are positions
    among arrays, numbers, constants, results and temporary memory, in this order."""

    calls: list[tuple[Any, int, int | None, int]]
    constants: list[float]
    results: int
    temporaries: int


@lru_cache(256)
def _calls(formula: Formula, arrays: int, numbers: int, flags: tuple[bool, ...]) -> _Calls | None:
    """Return the calls that compute a formula. It is None if the formula is no program of `_FUNCTIONS`, or reads a
    state after the result in its memory is written."""
    from burnpy.backend.programs import ProgramError
    from burnpy.backend.programs.trace import formula_program  # not imported before the first large array

    try:
        program = formula_program(formula, "float32", arrays, numbers, flags)
    except ProgramError:
        return None
    steps, outputs = program.instructions, program.outputs
    last = {a: k for k, step in enumerate(steps) for a in step.args}  # where each value is read for the last time
    constants = [k for k, step in enumerate(steps) if step.op == "constant"]
    first, places = arrays + numbers + len(constants), dict[int, int]()
    temporary = end = first + len(outputs)
    # The memory of a result is free until it is written, and from the last time that the state in it is read.
    inputs = {int(step.value or 0): k for k, step in enumerate(steps) if step.op == "input"}
    state_read = {n - 1: last[inputs[n]] for n in range(2, arrays) if inputs.get(n) in last}
    free = [first + n for n in range(len(outputs)) if n not in state_read]
    calls: list[tuple[Any, int, int | None, int]] = []
    for k, step in enumerate(steps):
        if step.op in ("input", "constant"):
            places[k] = int(step.value or 0) if step.op == "input" else arrays + numbers + constants.index(k)
            continue
        if step.op not in _FUNCTIONS:
            return None
        read, *other = [places[a] for a in step.args]
        free += {places[a] for a in step.args if last[a] == k and places[a] >= first}
        free += [first + n for n, at in state_read.items() if at == k and n < len(outputs)]
        if k in outputs:
            places[k] = first + outputs.index(k)
            if places[k] not in free:
                return None
        else:
            fits = [place for place in free if place >= end or last.get(k, k) <= outputs[place - first]]
            temporary += not fits
            places[k] = fits[-1] if fits else temporary - 1
        free = [place for place in free if place != places[k]]
        calls.append((_FUNCTIONS[step.op], read, other[0] if other else None, places[k]))
    if {places[k] for k in outputs} != {*range(first, end)}:  # an input is a result, or two results are one
        return None
    values = [float.fromhex(str(steps[k].value)) for k in constants]
    return _Calls(calls, values, len(outputs), temporary - end)


def _in_blocks(calls: _Calls, row: Sequence[Any], numbers: list[Any], owned: bool) -> list[Any]:
    """Return the results of calls. If states are owned, the results after the first are in their memory."""
    x, states = row[0], row[2:] if owned else ()
    values = [constant(number, x.dtype) if type(number) in NUMBERS else number for number in numbers]
    outs = [
        states[k - 1] if 0 < k <= len(states) and states[k - 1].flags.writeable else np.empty(x.shape, x.dtype)
        for k in range(calls.results)
    ]
    arrays, results = [x.reshape(-1) for x in row], [x.reshape(-1) for x in outs]

    def work(begin: int, end: int) -> None:
        temporaries = [np.empty(_BLOCK_ELEMENTS, x.dtype) for _ in range(calls.temporaries)]
        for k in range(begin, end):
            block = slice(k * _BLOCK_ELEMENTS, (k + 1) * _BLOCK_ELEMENTS)
            parts = [out[block] for out in results]
            memory = [*[array[block] for array in arrays], *values, *parts, *[t[: parts[0].size] for t in temporaries]]
            for function, read, other, written in calls.calls:
                if other is None:
                    function(memory[read], out=memory[written])
                else:
                    function(memory[read], memory[other], out=memory[written])

    shared(work, -(-x.size // _BLOCK_ELEMENTS), _BLOCK_ELEMENTS)
    return outs


def _divisible(row: Sequence[Any]) -> bool:
    """Return whether arrays have one dtype that formulas are computed in, and their elements side by side in order."""
    dtype = row[0].dtype
    return (dtype is float32 or dtype is float64) and all(
        type(x) is np.ndarray and x.dtype is dtype and x.flags.c_contiguous for x in row
    )


Lists = Sequence[Sequence[Any]]
_dtype, _shape = attrgetter("dtype"), attrgetter("shape")
_COMBINE = {1.0: np.add, 2.0: np.add, np.inf: np.maximum}


class NumPyForeach(NumPyForeachBlocks):
    """Formulas of lists as kernels, at all sizes: NumPy's many calls take longer than the one of a kernel. The results
    of formulas are those of the other methods, bit for bit. Arrays of other dtypes than float32 and float64 are left to
    these. Squares are added up in float64."""

    def foreach(
        self,
        formula: Formula,
        lists: Lists,
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        if not lists[0]:
            return no_results(lists)
        kernels = None if skipped is not None else family_kernels("programs")
        if kernels is None:  # `skipped` comes from devices that wait for nothing; others do without the update
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        if len({*map(_dtype, chain(*lists))}) > 1:
            lists = [lists[0], *[self._like(xs, lists[0]) for xs in lists[1:]]]
        groups = _groups(lists)
        if len(groups) == 1:
            kernel = kernels.foreach_kernel(formula, len(lists), len(numbers), next(iter(groups)), flags)
            if kernel is None:
                return super().foreach(formula, lists, numbers, flags, owned)
            results: tuple[list[Any], ...] = kernels.run_foreach(kernel, lists, numbers, owned)
            return results
        columns: list[list[Any]] = []
        for dtype, positions in groups.items():
            part = [[xs[k] for k in positions] for xs in lists]
            values = tuple([x[positions] if getattr(x, "ndim", 0) else x for x in numbers])
            kernel = kernels.foreach_kernel(formula, len(lists), len(numbers), dtype, flags)
            if kernel is None:
                part_results = super().foreach(formula, part, values, flags, owned)
            else:
                part_results = kernels.run_foreach(kernel, part, values, owned)
            columns = columns or [[None] * len(lists[0]) for _ in part_results]
            for column, part_result in zip(columns, part_results, strict=True):
                for k, result in zip(positions, part_result, strict=True):
                    column[k] = result
        return tuple(columns)

    def _like(self, xs: Sequence[Any], firsts: Sequence[Any]) -> list[Any]:
        """Return arrays in the dtypes of others, where kernels have these."""
        return [
            self.cast(x, first.dtype) if x.dtype is not first.dtype and _has_kernels(first.dtype) else x
            for x, first in zip(xs, firsts, strict=True)
        ]

    def foreach_norm(self, xs: Sequence[Any], p: float) -> Any:
        totals = np.zeros(len(xs))
        kernels = family_kernels("programs")
        parts = None if kernels is None else kernels.run_norms(xs, p)
        for sums, starts, positions in parts or ():
            totals[positions] = _COMBINE[p].reduceat(sums, starts)
        if parts is None or not (p != 2 or _exact(totals[[k for k, x in enumerate(xs) if x.dtype is float64]])):
            return super().foreach_norm(xs, p)
        return self._call((np.sqrt(totals) if p == 2 else totals).astype, widest(xs))

    def total_norm(self, xs: Sequence[Any], p: float) -> Any:
        kernels = family_kernels("programs")
        parts = None if kernels is None else kernels.run_norms(xs, p)
        if parts is not None:
            total = _COMBINE[p].reduce([0.0, *[_COMBINE[p].reduce(sums) for sums, _, _ in parts]])
            dtype = widest(xs)
            if p != 2 or dtype is float32 or _exact(total):
                return self._call(dtype.type, np.sqrt(total) if p == 2 else total)
        return super().total_norm(xs, p)


def _exact(totals: Any) -> bool:
    """Return whether sums of squares of float64 numbers have neither over- nor underflowed."""
    least, most = SAFE[float64]
    return bool(np.all((totals > least) & (totals < most)))


def _has_kernels(dtype: Any) -> bool:
    return dtype is float32 or dtype is float64


def _groups(lists: Lists) -> dict[Any, list[int]]:
    """Return the positions by the dtype of their arrays, or None where these differ in shape or dtype."""
    shapes = [*map(_shape, chain(*lists))]
    if shapes == shapes[: len(lists[0])] * len(lists) and len({*map(_dtype, chain(*lists))}) == 1:
        return {lists[0][0].dtype: []}
    groups: dict[Any, list[int]] = {}
    for position, (x, *ys) in enumerate(zip(*lists, strict=True)):
        fits = all(y.dtype is x.dtype and y.shape == x.shape for y in ys)
        groups.setdefault(x.dtype if fits else None, []).append(position)
    return groups
