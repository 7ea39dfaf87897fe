"""Losses of the difference between a prediction and a target, as modules."""

from __future__ import annotations

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import above_zero
from burnpy.nn.functional.regression_losses import huber_loss, l1_loss, smooth_l1_loss
from burnpy.nn.layers.loss_frame import PairLoss, WeightedLoss
from burnpy.tensor.loss_checks import Reduction
from burnpy.tensor.losses import mse_loss


class MseLoss(WeightedLoss):
    """Mean squared error: see `burnpy.mse_loss`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    _function = staticmethod(mse_loss)


class L1Loss(WeightedLoss):
    """Mean absolute error: see `burnpy.nn.functional.l1_loss`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    _function = staticmethod(l1_loss)


class SmoothL1Loss(PairLoss):
    """Absolute error, squared near 0: see `burnpy.nn.functional.smooth_l1_loss`.

    Args:
        beta: the error from which on the loss is linear.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    _function = staticmethod(smooth_l1_loss)
    _settings = ("beta", "reduction")

    def __init__(self, *, beta: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        if not beta >= 0.0:
            raise ArgumentError(f"SmoothL1Loss() got beta={beta!r:.80}; expected a number of at least 0")
        self.beta = beta


class HuberLoss(WeightedLoss):
    """Huber's loss, squared near 0 and linear beyond: see `burnpy.nn.functional.huber_loss`.

    Args:
        delta: the error from which on the loss is linear.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    _function = staticmethod(huber_loss)
    _settings = ("delta", "reduction")

    def __init__(self, *, delta: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        above_zero("HuberLoss", delta=delta)
        self.delta = delta
