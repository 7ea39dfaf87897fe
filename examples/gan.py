"""A generative adversarial network learns a mixture of eight normal distributions: ``python examples/gan.py``.

The generator maps noise to points of the plane; the discriminator tells them from points of the mixture; each is
trained against the other (Goodfellow et al. 2014). Without more, such training forgets some of the eight or does not
settle. So the discriminator is kept flat at real points: its loss contains the squared norm of its gradient there, the
penalty R1 (Mescheder et al. 2018), which `burnpy.func.grad` computes and ``backward()`` differentiates once more. It
takes about twenty seconds on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.func import grad
from burnpy.nn import LeakyRelu, Linear, Module, Sequential, rebound
from burnpy.optim import Adam, CosineLr, Ema
from pictures import Array, draw_points

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I]
Train: TypeAlias = Autodiff[NumPy]

MODES, RADIUS, SPREAD = 8, 4.0, 0.2  # the distributions on a circle, its radius, their deviation
NOISE, HIDDEN, BATCH = 4, 96, 256
PENALTY = 0.3  # the weight of R1


class Mlp(Module[B]):
    """A multilayer perceptron with two hidden layers; the generator and the discriminator are one each."""

    def __init__(self, inputs: int, outputs: int, device: B | type[B]) -> None:
        first, second = Linear(inputs, HIDDEN, device=device), Linear(HIDDEN, HIDDEN, device=device)
        last = Linear(HIDDEN, outputs, device=device)
        self.layers = Sequential(first, LeakyRelu(), second, LeakyRelu(), last)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From rows of size ``inputs`` to rows of size ``outputs``."""
        return self.layers(x)

    def valid(self: Mlp[Autodiff[I]]) -> Mlp[I]:
        """Return the same weights on the inner backend."""
        return rebound(self)


def centres(device: B | type[B]) -> Tensor[B]:
    """Return the centres of the mixture, (8, 2)."""
    angles = Tensor.arange(MODES, device=device) * (2 * math.pi / MODES)
    return RADIUS * burnpy.stack([angles.cos(), angles.sin()], dim=1)


def real_points(count: int, device: B | type[B]) -> Tensor[B]:
    """Points of the mixture, (count, 2)."""
    chosen = IntTensor.randint(0, MODES, (count,), device=device)
    return centres(device)[chosen] + Tensor.normal((count, 2), 0.0, SPREAD, device=device)


def discriminator_loss(discriminator: Mlp[B], real: Tensor[B], generated: Tensor[B]) -> Tensor[B]:
    """Return the cross entropy of telling real points from generated ones, and the penalty on the slope at the real
    ones.
    """
    slope: Tensor[B] = grad(lambda x: discriminator(x).sum())(real)
    entropy = (-discriminator(real)).softplus().mean() + discriminator(generated).softplus().mean()
    return entropy + PENALTY / 2 * slope.square().sum(dim=1).mean()


def quality(points: Tensor[B]) -> tuple[int, float]:
    """Return the number of the eight that have half of their share of points, or more, within three standard
    deviations; and the share of all points that lie so near to a centre, which is 98.9 % of real points, and 38 % of
    any on the circle.
    """
    distances = burnpy.cdist(points, centres(points.device))
    near = distances < 3 * SPREAD
    modes = near.float().mean(dim=0) > 0.5 / MODES
    return int(modes.sum().item()), near.any(dim=1).float().mean().item()


def train(steps: int, seed: int, out: Path) -> None:
    """Train both networks, and draw points of the generator at four moments."""
    burnpy.manual_seed(seed)
    generator, discriminator = Mlp(NOISE, 2, Train), Mlp(2, 1, Train)
    optim_g, optim_d = Adam(betas=(0.5, 0.99)), Adam(betas=(0.5, 0.99))
    schedule = CosineLr(2e-3, steps)
    average = Ema(generator, decay=0.99)  # of the weights, which circle around good values
    stages: list[tuple[str, Array, Array]] = []
    for step in range(steps + 1):
        if step in (0, steps // 10, steps // 3, steps):
            points = average.model.valid()(Tensor[NumPy].normal((4000, NOISE)))
            modes, share = quality(points)
            print(f"step {step}: {modes} of {MODES} distributions, {share:.1%} of the points near one", flush=True)
            shown = (real_points(1000, NumPy).to_numpy(), points[:1000].to_numpy())
            stages.append((f"step {step}: {modes} of {MODES}, {share:.1%}", *shown))
        noise = Tensor[Train].normal((BATCH, NOISE))
        generated = generator(noise)
        loss = discriminator_loss(discriminator, real_points(BATCH, Train), generated.detach())
        discriminator = optim_d.step(schedule(step), discriminator, loss.backward())
        loss = (-discriminator(generated)).softplus().mean()
        generator = optim_g.step(schedule(step), generator, loss.backward())
        average = average.update(generator)
    print(f"see {draw_points(stages, out / 'gan.png')}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a generative adversarial network on a mixture of normals.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of all points")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.steps, options.seed, options.out)


if __name__ == "__main__":
    main()
