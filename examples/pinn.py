"""A network learns to solve Burgers' equation from the equation alone: ``OMP_NUM_THREADS=1 python examples/pinn.py``.

    u_t + u u_x = ν u_xx   for -1 < x < 1 and 0 < t < 1,   u(0, x) = -sin(πx),   u(t, ±1) = 0,   ν = 0.01 / π

The wave steepens until t = 0.5, and then has a slope of about -150 at x = 0, where the equation is hard. The network,
of t and x, is never shown a solution: the loss is what it leaves of the equation (Raissi et al. 2019). It needs the
derivatives u_t, u_x and u_xx of the network, differentiated in turn by its weights: a third derivative in all. At the
end the network is compared with a solution by finite differences: with the seeds 0 to 3 it is 1.3 to 1.8 % away.

It takes about a minute on one core. Matrices as small as these are no faster on several threads, and far slower where
other programs want the cores.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, Gradients, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.func import grad, value_and_grad
from pinn_report import finite_differences, plot, relative_error

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

VISCOSITY = 0.01 / math.pi
LAYERS = (2, 20, 20, 20, 20, 1)
STEPS = 100  # of an epoch, after each of which the loss is noted
POINTS, REDRAWN = 512, 10  # where the equation is asked for, and for how many steps at the same points
RATE, DECAY1, DECAY2 = 0.01, 0.9, 0.999  # Adam's


@dataclass(frozen=True)
class Network(Generic[B]):
    """Layers with tanh between them, which is smooth, as second derivatives are taken."""

    parameters: tuple[Tensor[B], ...]  # weight and bias of each layer in turn

    def forward(self, t: Tensor[B], x: Tensor[B]) -> Tensor[B]:
        """The solution u at n points, (n, 1), from their times t and places x, both (n, 1).

        It is right at t = 0 and at x = ±1 whatever the weights are, so that only the equation remains to be learned.
        """
        y = burnpy.cat([t, x], dim=1)
        *hidden, (weight, bias) = zip(self.parameters[::2], self.parameters[1::2], strict=True)
        for w, b in hidden:
            y = (y @ w + b).tanh()
        return t * (1 - x * x) * (y @ weight + bias) - (math.pi * x).sin()

    def valid(self: Network[Autodiff[I]]) -> Network[I]:
        """The same weights, in the same memory, on the inner backend: what they compute is not recorded."""
        return Network(tuple(p.inner() for p in self.parameters))


def random_network(device: B | type[B]) -> Network[B]:
    """A network to be trained, with weights scaled as Glorot and Bengio (2010) found right for tanh."""
    parameters: list[Tensor[B]] = []
    for inputs, outputs in pairwise(LAYERS):
        scale = 1.0 if inputs == 2 else math.sqrt(2 / (inputs + outputs))
        parameters.append(Tensor.normal((inputs, outputs), 0.0, scale, device=device))
        parameters.append(Tensor.normal((outputs,), 0.0, 1.0 if inputs == 2 else 0.0, device=device))
    return Network(tuple(p.require_grad() for p in parameters))


def residual(network: Network[B], t: Tensor[B], x: Tensor[B]) -> Tensor[B]:
    """What the network leaves of Burgers' equation at n points, (n, 1): 0 everywhere for a solution.

    A row of u depends on the same row of t and x alone, so that the gradient of the sum of u holds the derivatives of
    all rows. Two functions of `burnpy.func`, one inside of the other, do it: u_t and u_x come from a reverse pass over
    one evaluation of the network, and u_xx from another over both. Where the weights are tracked, as in training, all
    of this is recorded on their backend; where they are not, nothing is, and the same function serves.

    Forward mode would do as well, and save memory, but it goes in one direction at a time: in t, in x, and in x again,
    which evaluates the network six times over, and makes a step of training a quarter longer. Nested ``Autodiff`` would
    do what these functions do, in three times the lines.
    """

    def solution(t: Tensor[B], x: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        u = network.forward(t, x)
        return u.sum(), u

    def slope(x: Tensor[B]) -> tuple[Tensor[B], tuple[Tensor[B], Tensor[B], Tensor[B]]]:
        (_, u), (u_t, u_x) = value_and_grad(solution, argnums=(0, 1), has_aux=True)(t, x)
        return u_x.sum(), (u, u_t, u_x)

    u_xx, (u, u_t, u_x) = grad(slope, has_aux=True)(x)
    return u_t + u * u_x - VISCOSITY * u_xx


@dataclass(frozen=True)
class Moments(Generic[I]):
    """What Adam remembers: for each parameter running means of its gradient and of its square, and the steps so far."""

    means: tuple[Tensor[I], ...]
    squares: tuple[Tensor[I], ...]
    steps: int = 0


def adam(
    network: Network[Autodiff[I]], moments: Moments[I], grads: Gradients[I], rate: float
) -> tuple[Network[Autodiff[I]], Moments[I]]:
    """A step of Adam (Kingma and Ba 2015): the next network, and what is remembered for the step after."""
    found = [grads[p] for p in network.parameters]
    means = tuple(DECAY1 * m + (1 - DECAY1) * g for m, g in zip(moments.means, found, strict=True))
    squares = tuple(DECAY2 * s + (1 - DECAY2) * g * g for s, g in zip(moments.squares, found, strict=True))
    steps = moments.steps + 1
    unbias = math.sqrt(1 - DECAY2**steps)  # both means begin at 0, and are corrected for that
    rate *= unbias / (1 - DECAY1**steps)
    moved = (
        p.inner() - rate * m / (s.sqrt() + 1e-8 * unbias)
        for p, m, s in zip(network.parameters, means, squares, strict=True)
    )
    return Network(tuple(Tensor.from_inner(p).require_grad() for p in moved)), Moments(means, squares, steps)


def hard_points(
    network: Network[Autodiff[I]], generator: np.random.Generator
) -> tuple[Tensor[Autodiff[I]], Tensor[Autodiff[I]]]:
    """Points t, x to learn from next, (`POINTS`, 1) each, more of them where the equation is worse met.

    Most of the domain is easy; the thin layer at x = 0 is not, and uniform points seldom fall into it (Wu et al. 2023).
    """
    points = generator.uniform((0, -1), (1, 1), (4 * POINTS, 2)).astype(np.float32)
    device = network.parameters[0].device
    t, x = (Tensor.from_data(column, device=device) for column in (points[:, :1], points[:, 1:]))
    left: npt.NDArray[np.float32] = residual(network.valid(), t.inner(), x.inner()).abs().to_numpy()[:, 0]
    weights = left.astype(np.float64) + left.mean()
    chosen = generator.choice(len(points), POINTS, replace=False, p=weights / weights.sum())
    rows = IntTensor.from_data(chosen, device=device)
    return t.index_select(0, rows), x.index_select(0, rows)


def train(device: Autodiff[I] | type[Autodiff[I]], epochs: int, seed: int, out: Path) -> None:
    """Train, compare with finite differences, and draw both solutions to ``out``."""
    burnpy.manual_seed(seed)
    generator = np.random.default_rng(seed)
    network = random_network(device)
    zeros = tuple(p.zeros_like() for p in network.valid().parameters)
    moments = Moments(zeros, zeros)
    t, x = hard_points(network, generator)
    losses: list[float] = []
    size = sum(p.numel() for p in network.parameters)
    print(f"Burgers' equation with ν = {VISCOSITY:.5f}; a network of {size} weights on {network.parameters[0].device}")
    begin = time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for step in range(STEPS):
            done = (epoch * STEPS + step) / (epochs * STEPS)
            if step % REDRAWN == 0:
                t, x = hard_points(network, generator)
            loss = residual(network, t, x).square().mean()
            rate = RATE * min(1.0, 50 * done) * (1 + math.cos(math.pi * done)) / 2
            network, moments = adam(network, moments, loss.backward(), rate)
            total += loss.item()
        losses.append(total / STEPS)
        if (epoch + 1) % max(1, epochs // 10) == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {losses[-1]:.4f}, {time.perf_counter() - begin:.0f} s", flush=True)

    times, places, expected = finite_differences(VISCOSITY)
    learned = solution_on(network.valid(), times, places)
    picture = plot(times, places, learned, expected, losses, out / "pinn.png")
    print(f"relative L2 error against finite differences: {relative_error(learned, expected):.2%}; see {picture}")


def solution_on(
    network: Network[I], times: npt.NDArray[np.float64], places: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The network's solution on a grid, (times, places)."""
    device = network.parameters[0].device
    grid = np.meshgrid(times, places, indexing="ij")
    t, x = (Tensor.from_data(axis.reshape(-1, 1).astype(np.float32), device=device) for axis in grid)
    found: npt.NDArray[np.float32] = network.forward(t, x).to_numpy()
    return found.reshape(len(times), len(places)).astype(np.float64)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a physics-informed network for Burgers' equation.")
    parser.add_argument("--epochs", type=int, default=200, help=f"of {STEPS} steps each")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the points")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(arguments)
    train(Autodiff[NumPy], options.epochs, options.seed, options.out)


if __name__ == "__main__":
    main()
