"""burnpy on NumPy: untracked on ``NumPy``, tracked on ``Autodiff[NumPy]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.peers import EXPRESSIONS, NETWORKS, Array, Peer, Training
from benchmarks.tasks import Task
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, stack, where
from burnpy.backend import NumPy, Profiled
from burnpy.nn import functional

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

    def leaf(self, array: Array) -> Any:
        x = _class(array)[Train].from_data(array)
        return x.require_grad() if isinstance(x, Tensor) else x

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        grads = f(*leaves).backward()
        return [grads[leaf] for leaf in leaves]

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [Tensor[Autodiff[Train]].from_data(array).require_grad() for array in arrays]
        return lambda: self.gradients(f, leaves)

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        from benchmarks.peers.our_models import OurTraining

        return OurTraining(task, Autodiff[Profiled[NumPy]] if profiled else Train)

    def inference(self, task: Task) -> Callable[[], Any]:
        from benchmarks.peers.our_models import inference

        return inference(task, NumPy)


def _class(array: Array) -> Any:
    return {"i": IntTensor, "b": BoolTensor}.get(array.dtype.kind, Tensor)


_FUNCTIONS = {"F": functional, "cat": cat, "stack": stack, "where": where}


PEER = Burnpy()
