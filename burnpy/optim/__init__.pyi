"""The names of `burnpy.optim`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.optim.accumulator import GradientsAccumulator
from burnpy.optim.adafactor import Adafactor
from burnpy.optim.adagrad import AdaDelta, AdaGrad, RmsProp
from burnpy.optim.adam import Adam, Adamax, AdamW, NAdam
from burnpy.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from burnpy.optim.ema import Ema
from burnpy.optim.grad_scaler import GradScaler
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.groups import Group
from burnpy.optim.lamb import Lamb
from burnpy.optim.layout import Layout
from burnpy.optim.lbfgs import LBfgs
from burnpy.optim.lion import Lion
from burnpy.optim.muon import Muon
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.per_sample import clip_per_sample, per_sample_gradients, per_sample_norms, sum_of_samples
from burnpy.optim.pure import OptimizerState
from burnpy.optim.radam import RAdam
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
from burnpy.optim.sgd import Sgd
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
