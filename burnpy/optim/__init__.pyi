"""The names of `burnpy.optim`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.optim.ema import Ema
from burnpy.optim.gradients.accumulator import GradientsAccumulator
from burnpy.optim.gradients.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.layout import Layout
from burnpy.optim.gradients.per_sample import clip_per_sample, per_sample_gradients, per_sample_norms, sum_of_samples
from burnpy.optim.groups import Group
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizers.adafactor import Adafactor
from burnpy.optim.optimizers.adagrad import AdaDelta, AdaGrad, RmsProp
from burnpy.optim.optimizers.adam import Adam, Adamax, AdamW, NAdam
from burnpy.optim.optimizers.lamb import Lamb
from burnpy.optim.optimizers.lbfgs import LBfgs
from burnpy.optim.optimizers.lion import Lion
from burnpy.optim.optimizers.muon import Muon
from burnpy.optim.optimizers.radam import RAdam
from burnpy.optim.optimizers.sgd import Sgd
from burnpy.optim.pure import OptimizerState
from burnpy.optim.schedules.lr_schedule import ConstantLr, LrSchedule, ProductLr, SequentialLr, WarmUpLr
from burnpy.optim.schedules.reduce_on_plateau import ReduceOnPlateau
from burnpy.optim.schedules.schedule_formulas import (
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
from burnpy.optim.state import OptimizerRecord, ParamState
from burnpy.optim.update_step import Step, for_each_param

__all__ = [
    "AdaDelta",
    "AdaGrad",
    "Adafactor",
    "Adam",
    "AdamW",
    "Adamax",
    "ConstantLr",
    "CosineLr",
    "CosineRestartsLr",
    "CyclicLr",
    "Ema",
    "ExponentialLr",
    "GradScaler",
    "GradientsAccumulator",
    "GradientsParams",
    "Group",
    "LBfgs",
    "Lamb",
    "Layout",
    "LinearLr",
    "Lion",
    "LrSchedule",
    "MultiStepLr",
    "Muon",
    "NAdam",
    "NoamLr",
    "OneCycleLr",
    "Optimizer",
    "OptimizerRecord",
    "OptimizerState",
    "ParamState",
    "PolynomialLr",
    "ProductLr",
    "RAdam",
    "ReduceOnPlateau",
    "RmsProp",
    "SequentialLr",
    "Sgd",
    "Step",
    "StepLr",
    "WarmUpLr",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "clip_per_sample",
    "for_each_param",
    "per_sample_gradients",
    "per_sample_norms",
    "sum_of_samples",
]
