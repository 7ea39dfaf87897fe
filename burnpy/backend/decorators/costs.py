"""The cost of an operation, computed from the shapes and dtypes of its arguments and results alone.

Floating point operations (FLOPs) are counted as follows:

- a matrix product of (m, k) and (k, n): 2 m n k, a multiplication and an addition each (Golub and Van Loan, Matrix
  Computations, 1.1.15; PyTorch's ``torch.utils.flop_counter`` counts the same);
- a convolution, and its gradients: as the matrix product of its windows and its weight;
- pointwise operations, comparisons and selections: 1 for each element of the result, be it an addition or a GELU, as
  XLA's ``HloCostAnalysis`` counts an elementwise instruction;
- a reduction: 1 for each element of the argument; a composition such as softmax: 1 for each step of its definition;
- additions and reductions at indices: 1 for each element added;
- operations that only move, create or convert elements: 0.

Bytes are those of the arguments, read once, and of the results, written once; for indexing, those of the elements read
and written; for operations that may return a view, 0. Caches and temporaries of a backend are not taken into account.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from burnpy.backend.entries import Operation
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.schema import Algebra

Meta: TypeAlias = tuple[Shape, DType]


class Cost(NamedTuple):
    """The cost of one call."""

    bytes: int
    flops: int


_STEPS = {
    **dict.fromkeys(("sum", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "cumsum"), 1),
    **dict.fromkeys(("mean", "max_dim", "min_dim"), 1),
    "center": 2,
    **dict.fromkeys(("var", "std", "logsumexp", "softmax_backward"), 4),
    **dict.fromkeys(("softmax", "log_softmax"), 5),
    **dict.fromkeys(("cross_entropy", "rms_norm"), 6),
    **dict.fromkeys(("max_pool2d", "max_pool2d_indices", "avg_pool2d", "avg_pool2d_backward", "masked_scale"), 1),
    **dict.fromkeys(("adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"), 1),
    **dict.fromkeys(("log_softmax_backward", "cross_entropy_backward"), 4),
    "normalize": 8,
    "normalize_backward": 13,
    "rms_norm_backward": 11,
    "sgd_update": 2,
    "momentum_update": 5,
    "adam_update": 13,
    "amsgrad_update": 14,
    "rmsprop_update": 8,
    "rmsprop_momentum_update": 13,
    "adagrad_update": 7,
}
"""FLOPs for each element of the argument; for softmax: maximum, difference, exp, sum, quotient."""
_COMPARING = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "floor_divide", "where"))
_BITWISE = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"))
_ADDING = frozenset(("index_add", "index_reduce", "scatter_add", "accumulate_slice", "accumulate_index"))
_VIEWS = frozenset(("reshape", "permute", "expand", "slice", "mT", "flip", "detach", "adopt_numpy"))
_PICKING = frozenset(("index_select", "gather", "embedding"))
_PLACING = frozenset(("accumulate_slice", "accumulate_index"))


def cost(op: Operation, arguments: tuple[Meta, ...], results: tuple[Meta, ...]) -> Cost:
    """Return the cost of one call from the shapes and dtypes of its primitive arguments and results, in order.

    >>> import numpy as np
    >>> from burnpy.backend import operations
    >>> x, y = ((2, 3), np.dtype("float32")), ((3, 4), np.dtype("float32"))
    >>> cost(operations()["matmul"], (x, y), (((2, 4), np.dtype("float32")),))
    Cost(bytes=104, flops=48)
    """
    return Cost(_bytes(op, arguments, results), _flops(op, arguments, results))


def _size(meta: Meta) -> int:
    return math.prod(meta[0]) * meta[1].itemsize


def _bytes(op: Operation, arguments: tuple[Meta, ...], results: tuple[Meta, ...]) -> int:
    if op.name in _VIEWS:
        return 0
    if op.name in _PICKING:
        return 2 * _size(results[0]) + _size(arguments[-1])
    if op.name in _PLACING:
        return 3 * _size(arguments[-1]) + sum(map(_size, arguments[1:-1]))
    return sum(map(_size, arguments)) + sum(map(_size, results))


def _flops(op: Operation, arguments: tuple[Meta, ...], results: tuple[Meta, ...]) -> int:
    name = op.name
    if name in ("matmul", "matmul_nt", "matmul_tn"):
        return 2 * math.prod(results[0][0]) * arguments[0][0][-2 if name == "matmul_tn" else -1]
    if name == "linear":
        return math.prod(results[0][0]) * (2 * arguments[0][0][-1] + 1)
    if name in ("attention", "attention_backward"):
        return _attention_flops(name, arguments)
    if name == "embedding_backward":
        return math.prod(arguments[0][0])
    if name == "embedding":
        return 0
    if name.startswith("conv2d"):
        return _convolution_flops(name, arguments, results)
    if name in _STEPS:
        lists = sum(a.sequence for a in op.arguments) or len(arguments)
        counted = arguments[: len(arguments) // lists]  # the first argument, or the members of the first list
        return _STEPS[name] * sum(math.prod(shape) for shape, _ in counted)
    if name in _ADDING:
        return math.prod(arguments[-1][0])
    if name == "sum_to":
        return math.prod(arguments[0][0]) if arguments[0][0] != results[0][0] else 0
    if op.elementwise or name in _COMPARING or name in _BITWISE or (op.algebra is Algebra.GENERAL and results):
        return math.prod(results[0][0])
    return 0


def _attention_flops(name: str, arguments: tuple[Meta, ...]) -> int:
    """FLOPs of attention: two products and a softmax for each query and key; of its backward, five products."""
    q, k, v = arguments[:3] if name == "attention" else arguments[1:4]
    pairs, by_key, by_value = math.prod(q[0][:-1]) * k[0][-2], 2 * k[0][-1], 2 * v[0][-1]
    return pairs * (by_key + by_value + 6 if name == "attention" else 3 * by_key + 2 * by_value + 6)


def _convolution_flops(name: str, arguments: tuple[Meta, ...], results: tuple[Meta, ...]) -> int:
    """FLOPs of a convolution (x, weight, …) or of a gradient of one (grad, weight or x): 2 per window and weight."""
    out, weight = (results[0], arguments[1]) if name in ("conv2d", "conv2d_bias") else (arguments[0], arguments[1])
    if name == "conv2d_weight":
        weight = results[0]
    n, _, *counts = out[0]
    added = math.prod(out[0]) if name == "conv2d_bias" else 0
    return 2 * n * math.prod(counts) * math.prod(weight[0]) + added
