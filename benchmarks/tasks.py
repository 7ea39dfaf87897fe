"""The models that training is measured with: their first weights, what they learn from, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

CLASSES, BATCHES = 10, 8
SIZES = (784, 512, 512, CLASSES)
CHANNELS, PIXELS = (3, 16, 32, 64), 32
ALPHABET, LENGTH, SIZE, HEADS, LAYERS = 96, 64, 128, 4, 3
MAX_NORM = 1.0


@dataclass(frozen=True)
class Task:
    """What every peer builds and trains with the same numbers."""

    model: str
    weights: Mapping[str, Array] = field(repr=False)
    """By path. Matrices are (in, out); those of one attention's queries, keys and values are side by side."""
    inputs: Array = field(repr=False)  #: (BATCHES, batch, …)
    labels: Array = field(repr=False)  #: (BATCHES, batch) or (BATCHES, batch, length)
    optimizer: str = "Adam"
    rate: float = 1e-3
    max_norm: float | None = None  #: what gradients are clipped to, all together


def mlp(rng: np.random.Generator) -> Task:
    """784-512-512-10 with ReLU."""
    weights: dict[str, Array] = {}
    for k, (inputs, outputs) in enumerate(pairwise(SIZES)):
        weights |= _linear(rng, f"layers.{k}", inputs, outputs)
    images = rng.uniform(0.0, 1.0, (BATCHES, 128, SIZES[0]))
    return Task("MLP", weights, images, rng.integers(0, CLASSES, images.shape[:2]))


def cnn(rng: np.random.Generator) -> Task:
    """Three convolutions of 3 × 3, each with batch norm, ReLU and a pool, and a linear layer; 32 × 32 pixels."""
    weights: dict[str, Array] = {}
    for k, (inputs, outputs) in enumerate(pairwise(CHANNELS)):
        weights[f"convolutions.{k}.weight"] = rng.normal(0.0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3))
        weights |= _norm(f"norms.{k}", outputs)
    weights |= _linear(rng, "logits", CHANNELS[-1] * (PIXELS >> len(CHANNELS[1:])) ** 2, CLASSES)
    images = rng.normal(0.0, 1.0, (BATCHES, 64, CHANNELS[0], PIXELS, PIXELS))
    return Task("CNN", weights, images, rng.integers(0, CLASSES, images.shape[:2]))


def gpt(rng: np.random.Generator) -> Task:
    """A transformer that predicts the next of 96 characters, from 16 windows of 64; gradients are clipped."""
    weights: dict[str, Array] = {
        "characters.weight": rng.normal(0.0, 0.02, (ALPHABET, SIZE)),
        "places": rng.normal(0.0, 0.02, (LENGTH, SIZE)),
    }
    for k in range(LAYERS):
        layer = f"blocks.layers.{k}"
        weights[f"{layer}.self_attn.in_proj_weight"] = rng.normal(0.0, SIZE**-0.5, (SIZE, 3 * SIZE))
        weights[f"{layer}.self_attn.in_proj_bias"] = np.zeros(3 * SIZE)
        weights |= _linear(rng, f"{layer}.self_attn.out_proj", SIZE, SIZE)
        weights |= _linear(rng, f"{layer}.linear1", SIZE, 4 * SIZE)
        weights |= _linear(rng, f"{layer}.linear2", 4 * SIZE, SIZE)
        weights |= _norm(f"{layer}.norm1", SIZE) | _norm(f"{layer}.norm2", SIZE)
    weights |= _norm("blocks.norm", SIZE) | _linear(rng, "logits", SIZE, ALPHABET)
    text = rng.integers(0, ALPHABET, (BATCHES, 16, LENGTH + 1))
    return Task("mini-GPT", weights, text[..., :-1], text[..., 1:], "AdamW", 1e-3, MAX_NORM)


def _linear(rng: np.random.Generator, path: str, inputs: int, outputs: int) -> dict[str, Array]:
    return {
        f"{path}.weight": rng.normal(0.0, (2 / inputs) ** 0.5, (inputs, outputs)),
        f"{path}.bias": np.zeros(outputs),
    }


def _norm(path: str, size: int) -> dict[str, Array]:
    return {f"{path}.weight": np.ones(size), f"{path}.bias": np.zeros(size)}


TASKS: Mapping[str, Callable[[np.random.Generator], Task]] = {"MLP": mlp, "CNN": cnn, "mini-GPT": gpt}


def task(model: str, dtype: str) -> Task:
    """One of them, in a float dtype; the same numbers every time."""
    made = TASKS[model](np.random.default_rng(0))
    floats = {path: value.astype(dtype) for path, value in made.weights.items()}
    inputs = made.inputs.astype(dtype) if made.inputs.dtype.kind == "f" else made.inputs
    return Task(made.model, floats, inputs, made.labels, made.optimizer, made.rate, made.max_norm)
