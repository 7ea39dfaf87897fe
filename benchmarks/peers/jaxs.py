"""The models of `benchmarks.tasks` as functions of JAX, and their training: one compiled function is a whole step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy.typing as npt
from jax import lax

from benchmarks.formulas import Formula, Functions
from benchmarks.peers import EXPRESSIONS, Array, Peer, Training
from benchmarks.tasks import Task

Weights: TypeAlias = Mapping[str, Any]
EPS, MOMENTUM, DECAY = 1e-5, 0.1, 0.01


def linear(weights: Weights, path: str, x: Any) -> Any:
    return x @ weights[f"{path}.weight"] + weights[f"{path}.bias"]


def mlp(weights: Weights, buffers: Weights, x: Any, training: bool, sizes: Any) -> tuple[Any, Weights]:
    for k in range(len(sizes) - 2):
        x = jax.nn.relu(linear(weights, f"layers.{k}", x))
    return linear(weights, f"layers.{len(sizes) - 2}", x), buffers


def cnn(
    weights: Weights, buffers: Weights, x: Any, training: bool, channels: Any, features: int
) -> tuple[Any, Weights]:
    updated: dict[str, Any] = {}
    for k in range(len(channels) - 1):
        x = lax.conv_general_dilated(x, weights[f"convolutions.{k}.weight"], (1, 1), ((1, 1), (1, 1)))
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            for name, value in ((f"{k}.mean", mean), (f"{k}.var", var)):
                updated[name] = (1 - MOMENTUM) * buffers[name] + MOMENTUM * value
        else:
            mean, var = buffers[f"{k}.mean"], buffers[f"{k}.var"]
        scale = weights[f"norms.{k}.weight"] * lax.rsqrt(var + EPS)
        x = (x - mean[:, None, None]) * scale[:, None, None] + weights[f"norms.{k}.bias"][:, None, None]
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return linear(weights, "logits", x.reshape((len(x), -1))), updated


def gpt(
    weights: Weights,
    buffers: Weights,
    x: Any,
    training: bool,
    alphabet: int,
    length: int,
    size: int,
    heads: int,
    layers: int,
) -> tuple[Any, Weights]:
    def norm(path: str, x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        centred = x - mean
        scaled = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPS)
        return scaled * weights[f"{path}.weight"] + weights[f"{path}.bias"]

    batch = len(x)
    x = weights["characters.weight"][x] + weights["places"]
    for k in range(layers):
        layer = f"blocks.layers.{k}"
        inner = norm(f"{layer}.norm1", x)
        joined = inner @ weights[f"{layer}.self_attn.in_proj_weight"] + weights[f"{layer}.self_attn.in_proj_bias"]
        q, k_, v = (part.reshape((batch, length, heads, -1)) for part in jnp.split(joined, 3, -1))
        attended = jax.nn.dot_product_attention(q, k_, v, is_causal=True).reshape((batch, length, size))
        x = x + linear(weights, f"{layer}.self_attn.out_proj", attended)
        inner = jax.nn.gelu(linear(weights, f"{layer}.linear1", norm(f"{layer}.norm2", x)), approximate=False)
        x = x + linear(weights, f"{layer}.linear2", inner)
    return linear(weights, "logits", norm("blocks.norm", x)).reshape((-1, alphabet)), buffers


def recurrent(
    cell: Callable[..., Any], weights: Weights, buffers: Weights, x: Any, training: bool, inputs: int, hidden: int
) -> tuple[Any, Weights]:
    own = {path.split(".")[-1]: w for path, w in weights.items() if path.startswith("recurrent.")}
    zeros = jnp.zeros((len(x), hidden), x.dtype)
    projected = x @ own["weight_ih"] + own["bias_ih"]

    def step(state: Any, of_input: Any) -> tuple[Any, None]:
        return cell(state, of_input, state[0] @ own["weight_hh"] + own["bias_hh"]), None

    (last, _), _ = lax.scan(step, (zeros, zeros), projected.swapaxes(0, 1))
    return linear(weights, "logits", last), buffers


def lstm_cell(state: Any, of_input: Any, of_state: Any) -> Any:
    i, f, g, o = jnp.split(of_input + of_state, 4, -1)
    memory = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


def gru_cell(state: Any, of_input: Any, of_state: Any) -> Any:
    (r, z, n), (hr, hz, hn) = jnp.split(of_input, 3, -1), jnp.split(of_state, 3, -1)
    update = jax.nn.sigmoid(z + hz)
    return (1 - update) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn) + update * state[0], state[1]


MODELS: dict[str, Any] = {
    "MLP": mlp,
    "CNN": cnn,
    "mini-GPT": gpt,
    "Lstm": partial(recurrent, lstm_cell),
    "Gru": partial(recurrent, gru_cell),
}


def first(task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first weights and the first running statistics."""
    weights = {path: jnp.asarray(value) for path, value in task.weights.items()}
    norms = [path.split(".")[1] for path in weights if path.startswith("norms.") and path.endswith(".weight")]
    shapes = {k: weights[f"norms.{k}.weight"] for k in norms}
    means = {f"{k}.mean": jnp.zeros_like(x) for k, x in shapes.items()}
    return weights, means | {f"{k}.var": jnp.ones_like(x) for k, x in shapes.items()}


