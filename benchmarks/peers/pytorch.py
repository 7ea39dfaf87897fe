"""PyTorch, eager: untracked under ``no_grad``, tracked with ``requires_grad``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from benchmarks.peers import EXPRESSIONS, NETWORKS, Array, Peer, Training
from benchmarks.tasks import Task

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

    def leaf(self, array: Array) -> Any:
        return torch.from_numpy(array.copy()).requires_grad_(array.dtype.kind == "f")

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        return torch.autograd.grad(f(*leaves), leaves)

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [self.leaf(array) for array in arrays]
        return lambda: torch.autograd.grad(f(*leaves), leaves, create_graph=True)

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        from benchmarks.peers.pytorch_models import TorchTraining

        return TorchTraining(task)

    def inference(self, task: Task) -> Callable[[], Any]:
        from benchmarks.peers.pytorch_models import inference

        return inference(task)


_FUNCTIONS = {"torch": torch, "F": functional, "cat": torch.cat, "stack": torch.stack, "where": torch.where}
PEER = PyTorch()
