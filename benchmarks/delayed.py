"""A group of one process that behaves as many ranks behind delayed links: `Group.mean` and `Group.backward` run as they
are, while the sums take the time of a modelled network, in which the processor has nothing to do.

Every rank is taken to have the gradients of this one, so that a sum is a multiple.
"""

from __future__ import annotations

from time import perf_counter, sleep
from typing import Any

from benchmarks.scaling import ALGORITHMS, Link
from burnpy.distributed import Group
from burnpy.distributed.calls import Alone, Header


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
        """Sums go on without being asked."""

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
    from benchmarks.scaling import model_and_loss
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
