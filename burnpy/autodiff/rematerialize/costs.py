"""Costs of recomputing results, in floating point operations (FLOPs) of a matrix product.

A float32 matrix product takes about 10 ps for each of its FLOPs on one core of a CPU of 2024. Other operations are
limited by memory: each of their FLOPs, as `burnpy.backend.schema.Flops` counts them, takes about as long as `PASS` of a
product, and so does an element that is only moved. On a GPU both are faster by about the same factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from burnpy.backend.entries import Operation
from burnpy.backend.primitives import Shape
from burnpy.backend.schema import Algebra

PASS = 16
"""The cost of a FLOP outside of a product, or of moving an element."""

Cost: TypeAlias = Callable[[Sequence[Any], Shape], int]
"""``(arguments, shape) -> cost``: the cost of a call with these arguments and the shape of its (first) result."""


def cost_of(op: Operation) -> Cost | None:
    """Return the cost function of an operation; None if its results must be saved.

    Results must be saved if a second call would not return them again, as for random numbers; if the arguments may have
    been overwritten; and if they are constants, which have no gradient.
    """
    if not any(op.float_results) or op.consumes or (op.algebra is Algebra.NONDIFFERENTIABLE and not op.elementwise):
        return None
    if op.view is not None:
        return lambda args, shape: 0
    counts = op.counts
    if isinstance(counts, int):
        rate = PASS * max(counts, 1)
        return lambda args, shape: rate * prod(shape)
    formula, positions = counts, op.flops_positions

    def flops(args: Sequence[Any], shape: Shape) -> int:
        return formula(*[shape if k is None else args[k].shape for k in positions])

    return flops if op.product else lambda args, shape: PASS * max(flops(args, shape), prod(shape))
