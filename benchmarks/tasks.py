"""The training tasks of the benchmarks: models, first weights, data and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

CLASSES, BATCHES, MAX_NORM, MOMENTUM = 10, 8, 1.0, 0.9


@dataclass(frozen=True)
class Task:
    """A model with its first weights, data and optimizer, which are the same for every peer."""

    model: str
    sizes: Mapping[str, Any]  #: the keyword arguments of the model's constructor
    weights: Mapping[str, Array] = field(repr=False)
    """The first weights by path. Matrices are (in, out); those of queries, keys and values are concatenated. If there
    are none, the peers draw theirs by `drawn`."""
    inputs: Array = field(repr=False)  #: (BATCHES, batch, …)
    labels: Array = field(repr=False)  #: (BATCHES, batch) or (BATCHES, batch, length)
    optimizer: str = "Adam"
    rate: float = 1e-3
    max_norm: float | None = None  #: the global norm that gradients are clipped to
    products: float = 0.0  #: the multiplications of the products and convolutions of a forward pass of one member
    unneeded: float = 0.0  #: as many that the backward pass does without: those of gradients of the inputs
    dtype: str = "float64"  #: of weights, and of inputs that are no ints

    def drawn(self, path: str, shape: Sequence[int]) -> Array:
        """Return the first value of a parameter, a function of its path and shape; of a matrix, (in, out)."""
        if len(shape) == 1:
            return np.full(shape, float(path.endswith("weight")), self.dtype)  # weights of norms, and biases
        fan = shape[0] if len(shape) == 2 else prod(shape[1:])
        rng = np.random.default_rng(crc32(path.encode()))
        weight: Array = rng.normal(0.0, (2 / fan) ** 0.5, shape)
        return weight.astype(self.dtype)


def mlp(rng: np.random.Generator, small: bool) -> Task:
    """784-512-512-10 with ReLU, batch 128."""
    sizes = (8, 6, 6, CLASSES) if small else (784, 512, 512, CLASSES)
    weights: dict[str, Array] = {}
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        weights |= linear_weights(rng, f"layers.{k}", inputs, outputs)
    images = rng.uniform(0.0, 1.0, (BATCHES, 2 if small else 128, sizes[0]))
    products = [a * b for a, b in pairwise(sizes)]
    labels = rng.integers(0, CLASSES, images.shape[:2])
    return Task(
        "MLP", {"sizes": sizes}, weights, images, labels, products=float(sum(products)), unneeded=float(products[0])
    )


def cnn(rng: np.random.Generator, small: bool) -> Task:
    """Three convolutions of 3 × 3 to 16, 32 and 64 channels, each with batch norm, ReLU and a pool, and a linear layer;
    3 × 32 × 32 pixels, batch 64.
    """
    channels, pixels = ((1, 2, 2, 2), 8) if small else ((3, 16, 32, 64), 32)
    features = channels[-1] * (pixels // 8) ** 2
    weights: dict[str, Array] = {}
    for k, (inputs, outputs) in enumerate(pairwise(channels)):
        weights[f"convolutions.{k}.weight"] = rng.normal(0.0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3))
        weights |= _norm(f"norms.{k}", outputs)
    weights |= linear_weights(rng, "logits", features, CLASSES)
    images = rng.normal(0.0, 1.0, (BATCHES, 2 if small else 64, channels[0], pixels, pixels))
    labels = rng.integers(0, CLASSES, images.shape[:2])
    products = [9 * a * b * (pixels >> k) ** 2 for k, (a, b) in enumerate(pairwise(channels))]
    sizes = {"channels": channels, "features": features}
    total = float(sum(products) + features * CLASSES)
    return Task("CNN", sizes, weights, images, labels, products=total, unneeded=float(products[0]))


def gpt(rng: np.random.Generator, small: bool) -> Task:
    """Three layers of size 128 with 4 heads, which predict the next of 96 characters from windows of 64; batch 16, and
    gradients are clipped.
    """
    alphabet, length, size, layers = (4, 4, 8, 1) if small else (96, 64, 128, 3)
    weights: dict[str, Array] = {
        "characters.weight": rng.normal(0.0, 0.02, (alphabet, size)),
        "places": rng.normal(0.0, 0.02, (length, size)),
    }
    for k in range(layers):
        layer = f"blocks.layers.{k}"
        weights[f"{layer}.self_attn.in_proj_weight"] = rng.normal(0.0, size**-0.5, (size, 3 * size))
        weights[f"{layer}.self_attn.in_proj_bias"] = np.zeros(3 * size)
        weights |= linear_weights(rng, f"{layer}.self_attn.out_proj", size, size)
        weights |= linear_weights(rng, f"{layer}.linear1", size, 4 * size)
        weights |= linear_weights(rng, f"{layer}.linear2", 4 * size, size)
        weights |= _norm(f"{layer}.norm1", size) | _norm(f"{layer}.norm2", size)
    weights |= _norm("blocks.norm", size) | linear_weights(rng, "logits", size, alphabet)
    sizes = {"alphabet": alphabet, "length": length, "size": size, "heads": 4, "layers": layers}
    text = rng.integers(0, alphabet, (BATCHES, 2 if small else 16, length + 1))
    each = layers * (12 * size**2 + length * size) + size * alphabet  # scores and values of the places before
    products = float(length * each)
    return Task("mini-GPT", sizes, weights, text[..., :-1], text[..., 1:], "AdamW", 1e-3, MAX_NORM, products)


def lstm(rng: np.random.Generator, small: bool) -> Task:
    """LSTM of 64 hidden values over sequences of 32 vectors of 32 numbers, and a linear layer on its last output; batch
    16.
    """
    return _recurrent(rng, small, "Lstm", 4)


def gru(rng: np.random.Generator, small: bool) -> Task:
    """GRU of 64 hidden values over sequences of 32 vectors of 32 numbers, and a linear layer on its last output; batch
    16.
    """
    return _recurrent(rng, small, "Gru", 3)


def _recurrent(rng: np.random.Generator, small: bool, model: str, gates: int) -> Task:
    batch, length, inputs, hidden = (2, 3, 3, 4) if small else (16, 32, 32, 64)
    shapes: dict[str, tuple[int, ...]] = {"weight_ih": (inputs, gates * hidden), "weight_hh": (hidden, gates * hidden)}
    shapes |= {"bias_ih": (gates * hidden,), "bias_hh": (gates * hidden,)}
    bound = hidden**-0.5
    weights = {f"recurrent.layers.0.0.{name}": rng.uniform(-bound, bound, shape) for name, shape in shapes.items()}
    weights |= linear_weights(rng, "logits", hidden, CLASSES)
    sequences = rng.normal(0.0, 1.0, (BATCHES, batch, length, inputs))
    sizes = {"inputs": inputs, "hidden": hidden}
    labels = rng.integers(0, CLASSES, sequences.shape[:2])
    of_inputs = length * gates * hidden * inputs
    products = float(of_inputs + length * gates * hidden**2 + hidden * CLASSES)
    return Task(model, sizes, weights, sequences, labels, products=products, unneeded=float(of_inputs))


def linear_weights(rng: np.random.Generator, path: str, inputs: int, outputs: int) -> dict[str, Array]:
    """Return the first weights of a linear layer by path."""
    return {
        f"{path}.weight": rng.normal(0.0, (2 / inputs) ** 0.5, (inputs, outputs)),
        f"{path}.bias": np.zeros(outputs),
    }


def _norm(path: str, size: int) -> dict[str, Array]:
    return {f"{path}.weight": np.ones(size), f"{path}.bias": np.zeros(size)}


TASKS: Mapping[str, Callable[[np.random.Generator, bool], Task]] = {
    "MLP": mlp,
    "CNN": cnn,
    "mini-GPT": gpt,
    "Lstm": lstm,
    "Gru": gru,
}


def task(model: str, dtype: str, *, small: bool = False, batch: int | None = None) -> Task:
    """Return a task in a float dtype, with the same numbers every time.

    Args:
        model: a key of `TASKS`.
        dtype: the dtype of weights, and of inputs that are no ints.
        small: whether to return the same operations on less.
        batch: the size of the only batch, for inference; the task's own batches if None.
    """
    template = TASKS[model](np.random.default_rng(0), small)
    return in_dtype(template, dtype, batch)


def in_dtype(template: Task, dtype: str, batch: int | None = None) -> Task:
    """Return a task in a float dtype, perhaps with a single batch of another size."""
    floats = {path: value.astype(dtype) for path, value in template.weights.items()}
    inputs = template.inputs.astype(dtype) if template.inputs.dtype.kind == "f" else template.inputs
    if batch is not None:
        inputs = np.resize(inputs, (1, batch, *inputs.shape[2:]))
    return replace(template, weights=floats, inputs=inputs, dtype=dtype)
