"""Losses: cross entropy, means over a mask, and connectionist temporal classification.

Connectionist temporal classification (CTC) is the probability of labels, summed over all their alignments to time
steps. Between and around the labels there are blanks. A path through these states, from one of the first two to one of
the last two, stays, goes one state further, or skips a blank between two different labels at each step. Probabilities
are logarithms; a large negative number takes the place of minus infinity, so that derivatives stay finite.

Source: Graves et al., Connectionist Temporal Classification, 2006.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.reduction import mean_vjp
from burnpy.backend.operations.softmax import relative_softmax
from burnpy.backend.primitives import Bool, Dim, Dims, DType, Float, Int
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, derived


def cross_entropy_vjp(i: Any, grads: Any, needs: Any, x: Float, out1: Float, index: Int, dim: int) -> tuple[Float]:
    """Return the gradient of the logits, through the losses and through logsumexp."""
    grad_loss, grad_sum = grads
    part = None if grad_loss is None else i.cross_entropy_backward(grad_loss, x, out1, index, dim)
    return (_with_logsumexp(i, part, grad_sum, x, dim),)


def mean_cross_entropy_vjp(
    i: Any, grads: Any, needs: Any, x: Float, out1: Float, index: Int, counted: Bool | None, dim: int
) -> tuple[Float]:
    """Return the gradient of the logits, through the mean and through logsumexp."""
    grad_mean, grad_sum = grads
    part = None if grad_mean is None else i.mean_cross_entropy_backward(grad_mean, x, out1, index, counted, dim)
    return (_with_logsumexp(i, part, grad_sum, x, dim),)


def _with_logsumexp(i: Any, part: Float | None, grad_sum: Float | None, x: Float, dim: int) -> Float:
    """Add the gradient through logsumexp to one through losses; at least one of them is not None."""
    if grad_sum is None:
        return part
    other = i.mul(i.softmax(x, dim), grad_sum)
    return other if part is None else i.add(part, other)


def _chosen_mean(i: Any, t: Float, mask: Bool) -> Float:
    """Return the mean of chosen elements; 0 if there are none."""
    chosen = i.discrete.any(mask, tuple(range(len(mask.shape))), False)
    return i.where(chosen, i.masked_mean(t, mask), 0.0)


def masked_mean_batch(b: Any, x: Any, mask: Any) -> Any:
    """One sum over the elements of all examples, and one count."""
    i, dims = b.inner, tuple(range(1, len(x.shape) + 1))
    values, chosen = b.ranked(x, len(x.shape)), b.ranked(mask, len(x.shape))
    return b.batched(_means(i, values, chosen, dims))


def masked_mean_backward_batch(b: Any, grad: Any, mask: Any) -> Any:
    """One count for all examples."""
    i, ndim = b.inner, len(mask.shape)
    chosen = b.ranked(mask, ndim)
    each = _shares(i, b.ranked(grad, 0), chosen, tuple(range(1, ndim + 1)))
    wide = i.expand(i.reshape(each, (*each.shape, *(1,) * ndim)), (b.size, *mask.shape))
    return b.batched(i.where(chosen, wide, 0.0))


class Losses(OperationsBase):
    """Cross entropy, and the mean of chosen elements, one operation each."""

    @derived(
        LINEAR,
        flops=lambda x: 2 * prod(x),
        vjp=lambda i, g, mask: i.masked_mean_backward(g, mask),
        batch=masked_mean_batch,
    )
    def masked_mean(self, x: Float, mask: Bool) -> Float:
        """0-d mean of the elements of x where the mask, of x's shape, is true; NaN if there are none."""
        return _means(self, x, mask, tuple(range(len(x.shape))))

    @derived(LINEAR, flops=lambda mask: prod(mask), vjp=_chosen_mean, batch=masked_mean_backward_batch)
    def masked_mean_backward(self, grad: Float, mask: Bool) -> Float:
        """Gradient of `masked_mean`: grad / n where the mask is true, n of its elements are, and 0 elsewhere."""
        each = _shares(self, grad, mask, tuple(range(len(mask.shape))))
        return self.where(mask, self.expand(each, mask.shape), 0.0)

    @derived(GENERAL, flops=lambda x: 6 * prod(x), joint=cross_entropy_vjp, batch=SHIFTED)
    def cross_entropy(self, x: Float, index: Int, dim: Dim) -> tuple[Float, Float]:
        """Cross entropy per target, -log(softmax(x))[index], along ``dim``; and the logsumexp, with ``dim`` of size 1.

        ``index`` and the first result have x's shape without ``dim``.
        """
        largest = self.detach(self.amax(x, (dim,), True))
        shift = self.where(self.isfinite(largest), largest, 0.0)
        shifted = self.sub(x, shift)
        total = self.log(self.sum(self.exp(shifted), (dim,), True))
        picked = self.gather(shifted, dim, self.discrete.reshape(index, total.shape))
        return self.reshape(self.sub(total, picked), index.shape), self.add(total, shift)

    @derived(GENERAL, like="x", flops=lambda x: 6 * prod(x), batch=SHIFTED)
    def cross_entropy_backward(self, grad: Float, x: Float, logsumexp: Float, index: Int, dim: Dim) -> Float:
        """Gradient of `cross_entropy`: grad · (softmax(x) - one_hot(index)).

        ``logsumexp``, its second result, lets a backend compute softmax(x) as exp(x - logsumexp); the default does not
        need it.
        """
        wide = self.reshape(grad, logsumexp.shape)
        if 0 in x.shape:
            return self.mul(x, wide)
        p, _ = relative_softmax(self, x, dim)
        at = self.scatter(self.full(x.shape, 0.0, x.dtype), dim, self.discrete.reshape(index, wide.shape), wide)
        return self.sub(self.mul(p, wide), at)

    @derived(GENERAL, flops=lambda x: 6 * prod(x), joint=mean_cross_entropy_vjp)
    def mean_cross_entropy(self, x: Float, index: Int, counted: Bool | None, dim: Dim) -> tuple[Float, Float]:
        """0-d mean of `cross_entropy` over the targets where ``counted`` is true, NaN if there are none; and logsumexp.

        ``counted`` has the shape of ``index``; with None, all targets count.
        """
        losses, logsumexp = self.cross_entropy(x, index, dim)
        if counted is None:
            return self.mean(losses, tuple(range(len(losses.shape))), False), logsumexp
        return self.masked_mean(losses, counted), logsumexp

    @derived(GENERAL, like="x", flops=lambda x: 6 * prod(x))
    def mean_cross_entropy_backward(
        self, grad: Float, x: Float, logsumexp: Float, index: Int, counted: Bool | None, dim: Dim
    ) -> Float:
        """Gradient of the mean of `mean_cross_entropy`, computed as in `cross_entropy`."""
        if counted is None:
            each = mean_vjp(self, grad, index.shape, tuple(range(len(index.shape))), False)
        else:
            each = self.masked_mean_backward(grad, counted)
        return self.cross_entropy_backward(each, x, logsumexp, index, dim)


