"""Attention by kernels; of sizes that have none, the softmax of the scores and its gradient are kernels on rows."""

from __future__ import annotations

from typing import Any

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
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
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
