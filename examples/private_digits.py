"""A network learns to read digits and keeps each of them private: ``python examples/private_digits.py``.

Differentially private training (DP-SGD) bounds what one image can change. The gradient of each image is computed alone,
by `per_sample_gradients`, and clipped to a norm; noise in proportion to that norm is added to their sum. The images
are scikit-learn's, with a fifth held out; each step samples them independently. Privacy is (ε, δ), counted by Rényi
differential privacy. The norms before clipping show which images the network does not understand. The picture has the
accuracy over ε, and the images with the largest norms. It takes about five seconds on one core.

Sources: Abadi et al., Deep Learning with Differential Privacy, 2016; Mironov, Talwar and Zhang, Rényi Differential
Privacy of the Sampled Gaussian Mechanism, 2019.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

import burnpy
from burnpy import IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import Linear, Relu, Sequential
from burnpy.optim import Sgd, clip_per_sample, per_sample_gradients, per_sample_norms, sum_of_samples
from digits_report import load_digits
from pictures import draw_private

B = TypeVar("B", bound=Backend)

BATCH, RATE, MOMENTUM = 256, 0.3, 0.9  # BATCH is the expected number of images in a step
CLIP, NOISE = 1.0, 2.0  # the norm that gradients are clipped to, and the noise in multiples of it
DELTA = 1e-4


def loss(model: Sequential[B], sample: tuple[Tensor[B], IntTensor[B]]) -> Tensor[B]:
    """Return the cross entropy of one image, (64,), and its label."""
    image, label = sample
    return burnpy.cross_entropy(model(image), label)


def epsilon(steps: int, rate: float, noise: float, delta: float) -> float:
    """Return the ε, for a δ, of steps that each sample members with probability ``rate`` and add noise to a clipped
    sum.
    """
    found = math.inf
    for order in range(2, 256):
        terms = [
            math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
            + (order - k) * math.log1p(-rate) + k * math.log(rate) + (k * k - k) / (2 * noise * noise)
            for k in range(order + 1)
        ]  # fmt: skip
        largest = max(terms)
        renyi = (largest + math.log(sum(math.exp(term - largest) for term in terms))) / (order - 1)
        found = min(found, steps * renyi + math.log(1 / delta) / (order - 1))
    return found


def train(steps: int, seed: int, out: Path) -> None:
    """Train with noise, print accuracy and privacy, and draw them."""
    burnpy.manual_seed(seed)
    rng = np.random.default_rng(seed)
    images, labels = load_digits()
    images = images.reshape(len(images), -1)
    held_out, learned = np.split(rng.permutation(len(images)), [len(images) // 5])
    x, y = Tensor[NumPy].from_data(images[learned]), IntTensor[NumPy].from_data(labels[learned])
    x_test, y_test = Tensor[NumPy].from_data(images[held_out]), IntTensor[NumPy].from_data(labels[held_out])
    model = Sequential(Linear(64, 64, device=NumPy), Relu(), Linear(64, 10, device=NumPy))
    optim = Sgd(momentum=MOMENTUM)
    rate = BATCH / len(x)

    def noisy(total: Tensor[NumPy]) -> Tensor[NumPy]:
        return (total + Tensor[NumPy].normal(total.shape) * (NOISE * CLIP)) / float(BATCH)

    curve: list[tuple[float, float]] = []
    for step in range(1, steps + 1):
        rows = IntTensor[NumPy].from_data(np.flatnonzero(rng.random(len(x)) < rate))
        grads = per_sample_gradients(model, loss, (x[rows], y[rows]))
        private = sum_of_samples(clip_per_sample(grads, CLIP)).map(noisy)
        model = optim.step(RATE, model, private)
        if step % max(steps // 10, 1) == 0:
            right = (model(x_test).argmax(dim=1) == y_test).float().mean().item()
            curve.append((epsilon(step, rate, NOISE, DELTA), right))
            clipped = (per_sample_norms(grads) > CLIP).float().mean().item()
            print(f"step {step}: ε = {curve[-1][0]:.2f}, {right:.1%} of held-out digits, {clipped:.0%} clipped")
    print(f"δ = {DELTA:g}, {len(x)} images")

    norms = per_sample_norms(per_sample_gradients(model, loss, (x, y))).to_numpy()
    order = np.argsort(-norms)[:24]
    guesses = model(x).argmax(dim=1).to_numpy()[order]
    print(f"norms of gradients: median {np.median(norms):.3f}, largest {norms.max():.1f}")
    titles = [f"{label}, read as {guess}" for label, guess in zip(labels[learned][order], guesses, strict=True)]
    print("see", draw_private(curve, images[learned][order].reshape(-1, 8, 8), titles, out / "private_digits.png"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a network on digits with differential privacy.")
    parser.add_argument("--steps", type=int, default=200, help="number of steps")
    parser.add_argument("--seed", type=int, default=0, help="seed of samples, weights and noise")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.steps, options.seed, options.out)


if __name__ == "__main__":
    main()
