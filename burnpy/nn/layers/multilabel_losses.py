"""Losses of examples that belong to several classes at once, as modules with the settings of their functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import above_zero
from burnpy.nn.functional.multilabel_losses import (
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    sigmoid_focal_loss,
)
from burnpy.nn.layers.losses import Loss, PairLoss, WeightedLoss
from burnpy.tensor.functions.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


class MultiLabelMarginLoss(Loss):
    """Hinge loss of the scores of several classes: see `burnpy.nn.functional.multilabel_margin_loss`."""

    _function = staticmethod(multilabel_margin_loss)

    def forward(self, input: Tensor[B], target: Ints[B]) -> Tensor[B]:
        """Return the loss of scores (N, C) and classes (N, C), whose numbers before the first -1 count."""
        return self._result(input, target)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Mean binary cross entropy over classes: see `burnpy.nn.functional.multilabel_soft_margin_loss`.

    The call takes a weight for each class, or for each logit.
    """

    _function = staticmethod(multilabel_soft_margin_loss)


class FocalLoss(PairLoss):
    """Binary cross entropy, less for logits that classify well: see `burnpy.nn.functional.sigmoid_focal_loss`."""

    _function = staticmethod(sigmoid_focal_loss)
    _settings = ("alpha", "gamma", "reduction")

    def __init__(self, *, alpha: float | None = 0.25, gamma: float = 2.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        above_zero("FocalLoss", gamma=gamma)
        self.alpha, self.gamma = alpha, gamma
