"""An ensemble says how sure it is of a curve: ``python examples/ensemble.py``.

Twenty networks learn a sine with noise from 40 points with a gap between them. Each begins with its own weights, learns
targets with its own noise, and adds the output of a random network that is never trained. So they agree where the data
are, and differ where there are none: their spread is an error bar. Source: Osband, Aslanides and Cassirer, Randomized
Prior Functions for Deep Reinforcement Learning, 2018.

All networks are one stacked model, and so are the untrained ones: `vmap` computes the losses and gradients of all
members at once. It takes about three seconds on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Tensor
from burnpy.backend import Backend, NumPy
from burnpy.func import stack_models, value_and_grad, vmap
from burnpy.nn import Linear, Module
from burnpy.optim import Adam, GradientsParams
from pictures import draw_ensemble

B = TypeVar("B", bound=Backend)
Array = npt.NDArray[np.float32]

MEMBERS, POINTS, NOISE = 20, 40, 0.1
GAP = (-0.2, 0.5)  # there are no points between these


class Network(Module[B]):
    """Two hidden layers of 50."""

    def __init__(self, device: B | type[B]) -> None:
        self.first = Linear(1, 50, device=device)
        self.second = Linear(50, 50, device=device)
        self.out = Linear(50, 1, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From points (n, 1) to values (n,)."""
        return self.out(self.second(self.first(x * 4.0).relu()).relu())[:, 0]


def prediction(network: Network[B], prior: Network[B], x: Tensor[B]) -> Tensor[B]:
    """Return the predictions of one member at points (n, 1), of shape (n,)."""
    return network(x) + prior(x) * 3.0


def loss(network: Network[B], prior: Network[B], x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Return the mean squared error of one member."""
    return (prediction(network, prior, x) - y).square().mean()


def curve(x: Array) -> Array:
    """Return the function that is learned."""
    values: Array = np.sin(4.0 * x)
    return values


def points(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the data: x, (40, 1), on both sides of the gap, and y with noise, (40,)."""
    half = POINTS // 2
    x = np.concatenate([rng.uniform(-1.0, GAP[0], half), rng.uniform(GAP[1], 1.0, half)]).astype(np.float32)
    return x[:, None], curve(x) + rng.normal(0.0, NOISE, POINTS).astype(np.float32)


def train(steps: int, seed: int, out: Path) -> None:
    """Train all members at once, compare error bars within the data and in the gap, and draw them."""
    burnpy.manual_seed(seed)
    rng = np.random.default_rng(seed)
    data = points(rng)
    x = Tensor[NumPy].from_data(data[0])
    y = Tensor[NumPy].from_data(data[1] + rng.normal(0.0, NOISE, (MEMBERS, POINTS)), dtype="float32")
    members, priors = (stack_models([Network(NumPy) for _ in range(MEMBERS)]) for _ in range(2))
    optim = Adam()
    gradients = vmap(value_and_grad(loss), in_dims=(0, 0, None, 0))
    start = process_time()
    for step in range(1, steps + 1):
        losses, grads = gradients(members, priors, x, y)
        members = optim.step(0.005, members, GradientsParams.from_module(grads))
        if step % max(steps // 5, 1) == 0:
            print(f"step {step}: losses {losses.min().item():.4f} to {losses.max().item():.4f}", flush=True)
    print(f"{MEMBERS} networks, {steps} steps: {process_time() - start:.1f} s of processor time")

    at = np.linspace(-1.3, 1.3, 261, dtype=np.float32)
    predictions = vmap(prediction, in_dims=(0, 0, None))(members, priors, Tensor[NumPy].from_data(at[:, None]))
    mean = predictions.mean(0).to_numpy()
    spread = (predictions.var(0) + NOISE**2).sqrt().to_numpy()
    error = np.abs(mean - curve(at))
    gap = (at > GAP[0]) & (at < GAP[1])
    for name, part in (("beside the data", (abs(at) < 1.0) & ~gap), ("in the gap", gap)):
        covered = (error <= 2.0 * spread)[part].mean()
        print(f"{name}: error {error[part].mean():.2f}, error bars {spread[part].mean():.2f}, {covered:.0%} within two")
    drawn = draw_ensemble(data, at, curve(at), predictions.to_numpy(), mean, spread, out / "ensemble.png")
    print("see", drawn)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train an ensemble of networks at once, with error bars.")
    parser.add_argument("--steps", type=int, default=500, help="number of steps of Adam")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.steps, options.seed, options.out)


if __name__ == "__main__":
    main()
