"""The peers: the libraries that are measured, and an interface with which each implements the same work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.formulas import Formula
from benchmarks.tasks import Task

Key: TypeAlias = str
Array: TypeAlias = npt.NDArray[np.float32]

MODULES = {
    "burnpy": ("benchmarks.peers.ours", "burnpy"),
    "burnpy, compiled": ("benchmarks.peers.ours_compiled", "burnpy"),
    "torch": ("benchmarks.peers.pytorch", "torch"),
    "torch.compile": ("benchmarks.peers.pytorch:COMPILED", "torch"),
    "JAX": ("benchmarks.peers.jaxs", "jax"),
    "autograd": ("benchmarks.peers.hips", "autograd"),
    "MyGrad": ("benchmarks.peers.mygrads", "mygrad"),
    "NumPy": ("benchmarks.peers:PLAIN", "numpy"),
}
"""The peers by name: the module that implements the peer, its name there unless ``PEER``, and the package it needs."""

COMPILERS = ("torch.compile", "JAX")
"""The peers that compile whole functions before they compute."""

EXPRESSIONS = {
    "add": "x + y",
    "mul": "x * y",
    "sin": "x.sin()",
    "exp": "x.exp()",
    "× 2.0": "x * 2.0",
    "matmul 8×8": "m @ w",
    "+ bias": "m + x",
    "sum": "x.sum()",
    "x[i]": "x[3]",
    "relu": "x.relu()",
    "div": "x / y",
    "softmax": "m.softmax(dim=1)",
}
"""The tiny operations, as most peers write them: x and y have 8 elements, m and w are 8×8, all of them float32."""

NETWORKS = {
    "sigmoid": "x.sigmoid()",
    "silu": "F.silu(x)",
    "gelu": "F.gelu(x)",
    "log_softmax": "m.log_softmax(dim=1)",
    "cross_entropy": "F.cross_entropy(m, classes)",
    "layer_norm": "F.layer_norm(m, (8,), x, y)",
    "mean": "x.mean()",
    "max": "x.max()",
    "x > y": "x > y",
    "where": "where(mask, m, w)",
    "reshape": "x.reshape(2, 4)",
    "transpose": "m.transpose(0, 1)",
    "cat": "cat([x, y], 0)",
    "stack": "stack([x, y], 0)",
    "x[classes]": "x[classes]",
}
"""More of them, for burnpy and PyTorch, as PyTorch writes them: classes are 8 ints and mask is 8×8 bools."""


class Peer(ABC):
    """The interface of a library to the benchmarks. It is created in the process that measures the library."""

    package: ClassVar[str]
    unrolls: ClassVar[bool] = False  #: whether it compiles each step of a loop by itself
    expressions: ClassVar[Mapping[str, str]]  #: `EXPRESSIONS`, and perhaps `NETWORKS`, as this peer writes them

    @abstractmethod
    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """Return the names that the expressions use, with values for which nothing is recorded."""

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """Return the names that the expressions use, with values that are tracked leaves; ints are constants."""
        raise NotImplementedError

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        """Return a statement that evaluates an expression of ``tracked`` names and computes the gradients of leaves.

        Args:
            expression: one of `expressions`.
            leaves: the names of the leaves to differentiate with respect to.
            seed: the name of the gradient to start from, an untracked array; None for a 0-d result.
        """
        raise NotImplementedError

    def ints(self, array: npt.NDArray[np.int64], *, tracked: bool) -> Any:
        """Return a tensor of ints, for functions of untracked or of tracked tensors."""
        raise NotImplementedError

    def constant(self, array: Array) -> Any:
        """Return a tensor that is not tracked, for functions of tracked tensors."""
        raise NotImplementedError

    def leaf(self, array: Array) -> Any:
        """Return a tracked tensor."""
        raise NotImplementedError

    def narrow(self, dtype: str, array: npt.NDArray[Any]) -> Any:
        """Return an untracked tensor of bfloat16, given float32, or of int8."""
        raise NotImplementedError

    def integer_product(self, x: Any, y: Any) -> Any:
        """Return the product of two matrices of int8, of int32."""
        raise NotImplementedError

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """Return the gradients of a scalar function."""
        raise NotImplementedError

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        """Return a function that computes the gradients so that they can be differentiated again."""
        raise NotImplementedError

    def gradients_again(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Callable[[], Any]:
        """Return a function that computes the gradients of a function whose result was computed before.

        They start from an array like the result.
        """
        raise NotImplementedError

    def sin(self, x: Any) -> Any:
        """Return the sine of a tensor created by ``leaf``."""
        return x.sin()

    def total(self, x: Any) -> Any:
        """Return the sum of all elements, 0-d."""
        return x.sum()

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        """Create the training of a model, see `benchmarks.training`.

        Args:
            task: the model, its first weights and its data.
            profiled: whether to record a profile, for libraries that can.
        """
        raise NotImplementedError

    def inference(self, task: Task) -> Callable[[], Any]:
        """Return a function that computes the logits of the task's first batch, without anything recorded."""
        raise NotImplementedError

    def formula(self, f: Formula, arguments: Sequence[npt.NDArray[Any]], leaves: Sequence[int]) -> Callable[[], Any]:
        """Return a function that computes a formula, and the gradients of its sum with respect to some arguments.

        Args:
            f: the formula, see `benchmarks.formulas`.
            arguments: its arguments.
            leaves: the positions of those to differentiate by; none to compute the result alone, with nothing recorded.
        """
        raise NotImplementedError


class Training(ABC):
    """The training of a model, with a method for each phase of a step."""

    phased: ClassVar[bool] = True
    """True if the phases are separate; otherwise ``update`` does the whole step."""

    @abstractmethod
    def forward(self, batch: int) -> None:
        """Compute the loss of a batch."""

    @abstractmethod
    def backward(self) -> None:
        """Compute the gradients of the last loss."""

    @abstractmethod
    def update(self) -> None:
        """Update the parameters, and drop the gradients."""

    @abstractmethod
    def loss(self) -> float:
        """Return the value of the last loss."""


class Plain(Peer):
    """NumPy alone: the cost of the operations without a framework."""

    package = "numpy"
    expressions = EXPRESSIONS | {
        "sin": "np.sin(x)",
        "exp": "np.exp(x)",
        "relu": "np.maximum(x, 0.0)",
        "softmax": "softmax(m)",
    }

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: array.copy() for name, array in arrays.items()} | {"np": np, "softmax": softmax}


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PLAIN = Plain()


def installed(name: str) -> bool:
    """Return whether a peer's package is installed."""
    return find_spec(MODULES[name][1]) is not None


def load(name: str) -> Peer:
    """Import a peer and its package."""
    module, _, attribute = MODULES[name][0].partition(":")
    peer: Peer = getattr(import_module(module), attribute or "PEER")
    return peer