def _means(b: Any, x: Float, mask: Bool, dims: Dims) -> Float:
    """Return the means over some dimensions of the elements where a mask is true. Those of 16-bit floats are computed
    in float32: their sums, and the numbers of them, may be beyond the range."""
    if x.dtype.itemsize == 2:
        return b.cast(_means(b, b.cast(x, float32), mask, dims), x.dtype)
    return b.div(b.sum(b.where(mask, x, 0.0), dims, False), _numbers_of(b, mask, dims, x.dtype))


def _shares(b: Any, grad: Float, mask: Bool, dims: Dims) -> Float:
    """Return the gradients of `_means` with respect to each chosen element, from those of the means."""
    if grad.dtype.itemsize == 2:
        return b.cast(_shares(b, b.cast(grad, float32), mask, dims), grad.dtype)
    return b.div(grad, _numbers_of(b, mask, dims, grad.dtype))


def _numbers_of(b: Any, mask: Bool, dims: Dims, dtype: DType) -> Float:
    """Return how many elements of a mask are true over some dimensions."""
    return b.to_float(b.discrete.sum(b.discrete.to_int(mask, int64), dims, False), dtype)


IMPOSSIBLE = -1e30
"""The logarithm of the probability 0."""

_ALL = slice(None, None, 1)


def ctc_loss_jvp(i: Any, t: Float, log_p: Float, labels: Int, steps: Int, lengths: Int, blank: int) -> Float:
    """Return the tangent: the sum of the tangents of log probabilities times the gradient."""
    ones = i.full((log_p.shape[1],), 1.0, log_p.dtype)
    return i.sum(i.mul(t, i.ctc_loss_backward(ones, log_p, labels, steps, lengths, blank)), (0, 2), False)


