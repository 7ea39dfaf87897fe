"""Optimizers, gradients by parameter, gradient clipping, and learning rate schedules.

>>> from burnpy import Autodiff, Tensor
>>> from burnpy.backend import NumPy
>>> from burnpy.nn import Linear
>>> model, optim, schedule = Linear(2, 1, device=Autodiff[NumPy]), Adam(), CosineLr(0.3, steps=100)
>>> x = Tensor[Autodiff[NumPy]].from_data([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
>>> y = Tensor[Autodiff[NumPy]].from_data([[1.0], [2.0], [3.0]])
>>> for step in range(100):
...     loss = ((model(x) - y) ** 2).mean()
...     grads = GradientsParams.from_grads(loss.backward(), model)
...     model = optim.step(schedule(step), model, clip_by_global_norm(grads, 10.0))
>>> loss.item() < 0.1
True
"""

from __future__ import annotations

from burnpy.backend.lazy import attached
from burnpy.optim.value_trees import register_values

_NAMES = {
    "burnpy.optim.accumulator": "GradientsAccumulator",
    "burnpy.optim.adafactor": "Adafactor",
    "burnpy.optim.adagrad": "AdaDelta AdaGrad RmsProp",
    "burnpy.optim.adam": "Adam Adamax AdamW NAdam",
    "burnpy.optim.clipping": "clip_by_global_norm clip_by_norm clip_by_value",
    "burnpy.optim.ema": "Ema",
    "burnpy.optim.grad_scaler": "GradScaler",
    "burnpy.optim.grads_params": "GradientsParams",
    "burnpy.optim.groups": "Group",
    "burnpy.optim.lamb": "Lamb",
    "burnpy.optim.layout": "Layout",
    "burnpy.optim.lbfgs": "LBfgs",
    "burnpy.optim.lion": "Lion",
    "burnpy.optim.muon": "Muon",
    "burnpy.optim.optimizer": "Optimizer",
    "burnpy.optim.per_sample": "clip_per_sample per_sample_gradients per_sample_norms sum_of_samples",
    "burnpy.optim.pure": "OptimizerState",
    "burnpy.optim.radam": "RAdam",
    "burnpy.optim.schedules.lr_schedule": "ConstantLr LrSchedule ProductLr SequentialLr WarmUpLr",
    "burnpy.optim.schedules.reduce_on_plateau": "ReduceOnPlateau",
    "burnpy.optim.schedules.schedule_formulas": (
        "CosineLr CosineRestartsLr CyclicLr ExponentialLr LinearLr MultiStepLr NoamLr OneCycleLr PolynomialLr StepLr"
    ),
    "burnpy.optim.sgd": "Sgd",
    "burnpy.optim.state": "OptimizerRecord ParamState",
    "burnpy.optim.update_step": "Step for_each_param",
}
"""The names of the package by module; ``python -m burnpy.docs.stubs`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)

register_values()
