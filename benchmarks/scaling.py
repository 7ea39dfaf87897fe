"""Data parallelism on up to 1,000 ranks, simulated: ``python -m benchmarks.scaling``.

The times of a step on one rank are measured: the forward pass, the moment within the backward pass at which each
gradient is complete (``loss.backward(on_ready=…)``), and the optimizer. Everything between ranks is a model:

- Each rank computes the same amount, on cores or a GPU of its own that the network does not slow down.
- A message of n bytes takes ``latency + n / bandwidth``. Every rank has one link, full duplex, and the network between
  the links is never the bottleneck, whatever the number of ranks.
- Sums of p ranks take the time of their algorithm, with d = log2(p) rounded up:

  | algorithm | time |
  | --- | --- |
  | ring: reduce-scatter and all-gather around a ring | 2 (p - 1) (latency + n / p / bandwidth) |
  | tree: reduced to one rank, and broadcast by it | 2 d (latency + n / bandwidth) |
  | halving: reduce-scatter and all-gather by recursive halving and doubling | 2 d latency + 2 (1 - 1/p) n / bandwidth |

  and the additions cost nothing beside the messages. Source: Thakur, Rabenseifner and Gropp, Optimization of collective
  communication operations in MPICH, 2005.
- Gradients are put into buckets in the order of `burnpy.optim.Layout`. Buckets are summed one after the other, each as
  soon as it is complete on the slowest rank: all at the end without overlap, during the backward pass with it.
- A rank is slowed down in a step by a factor of its own, ``exp(spread · z)`` with z normal. All wait for the slowest.
- To check the sums, `Delayed` is a group of one process that behaves as many ranks behind delayed links. Every rank is
  taken to have the gradients of this one, so that a sum is a multiple.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from burnpy.distributed import Group
from burnpy.distributed.mpi_calls import Alone, Header


class Delayed(Alone):
    """The exchanges of a rank whose sums take the time of an algorithm on a link, one after the other."""

    def __init__(self, ranks: int, link: Link, algorithm: str) -> None:
        self.size = ranks
        self._link, self._algorithm = link, ALGORITHMS[algorithm]
        self._free = 0.0  # the moment at which the link has done what was started

    def open(self, header: Header) -> list[Header]:
        """Return the header of every rank."""
        return [header] * self.size

    def begin_sum(self, array: Any) -> float:
        """Begin a sum; return the moment at which it will be complete."""
        array *= self.size
        self._free = max(self._free, perf_counter()) + self._algorithm(self.size, array.nbytes, self._link)
        return self._free

    def progress(self, request: float) -> None:
        """Make sums go on without being asked."""

    def wait(self, request: float) -> None:
        """Wait until a sum is complete."""
        sleep(max(0.0, request - perf_counter()))

    def sum(self, array: Any) -> None:
        """Replace an array by the sum over the ranks."""
        self.wait(self.begin_sum(array))


def group_of(ranks: int, link: Link, algorithm: str) -> Group:
    """Return a group of modelled ranks that all do the same as this one."""
    return Group(Delayed(ranks, link, algorithm))


def executed(ranks: int, link: Link, algorithm: str, *, small: bool = False, repeats: int = 3) -> tuple[float, float]:
    """Return the least seconds of a training step without overlap and with it, in turns."""
    from burnpy.optim import Adam, GradientsParams

    (model, loss_of), optim = model_and_loss(small), Adam()
    group = group_of(ranks, link, algorithm)
    least = [float("inf")] * 2
    for turn in range(2 * repeats + 2):
        began = perf_counter()
        loss = loss_of(model)
        if turn % 2:
            grads = group.backward(loss, model)
        else:
            grads = group.mean(GradientsParams.from_grads(loss.backward(), model))
        model = optim.step(1e-3, model, grads)
        if turn > 1:  # the first turns make kernels, states and the layout
            least[turn % 2] = min(least[turn % 2], perf_counter() - began)
    return least[0], least[1]


BUCKET_BYTES = 4 << 20
RANKS = (1, 2, 4, 8, 16, 64, 256, 1000)
REPEATS, STEPS = 15, 50


@dataclass(frozen=True)
class Link:
    """The connection of a rank to the others: seconds for an empty message, and bytes per second."""

    name: str
    latency: float
    bandwidth: float

    def time(self, nbytes: float) -> float:
        """Return the seconds that a message takes."""
        return self.latency + nbytes / self.bandwidth


LINKS = (
    Link("1 Gb/s, 50 µs", 50e-6, 0.125e9),
    Link("10 Gb/s, 20 µs", 20e-6, 1.25e9),
    Link("200 Gb/s, 2 µs", 2e-6, 25e9),
)


def ring(ranks: int, nbytes: float, link: Link) -> float:
    """Return the seconds of a sum around a ring."""
    return 2 * (ranks - 1) * link.time(nbytes / ranks) if ranks > 1 else 0.0


def tree(ranks: int, nbytes: float, link: Link) -> float:
    """Return the seconds of a sum to one rank and a broadcast, by binomial trees."""
    return 2 * math.ceil(math.log2(ranks)) * link.time(nbytes)


def halving(ranks: int, nbytes: float, link: Link) -> float:
    """Return the seconds of a sum by recursive halving and doubling."""
    return 2 * math.ceil(math.log2(ranks)) * link.latency + 2 * (1 - 1 / ranks) * nbytes / link.bandwidth


ALGORITHMS = {"ring": ring, "tree": tree, "halving": halving}


class Profile(NamedTuple):
    """A step on one rank, in seconds. ``ready`` are pairs, in the order of the buckets: the moment within the backward
    pass at which a gradient is complete, and its bytes."""

    forward: float
    ready: tuple[tuple[float, int], ...]
    backward: float
    update: float

    @property
    def compute(self) -> float:
        """The seconds of a step without any communication."""
        return self.forward + self.backward + self.update

    @property
    def nbytes(self) -> int:
        """The bytes of all gradients."""
        return sum(nbytes for _, nbytes in self.ready)


class Times(NamedTuple):
    """A simulated step, in seconds."""

    step: float
    communication: float  #: the sums of all buckets, hidden or not
    exposed: float  #: of it, what the slowest rank waits for after its backward pass


def buckets(ready: Iterable[tuple[float, int]], limit: int) -> list[tuple[float, int]]:
    """Return, for each bucket, the moment at which it is complete, and its bytes. It is closed at ``limit`` bytes."""
    filled: list[tuple[float, int]] = []
    moment, size = 0.0, 0
    for at, nbytes in ready:
        moment, size = max(moment, at), size + nbytes
        if size >= limit:
            filled.append((moment, size))
            moment, size = 0.0, 0
    return [*filled, (moment, size)] if size else filled


def simulated(
    profile: Profile,
    ranks: int,
    link: Link,
    *,
    algorithm: str = "ring",
    overlap: bool = True,
    bucket_bytes: int = BUCKET_BYTES,
    spread: float = 0.0,
    seed: int = 0,
) -> Times:
    """Return the mean times of a step on a number of ranks.

    Args:
        profile: of one rank.
        ranks: the number of ranks, each with the work of the profile (weak scaling).
        link: of each rank.
        algorithm: of the sums: a key of `ALGORITHMS`.
        overlap: start the sum of a bucket when it is complete, rather than all at the end.
        bucket_bytes: the size at which a bucket is closed.
        spread: the standard deviation of the logarithm of a rank's slowdown.
        seed: of the slowdowns.
    """
    rng = np.random.default_rng(seed)
    slowest = [math.exp(spread * rng.standard_normal(ranks).max()) for _ in range(STEPS)] if spread else [1.0]
    filled = buckets(profile.ready, bucket_bytes)
    sums = [ALGORITHMS[algorithm](ranks, nbytes, link) for _, nbytes in filled]
    steps, waits = [], []
    for slowdown in slowest:
        backward = slowdown * profile.backward
        free = 0.0  # the moment at which the last sum ends, from the beginning of the backward pass
        for (ready, _), took in zip(filled, sums, strict=True):
            free = max(free, slowdown * ready if overlap else backward) + took
        waits.append(max(0.0, free - backward))
        steps.append(slowdown * (profile.forward + profile.update) + backward + waits[-1])
    return Times(float(np.mean(steps)), math.fsum(sums), float(np.mean(waits)))


def model_and_loss(small: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return a GPT of 6 layers of size 256, 4.8 million parameters, and its loss on 8 windows of 64 characters."""
    from benchmarks.peers.ours import Gpt
    from burnpy import Autodiff, IntTensor, cross_entropy
    from burnpy.backend import NumPy

    alphabet, length, size, layers, batch = (4, 4, 8, 2, 2) if small else (96, 64, 256, 6, 8)
    text = np.random.default_rng(0).integers(0, alphabet, (batch, length + 1))
    inputs, labels = (
        IntTensor.from_data(part, device=Autodiff[NumPy]) for part in (text[:, :-1], text[:, 1:].reshape(-1))
    )
    model: Any = Gpt(Autodiff[NumPy], alphabet, length, size, 4, layers)
    return model, lambda model: cross_entropy(model(inputs), labels)


