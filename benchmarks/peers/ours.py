"""The models of `benchmarks.tasks` as modules of burnpy, and their training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import burnpy
from benchmarks.formulas import Formula, Functions
from benchmarks.peers import EXPRESSIONS, NETWORKS, Array, Peer, Training, full_size_ours
from benchmarks.tasks import CLASSES, MOMENTUM, Task
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, stack, where
from burnpy.backend import NumPy, Profiled
from burnpy.func import grad, scan
from burnpy.nn import (
    BatchNorm,
    Conv2d,
    Embedding,
    Gru,
    Linear,
    Lstm,
    MaxPool2d,
    Module,
    Param,
    TransformerEncoder,
    functional,
)
from burnpy.optim import Adam, AdamW, GradientsParams, Sgd, clip_by_global_norm
from burnpy.typevars import B


class Mlp(Module[B]):
    def __init__(self, device: B | type[B], sizes: Sequence[int]) -> None:
        self.layers = [Linear(inputs, outputs, device=device) for inputs, outputs in pairwise(sizes)]

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class Cnn(Module[B]):
    def __init__(self, device: B | type[B], channels: Sequence[int], features: int) -> None:
        self.convolutions = [Conv2d(a, b, 3, padding=1, bias=False, device=device) for a, b in pairwise(channels)]
        self.norms = [BatchNorm(count, device=device) for count in channels[1:]]
        self.pool = MaxPool2d(2)
        self.logits = Linear(features, CLASSES, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self.pool(norm(convolution(x)).relu())
        return self.logits(x.flatten(1))


class Gpt(Module[B]):
    def __init__(self, device: B | type[B], alphabet: int, length: int, size: int, heads: int, layers: int) -> None:
        self.characters = Embedding(alphabet, size, device=device)
        self.places = Param(Tensor.zeros((length, size), device=device))
        self.blocks = TransformerEncoder(
            layers, size, heads, feedforward=4 * size, dropout=0.0, activation="gelu", norm_first=True, device=device
        )
        self.logits = Linear(size, alphabet, device=device)

    def forward(self, text: IntTensor[B]) -> Tensor[B]:
        x = self.blocks(self.characters(text) + self.places.value, causal=True)
        return self.logits(x).flatten(0, 1)


class LstmClassifier(Module[B]):
    def __init__(self, device: B | type[B], inputs: int, hidden: int) -> None:
        self.recurrent = Lstm(inputs, hidden, device=device)
        self.logits = Linear(hidden, CLASSES, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.logits(self.recurrent(x)[0][:, -1])


class GruClassifier(Module[B]):
    def __init__(self, device: B | type[B], inputs: int, hidden: int) -> None:
        self.recurrent = Gru(inputs, hidden, device=device)
        self.logits = Linear(hidden, CLASSES, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.logits(self.recurrent(x)[0][:, -1])


MODELS: dict[str, Any] = {
    "MLP": Mlp,
    "CNN": Cnn,
    "mini-GPT": Gpt,
    "Lstm": LstmClassifier,
    "Gru": GruClassifier,
    **full_size_ours.MODELS,
}


OPTIMIZERS: dict[str, Callable[[], Any]] = {"Adam": Adam, "AdamW": AdamW, "SGD": partial(Sgd, momentum=MOMENTUM)}


def model_of(task: Task, device: Any) -> Any:
    """Return the model of a task with its first weights."""
    model = MODELS[task.model](device, **task.sizes).astype(task.dtype)
    weights = task.weights or {path: task.drawn(path, p.shape) for path, p in model.named_params().items()}
    report = model.state_report(weights)
    assert len(report.applied) == len(weights), str(report)  # buffers keep their initial values
    return model.load_record(weights, strict=False)


def inputs_of(task: Task, device: Any) -> list[Any]:
    """Return the batches of a task."""
    kind: Any = Tensor if task.inputs.dtype.kind == "f" else IntTensor
    return [kind.from_data(batch, device=device) for batch in task.inputs]


def inference(task: Task, device: Any) -> Callable[[], Any]:
    """Return a function that computes the logits of the first batch, on the plain backend."""
    model, inputs = model_of(task, device), inputs_of(task, device)[0]
    return lambda: model(inputs)


class OurTraining(Training):
    def __init__(self, task: Task, device: Any) -> None:
        self.model = model_of(task, device)
        self.inputs = inputs_of(task, device)
        self.labels = [IntTensor.from_data(batch.reshape(-1), device=device) for batch in task.labels]
        self.optim = OPTIMIZERS[task.optimizer]()
        self.rate, self.max_norm = task.rate, task.max_norm

    def forward(self, batch: int) -> None:
        self.last = burnpy.cross_entropy(self.model(self.inputs[batch]), self.labels[batch])

    def backward(self) -> None:
        self.grads = self.last.backward()

    def update(self) -> None:
        if self.max_norm is None:  # as in `optim.step(rate, model, loss.backward())`: nobody reads the gradients later
            self.model = self.optim.step(self.rate, self.model, vars(self).pop("grads"))
            return
        grads = GradientsParams.from_grads(self.grads, self.model)
        self.model = self.optim.step(self.rate, self.model, clip_by_global_norm(grads, self.max_norm))
        del self.grads

    def loss(self) -> float:
        return float(self.last.item())


Train: TypeAlias = Autodiff[NumPy]


class Burnpy(Peer):
    package = "burnpy"
    expressions = EXPRESSIONS | NETWORKS | {"silu": "x.silu()", "gelu": "x.gelu()"}

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: _class(array)[NumPy].from_data(array) for name, array in arrays.items()} | _FUNCTIONS

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: self.leaf(array) for name, array in arrays.items()} | _FUNCTIONS

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        read = "; ".join(f"grads[{leaf}]" for leaf in leaves)
        return f"grads = ({expression}).backward({seed or ''}); {read}"

    def ints(self, array: npt.NDArray[np.int64], *, tracked: bool) -> Any:
        return IntTensor.from_data(array, device=Train if tracked else NumPy)

    def constant(self, array: Array) -> Any:
        return Tensor[Train].from_data(array)

    def leaf(self, array: Array) -> Any:
        x = _class(array)[Train].from_data(array)
        return x.require_grad() if isinstance(x, Tensor) else x

    def narrow(self, dtype: str, array: npt.NDArray[Any]) -> Any:
        made = _class(array)[NumPy].from_data(array)
        return made.to_dtype(dtype) if dtype == "bfloat16" else made

    def integer_product(self, x: Any, y: Any) -> Any:
        return functional.integer_matmul(x, y)

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        grads = f(*leaves).backward()
        return [grads[leaf] for leaf in leaves]

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [Tensor[Autodiff[Train]].from_data(array).require_grad() for array in arrays]
        return lambda: self.gradients(f, leaves)

    def gradients_again(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Callable[[], Any]:
        out = f(*leaves)
        seed = out.inner() * 0.5

        def run() -> Any:
            grads = out.backward(gradient=seed, retain_graph=True)
            return [grads[leaf] for leaf in leaves]

        return run

    def training(self, task: Task, *, profiled: bool = False) -> Training:

        return OurTraining(task, Autodiff[Profiled[NumPy]] if profiled else Train)

    def inference(self, task: Task) -> Callable[[], Any]:

        return inference(task, NumPy)

    def formula(self, f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int]) -> Callable[[], Any]:
        own = [tensor(x, leaves, k) for k, x in enumerate(arguments)]
        if not leaves:
            return lambda: f(FORMULAS, *own)
        return lambda: self.gradients(lambda *given: f(FORMULAS, *own).sum(), [own[k] for k in leaves])


def tensor(x: npt.NDArray[Any], leaves: Sequence[int], position: int) -> Any:
    """Return an argument of a formula, as a leaf if it is one; on the plain backend if nothing is."""
    made = _class(x)[Train if leaves else NumPy].from_data(x)
    return made.require_grad() if position in leaves else made


FORMULAS = Functions(
    exp=lambda x: x.exp(),
    log=lambda x: x.log(),
    sin=lambda x: x.sin(),
    sqrt=lambda x: x.sqrt(),
    tanh=lambda x: x.tanh(),
    total=lambda x: x.sum(),
    row_sum=lambda x: x.sum(dim=-1, keepdim=True),
    row_mean=lambda x: x.mean(dim=-1, keepdim=True),
    row_max=lambda x: x.amax(dim=-1, keepdim=True),
    pick=lambda x, index: x.gather(1, index),
    grad=grad,
    scan=lambda f, carry, xs: scan(lambda carry, x: (f(carry, x),) * 2, carry, xs)[1],
)


def _class(array: Array) -> Any:
    return {"i": IntTensor, "b": BoolTensor}.get(array.dtype.kind, Tensor)


_FUNCTIONS = {"F": functional, "cat": cat, "stack": stack, "where": where}


PEER = Burnpy()
