"""Training: a learner that yields a run as events, with checkpoints, early stopping and logs.

It is made of the pieces that a loop by hand uses, and such a loop is as good: see examples/custom_training_loop.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import lazy_attributes
from burnpy.train.batches import Batches, EpochLoader
from burnpy.train.callback import Callback, Decision, Epochs, Every, Replace, Save, Steps, Stop
from burnpy.train.displays.dashboard import Dashboard, Progress
from burnpy.train.displays.loggers import Jsonl, MLflow, TensorBoard
from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, Result, Saved, ValidEnd
from burnpy.train.learner import ByGlobalNorm, ByNorm, ByValue, Learner, Logger, Trainable
from burnpy.train.lr_finder import LrRange, find_lr
from burnpy.train.standard_callbacks import Checkpoints, EarlyStopping
from burnpy.train.strategy import OneDevice, Strategy
from burnpy.train.train_step import Step

__all__ = [
    "BatchEnd",
    "Batches",
    "ByGlobalNorm",
    "ByNorm",
    "ByValue",
    "Callback",
    "Checkpoints",
    "Classifier",
    "Dashboard",
    "Decision",
    "EarlyStopping",
    "EpochEnd",
    "EpochLoader",
    "EpochStart",
    "Epochs",
    "Event",
    "Every",
    "FitEnd",
    "FitStart",
    "Jsonl",
    "Learner",
    "Logger",
    "LrRange",
    "MLflow",
    "OneDevice",
    "Progress",
    "Regressor",
    "Replace",
    "Result",
    "Save",
    "Saved",
    "Step",
    "Steps",
    "Stop",
    "Strategy",
    "TensorBoard",
    "Trainable",
    "ValidEnd",
    "find_lr",
    "mlp",
]

_ESTIMATORS = {  # which need scikit-learn
    "burnpy.train.estimators.classifier": ("Classifier",),
    "burnpy.train.estimators.estimator": ("mlp",),
    "burnpy.train.estimators.regressor": ("Regressor",),
}

if TYPE_CHECKING:
    from burnpy.train.estimators.classifier import Classifier
    from burnpy.train.estimators.estimator import mlp
    from burnpy.train.estimators.regressor import Regressor
else:
    __getattr__, __dir__ = lazy_attributes(__name__, _ESTIMATORS)
