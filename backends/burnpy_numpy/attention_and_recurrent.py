"""Layers on whole sequences by kernels: attention, and recurrences, all of whose steps are computed in one call.

For sizes of attention that have no kernel, the softmax of the scores and its gradient are kernels on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
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


_MIN_HIDDEN = 4
"""The hidden size from which kernels are used."""


class NumPyRecurrent(ArrayBackend):
    """Recurrences and their gradients."""

    def recurrent_states(self, name: str, *args: Any) -> tuple[Any, ...]:
        x, hidden, *rest, lengths, reverse = args
        given = (x, hidden, *rest, None) if name == "lstm" else (x, hidden, None, *rest)
        kernel = _forward_kernel(name, given, lengths, reverse, False)
        if kernel is None:
            return super().recurrent_states(name, *args)
        states, cells, _ = self._call(kernel)
        return (states,) if cells is None else (states, cells)

    def lstm(self, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
        kernel = _forward_kernel("lstm", (x, hidden, cell, weight, None), lengths, reverse)
        if kernel is None:
            return super().lstm(x, hidden, cell, weight, lengths, reverse)
        states, cells, gates = self._call(kernel)
        return states, cells, gates

    def lstm_backward(
        self, grad: Any, grad_cells: Any, cell: Any, weight: Any, cells: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        given = (grad, grad_cells, None, cell, weight, None, cells, gates)
        kernel = _backward_kernel("lstm", given, lengths, reverse)
        if kernel is None:
            return super().lstm_backward(grad, grad_cells, cell, weight, cells, gates, lengths, reverse)
        grad_x, _, grad_hidden, grad_cell = self._call(kernel)
        return grad_x, grad_hidden, grad_cell

    def gru(self, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
        kernel = _forward_kernel("gru", (x, hidden, None, weight, bias), lengths, reverse)
        if kernel is None:
            return super().gru(x, hidden, weight, bias, lengths, reverse)
        states, _, gates = self._call(kernel)
        return states, gates

    def gru_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        kernel = _backward_kernel("gru", (grad, None, hidden, None, weight, states, None, gates), lengths, reverse)
        if kernel is None:
            return super().gru_backward(grad, hidden, weight, states, gates, lengths, reverse)
        grad_x, grad_products, grad_hidden, _ = self._call(kernel)
        return grad_x, grad_products, grad_hidden

    def rnn(self, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
        kernel = _forward_kernel("relu" if relu else "tanh", (x, hidden, None, weight, None), lengths, reverse)
        return super().rnn(x, hidden, weight, lengths, reverse, relu) if kernel is None else self._call(kernel)[0]

    def rnn_backward(
        self, grad: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool
    ) -> tuple[Any, Any]:
        given = (grad, None, None, None, weight, states, None, None)
        kernel = _backward_kernel("relu" if relu else "tanh", given, lengths, reverse)
        if kernel is None:
            return super().rnn_backward(grad, weight, states, lengths, reverse, relu)
        grad_x, _, grad_hidden, _ = self._call(kernel)
        return grad_x, grad_hidden


def _forward_kernel(
    kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool, keeps: bool = True
) -> Callable[[], Any] | None:
    """Return a function that computes the states, the cell states and, if it ``keeps`` them, the gates; None if kernels
    are not used. ``given`` are x, hidden, cell, weight and bias; None for those that the kind of recurrence does not
    have."""
    kernels = family_kernels("recurrent") if _suits((*given[0].shape[:2], given[1].shape[1]), given) else None
    return None if kernels is None else kernels.forward(kind, given, lengths, reverse, keeps)


def _backward_kernel(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool) -> Callable[[], Any] | None:
    """Return a function that computes the gradients of x, the products, hidden and cell; None without kernels.
    ``given`` are the gradients of states and cells; hidden, cell, weight, states, cells and gates."""
    kernels = family_kernels("recurrent") if _suits(given[0].shape, given) else None
    return None if kernels is None else kernels.backward(kind, given, lengths, reverse)


def _suits(shape: Shape, given: tuple[Any, ...]) -> bool:
    """Return whether kernels are used for arrays and hidden states of a shape. Some arrays may be None."""
    dtype = given[0].dtype
    if not (dtype is float32 or dtype is float64) or shape[2] < _MIN_HIDDEN or shape[0] == 0:
        return False
    return not [x for x in given if x is not None and x.dtype is not dtype]