def inference(task: Task) -> Callable[[], Any]:
    """Return a function that computes the logits of the first batch."""
    weights, buffers = first(task)
    inputs = jnp.asarray(task.inputs[0])
    model = jax.jit(lambda weights, buffers, x: MODELS[task.model](weights, buffers, x, False, **task.sizes)[0])
    return lambda: model(weights, buffers, inputs).block_until_ready()


def adam(rate: float, decay: float, step: Any, w: Any, grad: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad
    change = (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return w * (1 - rate * decay) - rate * change, m, v


class JaxTraining(Training):
    """Training by a compiled function, which takes the memory of weights and averages for the new ones."""

    phased = False

    def __init__(self, task: Task) -> None:
        self.weights, self.buffers = first(task)
        self.averages = tuple({k: jnp.zeros_like(w) for k, w in self.weights.items()} for _ in range(2))
        self.inputs = [jnp.asarray(batch) for batch in task.inputs]
        self.labels = [jnp.asarray(batch.reshape(-1)) for batch in task.labels]
        self.count = 0
        model = partial(MODELS[task.model], training=True, **task.sizes)
        update = partial(adam, task.rate, DECAY if task.optimizer == "AdamW" else 0.0)

        def loss_of(weights: Weights, buffers: Weights, x: Any, labels: Any) -> tuple[Any, Weights]:
            logits, buffers = model(weights, buffers, x)
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
            return -picked.mean(), buffers

        def step(weights: Any, buffers: Any, averages: Any, count: Any, x: Any, labels: Any) -> Any:
            (loss, buffers), grads = jax.value_and_grad(loss_of, has_aux=True)(weights, buffers, x, labels)
            if task.max_norm is not None:
                norm = jnp.sqrt(sum((g * g).sum() for g in grads.values()))
                grads = {k: g * jnp.minimum(1.0, task.max_norm / (norm + 1e-6)) for k, g in grads.items()}
            ms, vs = averages
            new = {k: update(count, w, grads[k], ms[k], vs[k]) for k, w in weights.items()}
            weights, *parts = ({k: values[place] for k, values in new.items()} for place in range(3))
            return loss, weights, buffers, tuple(parts)

        self.step = jax.jit(step, donate_argnums=(0, 1, 2))

    def forward(self, batch: int) -> None:
        self.batch = batch

    def backward(self) -> None:
        pass

    def update(self) -> None:
        self.count += 1
        self.last, self.weights, self.buffers, self.averages = self.step(
            self.weights,
            self.buffers,
            self.averages,
            float(self.count),
            self.inputs[self.batch],
            self.labels[self.batch],
        )
        self.last.block_until_ready()

    def loss(self) -> float:
        return float(self.last)


os.environ.setdefault("NPROC", os.environ.get("OMP_NUM_THREADS", "1"))  # the number of XLA's threads


class Jax(Peer):
    package = "jax"
    expressions = EXPRESSIONS

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        import jax.numpy as jnp

        return {name: jnp.asarray(array) for name, array in arrays.items()}

    def training(self, task: Task, *, profiled: bool = False) -> Training:

        return JaxTraining(task)

    def inference(self, task: Task) -> Callable[[], Any]:

        return inference(task)

    def formula(self, f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int]) -> Callable[[], Any]:
        own = [jnp.asarray(x) for x in arguments]
        function: Any = partial(f, FORMULAS)
        if leaves:
            function = jax.value_and_grad(lambda *given: f(FORMULAS, *given).sum(), argnums=tuple(leaves))
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*own))


FORMULAS = Functions(
    exp=jnp.exp,
    log=jnp.log,
    sin=jnp.sin,
    sqrt=jnp.sqrt,
    tanh=jnp.tanh,
    total=jnp.sum,
    row_sum=lambda x: x.sum(-1, keepdims=True),
    row_mean=lambda x: x.mean(-1, keepdims=True),
    row_max=lambda x: x.max(-1, keepdims=True),
    pick=lambda x, index: jnp.take_along_axis(x, index, 1),
    grad=jax.grad,
    scan=lambda f, carry, xs: lax.scan(lambda carry, x: (f(carry, x),) * 2, carry, xs)[1],
)


PEER = Jax()
