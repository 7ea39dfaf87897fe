"""The names of `burnpy.optim`, made from its table by ``make generated``."""

from burnpy.optim.ema import Ema
from burnpy.optim.gradients.accumulator import GradientsAccumulator
from burnpy.optim.gradients.clipping import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_sample,
    per_sample_gradients,
    per_sample_norms,
    sum_of_samples,
)
from burnpy.optim.gradients.flat_buckets import Layout
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.lr_schedule_base import ConstantLr, LrSchedule, ProductLr, ReduceOnPlateau, SequentialLr, WarmUpLr
from burnpy.optim.lr_schedules import (
    CosineLr,
    CosineRestartsLr,
    CyclicLr,
    ExponentialLr,
    LinearLr,
    MultiStepLr,
    NoamLr,
    OneCycleLr,
    PolynomialLr,
    StepLr,
)
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizer_states import OptimizerRecord, ParamState
from burnpy.optim.optimizers.adagrad import AdaDelta, Adafactor, AdaGrad, RmsProp
from burnpy.optim.optimizers.adam import Adam, Adamax, AdamW, Lamb, NAdam, RAdam
from burnpy.optim.optimizers.lbfgs import LBfgs
from burnpy.optim.optimizers.muon_lion_rprop import Lion, Muon, Rprop
from burnpy.optim.optimizers.sgd import Asgd, Sgd
from burnpy.optim.pure_functions import OptimizerState
from burnpy.optim.settings import Group
from burnpy.optim.update_formula import Step, for_each_param

__all__ = [
    "AdaDelta", "AdaGrad", "Adafactor", "Adam", "AdamW", "Adamax", "Asgd", "ConstantLr", "CosineLr", "CosineRestartsLr",
    "CyclicLr", "Ema", "ExponentialLr", "GradScaler", "GradientsAccumulator", "GradientsParams", "Group", "LBfgs",
    "Lamb", "Layout", "LinearLr", "Lion", "LrSchedule", "MultiStepLr", "Muon", "NAdam", "NoamLr", "OneCycleLr",
    "Optimizer", "OptimizerRecord", "OptimizerState", "ParamState", "PolynomialLr", "ProductLr", "RAdam",
    "ReduceOnPlateau", "RmsProp", "Rprop", "SequentialLr", "Sgd", "Step", "StepLr", "WarmUpLr", "clip_by_global_norm",
    "clip_by_norm", "clip_by_value", "clip_per_sample", "for_each_param", "per_sample_gradients", "per_sample_norms",
    "sum_of_samples",
]  # fmt: skip
