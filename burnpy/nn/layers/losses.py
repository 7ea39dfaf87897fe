"""Losses as modules: the loss functions of `burnpy` with settings stored in the module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.loss_checks import Reduction
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Ints
    from burnpy.tensor.tensor import Tensor


@inherit_methods
class CrossEntropyLoss(Unplaced):
    """Cross entropy between the softmax of logits and target classes or probabilities: see `burnpy.cross_entropy`.

    Args:
        ignore_index: a target class whose elements are ignored.
        label_smoothing: the part of the target probability that is distributed evenly over all classes, from 0 to 1.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import IntTensor, Tensor
    >>> from burnpy.backend import NumPy
    >>> loss = CrossEntropyLoss()
    >>> round(loss(Tensor[NumPy].zeros((2, 4)), IntTensor[NumPy].from_data([0, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: Reduction = "mean"
    ) -> None:
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(
                f"CrossEntropyLoss() got label_smoothing={label_smoothing}; expected a number from 0 to 1"
            )
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.reduction: Reduction = known("CrossEntropyLoss", reduction)

    def forward(self, logits: Tensor[B], target: Ints[B] | Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of logits (N, C, …) for classes (N, …) or probabilities (N, C, …); class weights are (C,)."""
        either_target: Any = target  # the overloads of cross_entropy take one kind each
        return cross_entropy(
            logits,
            either_target,
            weight=weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )

    if TYPE_CHECKING:

        def __call__(
            self, logits: Tensor[B], target: Ints[B] | Tensor[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class NllLoss(Unplaced):
    """Negative log-likelihood of the target class: see `burnpy.nll_loss`.

    Args:
        ignore_index: a target class whose elements are ignored.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        self.ignore_index = ignore_index
        self.reduction: Reduction = known("NllLoss", reduction)

    def forward(self, log_probabilities: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of log-probabilities (N, C, …) for classes (N, …), with class weights (C,)."""
        return nll_loss(
            log_probabilities, target, weight=weight, ignore_index=self.ignore_index, reduction=self.reduction
        )

    if TYPE_CHECKING:

        def __call__(
            self, log_probabilities: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class MseLoss(Unplaced):
    """Mean squared error: see `burnpy.mse_loss`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = known("MseLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape, and of a weight for each element."""
        return mse_loss(input, target, weight=weight, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class BceWithLogitsLoss(Unplaced):
    """Binary cross entropy of the sigmoid of logits: see `burnpy.binary_cross_entropy_with_logits`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = known("BceWithLogitsLoss", reduction)

    def forward(
        self,
        input: Tensor[B],
        target: Tensor[B],
        *,
        weight: Tensor[B] | None = None,
        pos_weight: Tensor[B] | None = None,
    ) -> Tensor[B]:
        """Return the loss of logits and a target of the same shape; the weights broadcast to it."""
        return binary_cross_entropy_with_logits(
            input, target, weight=weight, pos_weight=pos_weight, reduction=self.reduction
        )

    if TYPE_CHECKING:

        def __call__(
            self,
            input: Tensor[B],
            target: Tensor[B],
            *,
            weight: Tensor[B] | None = None,
            pos_weight: Tensor[B] | None = None,
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


def known(loss: str, reduction: Reduction) -> Reduction:
    """Return a validated reduction."""
    if reduction not in get_args(Reduction):
        raise ArgumentError(f"{loss}() got reduction={reduction!r:.80}; expected 'mean', 'sum' or 'none'")
    return reduction
