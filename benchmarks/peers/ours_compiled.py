"""burnpy with `compiled`: whole training steps, models and formulas as plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import burnpy
from benchmarks.formulas import Array, Formula
from benchmarks.peers import Training
from benchmarks.peers.ours import FORMULAS, OPTIMIZERS, Burnpy, Train, inputs_of, model_of, tensor
from benchmarks.tasks import Task
from burnpy import IntTensor
from burnpy.backend import NumPy
from burnpy.optim import GradientsParams, clip_by_global_norm


class PlannedTraining(Training):
    """Training by one plan for a whole step, which may overwrite the model and the averages."""

    phased = False

    def __init__(self, task: Task, device: Any = Train) -> None:
        optim = OPTIMIZERS[task.optimizer]()
        self.model = model_of(task, device)
        self.state = optim.init(self.model)
        self.inputs = inputs_of(task, device)
        self.labels = [IntTensor.from_data(batch.reshape(-1), device=device) for batch in task.labels]
        self.rate, max_norm = task.rate, task.max_norm

        def step(model: Any, state: Any, rate: Any, x: Any, labels: Any) -> Any:
            loss = burnpy.cross_entropy(model(x), labels)
            grads = GradientsParams.from_grads(loss.backward(), model)
            if max_norm is not None:
                grads = clip_by_global_norm(grads, max_norm)
            model, state = optim.pure_step(rate, model, grads, state)
            return model, state, loss.detach()

        self.step: Any = burnpy.compiled(step, donate=("model", "state"))

    def forward(self, batch: int) -> None:
        self.batch = batch

    def backward(self) -> None:
        pass

    def update(self) -> None:
        inputs, labels = self.inputs[self.batch], self.labels[self.batch]
        self.model, self.state, self.last = self.step(self.model, self.state, self.rate, inputs, labels)

    def loss(self) -> float:
        return float(self.last.item())


class Planned(Burnpy):
    """burnpy, where everything is a plan."""

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        return PlannedTraining(task)

    def inference(self, task: Task) -> Callable[[], Any]:
        model: Any = burnpy.compiled(model_of(task, NumPy))
        inputs = inputs_of(task, NumPy)[0]
        return lambda: model(inputs)

    def formula(self, f: Formula, arguments: Sequence[Array], leaves: Sequence[int]) -> Callable[[], Any]:
        own = [tensor(x, leaves, k) for k, x in enumerate(arguments)]

        def both(*own: Any) -> Any:
            out = f(FORMULAS, *own)
            if not leaves:
                return out
            loss = out.sum()
            grads = loss.backward()
            return loss.detach(), [grads[own[k]] for k in leaves]

        function: Any = burnpy.compiled(both)
        return lambda: function(*own)


PEER = Planned()
