"""Convolution with windows of one element, without padding and groups: products of the weight and each member of x.

Nothing is laid out anew but the elements that a stride selects.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.operations.windows import Pair
from burnpy.backend.primitives import Shape
from burnpy_array.base import in_order
from burnpy_numpy.dense import MULTIPLICATIONS_PER_ELEMENT
from burnpy_numpy.threads import shared


def pointwise_convolution(x: Any, weight: Any, bias: Any, stride: Pair) -> Any:
    """Return the convolution of x (N, C, H, W) and weight (O, C, 1, 1) plus a bias (O,), which may be None."""
    matrix = weight.reshape(weight.shape[:2])
    x = x[:, :, :: stride[0], :: stride[1]]
    members = _planes(x)
    out = np.empty((len(x), len(matrix), members.shape[2]), x.dtype)

    def work(begin: int, end: int) -> None:
        part = out[begin:end]
        np.matmul(matrix, members[begin:end], part)
        if bias is not None:
            np.add(part, bias[:, None], part)

    _shared(work, out, matrix.shape[1])
    return out.reshape((*out.shape[:2], *x.shape[2:]))


def pointwise_input_gradient(grad: Any, weight: Any, shape: Shape, stride: Pair) -> Any:
    """Return the gradient by x of a shape."""
    matrix, grads = weight.reshape(weight.shape[:2]).T, _planes(grad)
    out = np.empty((len(grad), len(matrix), grads.shape[2]), grad.dtype)
    _shared(lambda begin, end: np.matmul(matrix, grads[begin:end], out[begin:end]), out, matrix.shape[1])
    out = out.reshape((*out.shape[:2], *grad.shape[2:]))
    if stride == (1, 1):
        return out
    total = np.zeros(shape, grad.dtype)
    total[:, :, :: stride[0], :: stride[1]] = out
    return total


def pointwise_weight_gradient(grad: Any, x: Any, shape: Shape, stride: Pair) -> Any:
    """Return the gradient by the weight, whose shape is given."""
    grads, members = _planes(grad), _planes(x[:, :, :: stride[0], :: stride[1]])
    totals: dict[int, Any] = {}

    def work(begin: int, end: int) -> None:
        total = totals[begin] = np.zeros(shape[:2], grad.dtype)
        part = np.empty_like(total)
        for g, member in zip(grads[begin:end], members[begin:end], strict=True):
            np.add(total, np.dot(g, member.T, part), total)

    _shared(work, grads, shape[1])
    return in_order(totals).reshape(shape)


def _planes(x: Any) -> Any:
    """Return x with its planes as rows."""
    return np.ascontiguousarray(x).reshape((*x.shape[:2], -1))


def _shared(work: Any, x: Any, products: int) -> None:
    """Do the work for all members of x; each element takes the given number of products."""
    shared(work, len(x), x[0].size * products / MULTIPLICATIONS_PER_ELEMENT, products=True)
