"""The names of `burnpy.train`, made from its table by ``make generated``."""

from burnpy.train.callback import (
    Callback,
    Checkpoints,
    Decision,
    EarlyStopping,
    Epochs,
    Every,
    Replace,
    Save,
    Steps,
    Stop,
)
from burnpy.train.display import Dashboard, Progress
from burnpy.train.estimators import Classifier, Regressor, mlp
from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, Result, Saved, ValidEnd
from burnpy.train.learner import Averaging, ByGlobalNorm, ByNorm, ByValue, Learner, Logger, LrRange, Trainable, find_lr
from burnpy.train.loggers import Jsonl, MLflow, TensorBoard
from burnpy.train.strategy import Batches, EpochLoader, OneDevice, Strategy
from burnpy.train.train_step import Step

__all__ = [
    "Averaging", "BatchEnd", "Batches", "ByGlobalNorm", "ByNorm", "ByValue", "Callback", "Checkpoints", "Classifier",
    "Dashboard", "Decision", "EarlyStopping", "EpochEnd", "EpochLoader", "EpochStart", "Epochs", "Event", "Every",
    "FitEnd", "FitStart", "Jsonl", "Learner", "Logger", "LrRange", "MLflow", "OneDevice", "Progress", "Regressor",
    "Replace", "Result", "Save", "Saved", "Step", "Steps", "Stop", "Strategy", "TensorBoard", "Trainable", "ValidEnd",
    "find_lr", "mlp",
]  # fmt: skip
