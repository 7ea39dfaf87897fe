"""Train one model on two threads, each on half of a batch: ``python examples/two_threads.py``.

Each thread has a fork of the model, with its own leaves on the same memory, and computes the gradients of its half.
Gradients are identified by the ids of parameters, which forks share: their weighted mean is the gradient of the whole
batch, with which the optimizer takes one step. For comparison a second model is trained on whole batches on one thread;
the two agree to the last digits of float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import burnpy
from burnpy import Autodiff, Generator, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import Linear, Module, Sequential, Silu, rebound
from burnpy.optim import Adam, GradientsAccumulator, GradientsParams

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

CLASSES, SIZE, BATCH = 8, 64, 512
LEARNING_RATE = 2e-3


class Mlp(Module[B]):
    """A multilayer perceptron with two hidden layers."""

    def __init__(self, device: B | type[B], hidden: int = 256) -> None:
        self.layers = Sequential(
            Linear(SIZE, hidden, device=device),
            Silu(),
            Linear(hidden, hidden, device=device),
            Silu(),
            Linear(hidden, CLASSES, device=device),
        )

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map inputs (batch, SIZE) to logits (batch, CLASSES)."""
        return self.layers(x)

    def valid(self: Mlp[Autodiff[I]]) -> Mlp[I]:
        """Return the same model on the inner backend; overridden to give type checkers the class."""
        return rebound(self)


def gradients(
    model: Mlp[Autodiff[I]], x: Tensor[Autodiff[I]], y: IntTensor[Autodiff[I]]
) -> tuple[float, GradientsParams[I]]:
    """Return the mean loss of a batch, and its gradients by parameter id."""
    loss = burnpy.cross_entropy(model(x), y)
    return loss.item(), GradientsParams.from_grads(loss.backward(), model)


def merged(
    pool: ThreadPoolExecutor, model: Mlp[Autodiff[I]], x: Tensor[Autodiff[I]], y: IntTensor[Autodiff[I]]
) -> tuple[float, GradientsParams[I]]:
    """Compute `gradients` with two forks on two threads: the mean of both halves, weighted by their lengths."""
    halves = slice(0, len(x) // 2), slice(len(x) // 2, len(x))
    futures = [pool.submit(gradients, model.fork(), x[rows], y[rows]) for rows in halves]
    total, accumulator = 0.0, GradientsAccumulator[I]()
    for rows, future in zip(halves, futures, strict=True):
        loss, grads = future.result()
        count = rows.stop - rows.start
        total += loss * count / len(x)
        accumulator = accumulator.add(grads, weight=count)
    return total, accumulator.mean()


def furthest_apart(a: Mlp[I], b: Mlp[I]) -> float:
    """Return the largest difference between the parameters of two models, divided by the largest parameter."""
    pairs = [(p.value, q.value) for p, q in zip(a.params(), b.params(), strict=True)]
    largest = max(q.abs().max().item() for _, q in pairs)
    return max((p - q).abs().max().item() for p, q in pairs) / largest


def train(device: Autodiff[I] | type[Autodiff[I]], steps: int, seed: int) -> None:
    """Train two copies of a model, one on two threads and one on a single thread, and compare them."""
    generator = Generator(seed)
    burnpy.manual_seed(seed)
    start = Mlp(device).astype("float64")
    teacher = Tensor.normal((SIZE, CLASSES), 0.0, 1.0, dtype="float64", generator=generator, device=device)

    split, whole = start, start
    optims = Adam(), Adam()
    with ThreadPoolExecutor(2) as pool:
        for step in range(steps):
            x = Tensor.normal((BATCH, SIZE), 0.0, 1.0, dtype="float64", generator=generator, device=device)
            y = (x.sin() @ teacher).argmax(dim=1)
            loss, grads = merged(pool, split, x, y)
            loss_whole, grads_whole = gradients(whole, x, y)
            if step == 0:
                apart = max((grads[k] - grads_whole[k]).abs().max().item() for k in grads)
                print(f"first gradients: {len(grads)} of {len(grads_whole)}, at most {apart:.1e} apart")
            split = optims[0].step(LEARNING_RATE, split, grads)
            whole = optims[1].step(LEARNING_RATE, whole, grads_whole)
            if step + 1 in {k * steps // 4 for k in (1, 2, 3, 4)}:
                apart = furthest_apart(split.valid(), whole.valid())
                print(f"step {step + 1}: loss {loss:.6f}, of one thread {loss_whole:.6f}; weights {apart:.1e} apart")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train one model on two threads, and one on one, and compare them.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and the examples")
    options = parser.parse_args(arguments)
    train(Autodiff[NumPy], options.steps, options.seed)


if __name__ == "__main__":
    main()
