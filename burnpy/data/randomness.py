"""Random numbers that are a function of (seed, epoch, sample), by the counter-based generator Philox.

A counter-based generator computes its n-th number from a key and the number n, so that any worker can begin anywhere.
Here the key is the seed, the epoch and the purpose, and the counter holds the sample, the number of times that it
occurred before in the epoch, and the call. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any, final

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

ORDER, SAMPLES, BATCHES, SPLITS, MIXING = range(5)
"""The purposes of random numbers, which are kept apart: epochs' orders, random maps, transforms of batches, splits, and
which samples are mixed.
"""


def checked_seed(seed: int, owner: str) -> int:
    """Return a seed as an int."""
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise ArgumentError(f"{owner} got seed={describe(seed)}; a seed is an int from 0 to 2**64 - 1")
    return number


def philox(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    """Return the generator of a purpose in an epoch, at its beginning."""
    key = np.array([seed, epoch << 8 | purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


@final
class BatchRandom:
    """Random numbers for each sample of a batch, the same ones whatever batch, worker or rank the sample is in.

    Each call draws new numbers. Row j of every result depends on the seed, the epoch, the j-th sample and the number
    of calls before.

    Args:
        seed: the loader's seed.
        epoch: the epoch.
        samples: the samples' indices, shape (n,).
        repeats: for each sample, how often it occurred before in the epoch; None where no sample is drawn twice.
        mixing: the batch that these samples are rows of, if they are not all of it.

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
        self._mixing = mixing or Mixing(seed, epoch, samples, repeats)
        self._mixed = 0  # calls of partners()
        self._samples = np.asarray(samples, np.int64).tolist()
        self._repeats = None if repeats is None else np.asarray(repeats).tolist()
        self._generator = philox(seed, epoch, purpose)
        self._bits = self._generator.bit_generator
        self._state: Any = self._bits.state
        self._calls = 0

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def generators(self) -> Iterator[np.random.Generator]:
        """NumPy generators, one for each sample in turn; each is valid until the next is taken."""
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
        """Uniform numbers in [low, high), shape (n, *shape)."""
        out = self._filled("random", shape, dtype)
        out *= high - low
        out += low
        return out.astype(dtype, copy=False)

    def normal(
        self, mean: float = 0.0, std: float = 1.0, shape: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Return normally distributed numbers, shape (n, *shape)."""
        out = self._filled("standard_normal", shape, dtype)
        out *= std
        out += mean
        return out.astype(dtype, copy=False)

    def _filled(self, method: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a row for each sample, filled by a method of its generator, in float32 or float64."""
        out: NDArray[Any] = np.empty((len(self), *shape), np.float32 if np.dtype(dtype) == np.float32 else np.float64)
        for row, generator in zip(out.reshape(len(self), math.prod(shape)), self.generators(), strict=True):
            getattr(generator, method)(out=row, dtype=out.dtype)
        return out

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Ints from low to high - 1, shape (n, *shape), int64.

        Raises:
            ArgumentError: ``high`` is not above ``low``.
        """
        if high <= low:
            raise ArgumentError(f"integers() got low={low} and high={high}; expected low < high")
        drawn = [generator.integers(low, high, shape) for generator in self.generators()]
        return np.array(drawn, np.int64).reshape(len(self), *shape)

    def bernoulli(self, p: float, shape: tuple[int, ...] = ()) -> NDArray[np.bool_]:
        """Truth values, each True with probability p, shape (n, *shape)."""
        return self.uniform(0.0, 1.0, shape, np.float64) < p

    def beta(self, a: float, b: float) -> NDArray[np.float64]:
        """Beta distributed numbers, shape (n,)."""
        return np.array([generator.beta(a, b) for generator in self.generators()], np.float64)

    def partners(self) -> NDArray[np.int64]:
        """For each row the row of another sample of its batch, to mix the two, shape (n,).

        Who is mixed with whom is a permutation of the whole batch. A rank gets its part of the batch, and the samples
        that are mixed with it: a transform that calls this says so, by an attribute ``mixes = True``.

        Raises:
            ArgumentError: the batch is shared among ranks, and the transform does not say that it mixes samples.

        >>> BatchRandom(0, 0, [7, 3, 5]).partners().tolist()
        [1, 2, 0]
        """
        self._mixed += 1
        return self._mixing.rows(self._mixed - 1)


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
        """Return the places of the samples that those at ``places``, which come first, are made of in so many calls.

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
