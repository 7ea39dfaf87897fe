"""The cost of an operation, computed from the shapes and dtypes of its arguments and results alone.

Floating point operations (FLOPs) are those of the operation's declaration: see `burnpy.backend.schema.Flops`; those of
a formula of lists are the sum over its operations. A matrix product of (m, k) and (k, n) has 2 m n k, a multiplication
and an addition each (Golub and Van Loan, Matrix Computations, 1.1.15; PyTorch's ``torch.utils.flop_counter`` counts the
same).

Bytes are those of the arguments, read once, and of the results, written once; of an argument that is accessed at an
index, those of the accessed elements; for operations that may return a view, 0. Caches and temporaries of a backend are
not taken into account.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from burnpy.backend.entries import Operation
from burnpy.backend.primitives import DType, Shape

Meta: TypeAlias = tuple[Shape, DType]
Metas: TypeAlias = tuple[tuple[Meta, ...], ...]
"""Shape and dtype of the primitives of each argument or result: none of a number, several of a sequence."""


class Cost(NamedTuple):
    """The cost of one call."""

    bytes: int
    flops: int


def cost(op: Operation, arguments: Metas, results: Metas) -> Cost:
    """Return the cost of one call from the shapes and dtypes of its arguments and results, in order.

    >>> import numpy as np
    >>> from burnpy.backend import operations
    >>> x, y = ((2, 3), np.dtype("float32")), ((3, 4), np.dtype("float32"))
    >>> cost(operations()["matmul"], ((x,), (y,)), ((((2, 4), np.dtype("float32")),),))
    Cost(bytes=104, flops=48)
    """
    shapes = [metas[0][0] if len(metas) == 1 else None for metas in arguments]
    return Cost(_bytes(op, arguments, results), sum(op.flops(shapes, shape) for shape, _ in results[0]))


def _bytes(op: Operation, arguments: Metas, results: Metas) -> int:
    if op.view is not None:
        return 0
    sizes = {a.name: sum(map(_size, metas)) for a, metas in zip(op.arguments, arguments, strict=True)}
    written = sum(_size(meta) for metas in results for meta in metas)
    if op.indexed is None:
        return sum(sizes.values()) + written
    others = sum(sizes.values()) - sizes[op.indexed]
    if op.indexed not in op.consumes:
        return others + 2 * written
    # Only the elements that have a counterpart in the last float argument are read, and written.
    last = [a.name for a in op.float_arguments if a.name != op.indexed][-1]
    return others + 2 * sizes[last]


def _size(meta: Meta) -> int:
    return math.prod(meta[0]) * meta[1].itemsize
