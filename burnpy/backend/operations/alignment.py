"""Connectionist temporal classification: the probability of labels, summed over all their alignments to time steps.

Between and around the labels there are blanks. A path through these states, from one of the first two to one of the
last two, stays, goes one state further, or skips a blank between two different labels at each step. Probabilities are
logarithms; a large negative number takes the place of minus infinity, so that derivatives stay finite.

Source: Graves et al., Connectionist Temporal Classification, 2006.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Float, Int
from burnpy.backend.schema import GENERAL, derived

IMPOSSIBLE = -1e30
"""The logarithm of the probability 0."""

_ALL = slice(None, None, 1)


def ctc_loss_jvp(i: Any, t: Float, log_p: Float, labels: Int, steps: Int, lengths: Int, blank: int) -> Float:
    """Return the tangent: the sum of the tangents of log probabilities times the gradient."""
    ones = i.full((log_p.shape[1],), 1.0, log_p.dtype)
    return i.sum(i.mul(t, i.ctc_loss_backward(ones, log_p, labels, steps, lengths, blank)), (0, 2), False)


class Alignment(OperationsBase):
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
        factor = self.where(counted, self.neg(self.cast(grad, lattice.dtype)), 0.0)
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
        self.emitted = b.clamp_min(b.gather(b.cast(log_p, self.dtype), 2, places), IMPOSSIBLE)
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
        """Return which sequences have an alignment."""
        return self.b.gt(total, IMPOSSIBLE / 2)

    def loss(self, total: Float, dtype: Any) -> Float:
        """Return the losses: 0 for no labels at no steps, and inf for impossible labels."""
        b, d = self.b, self.d
        losses = b.where(self.possible(total), b.neg(total), float("inf"))
        empty = d.bitwise_and(d.eq(self.steps, 0), d.eq(self.lengths, 0))
        return b.cast(b.where(empty, b.full((self.n,), 0.0, self.dtype), losses), dtype)

    def _impossible(self, count: int) -> Float:
        return self.b.full((self.n, count), IMPOSSIBLE, self.dtype)
