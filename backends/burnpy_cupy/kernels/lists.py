"""`CompiledLists`: operations on lists, such as updates of all parameters and norms of gradients, in few launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from burnpy.backend.dtypes import dtype_of, float64
from burnpy.backend.operations.lists import Formula, no_results, widest
from burnpy.backend.primitives import DType
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.launch import kernels_enabled, ran
from burnpy_cupy.kernels.list_kernels import (
    FormulaKernel,
    batches,
    each_norm,
    formula_kernel,
    norm_kernels,
    partial_norms,
    total_norm,
)

Lists = Sequence[Sequence[Any]]


class CompiledLists(ArrayBackend):
    """A formula of lists is one launch for each dtype and some 40 to 160 arrays; a norm is one more.

    Arrays that are not C-contiguous are copied first. 16-bit floats are computed in float32, powers added up in
    float64.
    """

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
        groups: dict[tuple[DType, ...], list[int]] = {}
        for position, row in enumerate(zip(*lists, strict=True)):
            groups.setdefault(tuple([x.dtype for x in row]), []).append(position)
        if not groups:
            return no_results(lists)
        gated = skipped is not None
        held = tuple(["" if isinstance(number, (int, float)) else number.dtype.name for number in numbers])
        columns: list[list[Any]] = []
        for dtypes, positions in groups.items():
            kernel = None
            if not is_half(dtypes[0]) or len(set(dtypes)) == 1:
                names = tuple([dtype.name for dtype in dtypes])
                kernel = formula_kernel(self.xp, formula, names, held, flags, gated)
            part = [[xs[k] for k in positions] for xs in lists]
            if kernel is None:
                values = tuple([x if not h or not x.ndim else x[positions] for h, x in zip(held, numbers, strict=True)])
                part_results = super().foreach(formula, part, values, flags, owned, skipped)
            else:
                part_results = self._call(_computed, self.xp, kernel, part, positions, numbers, owned, skipped)
            columns = columns or [[None] * len(lists[0]) for _ in part_results]
            for column, results in zip(columns, part_results, strict=True):
                for k, result in zip(positions, results, strict=True):
                    column[k] = result
        return tuple(columns)

    def foreach_cast(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        if not kernels_enabled():
            return super().foreach_cast(xs, dtype)
        return self.foreach(_cast_to(dtype.name), (xs,))[0]

    def foreach_norm(self, xs: Sequence[Any], p: float) -> Any:
        if p not in (1, 2, math.inf) or not kernels_enabled():
            return super().foreach_norm(xs, p)
        return self._call(_norms, self.xp, xs, float(p), True)

    def total_norm(self, xs: Sequence[Any], p: float) -> Any:
        if p not in (1, 2, math.inf) or not kernels_enabled():
            return super().total_norm(xs, p)
        return self._call(_norms, self.xp, xs, float(p), False)


@cache
def _cast_to(dtype: str) -> Formula:
    """Return the formula that converts to a dtype."""

    def cast_each(b: Any, x: Any) -> tuple[Any]:
        return (b.cast(x, dtype_of(dtype)),)

    return cast_each


def _computed(
    xp: Any,
    kernel: FormulaKernel,
    lists: Lists,
    positions: Sequence[int],
    numbers: tuple[Any, ...],
    owned: bool,
    skipped: Any,
) -> tuple[list[Any], ...]:
    """Return the results of a kernel. Those after the first are in the memory of states if they are owned.

    The lists have the members at some positions alone; an array of numbers has one for all positions.
    """
    arrays = [_contiguous(xp, xs) for xs in lists]
    program = kernel.program
    outs: list[list[Any]] = []
    for k, dtype in enumerate([dtype_of(program.instructions[k].dtype) for k in program.outputs]):
        at = k + 1 if owned and 0 < k < len(lists) - 1 else 0  # of the list whose memory may be used; 0 if of none
        pairs = zip(lists[at], arrays[at], strict=True)
        outs.append([y if at and x is y and x.dtype is dtype else xp.empty(x.shape, dtype) for x, y in pairs])
    values: list[Any] = [] if skipped is None else [skipped]
    for number in numbers:
        if isinstance(number, (int, float)):
            values.append(float(number))
        else:
            values += [number, number.strides[0] // number.itemsize if number.ndim else 0]
    for batch in batches([*arrays, *outs], positions):
        kernel.launch(batch, values)
        ran(kernel)
    return tuple(outs)


def _norms(xp: Any, xs: Sequence[Any], p: float, each: bool) -> Any:
    """Return the norm of each array, or the norm of all."""
    result = widest(xs)
    groups: dict[Any, list[int]] = {}
    for k, x in enumerate(xs):
        if x.size:
            groups.setdefault(x.dtype, []).append(k)
    arrays = _contiguous(xp, xs)
    launches = []
    for dtype, positions in groups.items():
        kernels = norm_kernels(xp, p, dtype.name, result.name)
        launches.append((kernels, batches([[arrays[k] for k in positions]], positions)))
    counts = [sum([batch.parts for batch in tables]) for _, tables in launches]
    parts = xp.empty((3 * sum(counts),), float64)
    out = xp.zeros((len(xs),), result) if each or not groups else xp.empty((), result)
    start = 0
    for (kernels, tables), count in zip(launches, counts, strict=True):
        own = parts[3 * start : 3 * (start + count)]
        partial_norms(kernels, tables, own)
        if each:
            each_norm(kernels, tables, own, out)
        start += count
    if each:
        return out
    if not groups:
        return xp.zeros((), result)
    total_norm(launches[0][0], parts, out)
    return out


def _contiguous(xp: Any, xs: Sequence[Any]) -> list[Any]:
    return [x if x.flags.c_contiguous else xp.ascontiguousarray(x) for x in xs]
