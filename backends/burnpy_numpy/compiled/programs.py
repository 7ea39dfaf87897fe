"""Parts of operations as functions of a backend and of rows, from which programs are traced."""

from __future__ import annotations

from typing import Any


def attention_weights(b: Any, scores: Any) -> tuple[Any, Any, Any]:
    """The weights before they are divided by their sums, the sums, and the logsumexps; see `burnpy_array.attention`."""
    largest = b.amax(scores, (1,), True)
    shift = b.where(b.isfinite(largest), largest, 0.0)
    weights = b.exp(b.sub(scores, shift))
    sums = _sums(b, weights)
    return weights, sums, b.add(b.log(sums), shift)


def attention_weights_again(b: Any, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
    """The weights and their sums of scores with known logsumexps."""
    weights = b.exp(b.sub(scores, logsumexp))
    return weights, _sums(b, weights)


def attention_scores_gradient(b: Any, grad: Any, weights: Any, sums: Any) -> Any:
    """The gradient by the scores of that by the weights."""
    product = b.mul(grad, weights)
    return b.sub(product, b.mul(weights, b.div(b.sum(product, (1,), True), sums)))


def _sums(b: Any, weights: Any) -> Any:
    """The sums of the weights; 1 for a query that attends to nothing."""
    sums = b.sum(weights, (1,), True)
    return b.where(b.ne(sums, 0.0), sums, 1.0)


def cross_entropy_weights(b: Any, grad: Any, x: Any, logsumexp: Any) -> Any:
    """The gradient of the cross entropy but for the targets: grad · softmax(x).

    The weights are divided by their sum, as the rounding of logsumexp keeps that from being 1.
    """
    e = b.exp(b.sub(x, logsumexp))
    return b.mul(e, b.div(grad, b.sum(e, (1,), True)))


def sum_of_squares(b: Any, x: Any) -> Any:
    """The sum of the squares of each row."""
    return b.sum(b.square(x), (1,), True)


def clamped(b: Any, x: Any, low: Any, high: Any) -> Any:
    """x within bounds, which are numbers, so that one kernel serves all of them."""
    return b.minimum(b.maximum(x, low), high)