class CtcLoss(OperationsBase):
    """The loss of sequences whose alignment to labels is not known.

    ``log_p`` are log probabilities (time, batch, classes), and ``labels`` classes (batch, labels). The first ``steps``
    time steps and the first ``lengths`` labels of each sequence count. No label that counts is the blank.
    """

    @derived(
        GENERAL,
        flops=lambda log_p, labels: 8 * log_p[0] * (2 * prod(labels) + log_p[1]),
        vjp=lambda i, g, log_p, labels, steps, lengths, blank: i.ctc_loss_backward(
            g, log_p, labels, steps, lengths, blank
        ),
        jvp=ctc_loss_jvp,
    )
    def ctc_loss(self, log_p: Float, labels: Int, steps: Int, lengths: Int, blank: int) -> Float:
        """Negative log probability of the labels of each sequence, (batch,); inf if no alignment is possible."""
        lattice = _Lattice(self, log_p, labels, steps, lengths, blank)
        if not log_p.shape[0]:
            return lattice.loss(self.full((log_p.shape[1],), IMPOSSIBLE, lattice.dtype), log_p.dtype)
        alpha = lattice.first()
        for t in range(1, log_p.shape[0]):
            alpha = self.where(lattice.runs(t), lattice.forward(alpha, t), alpha)
        return lattice.loss(lattice.total(alpha), log_p.dtype)

    @derived(GENERAL, like="log_p", flops=lambda log_p, labels: 24 * log_p[0] * (2 * prod(labels) + log_p[1]))
    def ctc_loss_backward(self, grad: Float, log_p: Float, labels: Int, steps: Int, lengths: Int, blank: int) -> Float:
        """Gradient of `ctc_loss`: minus grad times the probability of each class at each step, given the labels.

        It is 0 for a sequence without a possible alignment.
        """
        shape, lattice = log_p.shape, _Lattice(self, log_p, labels, steps, lengths, blank)
        if 0 in shape:
            return self.full(shape, 0.0, log_p.dtype)
        alphas = [lattice.first()]
        for t in range(1, shape[0]):
            alphas.append(self.where(lattice.runs(t), lattice.forward(alphas[-1], t), alphas[-1]))
        total = lattice.total(alphas[-1])
        beta = lattice.last()
        betas = [beta]
        for t in range(shape[0] - 1, 0, -1):
            beta = self.where(lattice.runs(t), lattice.backward(beta, t), beta)
            betas.append(beta)
        betas.reverse()
        d, size = self.discrete, lattice.size
        rows = [self.reshape(row, (1, *row.shape)) for row in (*alphas, *betas)]
        joint = self.add(self.cat(rows[: shape[0]], 0), self.cat(rows[shape[0] :], 0))
        counted = d.bitwise_and(d.reshape(lattice.possible(total), (1, shape[1])), lattice.within)
        factor = self.sub(self.mul(total, 0.0), self.cast(grad, lattice.dtype))  # NaN at all steps where the loss is
        factor = self.where(counted, factor, 0.0)
        paths = self.softmax(joint, 2)  # relative to the sum over a step's states, whatever was rounded before
        paths = self.where(d.reshape(counted, (*shape[:2], 1)), paths, 0.0)
        shares = self.mul(paths, self.reshape(factor, (*shape[:2], 1)))
        states = d.expand(d.reshape(lattice.states, (1, shape[1], size)), (shape[0], shape[1], size))
        return self.cast(self.scatter_add(self.full(shape, 0.0, lattice.dtype), 2, states, shares), log_p.dtype)


