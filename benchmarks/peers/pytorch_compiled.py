"""PyTorch with the models, and their losses, compiled by ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers import Training
from benchmarks.peers.pytorch import PyTorch
from benchmarks.tasks import Task


class Compiled(PyTorch):
    def training(self, task: Task, *, profiled: bool = False) -> Training:
        from benchmarks.peers.pytorch import TorchTraining

        return TorchTraining(task, compiled=True)

    def inference(self, task: Task) -> Callable[[], Any]:
        from benchmarks.peers.pytorch import inference

        return inference(task, compiled=True)


PEER = Compiled()
