"""Attention by kernels; of sizes that have none, the softmax of the scores and its gradient are kernels on rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import LEAST, family_kernels
from burnpy_numpy.programs import row_plan


class NumPyAttention(ArrayBackend):
    """Attention and its gradients by kernels of templates; of sizes that have none, by kernels on rows of scores."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        if q.size * k.shape[-2] >= LEAST * q.shape[-1] and (kernels := family_kernels("attention")):
            results: tuple[Any, Any] | None = kernels.run_attention(q, k, v, mask, offset, scale)
            if results is not None:
                return results
        return super().attention(q, k, v, mask, offset, scale)

    def attention_backward(
        self, grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
    ) -> tuple[Any, Any, Any]:
        if q.size * k.shape[-2] >= LEAST * q.shape[-1] and (kernels := family_kernels("attention")):
            results: tuple[Any, Any, Any] | None = kernels.run_attention_backward(
                grad, q, k, v, logsumexp, mask, offset, scale
            )
            if results is not None:
                return results
        return super().attention_backward(grad, q, k, v, out, logsumexp, mask, offset, scale)

    def _attention_weights(self, scores: Any) -> tuple[Any, Any, Any]:
        shape = scores.shape
        plan = row_plan(("attention_weights", ("full",), (), (2,), shape, scores.dtype))
        if plan is None:
            return super()._attention_weights(scores)
        kernel, rows, columns, small = plan
        weights, sums, logs = kernel.outputs((scores,), (shape, small, small), rows, columns)
        return weights, sums, logs

    def _attention_weights_again(self, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
        shapes, dtypes = (scores.shape, logsumexp.shape), (scores.dtype, logsumexp.dtype)
        plan = row_plan(("attention_weights_again", ("full", "column"), (), (2,), *shapes, *dtypes))
        if plan is None:
            return super()._attention_weights_again(scores, logsumexp)
        kernel, rows, columns, small = plan
        weights, sums = kernel.outputs((scores, logsumexp), (shapes[0], small), rows, columns)
        return weights, sums

    def _attention_scores_gradient(self, grad: Any, weights: Any, sums: Any) -> Any:
        shapes, dtypes = (grad.shape, weights.shape, sums.shape), (grad.dtype, weights.dtype, sums.dtype)
        extents = ("full", "full", "column")
        plan = row_plan(("attention_scores_gradient", extents, (), (2,), *shapes, *dtypes))
        if plan is None:
            return super()._attention_scores_gradient(grad, weights, sums)
        return plan[0].outputs((grad, weights, sums), (shapes[0],), plan[1], plan[2])[0]


def empty_like(x: Any, shape: Shape) -> Any:
    """Return memory for an array, in which heads lie within positions if they do so in ``x``."""
    if x.ndim > 2 and x.strides[-3] < x.strides[-2]:
        *lead, heads, count, size = shape
        return np.empty((*lead, count, heads, size), x.dtype).swapaxes(-3, -2)
    return np.empty(shape, x.dtype)


def gradients_like(q: Any, k: Any, v: Any) -> Sequence[Any]:
    """Return memory for the gradients: side by side, which `cat` joins without a copy, if q, k and v are heads so."""
    xs, base = (q, k, v), q.base
    if q.ndim > 2 and base is not None and all(x.base is base and x.strides == q.strides for x in xs):
        first, second, _ = heads = [x.shape[-3] for x in xs]
        starts, step = [x.__array_interface__["data"][0] for x in xs], q.strides[-3]
        beside = starts[1] - starts[0] == first * step and starts[2] - starts[1] == second * step
        if beside and all((*x.shape[:-3], *x.shape[-2:]) == (*q.shape[:-3], *q.shape[-2:]) for x in xs):
            whole = empty_like(q, (*q.shape[:-3], sum(heads), *q.shape[-2:]))
            ends = (0, first, first + second, None)
            return [whole[..., begin:end, :, :] for begin, end in pairwise(ends)]
    return [empty_like(x, x.shape) for x in xs]
