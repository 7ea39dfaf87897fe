"""Normalizations over the last dims and their gradients as steps of programs, with one value for each row and column.

Where the squares of a row overflow, the result is NaN: as an operation, they are computed again from scaled numbers.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.plans.recording import Node, Ref, refs_in

ROW_NORMS = {"normalize": (1, 2), "normalize_backward": (2, 1), "rms_norm": (1, 1), "rms_norm_backward": (2, 1)}
"""The operations, with the numbers of their first arguments, of x's shape, and of the next ones, of the weight's."""


def norm_split(node: Node, longest: int) -> int | None:
    """Return the number of dims before those that a node normalizes; None without a weight for each element of these.

    Args:
        node: a node of one of `ROW_NORMS`.
        longest: the most elements of a row.
    """
    full, row = ROW_NORMS[node.name]
    refs, dims = [*refs_in(node.args)], tuple(node.args[-2])
    shape, dtype, first = refs[0].shape, refs[0].dtype, dims[0]
    last = shape[first:]
    shapes = [shape] * full + [last] * row + [(*shape[:first], *(1,) * len(last))] * (len(refs) - full - row)
    if dtype not in (float32, float64) or any(ref.dtype != dtype for ref in refs) or 0 in shape:
        return None
    fits = dims == tuple(range(first, len(shape))) and [ref.shape for ref in refs] == shapes
    return first if fits and first > 0 and 1 < math.prod(last) <= longest else None


def sums_of(node: Node) -> list[Ref]:
    """Return the results of a node of `ROW_NORMS` that are sums over rows: the gradients by weight and bias."""
    return [*refs_in(node.results)][1:] if node.name.endswith("backward") else []


def normalized(t: Any, node: Node, args: list[Any]) -> Any:
    """Return the symbols of the results of a node of `ROW_NORMS`, given a tracer and the symbols of its arguments."""
    full, row = ROW_NORMS[node.name]
    values = args[:-2]  # expanded, as one may be a number that is repeated, and its gradient has its shape
    shapes = [(t.rows, t.columns)] * full + [(1, t.columns)] * row + [(t.rows, 1)] * (len(values) - full - row)
    whole = [t.expand(x, shape) for x, shape in zip(values, shapes, strict=True)]
    return getattr(t, node.name)(*whole, (1,), args[-1])
