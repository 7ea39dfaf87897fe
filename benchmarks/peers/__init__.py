"""The peers: who is measured, and how each writes the same work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.tasks import Task

Key: TypeAlias = str
Array: TypeAlias = npt.NDArray[np.float32]

MODULES = {
    "burnpy": ("benchmarks.peers.ours", "burnpy"),
    "torch": ("benchmarks.peers.pytorch", "torch"),
    "autograd": ("benchmarks.peers.hips", "autograd"),
    "MyGrad": ("benchmarks.peers.mygrads", "mygrad"),
    "NumPy": ("benchmarks.peers.plain", "numpy"),
}
"""By name: the module that writes the peer's work, and the package that it needs."""

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
"""The tiny operations as most write them: x and y have 8 elements, m and w are 8×8, all of them float32."""


class Peer(ABC):
    """How one framework writes what all of them are to compute. It is made in the process that measures it."""

    package: ClassVar[str]
    expressions: ClassVar[Mapping[str, str]]  #: those of `EXPRESSIONS`, as this peer writes them

    @abstractmethod
    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """The names that the expressions need, such that nothing is recorded."""

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """The same names, for leaves that are to have gradients."""
        raise NotImplementedError

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        """A statement that evaluates an expression of ``tracked`` names and computes the gradients of the leaves.

        Args:
            expression: one of `expressions`.
            leaves: the names of what it is differentiated by.
            seed: the name of the gradient to start from, an untracked array; None for a 0-d result.
        """
        raise NotImplementedError

    def leaf(self, array: Array) -> Any:
        """A tensor that is to have a gradient."""
        raise NotImplementedError

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """The gradients of a scalar function."""
        raise NotImplementedError

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        """A function that computes the gradients so that they can be differentiated again."""
        raise NotImplementedError

    def sin(self, x: Any) -> Any:
        """The sine, of whatever ``leaf`` makes."""
        return x.sin()

    def total(self, x: Any) -> Any:
        """The sum of all elements, 0-d."""
        return x.sum()

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        """The training of a model, see `benchmarks.training`.

        Args:
            task: which, and with which numbers.
            profiled: whether the library notes where the time goes, for those that can.
        """
        raise NotImplementedError


class Training(ABC):
    """Training of a model, step by step and phase by phase."""

    @abstractmethod
    def forward(self, batch: int) -> None:
        """The loss of a batch."""

    @abstractmethod
    def backward(self) -> None:
        """Its gradients."""

    @abstractmethod
    def update(self) -> None:
        """The next parameters; the gradients are dropped."""

    @abstractmethod
    def loss(self) -> float:
        """The value of the last loss."""


def installed(name: str) -> bool:
    """Whether a peer's package is there."""
    return find_spec(MODULES[name][1]) is not None


def load(name: str) -> Peer:
    """Import a peer and what it needs."""
    peer: Peer = import_module(MODULES[name][0]).PEER
    return peer
