"""Samplers, which decide the order of an epoch: in order, shuffled, weighted, balanced, by length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from burnpy.backend.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Plan(NamedTuple):
    """The batches of an epoch: batch k has the samples ``indices[starts[k]:starts[k + 1]]``."""

    indices: NDArray[np.int64]
    starts: NDArray[np.int64]  #: shape (batches + 1,)
    repeats: NDArray[np.int64] | None = None
    """For each index, how often it occurred before; None where none occurs twice."""


class Sampler(ABC):
    """An order of samples. A subclass defines `order`, or, to choose what goes into one batch, `plan`."""

    draws_twice: bool = False
    """True if a sample can occur twice in an epoch; its random numbers then differ."""
    is_fixed: bool = False
    """True if the order is the same in each epoch."""

    @abstractmethod
    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the indices of an epoch over a dataset of ``size`` samples, in order, shape (length(size),)."""

    def length(self, size: int) -> int:
        """Return the number of samples of an epoch."""
        return size

    def plan(self, size: int, batch_size: int, drop_last: bool, rng: np.random.Generator) -> Plan:
        """Return the batches of an epoch: as many as ``batches_of(length(size), batch_size, drop_last)``."""
        indices = np.asarray(self.order(size, rng), np.int64)
        return Plan(
            indices, starts_of(len(indices), batch_size, drop_last), _repeats(indices) if self.draws_twice else None
        )


class InOrder(Sampler):
    """All samples in order."""

    is_fixed = True

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the indices from 0."""
        return np.arange(size)


class Shuffled(Sampler):
    """All samples, each once, in random order."""

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation."""
        return rng.permutation(size)


class Weighted(Sampler):
    """Samples drawn at random, each with a probability proportional to its weight.

    Args:
        weights: non-negative, one for each sample.
        n: the number of samples of an epoch; by default as many as there are weights.
        replacement: whether a sample can be drawn again.

    Raises:
        ArgumentError: a weight is negative or not finite, all are 0, or more samples are wanted than can be drawn.

    >>> Weighted([0.0, 1.0, 1.0], n=4).order(3, np.random.default_rng(0)).tolist()
    [2, 1, 1, 1]
    """

    def __init__(self, weights: ArrayLike, *, n: int | None = None, replacement: bool = True) -> None:
        w = np.asarray(weights, np.float64)
        if w.ndim != 1 or not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
            raise ArgumentError(
                f"Weighted() got weights of shape {w.shape}; expected one for each sample, finite, at least 0, and not "
                "all 0"
            )
        count = len(w) if n is None else n
        if not replacement and count > np.count_nonzero(w):
            raise ArgumentError(
                f"Weighted() cannot draw {count} samples without replacement: {np.count_nonzero(w)} have a "
                "weight above 0; pass n=, or replacement=True"
            )
        self.probabilities = w / w.sum()
        self.count, self.draws_twice = count, replacement

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return indices drawn by weight."""
        if size != len(self.probabilities):
            raise ArgumentError(f"Weighted() has {len(self.probabilities)} weights, and the dataset has {size} samples")
        return rng.choice(size, self.count, replace=self.draws_twice, p=self.probabilities)

    def length(self, size: int) -> int:
        """Return the number of samples that are drawn."""
        return self.count


class Balanced(Weighted):
    """Samples drawn at random with replacement, so that all classes are equally probable.

    Args:
        labels: the class of each sample.
        n: the number of samples of an epoch; by default as many as there are labels.

    >>> drawn = Balanced([0, 0, 0, 1], n=1000).order(4, np.random.default_rng(0))
    >>> bool(450 < (drawn == 3).sum() < 550)
    True
    """

    def __init__(self, labels: ArrayLike, *, n: int | None = None) -> None:
        given = np.asarray(labels)
        if given.ndim != 1 or not len(given):
            raise ArgumentError(f"Balanced() got labels of shape {given.shape}; expected one for each sample")
        _, classes, counts = np.unique(given, return_inverse=True, return_counts=True)
        super().__init__(1.0 / counts[classes], n=n)


class BucketByLength(Sampler):
    """Batches of samples with similar lengths, in random order, so that little is padded.

    An epoch is shuffled, cut into pools, sorted by length within each pool, cut into batches, and the batches are
    shuffled.

    Args:
        lengths: the length of each sample.
        pool: the number of batches in a pool: more make lengths within a batch more similar, and batches less random.

    >>> sampler = BucketByLength([1, 9, 2, 8], pool=2)
    >>> plan = sampler.plan(4, 2, False, np.random.default_rng(0))
    >>> sorted(sorted(plan.indices[s:s + 2].tolist()) for s in plan.starts[:-1])
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths: ArrayLike, *, pool: int = 100) -> None:
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1 or pool < 1:
            raise ArgumentError(
                f"BucketByLength() got lengths of shape {self.lengths.shape} and pool={pool}; expected one "
                "length for each sample, and a pool of at least 1"
            )
        self.pool = pool

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation, before it is sorted within pools."""
        return rng.permutation(size)

    def plan(self, size: int, batch_size: int, drop_last: bool, rng: np.random.Generator) -> Plan:
        """Batches of similar lengths."""
        if size != len(self.lengths):
            raise ArgumentError(f"BucketByLength() has {len(self.lengths)} lengths, and the dataset has {size} samples")
        order = self.order(size, rng)
        order = order[: starts_of(size, batch_size, drop_last)[-1]]
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), self.pool * batch_size):
            part = order[start : start + self.pool * batch_size]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += np.split(part, starts_of(len(part), batch_size, False)[1:-1])
        batches = [batches[k] for k in rng.permutation(len(batches)).tolist()]
        starts = np.cumsum([0, *map(len, batches)])
        return Plan(np.concatenate(batches) if batches else order, starts)


def starts_of(n: int, batch_size: int, drop_last: bool) -> NDArray[np.int64]:
    """Return where batches of ``n`` samples begin, and where the last one ends."""
    starts = np.arange(0, n + 1, batch_size)
    return starts if drop_last or starts[-1] == n else np.append(starts, n)


def batches_of(n: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches of ``n`` samples."""
    return n // batch_size if drop_last else -(-n // batch_size)


def _repeats(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each index, how often it occurred before."""
    order = np.argsort(indices, kind="stable")
    ranked = indices[order]
    first = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, bool)
    places = np.arange(len(ranked))
    out = np.empty_like(indices)
    out[order] = places - np.maximum.accumulate(np.where(first, places, 0)) if len(ranked) else 0
    return out
