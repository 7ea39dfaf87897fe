"""Order and chance: samplers, which decide the order of an epoch, and random numbers of samples.

Random numbers are a function of (seed, epoch, sample), by the counter-based generator Philox. It
computes its n-th number from a key and the number n, so that any worker can begin anywhere. Here the key
is the seed, the epoch and the purpose, and the counter holds the sample, the number of times that it occurred before in
the epoch, and the call. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.dim_checks import ABOVE_0, addressable, checked_count, checked_number, shape_of
from burnpy.tensor.host_data import rows_of
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

ORDER, SAMPLES, BATCHES, SPLITS, MIXING = range(5)
"""The purposes of random numbers, which are kept apart: epochs' orders, random maps, transforms of batches, splits, and
which samples are mixed.
"""


def checked_seed(seed: int, owner: str) -> int:
    """Return a seed as an int."""
    try:
        number = -1 if isinstance(seed, bool) else index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise ArgumentError(f"{owner} got seed={describe(seed)}; a seed is an int from 0 to 2**64 - 1")
    return number


def philox(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    """Return the generator of a purpose in an epoch, at its beginning."""
    if epoch >= 2**56:  # the key has 64 bits, eight of them for the purpose
        raise ArgumentError(f"an epoch is a number below 2**56, got {epoch}")
    key = np.array([seed, epoch << 8 | purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


@final
class BatchRandom(metaclass=Explaining):
    """Random numbers for each sample of a batch, the same ones whatever batch, worker or rank the sample is in.

    Each call draws new numbers. Row j of every result depends on the seed, the epoch, the j-th sample and the number
    of calls before.

    Args:
        seed: the loader's seed.
        epoch: the epoch.
        samples: the samples' indices, shape (n,).
        repeats: for each sample, how often it occurred before in the epoch; None where no sample is drawn twice.
        mixing: the batch that these samples are rows of, if they are not all of it.

    Raises:
        ArgumentError: a number is negative, or there are not as many repeats as samples.

    >>> first = BatchRandom(0, 0, [7, 3, 5]).uniform()
    >>> second = BatchRandom(0, 0, [5, 7]).uniform()
    >>> bool(first[0] == second[1]), bool(first[2] == second[0])
    (True, True)
    """

    __slots__ = ("_bits", "_calls", "_generator", "_mixed", "_mixing", "_repeats", "_samples", "_state")

    def __init__(
        self,
        seed: int,
        epoch: int,
        samples: NDArray[np.int64] | list[int],
        repeats: NDArray[np.int64] | None = None,
        *,
        purpose: int = BATCHES,
        mixing: Mixing | None = None,
    ) -> None:
        self._samples = _counters(samples, "samples")
        self._repeats = None if repeats is None else _counters(repeats, "repeats")
        if self._repeats is not None and len(self._repeats) != len(self._samples):
            raise ArgumentError(
                f"BatchRandom() got {len(self._repeats)} repeats for {len(self._samples)} samples; pass one for each"
            )
        self._generator = philox(
            checked_seed(seed, "BatchRandom()"), checked_count(epoch, "epoch", 0, "BatchRandom()"), purpose
        )
        self._mixing = mixing or Mixing(seed, epoch, samples, repeats)
        self._mixed = 0  # calls of partners()
        self._bits = self._generator.bit_generator
        self._state: Any = self._bits.state
        self._calls = 0

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def generators(self) -> Iterator[np.random.Generator]:
        """Yield NumPy generators, one for each sample in turn; each is valid until the next is yielded."""
        counter = self._state["state"]["counter"]
        counter[0], counter[2] = 0, self._calls
        self._calls += 1
        for j, sample in enumerate(self._samples):
            counter[1] = 0 if self._repeats is None else self._repeats[j]
            counter[3] = sample
            self._bits.state = self._state
            yield self._generator

    def uniform(
        self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Return uniform numbers in [low, high), shape (n, *shape), in a float dtype."""
        low, high = (checked_number(end, name, "uniform()") for end, name in ((low, "low"), (high, "high")))
        out = self._filled("uniform", "random", shape, dtype)
        out *= high - low
        out += low
        out = out.astype(dtype, copy=False)
        if high > low:  # rounding must not reach high
            np.minimum(out, np.nextafter(out.dtype.type(high), out.dtype.type(low)), out=out)
        return out

    def normal(
        self, mean: float = 0.0, std: float = 1.0, shape: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Return normally distributed numbers, shape (n, *shape), in a float dtype."""
        mean, std = checked_number(mean, "mean", "normal()"), checked_number(std, "std", "normal()", 0)
        out = self._filled("normal", "standard_normal", shape, dtype)
        out *= std
        out += mean
        return out.astype(dtype, copy=False)

    def _filled(self, operation: str, method: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a row for each sample, filled by a method of its generator, in float32 or float64."""
        sizes = addressable((len(self), *shape_of(shape, operation)), operation)
        out: NDArray[Any] = np.empty(sizes, "float32" if dtype_of(dtype, "float") == np.float32 else "float64")
        for row, generator in zip(out.reshape(len(self), math.prod(shape)), self.generators(), strict=True):
            getattr(generator, method)(out=row, dtype=out.dtype)
        return out

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Return ints from low to high - 1, shape (n, *shape), int64.

        Raises:
            ArgumentError: ``high`` is not above ``low``.
        """
        low, high = (checked_count(end, name, -(2**63), "integers()") for end, name in ((low, "low"), (high, "high")))
        sizes = addressable((len(self), *shape_of(shape, "integers")), "integers")
        if high <= low:
            raise ArgumentError(f"integers() got low={low} and high={high}; expected low < high")
        drawn = [generator.integers(low, high, sizes[1:]) for generator in self.generators()]
        return np.array(drawn, np.int64).reshape(sizes)

    def bernoulli(self, p: float, shape: tuple[int, ...] = ()) -> NDArray[np.bool_]:
        """Return truth values, each True with probability p, shape (n, *shape)."""
        p = checked_number(p, "p", "bernoulli()", 0, 1)
        return self.uniform(0.0, 1.0, shape, np.float64) < p

    def beta(self, a: float, b: float) -> NDArray[np.float64]:
        """Return beta distributed numbers, shape (n,)."""
        a, b = checked_number(a, "a", "beta()", ABOVE_0), checked_number(b, "b", "beta()", ABOVE_0)
        return np.array([generator.beta(a, b) for generator in self.generators()], np.float64)

    def partners(self) -> NDArray[np.int64]:
        """Return for each row the row of another sample of its batch, to mix the two, shape (n,).

        Who is mixed with whom is a permutation of the whole batch. A rank gets its part of the batch, and the samples
        that are mixed with it: a transform that calls this says so, by an attribute ``mixes = True``.

        Raises:
            ArgumentError: the batch is shared among ranks, and the transform does not say that it mixes samples.

        >>> BatchRandom(0, 0, [7, 3, 5]).partners().tolist()
        [1, 2, 0]
        """
        self._mixed += 1
        return self._mixing.rows(self._mixed - 1)


def _counters(numbers: Any, name: str) -> list[int]:
    """Return the numbers of samples as ints, checked."""
    given = rows_of(numbers, f"BatchRandom() got {name} as")
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0)):
        raise ArgumentError(f"BatchRandom() got {name}={describe(numbers)}; expected an int of at least 0 for each")
    return given.tolist()  # type: ignore[no-any-return]  # of ints


class Mixing:
    """With which other sample of its batch each one is mixed, which is the same on all ranks that share the batch.

    Args:
        seed: the loader's seed.
        epoch: the epoch.
        samples: the indices of all samples of the batch, shape (n,).
        repeats: for each sample, how often it occurred before in the epoch.
    """

    def __init__(
        self, seed: int, epoch: int, samples: NDArray[np.int64] | list[int], repeats: NDArray[np.int64] | None
    ) -> None:
        self._given = (seed, epoch, samples, repeats)
        self._rng: BatchRandom | None = None
        self._partners: list[NDArray[np.int64]] = []  # of each place in the batch, for each call
        self._rows: NDArray[np.int64] | None = None  # of each place, -1 if it has none; None if rows are places
        self._calls = 0  # for which there are rows

    def needed(self, places: NDArray[np.int64], calls: int) -> NDArray[np.int64]:
        """Return the places of all samples that the samples at ``places`` are made of in this many calls, ``places``
        first.

        The rows of `rows` are the samples at these places from now on.
        """
        needed = dict.fromkeys(places.tolist())
        for call in reversed(range(calls)):
            needed |= dict.fromkeys(self._of(call)[list(needed)].tolist())
        out = np.fromiter(needed, np.int64, len(needed))
        self._rows = np.full(len(self._given[2]), -1)
        self._rows[out] = np.arange(len(out))
        self._calls = calls
        return out

    def rows(self, call: int) -> NDArray[np.int64]:
        """Return the row of each row's partner; its own where no result of it is wanted.

        Raises:
            ArgumentError: there are rows for fewer calls.
        """
        partners = self._of(call)
        if self._rows is None:
            return partners
        if call >= self._calls:
            raise ArgumentError(
                f"the transforms of a batch that ranks share called partners() {call + 1} times, and {self._calls} of "
                "them say that they mix samples; give each that calls it an attribute mixes = True"
            )
        places = np.flatnonzero(self._rows >= 0)
        out = np.empty(len(places), np.int64)
        of_partner = self._rows[partners[places]]
        out[self._rows[places]] = np.where(of_partner < 0, self._rows[places], of_partner)
        return out

    def _of(self, call: int) -> NDArray[np.int64]:
        """Return the partner of each place, a cyclic permutation in random order."""
        if self._rng is None:
            self._rng = BatchRandom(*self._given, purpose=MIXING, mixing=self)
        while len(self._partners) <= call:
            order = np.argsort(self._rng.uniform(dtype=np.float64), kind="stable")
            partner = np.empty_like(order)
            partner[order] = np.roll(order, 1)
            self._partners.append(partner)
        return self._partners[call]


class Plan(NamedTuple):
    """The batches of an epoch: batch k has the samples ``indices[starts[k]:starts[k + 1]]``."""

    indices: NDArray[np.int64]
    starts: NDArray[np.int64]  #: shape (batches + 1,)
    repeats: NDArray[np.int64] | None = None
    """For each index, how often it occurred before; None where none occurs twice."""


class Sampler(metaclass=Explaining):
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
        given = rows_of(weights, "Weighted() got weights as")
        w = given.astype(np.float64) if given.dtype.kind in "biuf" else np.full((), np.nan)
        if w.ndim != 1 or not np.isfinite(w).all() or (w < 0).any() or not w.any():
            raise ArgumentError(
                f"Weighted() got weights of shape {given.shape} and dtype {given.dtype}; expected a number for each "
                "sample, finite, at least 0, and not all 0"
            )
        count = len(w) if n is None else checked_count(n, "n", 0, f"{type(self).__name__}()")
        if not replacement and count > np.count_nonzero(w):
            raise ArgumentError(
                f"Weighted() cannot draw {count} samples without replacement: {np.count_nonzero(w)} have a "
                "weight above 0; pass n=, or replacement=True"
            )
        if w.max() > np.finfo(np.float64).max / len(w):  # the sum may overflow
            w = w / w.max()
        self.probabilities = w / w.sum()
        self.count, self.draws_twice = count, replacement

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return indices drawn by weight."""
        if size != len(self.probabilities):
            raise ArgumentError(
                f"Weighted() got {len(self.probabilities)} weights for {size} samples; pass one for each"
            )
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
        given = rows_of(labels, "Balanced() got labels as")
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
        self.lengths = rows_of(lengths, "BucketByLength() got lengths as")
        if self.lengths.ndim != 1 or (len(self.lengths) and self.lengths.dtype.kind not in "iuf"):
            raise ArgumentError(f"BucketByLength() got lengths={describe(lengths)}; expected a number for each sample")
        self.pool = checked_count(pool, "pool", 1, "BucketByLength()")

    def order(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation, before it is sorted within pools."""
        return rng.permutation(size)

    def plan(self, size: int, batch_size: int, drop_last: bool, rng: np.random.Generator) -> Plan:
        """Return batches of similar lengths."""
        if size != len(self.lengths):
            raise ArgumentError(
                f"BucketByLength() got {len(self.lengths)} lengths for {size} samples; pass one for each"
            )
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
