"""The names of `burnpy.metrics`, made from its table by ``make generated``."""

from burnpy.metrics.classification import AUROC, F1, Accuracy, AveragePrecision, Dice, FBeta, IoU, Precision, Recall
from burnpy.metrics.confusion_matrix import ConfusionMatrix
from burnpy.metrics.metric import Metric, plain, total
from burnpy.metrics.regression import MAE, MSE, R2, Mean, Perplexity

__all__ = [
    "AUROC", "F1", "MAE", "MSE", "R2", "Accuracy", "AveragePrecision", "ConfusionMatrix", "Dice", "FBeta", "IoU",
    "Mean", "Metric", "Perplexity", "Precision", "Recall", "plain", "total",
]  # fmt: skip
