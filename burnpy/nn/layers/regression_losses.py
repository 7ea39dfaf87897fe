"""Losses of the difference between a prediction and a target, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.regression_losses import huber_loss, l1_loss, smooth_l1_loss
from burnpy.nn.layers.losses import known
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@inherit_methods
class L1Loss(Unplaced):
    """Mean absolute error: see `burnpy.nn.functional.l1_loss`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = known("L1Loss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape, and of a weight for each element."""
        return l1_loss(input, target, weight=weight, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class SmoothL1Loss(Unplaced):
    """Absolute error, squared near 0: see `burnpy.nn.functional.smooth_l1_loss`.

    Args:
        beta: the error from which on the loss is linear.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, beta: float = 1.0, reduction: Reduction = "mean") -> None:
        if not beta >= 0.0:
            raise ArgumentError(f"SmoothL1Loss() got beta={beta!r:.80}; expected a number of at least 0")
        self.beta = beta
        self.reduction: Reduction = known("SmoothL1Loss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape."""
        return smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class HuberLoss(Unplaced):
    """Huber's loss, squared near 0 and linear beyond: see `burnpy.nn.functional.huber_loss`.

    Args:
        delta: the error from which on the loss is linear.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, delta: float = 1.0, reduction: Reduction = "mean") -> None:
        if not delta > 0.0:
            raise ArgumentError(f"HuberLoss() got delta={delta!r:.80}; expected a number above 0")
        self.delta = delta
        self.reduction: Reduction = known("HuberLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape, and of a weight for each element."""
        return huber_loss(input, target, weight=weight, delta=self.delta, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
