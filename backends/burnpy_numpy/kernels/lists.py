"""`CompiledLists`: operations on lists, such as updates of all parameters and norms of all gradients, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.lists import Formula, no_results, widest
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_array.reduction import SAFE
from burnpy_numpy.kernels.kernel import lookup

if TYPE_CHECKING:
    from burnpy_numpy.kernels.list_kernels import ListKernel

Lists = Sequence[Sequence[Any]]

_dtype, _shape, _size = attrgetter("dtype"), attrgetter("shape"), attrgetter("size")


class CompiledLists(ArrayBackend):
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
        if skipped is not None:  # which a device that waits for nothing has; this one does without the update
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        if len({*map(_dtype, chain(*lists))}) > 1:
            lists = [lists[0], *[self._like(xs, lists[0]) for xs in lists[1:]]]
        groups = _groups(lists)
        if len(groups) == 1:
            kernel = _kernel(formula, len(lists), len(numbers), next(iter(groups)), flags)
            if kernel is None:
                return super().foreach(formula, lists, numbers, flags, owned)
            return _computed(kernel, lists, numbers, owned)
        columns: list[list[Any]] = []
        for dtype, positions in groups.items():
            part = [[xs[k] for k in positions] for xs in lists]
            values = tuple([x[positions] if getattr(x, "ndim", 0) else x for x in numbers])
            kernel = _kernel(formula, len(lists), len(numbers), dtype, flags)
            if kernel is None:
                part_results = super().foreach(formula, part, values, flags, owned)
            else:
                part_results = _computed(kernel, part, values, owned)
            columns = columns or [[None] * len(lists[0]) for _ in part_results]
            for column, results in zip(columns, part_results, strict=True):
                for k, result in zip(positions, results, strict=True):
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
        parts = _partial_norms(xs, p)
        for sums, starts, positions in parts or ():
            totals[positions] = _COMBINE[p].reduceat(sums, starts)
        if parts is None or not (p != 2 or _exact(totals[[k for k, x in enumerate(xs) if x.dtype is float64]])):
            return super().foreach_norm(xs, p)
        return self._call((np.sqrt(totals) if p == 2 else totals).astype, widest(xs))

    def total_norm(self, xs: Sequence[Any], p: float) -> Any:
        parts = _partial_norms(xs, p)
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


_COMBINE = {1.0: np.add, 2.0: np.add, np.inf: np.maximum}
_POWERS = {1.0: "abs", 2.0: "square", np.inf: "max"}
"""The norms that are kernels, by p, with what their kernels add up or find."""

_found: dict[tuple[Any, ...], ListKernel | None] = lookup()


def _kernel(formula: Formula, arrays: int, numbers: int, dtype: Any, flags: tuple[bool, ...]) -> ListKernel | None:
    """Return the kernel of a formula; None if it has none, or kernels are off."""
    key = (formula, dtype, flags)
    try:
        return _found[key]
    except KeyError:
        kernel = None
        if _has_kernels(dtype):
            from burnpy_numpy.kernels.list_kernels import formula_kernel  # not imported before the first list

            kernel = formula_kernel(formula, arrays, numbers, dtype.name, flags)
        return _found.setdefault(key, kernel)


def _computed(kernel: ListKernel, lists: Lists, numbers: tuple[Any, ...], owned: bool) -> tuple[list[Any], ...]:
    """Return the results of a kernel. Those after the first are in the memory of states if they are owned."""
    count, given = len(lists[0]), [*chain(*lists)]
    arrays = _whole(given)
    outs: list[Any] = []
    for k, x in enumerate(arrays[:count] * kernel.results):
        state = arrays[k + count] if owned and count <= k < len(arrays) - count else None
        reused = state is not None and state is given[k + count] and state.flags.writeable
        outs.append(state if reused else np.empty(x.shape, x.dtype))
    both, starts = arrays + outs, range(0, len(arrays) + len(outs), count)
    columns = [both[k : k + count] for k in starts]
    ids = np.fromiter(map(id, chain(*zip(*columns, strict=True))), np.int64, len(both))
    kernel(ids, len(columns), tuple(map(_size, arrays[:count])), numbers)
    return tuple(columns[len(lists) :])


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


def _whole(xs: Sequence[Any]) -> list[Any]:
    """Return arrays whose elements lie side by side in order; copies of others, and of NumPy's scalars."""
    return [x if type(x) is np.ndarray and x.flags.c_contiguous else np.array(x, order="C") for x in xs]


def _partial_norms(xs: Sequence[Any], p: float) -> list[tuple[Any, Any, list[int]]] | None:
    """Return the sums or maxima of parts of arrays, the number of each array's first part, and the arrays' positions,
    for each dtype; None if there is no kernel."""
    if p not in _POWERS:
        return None
    from burnpy_numpy.kernels.list_kernels import norm_kernel, partial_norms

    full = [k for k, x in enumerate(xs) if x.size]
    arrays = [xs[k].astype(float32) if is_half(xs[k].dtype) else xs[k] for k in full]
    parts = []
    for dtype in dict.fromkeys([x.dtype for x in arrays]):
        kernel = norm_kernel(dtype.name, _POWERS[p])
        if kernel is None:
            return None
        own = _whole([x for x in arrays if x.dtype is dtype])
        positions = [k for k, x in zip(full, arrays, strict=True) if x.dtype is dtype]
        parts.append((*partial_norms(kernel, own), positions))
    return parts