def measured(*, small: bool = False, repeats: int = REPEATS) -> Profile:
    """Measure a training step on this machine: the pass with the least time, and the least of the other times."""
    from burnpy.optim import Adam, GradientsParams

    (model, loss_of), optim = model_and_loss(small), Adam()
    figures: list[Profile] = []
    for _ in range(repeats + 1):
        moments: dict[Any, float] = {}
        began = perf_counter()
        loss = loss_of(model)
        between = perf_counter()

        def noted(leaf: Any, grad: Any, moments: Any = moments, between: float = between) -> None:
            moments[leaf._primitive.node] = perf_counter() - between

        grads = loss.backward(on_ready=noted)
        after = perf_counter()
        new = optim.step(1e-3, model, GradientsParams.from_grads(grads, model))
        end = perf_counter()
        values = [param.value for param in reversed(model.params())]
        ready = tuple((moments[x._primitive.node], x.inner().to_numpy().nbytes) for x in values)
        figures.append(Profile(between - began, ready, after - between, end - after))
        model = new
    best = min(figures[1:], key=lambda each: each.backward)
    return best._replace(
        forward=min(each.forward for each in figures[1:]), update=min(each.update for each in figures[1:])
    )


def table(profile: Profile, link: Link, **settings: Any) -> list[str]:
    """Return the rows of a Markdown table: one for each number of ranks. Settings are those of `simulated`."""
    rows = [
        "| ranks | sums, ms | step, ms | with overlap, ms | hidden | efficiency | with overlap |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for ranks in RANKS:
        plain, hidden = (simulated(profile, ranks, link, overlap=overlap, **settings) for overlap in (False, True))
        share = 1 - hidden.exposed / hidden.communication if hidden.communication else 0.0
        rows.append(
            f"| {ranks} | {1e3 * plain.communication:.2f} | {1e3 * plain.step:.2f} | {1e3 * hidden.step:.2f} "
            f"| {share:.0%} | {profile.compute / plain.step:.0%} | {profile.compute / hidden.step:.0%} |"
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the assumptions, the measured step, and a table for each link."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Data parallelism, simulated.")
    parser.add_argument("--algorithm", choices=[*ALGORITHMS], default="ring")
    parser.add_argument("--bucket-bytes", type=int, default=BUCKET_BYTES)
    parser.add_argument("--spread", type=float, default=0.0, help="of the ranks' slowdowns; such as 0.05")
    parser.add_argument("--small", action="store_true", help="a tiny model and few repeats")
    options = parser.parse_args(arguments)

    profile = measured(small=options.small, repeats=2 if options.small else REPEATS)
    print((__doc__ or "").split("\n\n", 1)[1])
    count = len(buckets(profile.ready, options.bucket_bytes))
    forward, backward, update = (1e3 * seconds for seconds in (profile.forward, profile.backward, profile.update))
    print(
        f"A small GPT: {profile.nbytes / 1e6:.2f} MB of gradients in {count} buckets; forward {forward:.2f} ms, "
        f"backward {backward:.2f} ms, optimizer {update:.2f} ms."
    )
    for link in LINKS:
        print(f"\n{link.name}, {options.algorithm}, spread {options.spread:g}:\n")
        settings = {"algorithm": options.algorithm, "spread": options.spread, "bucket_bytes": options.bucket_bytes}
        print("\n".join(table(profile, link, **settings)))
    print("\nThe same step, executed by `Group.mean` and `Group.backward` while the sums take the modelled time:\n")
    print("| link | ranks | step, ms | simulated | with overlap, ms | simulated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for link in LINKS[:2]:
        for ranks in (8, 1000):
            took = executed(ranks, link, options.algorithm, small=options.small)
            model = [
                simulated(profile, ranks, link, algorithm=options.algorithm, overlap=overlap).step
                for overlap in (False, True)
            ]
            plain, hidden = (f"{1e3 * a:.2f} | {1e3 * b:.2f}" for a, b in zip(took, model, strict=True))
            print(f"| {link.name} | {ranks} | {plain} | {hidden} |")


if __name__ == "__main__":
    main()
