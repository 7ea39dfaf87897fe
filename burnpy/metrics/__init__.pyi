"""The names of `burnpy.metrics`, made from its table by ``make generated``."""

from burnpy.metrics.accuracy import Accuracy
from burnpy.metrics.confusion_matrix import ConfusionMatrix
from burnpy.metrics.mean import Mean, Perplexity
from burnpy.metrics.metric import Metric, plain, total
from burnpy.metrics.precision_recall import F1, Dice, FBeta, IoU, Precision, Recall
from burnpy.metrics.ranking import AUROC, AveragePrecision
from burnpy.metrics.regression import MAE, MSE, R2

__all__ = [
    "AUROC",
    "F1",
    "MAE",
    "MSE",
    "R2",
    "Accuracy",
    "AveragePrecision",
    "ConfusionMatrix",
    "Dice",
    "FBeta",
    "IoU",
    "Mean",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "plain",
    "total",
]
