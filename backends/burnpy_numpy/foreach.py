"""Operations on lists, such as updates of all parameters and norms of all gradients, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.foreach import Formula, no_results, widest
from burnpy_array.reduction import SAFE
from burnpy_numpy.foreach_blocks import NumPyForeachBlocks
from burnpy_numpy.kernels.kernel import family_kernels

Lists = Sequence[Sequence[Any]]
_dtype, _shape = attrgetter("dtype"), attrgetter("shape")
_COMBINE = {1.0: np.add, 2.0: np.add, np.inf: np.maximum}


class NumPyForeach(NumPyForeachBlocks):
    """Formulas of lists as kernels, at all sizes: NumPy's many calls take longer than the one of a kernel.

    The results of formulas are those of the other methods, bit for bit. Arrays of other dtypes than float32 and float64
    are left to these. Squares are added up in float64.
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
        if not lists[0]:
            return no_results(lists)
        kernels = None if skipped is not None else family_kernels("foreach")
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
        kernels = family_kernels("foreach")
        parts = None if kernels is None else kernels.run_norms(xs, p)
        for sums, starts, positions in parts or ():
            totals[positions] = _COMBINE[p].reduceat(sums, starts)
        if parts is None or not (p != 2 or _exact(totals[[k for k, x in enumerate(xs) if x.dtype is float64]])):
            return super().foreach_norm(xs, p)
        return self._call((np.sqrt(totals) if p == 2 else totals).astype, widest(xs))

    def total_norm(self, xs: Sequence[Any], p: float) -> Any:
        kernels = family_kernels("foreach")
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