class _Lattice:
    """The states of all sequences, and the steps from one state to the next."""

    def __init__(self, b: Any, log_p: Float, labels: Int, steps: Int, lengths: Int, blank: int) -> None:
        d = b.discrete
        (time, n, _), s = log_p.shape, labels.shape[1]
        self.b, self.d, self.n, self.size = b, d, n, 2 * s + 1
        self.steps, self.lengths = steps, lengths
        self.dtype = float32 if log_p.dtype.itemsize == 2 else log_p.dtype
        blanks = d.full((n, self.size), blank, labels.dtype)
        self.states = d.slice_scatter(blanks, (_ALL, slice(1, 2 * s, 2)), labels) if s else blanks
        places = d.expand(d.reshape(self.states, (1, n, self.size)), (time, n, self.size))
        emitted = b.clamp_min(b.gather(b.cast(log_p, self.dtype), 2, places), IMPOSSIBLE)
        ends = d.reshape(d.mul(lengths, 2), (n, 1))
        counted = d.le(d.from_numpy(np.arange(self.size)[None]), ends)
        self.emitted = b.where(counted, emitted, IMPOSSIBLE)  # NaN of states that do not count is not passed on
        skips = d.full((n, min(2, self.size)), False, np.dtype(np.bool_))
        if s:
            before, after = (d.slice(self.states, (_ALL, slice(k, self.size - 2 + k, 1))) for k in (0, 2))
            skips = d.cat([skips, d.bitwise_and(d.ne(after, before), d.ne(after, blank))], 1)
        self.skips: Bool = skips
        self.within = d.lt(d.from_numpy(np.arange(time)[:, None]), d.reshape(steps, (1, n)))

    def emission(self, t: int) -> Float:
        """Return the log probability of each state at a step."""
        return self.b.reshape(self.b.slice(self.emitted, (slice(t, t + 1, 1),)), (self.n, self.size))

    def runs(self, t: int) -> Bool:
        """Return which sequences have a step t, as a column."""
        return self.d.gt(self.d.reshape(self.steps, (self.n, 1)), t)

    def first(self) -> Float:
        """Return the probability of the states after the first step."""
        start = self.d.from_numpy((np.arange(self.size) < 2)[None])
        return self.b.where(start, self.emission(0), IMPOSSIBLE)

    def forward(self, alpha: Float, t: int) -> Float:
        """Return the probability of the states after step t, given the one before."""
        b, one = self.b, self._impossible(1)
        total = b.logaddexp(alpha, b.cat([one, b.slice(alpha, (_ALL, slice(0, self.size - 1, 1)))], 1))
        if self.size > 2:
            two = b.cat([self._impossible(2), b.slice(alpha, (_ALL, slice(0, self.size - 2, 1)))], 1)
            total = b.logaddexp(total, b.where(self.skips, two, IMPOSSIBLE))
        return b.add(total, self.emission(t))

    def last(self) -> Float:
        """Return the probability of nothing more after the last step: 1 for the last two states."""
        end = self.d.reshape(self.d.mul(self.lengths, 2), (self.n, 1))
        place = self.d.from_numpy(np.arange(self.size)[None])
        final = self.d.bitwise_or(self.d.eq(place, end), self.d.eq(place, self.d.sub(end, 1)))
        return self.b.where(final, self.b.full((self.n, self.size), 0.0, self.dtype), IMPOSSIBLE)

    def backward(self, beta: Float, t: int) -> Float:
        """Return the probability of the steps from t on, given the state before."""
        b = self.b
        come = b.add(beta, self.emission(t))
        total = b.logaddexp(come, b.cat([b.slice(come, (_ALL, slice(1, self.size, 1))), self._impossible(1)], 1))
        if self.size > 2:
            skipped = b.slice(b.where(self.skips, come, IMPOSSIBLE), (_ALL, slice(2, self.size, 1)))
            total = b.logaddexp(total, b.cat([skipped, self._impossible(2)], 1))
        return total

    def total(self, alpha: Float) -> Float:
        """Return the log probability of the last two states, and of an empty sequence."""
        b, d = self.b, self.d
        end = d.reshape(d.mul(self.lengths, 2), (self.n, 1))
        label = b.reshape(b.gather(alpha, 1, d.clamp_min(d.sub(end, 1), 0)), (self.n,))
        label = b.where(d.gt(self.lengths, 0), label, IMPOSSIBLE)
        total = b.logaddexp(b.reshape(b.gather(alpha, 1, end), (self.n,)), label)
        return b.where(d.gt(self.steps, 0), total, IMPOSSIBLE)

    def possible(self, total: Float) -> Bool:
        """Return which sequences have an alignment; NaN counts, so that it is passed on."""
        return self.d.bitwise_not(self.b.le(total, IMPOSSIBLE / 2))

    def loss(self, total: Float, dtype: Any) -> Float:
        """Return the losses: 0 for no labels at no steps, and inf for impossible labels."""
        b, d = self.b, self.d
        losses = b.where(self.possible(total), b.neg(total), float("inf"))
        empty = d.bitwise_and(d.eq(self.steps, 0), d.eq(self.lengths, 0))
        return b.cast(b.where(empty, b.full((self.n,), 0.0, self.dtype), losses), dtype)

    def _impossible(self, count: int) -> Float:
        return self.b.full((self.n, count), IMPOSSIBLE, self.dtype)
