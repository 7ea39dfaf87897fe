"""HIPS autograd: untracked on NumPy arrays through its wrappers, tracked on boxes as its tracer creates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import autograd
import autograd.numpy as np
from autograd.core import VJPNode
from autograd.tracer import new_box

from benchmarks.peers import EXPRESSIONS, Array, Peer


class Autograd(Peer):
    package = "autograd"
    expressions = EXPRESSIONS | {
        "sin": "np.sin(x)",
        "exp": "np.exp(x)",
        "sum": "np.sum(x)",
        "relu": "np.maximum(x, 0.0)",
        "softmax": "softmax(m)",
    }

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: array.copy() for name, array in arrays.items()} | {"np": np, "softmax": softmax}

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        boxes = {name: new_box(array.copy(), 0, VJPNode.new_root()) for name, array in arrays.items()}
        return boxes | {"np": np, "softmax": softmax, "make_vjp": autograd.make_vjp} | _values(arrays)

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        names, values = ", ".join(leaves), ", ".join(f"{leaf}_value" for leaf in leaves)
        function = f"make_vjp(lambda {names}: {expression}, {tuple(range(len(leaves)))})"
        return f"vjp, _ = {function}({values}); vjp({seed or 1.0})"

    def leaf(self, array: Array) -> Any:
        return array

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        return autograd.grad(f, tuple(range(len(leaves))))(*leaves)

    def sin(self, x: Any) -> Any:
        return np.sin(x)

    def total(self, x: Any) -> Any:
        return np.sum(x)


def _values(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{name}_value": array.copy() for name, array in arrays.items()}


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


PEER = Autograd()
