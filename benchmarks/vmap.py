"""Benchmark of functions of one example on a batch of them: per-sample gradients, Jacobians, Hessians, and calls.

Beside torch.func and compiled functions of JAX; and beside what takes the place of `burnpy.func.vmap` without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch", "JAX")
ROUNDS = 3
"""The number of measurements of each case in a process; the best one counts."""
SAMPLES, CLASSES = 64, 10
MODELS = {
    "MLP": (64,),
    "CNN": (1, 8, 8),
    "transformer layer": (9, 32),
}
"""The networks by name, and the shapes of a sample: 64-128-10 with GELU and a layer norm; two convolutions of 3 × 3 to
8 and 16 channels with a pool, and a linear layer; a layer of size 32 with 4 heads, and a linear layer on the mean."""

GRADIENTS, BATCH = "per-sample gradients, {}", "gradient of the batch, {}"
HESSIAN = "Hessian of 100"
REVERSE, FORWARD = "Jacobian of 200 by 100, reverse mode", "Jacobian of 200 by 100, forward mode"
CALLS, LOOP = "64 calls", "64 calls in a loop"
BUDGETS = dict.fromkeys([GRADIENTS.format(name) for name in MODELS], 0.9) | {HESSIAN: 0.45, REVERSE: 0.9, FORWARD: 0.9}

Runs = Mapping[str, Callable[[], Any]]


def arrays(small: bool) -> dict[str, Array]:
    """Return the data: samples by model, labels, and the matrices of the other functions."""
    rng = np.random.default_rng(0)
    count, size = (3, 4) if small else (SAMPLES, 100)
    found: dict[str, Any] = {name: rng.normal(size=(count, *shape)) for name, shape in MODELS.items()}
    found |= {"square": rng.normal(size=(size, size)) / 10, "tall": rng.normal(size=(2 * size, size)) / 10}
    found["point"] = rng.normal(size=size)
    floats: dict[str, Any] = {name: x.astype(np.float32) for name, x in found.items()}
    return floats | {"labels": rng.integers(0, CLASSES, count)}


def _ours(data: Mapping[str, Array]) -> Runs:
    from burnpy import IntTensor, Tensor, cross_entropy, stack
    from burnpy.backend import NumPy
    from burnpy.func import grad, hessian, jacfwd, jacrev, vmap
    from burnpy.nn import (
        Conv2d,
        Flatten,
        Gelu,
        LayerNorm,
        Linear,
        MaxPool2d,
        Module,
        Relu,
        Sequential,
        TransformerEncoderLayer,
    )

    class Encoder(Module[NumPy]):
        def __init__(self) -> None:
            self.layer = TransformerEncoderLayer(32, 4, feedforward=64, dropout=0.0, device=NumPy)
            self.logits = Linear(32, CLASSES, device=NumPy)

        def forward(self, x: Any) -> Any:
            return self.logits(self.layer(x).mean(dim=1))

    on: Any = {"device": NumPy}
    models: dict[str, Any] = {
        "MLP": Sequential(Linear(64, 128, **on), Gelu(), LayerNorm(128, **on), Linear(128, CLASSES, **on)),
        "CNN": Sequential(
            *(Conv2d(1, 8, 3, padding=1, **on), Relu(), MaxPool2d(2)),
            *(Conv2d(8, 16, 3, padding=1, **on), Relu(), Flatten(), Linear(256, CLASSES, **on)),
        ),
        "transformer layer": Encoder(),
    }
    labels = IntTensor[NumPy].from_data(data["labels"])
    x = {name: Tensor[NumPy].from_data(value) for name, value in data.items() if name != "labels"}

    def loss(model: Any, sample: Any, label: Any) -> Any:
        return cross_entropy(model(sample.unsqueeze(0)), label.unsqueeze(0))

    def total(model: Any, samples: Any) -> Any:
        return cross_entropy(model(samples), labels)

    runs: dict[str, Callable[[], Any]] = {}
    for name, model in models.items():
        runs[GRADIENTS.format(name)] = partial(vmap(grad(loss), in_dims=(None, 0, 0)), model, x[name], labels)
        runs[BATCH.format(name)] = partial(grad(total), model, x[name])
    runs[HESSIAN] = partial(hessian(lambda v: ((x["square"] @ v).tanh() * v).square().sum()), x["point"])
    for key, transform in ((REVERSE, jacrev), (FORWARD, jacfwd)):
        runs[key] = partial(transform(lambda v: (x["tall"] @ v).tanh()), x["point"])
    mlp, samples = models["MLP"], x["MLP"]
    runs[CALLS] = partial(vmap(loss, in_dims=(None, 0, 0)), mlp, samples, labels)
    runs[LOOP] = lambda: stack([loss(mlp, samples[k], labels[k]) for k in range(len(samples))])
    return runs


def _torch(data: Mapping[str, Array]) -> Runs:
    import torch
    from torch import nn
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap
    from torch.nn.functional import cross_entropy

    class Encoder(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.logits = nn.Linear(32, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.logits(self.layer(x).mean(1))

    models: dict[str, Any] = {
        "MLP": nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, CLASSES)),
        "CNN": nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, CLASSES)),
        ),
        "transformer layer": Encoder(),
    }
    labels = torch.from_numpy(data["labels"])
    x = {name: torch.from_numpy(value) for name, value in data.items() if name != "labels"}
    runs: dict[str, Callable[[], Any]] = {}
    losses = {}
    for name, model in models.items():
        params = {path: param.detach() for path, param in model.named_parameters()}

        def loss(params: Any, sample: Any, label: Any, model: Any = model) -> Any:
            logits = functional_call(model, params, (sample.unsqueeze(0),))
            return cross_entropy(logits, label.unsqueeze(0))

        def total(params: Any, samples: Any, model: Any = model) -> Any:
            return cross_entropy(functional_call(model, params, (samples,)), labels)

        losses[name] = loss, params
        runs[GRADIENTS.format(name)] = partial(vmap(grad(loss), in_dims=(None, 0, 0)), params, x[name], labels)
        runs[BATCH.format(name)] = partial(grad(total), params, x[name])
    runs[HESSIAN] = partial(hessian(lambda v: ((x["square"] @ v).tanh() * v).square().sum()), x["point"])
    for key, transform in ((REVERSE, jacrev), (FORWARD, jacfwd)):
        runs[key] = partial(transform(lambda v: (x["tall"] @ v).tanh()), x["point"])
    one, params = losses["MLP"]
    samples = x["MLP"]
    runs[CALLS] = partial(vmap(one, in_dims=(None, 0, 0)), params, samples, labels)
    runs[LOOP] = lambda: torch.stack([one(params, samples[k], labels[k]) for k in range(len(samples))])
    return runs


def _jax(data: Mapping[str, Array]) -> Runs:
    """Return the cases without networks, compiled."""
    import jax
    import jax.numpy as jnp

    square, tall, point = (jnp.asarray(data[name]) for name in ("square", "tall", "point"))
    functions = {
        HESSIAN: jax.hessian(lambda v: ((jnp.tanh(square @ v) * v) ** 2).sum()),
        REVERSE: jax.jacrev(lambda v: jnp.tanh(tall @ v)),
        FORWARD: jax.jacfwd(lambda v: jnp.tanh(tall @ v)),
    }

    def ready(f: Callable[..., Any]) -> Any:
        return f(point).block_until_ready()

    return {key: partial(ready, jax.jit(f)) for key, f in functions.items()}


CASES = {"burnpy": _ours, "torch": _torch, "jax": _jax}


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    runs = CASES[peer.package](arrays(small=not effort.seconds))
    for _ in range(ROUNDS if effort.seconds else 1):
        for key, run in runs.items():
            notebook.enter(key, partial(best, run, effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures: Figures = collect({name: Job("vmap", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    beside = []
    for key, budget in BUDGETS.items():
        ratio = figures.ratio(("burnpy", key), ("torch", key))
        beside.append(Line.of(key, figures, dict.fromkeys(PEERS, key), 1e3, ratio, budget))
    pairs = [(GRADIENTS.format(name), BATCH.format(name), 2.5) for name in MODELS] + [(CALLS, LOOP, 0.08)]
    without = []
    for key, other, budget in pairs:
        columns = {"vmap": ("burnpy", key), "without": ("burnpy", other)}
        columns |= {"vmap, torch": ("torch", key), "without, torch": ("torch", other)}
        ratio = figures.ratio(("burnpy", key), ("burnpy", other))
        without.append(Line.across(f"{key}; {other}", figures, columns, 1e3, ratio, budget))
    how = (
        f"float32, one thread, processor time, the best of several runs; {SAMPLES} samples. JAX is compiled. "
        "PyTorch computes its fused attention sample by sample."
    )
    each = "The same; a call with vmap, and the gradient of the batch or the loop. The ratio is burnpy's own."
    return [
        Section("vmap", how, "ms", PEERS, beside),
        Section("vmap beside a batch and a loop", each, "ms", list(columns), without),
    ]
