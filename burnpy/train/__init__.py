"""Training: a learner that yields a run as events, with checkpoints, early stopping and logs.

It is made of the pieces that a loop by hand uses, and such a loop is as good: see examples/custom_training_loop.py.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.train.strategy": "Batches EpochLoader OneDevice Strategy",
    "burnpy.train.callback": "Callback Checkpoints Decision EarlyStopping Epochs Every Replace Save Steps Stop",
    "burnpy.train.loggers": "Jsonl MLflow TensorBoard",
    "burnpy.train.display": "Dashboard Progress",
    "burnpy.train.estimators": "Classifier Regressor mlp",
    "burnpy.train.events": "BatchEnd EpochEnd EpochStart Event FitEnd FitStart Result Saved ValidEnd",
    "burnpy.train.learner": "Averaging ByGlobalNorm ByNorm ByValue Learner Logger LrRange Trainable find_lr",
    "burnpy.train.train_step": "Step",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
