"""A variational autoencoder of handwritten digits, with a latent space of two dimensions: ``python examples/vae.py``.

The encoder maps an image to a normal distribution in the plane, the decoder a point of the plane to an image. Training
maximises a lower bound on the log-likelihood of the images (Kingma and Welling 2014): it minimises the cross entropy of
the image decoded from a random point of the distribution, plus the divergence of the distribution from a standard one.
The labels are used only to colour the picture. It takes about twenty seconds on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias, TypeVar

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.metrics import Mean
from burnpy.nn import Linear, Module, Sequential, Silu, rebound
from burnpy.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits
from burnpy.optim import AdamW, OneCycleLr
from burnpy.train import EpochEnd, Learner, Step
from digits_report import load_digits
from pictures import draw_latent_plane

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I]
Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]

PIXELS, HIDDEN, LATENT = 64, 256, 2


class Images(Batch[B]):
    """Images with pixels from 0 to 1, (n, 64), and what they show, (n,)."""

    x: Tensor[B]
    y: IntTensor[B]


class Vae(Module[B]):
    """Encoder and decoder, each of two hidden layers."""

    def __init__(self, device: B | type[B]) -> None:
        def mlp(*sizes: int) -> Sequential[B]:
            first, second, third = (Linear(n, m, device=device) for n, m in pairwise(sizes))
            return Sequential(first, Silu(), second, Silu(), third)

        self.encoder = mlp(PIXELS, HIDDEN, HIDDEN, 2 * LATENT)
        self.decoder = mlp(LATENT, HIDDEN, HIDDEN, PIXELS)

    def encode(self, x: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        """Return the means and the logarithms of the variances of images (n, 64), both (n, 2)."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        return mean, log_variance

    def forward(self, x: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        """For each image (n, 64) the two terms of the bound, in nats: cross entropy and divergence, both (n,)."""
        mean, log_variance = self.encode(x)
        z = mean + (0.5 * log_variance).exp() * mean.normal_like()  # differentiable in mean and variance
        entropy = binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(dim=1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(dim=1)
        return entropy, divergence

    def valid(self: Vae[Autodiff[I]]) -> Vae[I]:
        """Return the same weights on the inner backend."""
        return rebound(self)


def step(model: Vae[B], batch: Images[B]) -> Step[B]:
    """Return the mean loss of a batch; it serves training and, on the inner backend, validation."""
    entropy, divergence = model(batch.x)
    return Step((entropy + divergence).mean(), divergence=Mean.of(divergence))


def train(epochs: int, seed: int, out: Path) -> None:
    """Train on four fifths of the images, report the bound on the others, and draw the plane."""
    burnpy.manual_seed(seed)
    images, labels = load_digits()
    learned, held_out = ArrayDataset(x=images.reshape(-1, PIXELS), y=labels).split(0.8, seed=seed, stratify="y")
    loader = Loader(learned, collate(Images[Train]), batch_size=64, shuffle=True, seed=seed)
    valid = Loader(held_out, collate(Images[Infer]), batch_size=len(held_out))
    (test,) = valid.epoch(0)
    (whole,) = Loader(learned, collate(Images[Infer]), batch_size=len(learned)).epoch(0)
    mean = whole.x.mean(dim=0).clamp(1e-3, 1 - 1e-3).expand(test.x.shape)
    constant = binary_cross_entropy(mean, test.x, reduction="sum").item() / len(held_out)
    print(f"{len(learned)} images, {len(held_out)} held out, which the mean image describes in {constant:.2f} nats")

    learner = Learner(step, step, optim=AdamW(weight_decay=0.01), lr=OneCycleLr(3e-3, steps=epochs * len(loader)))
    model = Vae(Train)
    for event in learner.events(model, loader, valid, epochs=epochs):
        if isinstance(event, EpochEnd):
            model = event.model
            if (event.epoch + 1) % math.ceil(epochs / 10) == 0:
                loss, divergence = event.values["valid/loss"], event.values["valid/divergence"]
                print(f"epoch {event.epoch + 1}/{epochs}: held out {loss:.2f} nats, {divergence:.2f} of them in z")

    means, _ = model.valid().encode(test.x)
    line = Tensor[Infer].linspace(-2.2, 2.2, 17)
    grid = burnpy.stack(list(burnpy.meshgrid(line, -line, indexing="xy")), dim=-1)
    decoded = model.valid().decoder(grid.reshape(-1, LATENT)).sigmoid().reshape(17, 17, 8, 8)
    print(f"see {draw_latent_plane(means.to_numpy(), test.y.to_numpy(), decoded.to_numpy(), out / 'vae.png')}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a variational autoencoder on scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the split, the weights, the order and the latent points"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.epochs, options.seed, options.out)


if __name__ == "__main__":
    main()
