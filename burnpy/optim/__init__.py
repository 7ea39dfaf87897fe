"""Optimizers, gradients by parameter, gradient clipping, and learning rate schedules.

>>> from burnpy.nn import Linear
>>> from burnpy.optim import Adam, CosineLr, GradientsParams, clip_by_global_norm
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

_NAMES = {
    "burnpy.optim.ema": "Ema",
    "burnpy.optim.gradients.accumulator": "GradientsAccumulator",
    "burnpy.optim.gradients.grad_scaler": "GradScaler",
    "burnpy.optim.gradients.clipping": (
        "clip_by_global_norm clip_by_norm clip_by_value clip_per_sample per_sample_gradients per_sample_norms "
        "sum_of_samples"
    ),
    "burnpy.optim.gradients.grads_params": "GradientsParams",
    "burnpy.optim.gradients.flat_buckets": "Layout",
    "burnpy.optim.settings": "Group",
    "burnpy.optim.optimizer": "Optimizer",
    "burnpy.optim.optimizers.adagrad": "AdaDelta AdaGrad Adafactor RmsProp",
    "burnpy.optim.optimizers.adam": "Adam AdamW Adamax Lamb NAdam RAdam",
    "burnpy.optim.optimizers.lbfgs": "LBfgs",
    "burnpy.optim.optimizers.sgd": "Asgd Sgd",
    "burnpy.optim.optimizers.muon_lion_rprop": "Lion Muon Rprop",
    "burnpy.optim.pure_functions": "OptimizerState",
    "burnpy.optim.lr_schedule_base": "ConstantLr LrSchedule ProductLr ReduceOnPlateau SequentialLr WarmUpLr",
    "burnpy.optim.lr_schedules": (
        "CosineLr CosineRestartsLr CyclicLr ExponentialLr LinearLr MultiStepLr NoamLr OneCycleLr PolynomialLr StepLr"
    ),
    "burnpy.optim.optimizer_states": "OptimizerRecord ParamState",
    "burnpy.optim.update_formula": "Step for_each_param",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
