"""Attention by kernels; of sizes that have none, the softmax of the scores and its gradient are kernels on rows."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import LEAST, LONGEST, family_kernels, operation_kernel


class NumPyAttention(ArrayBackend):
    """Attention and its gradients by kernels of templates; of sizes that have none, by kernels on rows of scores."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        if q.size * k.shape[-2] >= LEAST * q.shape[-1] and (kernels := family_kernels("attention")):
            results: tuple[Any, Any] | None = kernels.run_attention(q, k, v, mask, offset, scale)
            if results is not None:
                return results
        return super().attention(q, k, v, mask, offset, scale)

    def attention_backward(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
    ) -> tuple[Any, Any, Any]:
        if q.size * k.shape[-2] >= LEAST * q.shape[-1] and (kernels := family_kernels("attention_backward")):
            results: tuple[Any, Any, Any] | None = kernels.run_attention_backward(
                grad, q, k, v, logsumexp, mask, offset, scale
            )
            if results is not None:
                return results
        return super().attention_backward(grad, q, k, v, logsumexp, mask, offset, scale)

    def _attention_weights(self, scores: Any) -> tuple[Any, Any, Any]:
        kernel = _row_kernel("attention_weights", ("full",), scores)
        if kernel is None:
            return super()._attention_weights(scores)
        heads, queries, keys = scores.shape
        weights, sums, logs = kernel([scores], (), heads * queries, keys)
        small = (heads, queries, 1)
        return weights.reshape(scores.shape), sums.reshape(small), logs.reshape(small)

    def _attention_weights_again(self, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
        kernel = _row_kernel("attention_weights_again", ("full", "column"), scores, logsumexp)
        if kernel is None:
            return super()._attention_weights_again(scores, logsumexp)
        heads, queries, keys = scores.shape
        weights, sums = kernel([scores, logsumexp], (), heads * queries, keys)
        return weights.reshape(scores.shape), sums.reshape((heads, queries, 1))

    def _attention_scores_gradient(self, grad: Any, weights: Any, sums: Any) -> Any:
        kernel = _row_kernel("attention_scores_gradient", ("full", "full", "column"), grad, weights, sums)
        if kernel is None:
            return super()._attention_scores_gradient(grad, weights, sums)
        heads, queries, keys = grad.shape
        (out,) = kernel([grad, weights, sums], (), heads * queries, keys)
        return out.reshape(grad.shape)


def _row_kernel(name: str, extents: tuple[str, ...], scores: Any, *others: Any) -> Any:
    """Return a kernel on the rows of scores, which are (heads, queries, keys), if large and of a usual dtype."""
    dtype = scores.dtype
    if scores.size < LEAST or scores.shape[2] > LONGEST or (dtype is not float32 and dtype is not float64):
        return None
    if any(x.dtype is not dtype for x in others):
        return None
    return operation_kernel(name, extents, scores.dtype, ())
