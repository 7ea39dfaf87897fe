"""Rough costs of recomputing results, in floating-point operations of a matrix product.

A float32 matrix product takes about 10 ps for each of its operations on one core of a CPU of 2024. An elementwise pass
over an array is limited by memory, and takes about as long as `PASS` such operations for each element; the numbers of
passes were measured there. On a GPU both are faster by about the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from burnpy.backend.entries import Operation
from burnpy.backend.schema import Algebra

PASS = 16
"""The cost of one pass, per element."""

Cost: TypeAlias = Callable[[Sequence[Any], int], int]
"""``(arguments, size) -> cost``: the cost of an operation on arrays whose result has ``size`` elements."""

_BY_ELEMENT = {
    **dict.fromkeys(("reshape", "permute", "expand", "slice", "mT"), 0),  # views as a rule
    **dict.fromkeys(("flip", "cat", "slice_scatter", "tril", "triu", "cast", "to_float"), 1),
    "center": 2,
    **dict.fromkeys(("relu", "relu_backward", "square", "maximum", "minimum", "clamp", "abs", "neg"), 1),
    **dict.fromkeys(("masked_scale", "index_select", "gather", "embedding"), 2),
    **dict.fromkeys(("where", "sigmoid"), 4),
    **dict.fromkeys(("rms_norm", "silu"), 5),
    **dict.fromkeys(("normalize", "softmax_backward", "log_softmax_backward"), 6),
    **dict.fromkeys(("softmax", "log_softmax", "silu_backward"), 7),
    **dict.fromkeys(("pow", "erf"), 9),
    **dict.fromkeys(("gelu", "softplus", "gelu_backward"), 12),
    "remainder": 100,
}
"""Passes over the result, for operations that differ from the default: 3 for a pointwise function, 1 for a sum."""
_BY_ARGUMENT = {
    **dict.fromkeys(("sum", "sum_to", "mean", "prod"), 1),
    **dict.fromkeys(("cumsum", "amax", "amin"), 2),
    **dict.fromkeys(("var", "std"), 4),
    "logsumexp": 6,
}
"""Passes over the first argument."""
_INNER = {"matmul": -1, "matmul_nt": -1, "matmul_tn": -2, "linear": -1}
"""The dimension of the first argument that a product sums over."""


def cost_of(op: Operation) -> Cost | None:
    """Return the cost function of an operation; None if its results should always be saved."""
    name = op.name
    if name in _INNER:
        dim = _INNER[name]
        return lambda args, size: 2 * size * args[0].shape[dim]
    if name == "conv2d":
        return _convolution
    if name in _BY_ARGUMENT:
        rate = PASS * _BY_ARGUMENT[name]
        return lambda args, size: rate * math.prod(args[0].shape)
    if name in _BY_ELEMENT:
        passes = _BY_ELEMENT[name]
    elif op.elementwise and any(op.float_results):
        passes = 3 if op.algebra is Algebra.POINTWISE else 1
    else:
        return None
    return lambda args, size: PASS * passes * size


def _convolution(args: Sequence[Any], size: int) -> int:
    return 2 * size * math.prod(args[1].shape[1:])  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints
