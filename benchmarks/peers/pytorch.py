"""The models of `benchmarks.tasks` as modules of PyTorch, and their training."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from benchmarks.formulas import Formula, Functions
from benchmarks.peers import EXPRESSIONS, NETWORKS, Array, Peer, Training, full_size_torch
from benchmarks.tasks import CLASSES, MOMENTUM, Task


class Mlp(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes))

    def forward(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class Cnn(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, channels: Sequence[int], features: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(channels))
        self.norms = nn.ModuleList(nn.BatchNorm2d(count) for count in channels[1:])
        self.pool = nn.MaxPool2d(2)
        self.logits = nn.Linear(features, CLASSES)

    def forward(self, x: Any) -> Any:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self.pool(norm(convolution(x)).relu())
        return self.logits(x.flatten(1))


class Attention(nn.Module):  # type: ignore[misc]  # as above
    """Attention as usually written, around the fused function; ``nn.MultiheadAttention`` does more and is slower."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * size, size))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * size))
        self.out_proj = nn.Linear(size, size)

    def forward(self, x: Any) -> Any:
        n, length, size = x.shape
        parts = functional.linear(x, self.in_proj_weight, self.in_proj_bias).split(size, 2)
        q, k, v = (part.view(n, length, self.heads, size // self.heads).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(attended.transpose(1, 2).reshape(n, length, size))


class Layer(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads)
        self.linear1, self.linear2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x: Any) -> Any:
        x = x + self.self_attn(self.norm1(x))
        return x + self.linear2(functional.gelu(self.linear1(self.norm2(x))))


class Blocks(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(size, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Gpt(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, alphabet: int, length: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(alphabet, size)
        self.places = nn.Parameter(torch.zeros(length, size))
        self.blocks = Blocks(size, heads, layers)
        self.logits = nn.Linear(size, alphabet)

    def forward(self, text: Any) -> Any:
        return self.logits(self.blocks(self.characters(text) + self.places)).flatten(0, 1)


class Classifier(nn.Module):  # type: ignore[misc]  # as above
    """A recurrent network, of a class of `torch.nn`, and a linear layer on its last output."""

    def __init__(self, network: Any, inputs: int, hidden: int) -> None:
        super().__init__()
        self.recurrent = network(inputs, hidden, batch_first=True)
        self.logits = nn.Linear(hidden, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.logits(self.recurrent(x)[0][:, -1])


MODELS: dict[str, Any] = {
    "MLP": Mlp,
    "CNN": Cnn,
    "mini-GPT": Gpt,
    "Lstm": partial(Classifier, nn.LSTM),
    "Gru": partial(Classifier, nn.GRU),
    **full_size_torch.MODELS,
}
NOT_TRANSPOSED = ("characters.weight", "places")


def model_of(task: Task) -> Any:
    """Return the model of a task with its first weights."""
    model = MODELS[task.model](**task.sizes).to(getattr(torch, task.dtype))
    weights = task.weights or {
        path: task.drawn(path, p.shape[::-1] if _is_transposed(path, p) else p.shape)
        for path, p in model.named_parameters()
    }
    first = {
        re.sub(r"layers\.0\.0\.(\w+)", r"\1_l0", path): torch.from_numpy(
            (value.T if _is_transposed(path, value) else value).copy()
        )
        for path, value in weights.items()
    }
    missing, unexpected = model.load_state_dict(first, strict=False)
    assert not unexpected
    assert all("running" in path or "tracked" in path for path in missing), missing
    return model


def _is_transposed(path: str, weight: Any) -> bool:
    """Return whether PyTorch keeps a weight as (out, in), which a task has as (in, out)."""
    return weight.ndim == 2 and path not in NOT_TRANSPOSED


def inference(task: Task, *, compiled: bool = False) -> Callable[[], Any]:
    """Return a function that computes the logits of the first batch."""
    model, inputs = model_of(task).eval(), torch.from_numpy(task.inputs[0].copy())
    function: Any = torch.compile(model, dynamic=False) if compiled else model

    def run() -> Any:
        with torch.inference_mode():
            return function(inputs)

    return run


class TorchTraining(Training):
    """Training with PyTorch's own optimizers, which change the parameters in place."""

    def __init__(self, task: Task, *, compiled: bool = False) -> None:
        self.model = model_of(task)
        self.inputs = [torch.from_numpy(batch.copy()) for batch in task.inputs]
        self.labels = [torch.from_numpy(batch.reshape(-1).copy()) for batch in task.labels]
        more = {"momentum": MOMENTUM} if task.optimizer == "SGD" else {}
        self.optimizer = getattr(torch.optim, task.optimizer)(self.model.parameters(), lr=task.rate, **more)
        self.max_norm = task.max_norm
        self.loss_of: Any = torch.compile(self._loss, dynamic=False) if compiled else self._loss

    def _loss(self, x: Any, labels: Any) -> Any:
        return functional.cross_entropy(self.model(x), labels)

    def forward(self, batch: int) -> None:
        self.last = self.loss_of(self.inputs[batch], self.labels[batch])

    def backward(self) -> None:
        self.last.backward()

    def update(self) -> None:
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def loss(self) -> float:
        return float(self.last.item())


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class PyTorch(Peer):
    package = "torch"
    expressions = EXPRESSIONS | NETWORKS

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        torch.set_grad_enabled(False)
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()} | _FUNCTIONS

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        torch.set_grad_enabled(True)
        return {name: self.leaf(array) for name, array in arrays.items()} | _FUNCTIONS

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        return f"torch.autograd.grad({expression}, ({', '.join(leaves)},), {seed})"

    def ints(self, array: npt.NDArray[np.int64], *, tracked: bool) -> Any:
        return torch.from_numpy(array.copy())

    def constant(self, array: Array) -> Any:
        return torch.from_numpy(array.copy())

    def leaf(self, array: Array) -> Any:
        return torch.from_numpy(array.copy()).requires_grad_(array.dtype.kind == "f")

    def narrow(self, dtype: str, array: npt.NDArray[Any]) -> Any:
        return torch.from_numpy(array).to(getattr(torch, dtype))

    def integer_product(self, x: Any, y: Any) -> Any:
        return torch._int_mm(x, y)

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        return torch.autograd.grad(f(*leaves), leaves)

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [self.leaf(array) for array in arrays]
        return lambda: torch.autograd.grad(f(*leaves), leaves, create_graph=True)

    def gradients_again(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Callable[[], Any]:
        out = f(*leaves)
        seed = out.detach() * 0.5
        return lambda: torch.autograd.grad(out, leaves, seed, retain_graph=True)

    def training(self, task: Task, *, profiled: bool = False) -> Training:

        return TorchTraining(task)

    def inference(self, task: Task) -> Callable[[], Any]:

        return inference(task)

    def formula(self, f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int]) -> Callable[[], Any]:
        return formula(f, arguments, leaves)


def formula(
    f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int], *, compiled: bool = False
) -> Callable[[], Any]:
    """Return a function that computes a formula, and the gradients of its sum if there are leaves."""
    own = [torch.from_numpy(x.copy()).requires_grad_(k in leaves) for k, x in enumerate(arguments)]
    function: Any = (lambda *own: f(FORMULAS, *own).sum()) if leaves else partial(f, FORMULAS)
    if compiled:
        function = torch.compile(function, dynamic=False)
    wanted = [own[k] for k in leaves]
    return (lambda: torch.autograd.grad(function(*own), wanted)) if leaves else lambda: function(*own)


def _scan(f: Any, carry: Any, xs: Any) -> Any:
    carries = []
    for x in xs:
        carry = f(carry, x)
        carries.append(carry)
    return torch.stack(carries)


FORMULAS = Functions(
    exp=torch.exp,
    log=torch.log,
    sin=torch.sin,
    sqrt=torch.sqrt,
    tanh=torch.tanh,
    total=torch.sum,
    row_sum=lambda x: x.sum(dim=-1, keepdim=True),
    row_mean=lambda x: x.mean(dim=-1, keepdim=True),
    row_max=lambda x: x.amax(dim=-1, keepdim=True),
    pick=lambda x, index: x.gather(1, index),
    grad=torch.func.grad,
    scan=_scan,
)
_FUNCTIONS = {"torch": torch, "F": functional, "cat": torch.cat, "stack": torch.stack, "where": torch.where}


class CompiledPyTorch(PyTorch):
    """PyTorch with the models, their losses, and formulas compiled by ``torch.compile``."""

    unrolls = True

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        return TorchTraining(task, compiled=True)

    def inference(self, task: Task) -> Callable[[], Any]:
        return inference(task, compiled=True)

    def formula(self, f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int]) -> Callable[[], Any]:
        return formula(f, arguments, leaves, compiled=True)


PEER, COMPILED = PyTorch(), CompiledPyTorch()
