"""Losses: cross entropy by kernels, and connectionist temporal classification.

The latter is a kernel, or some calls of NumPy for each time step, of all sequences at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.losses import IMPOSSIBLE
from burnpy.backend.primitives import DType
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import family_kernels
from burnpy_numpy.programs import row_plan
from burnpy_numpy.reduction import FEW, row

_PICKED, _PICKED_BACKWARD = ("full", "index"), ("column", "full", "column", "index")


class NumPyLosses(ArrayBackend):
    """Cross entropy, and the loss of CTC and its gradient, whose recursions over time are one loop over both."""

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        shape = index.shape
        plan = row_plan(("cross_entropy", _PICKED, (1,), (dim,), x.shape, shape, x.dtype, index.dtype))
        if plan is None:
            return super().cross_entropy(x, index, dim)
        kernel, rows, columns, small = plan
        losses, total = kernel.outputs((x, index), (shape, small), rows, columns)
        return losses, total

    def mean_cross_entropy(self, x: Any, index: Any, counted: Any, dim: int) -> tuple[Any, Any]:
        n, dtype = index.size, x.dtype
        few = counted is None and index.ndim == 1 and 0 < n < FEW and (dtype is float32 or dtype is float64)
        key = "cross_entropy", _PICKED, (1,), (dim,), x.shape, index.shape, dtype, index.dtype
        plan = row_plan(key) if few else None
        if plan is None:
            return super().mean_cross_entropy(x, index, counted, dim)
        kernel, rows, columns, small = plan
        losses, total = kernel.outputs((x, index), (index.shape, small), rows, columns)
        return losses.dot(row(1, n, dtype)) / n, total  # as `mean` computes it, with fewer calls

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        shapes = (grad.shape, shape := x.shape, logsumexp.shape, index.shape)
        dtypes = (grad.dtype, x.dtype, logsumexp.dtype, index.dtype)
        plan = row_plan(("cross_entropy_gradient", _PICKED_BACKWARD, (), (dim,), *shapes, *dtypes))
        if plan is None:
            return super().cross_entropy_backward(grad, x, logsumexp, index, dim)
        return plan[0].outputs((grad, x, logsumexp, index), (shape,), plan[1], plan[2])[0]

    def mean_cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, counted: Any, dim: int) -> Any:
        if counted is not None or not index.size or not (x.dtype is float32 or x.dtype is float64):
            return super().mean_cross_entropy_backward(grad, x, logsumexp, index, counted, dim)
        # An array of its own: a kernel would refuse a view, and be called twice.
        each = np.empty(index.shape, x.dtype)  # and `numpy.full` takes twice as long
        each.fill(grad * (1 / index.size))
        return self.cross_entropy_backward(each, x, logsumexp, index, dim)

    def ctc_loss(self, log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
        if 0 in log_p.shape or log_p.dtype not in (float32, float64):
            return super().ctc_loss(log_p, labels, steps, lengths, blank)
        return self._call(_losses, log_p, labels, steps, lengths, blank)

    def ctc_loss_backward(self, grad: Any, log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
        if 0 in log_p.shape or log_p.dtype not in (float32, float64):
            return super().ctc_loss_backward(grad, log_p, labels, steps, lengths, blank)
        return self._call(_gradient, grad, log_p, labels, steps, lengths, blank)


def _states(labels: Any, blank: int, dtype: DType) -> tuple[Any, Any]:
    """Return the class of each state, (batch, states), and whether the one before may be skipped.

    Further states, of blanks, make their number a multiple of a vector's length: none goes back from them.
    """
    (n, s), kernels = labels.shape, family_kernels("scans_and_losses")
    width = 1 if kernels is None else kernels.vector_width(dtype)
    states = np.full((n, -(-(2 * s + 1) // width) * width), blank, labels.dtype)
    states[:, 1 : 2 * s : 2] = labels
    return states, _skips(states, blank)


def _skips(states: Any, blank: int) -> Any:
    skips = np.zeros(states.shape, np.bool_)
    skips[:, 2:] = (states[:, 2:] != states[:, :-2]) & (states[:, 2:] != blank)
    return skips


def _emitted(log_p: Any, states: Any) -> Any:
    """Return the log probability of each state at each step, (time, batch, states)."""
    rows = log_p.reshape((len(log_p), -1))
    places = states + np.arange(len(states))[:, None] * log_p.shape[2]
    return np.maximum(rows.take(places.reshape(-1), 1).reshape((len(log_p), *states.shape)), IMPOSSIBLE)


def _recursion(emitted: Any, skips: Any, kept: Any) -> None:
    """Write the log probabilities of the states after each step to ``kept``, (time, batch, 2 + states)."""
    kept[0] = kept[:, :, :2] = IMPOSSIBLE
    kept[0, :, 2:4] = emitted[0, :, :2]
    kernels = family_kernels("scans_and_losses")
    if kernels is not None and kernels.run_recursion(emitted, skips, kept):
        return
    for before, after, emission in zip(kept, kept[1:], emitted[1:], strict=False):
        stay, further, skipped = before[:, 2:], before[:, 1:-1], np.where(skips, before[:, :-2], IMPOSSIBLE)
        largest = np.maximum(np.maximum(stay, further), skipped)
        total = np.exp(stay - largest) + np.exp(further - largest) + np.exp(skipped - largest)
        np.add(np.log(total), largest + emission, after[:, 2:])


def _totals(kept: Any, steps: Any, lengths: Any) -> Any:
    """Return the log probability of the labels of each sequence."""
    n = np.arange(len(steps))
    last = kept[np.maximum(steps, 1) - 1, n]
    label = np.where(lengths > 0, last[n, 2 * lengths + 1], IMPOSSIBLE)
    return np.where(steps > 0, np.logaddexp(last[n, 2 * lengths + 2], label), IMPOSSIBLE)


def _losses(log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    states, skips = _states(labels, blank, log_p.dtype)
    emitted = _emitted(log_p, states)
    kept = np.empty((*emitted.shape[:2], emitted.shape[2] + 2), log_p.dtype)
    _recursion(emitted, skips, kept)
    total = _totals(kept, steps, lengths)
    losses = np.where(total <= IMPOSSIBLE / 2, np.inf, -total)  # NaN stays
    return np.where((steps == 0) & (lengths == 0), 0.0, losses).astype(log_p.dtype)


def _gradient(grad: Any, log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    """Return the gradient of the log probabilities.

    Backward in time is forward along the reversed sequences: their steps and states count from the last ones on.
    """
    (time, n, classes), dtype = log_p.shape, log_p.dtype
    states, skips = _states(labels, blank, dtype)
    emitted, size = _emitted(log_p, states), states.shape[1]
    members = np.arange(n)
    back = (steps[:, None] - 1 - np.arange(time)) % time  # the step of each reversed one; those too many are not read
    turn = (2 * lengths[:, None] - np.arange(size)) % size
    turned = emitted[back.T[:, :, None], members[:, None], turn]
    turned_states = np.take_along_axis(states, turn, 1)
    turned_skips = _skips(turned_states, blank)
    kept = np.empty((time, 2 * n, size + 2), dtype)
    _recursion(np.concatenate([emitted, turned], 1), np.concatenate([skips, turned_skips]), kept)
    total = _totals(kept[:, :n], steps, lengths)
    alpha = kept[:, :n, 2:]
    beta = kept[back.T[:, :, None], n + members[:, None], 2 + turn]
    reached = (np.arange(size) <= 2 * lengths[:, None]) & ~(alpha <= IMPOSSIBLE / 2)
    joint = np.where(reached, alpha + beta - emitted, IMPOSSIBLE)  # both have the emission
    shares = np.exp(joint - joint.max(2, keepdims=True))
    shares /= shares.sum(2, keepdims=True)  # relative to a step's states, whatever was rounded before
    counted = (np.arange(time)[:, None] < steps) & ~(total <= IMPOSSIBLE / 2)
    shares *= (total * 0.0 - grad)[:, None]  # NaN at all steps where the loss is
    shares = np.where(counted[:, :, None], shares, 0.0)  # also where grad is NaN or infinite
    out = np.zeros((time, n * classes), dtype)
    places = (states + members[:, None] * classes).reshape(-1)
    order = places.argsort(kind="stable")
    first = np.flatnonzero(np.concatenate(([True], np.diff(places[order]) != 0)))
    sums = np.add.reduceat(shares.reshape((time, -1))[:, order], first, 1)
    out[:, places[order[first]]] = sums
    return out.reshape(log_p.shape)
