"""Solve Burgers' equation with a physics-informed network: ``OMP_NUM_THREADS=1 python examples/pinn.py``.

    u_t + u u_x = ν u_xx   for -1 < x < 1 and 0 < t < 1,   u(0, x) = -sin(πx),   u(t, ±1) = 0,   ν = 0.01 / π

The wave steepens until t = 0.5, and then has a slope of about -150 at x = 0, where the equation is hard to solve. The
network, a function of t and x, is trained without data: the loss is the mean squared residual of the equation (Raissi
et al. 2019). It needs the derivatives u_t, u_x and u_xx of the network, which are then differentiated with respect to
the weights: a third derivative in all. At the end the network is compared with a solution by finite differences: with
the seeds 0 to 3 the relative error is 1.3 to 1.8 %.

It takes about a minute on one core. Matrices as small as these are no faster on several threads, and far slower if
other programs use the cores.
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
STEPS = 100  # steps per epoch; the loss is recorded once per epoch
POINTS, REDRAWN = 512, 10  # number of points where the residual is computed; steps until new points are drawn
RATE, DECAY1, DECAY2 = 0.01, 0.9, 0.999  # of Adam


@dataclass(frozen=True)
class Network(Generic[B]):
    """A multilayer perceptron with tanh, which is smooth, as second derivatives are needed."""

    parameters: tuple[Tensor[B], ...]  # weight and bias of each layer in turn

    def forward(self, t: Tensor[B], x: Tensor[B]) -> Tensor[B]:
        """Return the solution u at n points, (n, 1), from their times t and places x, both (n, 1).

        It satisfies the initial and boundary conditions for any weights, so that only the equation is to be learned.
        """
        y = burnpy.cat([t, x], dim=1)
        *hidden, (weight, bias) = zip(self.parameters[::2], self.parameters[1::2], strict=True)
        for w, b in hidden:
            y = (y @ w + b).tanh()
        return t * (1 - x * x) * (y @ weight + bias) - (math.pi * x).sin()

    def valid(self: Network[Autodiff[I]]) -> Network[I]:
        """Return the network on the inner backend, with the same weights in the same memory; it records no graph."""
        return Network(tuple(p.inner() for p in self.parameters))


def random_network(device: B | type[B]) -> Network[B]:
    """Create a network with tracked weights, scaled for tanh as by Glorot and Bengio (2010)."""
    parameters: list[Tensor[B]] = []
    for inputs, outputs in pairwise(LAYERS):
        scale = 1.0 if inputs == 2 else math.sqrt(2 / (inputs + outputs))
        parameters.append(Tensor.normal((inputs, outputs), 0.0, scale, device=device))
        parameters.append(Tensor.normal((outputs,), 0.0, 1.0 if inputs == 2 else 0.0, device=device))
    return Network(tuple(p.require_grad() for p in parameters))


def residual(network: Network[B], t: Tensor[B], x: Tensor[B]) -> Tensor[B]:
    """Return the residual of Burgers' equation at n points, (n, 1), which is 0 everywhere for a solution.

    Each row of u depends only on the same row of t and x, so the gradient of the sum of u contains the derivatives
    of all rows. Two nested functions of `burnpy.func` compute them: u_t and u_x by a reverse pass over one
    evaluation of the network, and u_xx by another over both. If the weights are tracked, as they are during
    training, all of this is recorded on their backend; if they are not, the same function records nothing.

    Forward mode would work too, and save memory, but it takes one direction at a time: t, x, and x again, which costs
    as much as six evaluations of the network and makes a training step a quarter longer. Nested ``Autodiff`` would do
    the same as these functions in three times the lines.
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
    """The state of Adam: for each parameter, running means of its gradient and of its square; and the step count."""

    means: tuple[Tensor[I], ...]
    squares: tuple[Tensor[I], ...]
    steps: int = 0


def adam(
    network: Network[Autodiff[I]], moments: Moments[I], grads: Gradients[I], rate: float
) -> tuple[Network[Autodiff[I]], Moments[I]]:
    """Return the network and the state after one step of Adam (Kingma and Ba 2015)."""
    gs = [grads[p] for p in network.parameters]
    means = tuple(DECAY1 * m + (1 - DECAY1) * g for m, g in zip(moments.means, gs, strict=True))
    squares = tuple(DECAY2 * s + (1 - DECAY2) * g * g for s, g in zip(moments.squares, gs, strict=True))
    steps = moments.steps + 1
    unbias = math.sqrt(1 - DECAY2**steps)  # bias correction, as both means start at 0
    rate *= unbias / (1 - DECAY1**steps)
    updated = (
        p.inner() - rate * m / (s.sqrt() + 1e-8 * unbias)
        for p, m, s in zip(network.parameters, means, squares, strict=True)
    )
    return Network(tuple(Tensor.from_inner(p).require_grad() for p in updated)), Moments(means, squares, steps)


def hard_points(
    network: Network[Autodiff[I]], generator: np.random.Generator
) -> tuple[Tensor[Autodiff[I]], Tensor[Autodiff[I]]]:
    """Draw points t and x for the next steps, (`POINTS`, 1) each, with higher probability where the residual is large.

    Most of the domain is easy; the thin layer at x = 0 is not, and few uniform points fall into it (Wu et al. 2023).
    """
    points = generator.uniform((0, -1), (1, 1), (4 * POINTS, 2)).astype(np.float32)
    device = network.parameters[0].device
    t, x = (Tensor.from_data(column, device=device) for column in (points[:, :1], points[:, 1:]))
    residuals: npt.NDArray[np.float32] = residual(network.valid(), t.inner(), x.inner()).abs().to_numpy()[:, 0]
    weights = residuals.astype(np.float64) + residuals.mean()
    chosen = generator.choice(len(points), POINTS, replace=False, p=weights / weights.sum())
    rows = IntTensor.from_data(chosen, device=device)
    return t.index_select(0, rows), x.index_select(0, rows)


def train(device: Autodiff[I] | type[Autodiff[I]], epochs: int, seed: int, out: Path) -> None:
    """Train the network, compare it with finite differences, and plot both solutions to the folder ``out``."""
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
            progress = (epoch * STEPS + step) / (epochs * STEPS)
            if step % REDRAWN == 0:
                t, x = hard_points(network, generator)
            loss = residual(network, t, x).square().mean()
            rate = RATE * min(1.0, 50 * progress) * (1 + math.cos(math.pi * progress)) / 2
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
    """Evaluate the network on a grid; return the solution, (times, places)."""
    device = network.parameters[0].device
    grid = np.meshgrid(times, places, indexing="ij")
    t, x = (Tensor.from_data(axis.reshape(-1, 1).astype(np.float32), device=device) for axis in grid)
    u: npt.NDArray[np.float32] = network.forward(t, x).to_numpy()
    return u.reshape(len(times), len(places)).astype(np.float64)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a physics-informed network for Burgers' equation.")
    parser.add_argument("--epochs", type=int, default=200, help=f"number of epochs, of {STEPS} steps each")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and the points")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the plot")
    options = parser.parse_args(arguments)
    train(Autodiff[NumPy], options.epochs, options.seed, options.out)


if __name__ == "__main__":
    main()
