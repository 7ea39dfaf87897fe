"""Negative log likelihoods and divergences as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.likelihood_losses import (
    BatchReduction,
    binary_cross_entropy,
    gaussian_nll_loss,
    kl_div,
    poisson_nll_loss,
)
from burnpy.nn.layers.losses import known
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import composed
from burnpy.tensor.loss_checks import Reduction
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, nll_loss
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@composed
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


@composed
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


@composed
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


@composed
class BceLoss(Unplaced):
    """Binary cross entropy of probabilities: see `burnpy.nn.functional.binary_cross_entropy`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = known("BceLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of probabilities and a target of the same shape; the weight broadcasts to it."""
        return binary_cross_entropy(input, target, weight=weight, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@composed
class KlDivLoss(Unplaced):
    """Kullback-Leibler divergence from log-probabilities: see `burnpy.nn.functional.kl_div`.

    Args:
        log_target: whether targets are logarithms.
        reduction: "mean", "batchmean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, log_target: bool = False, reduction: BatchReduction = "mean") -> None:
        self.log_target = log_target
        self.reduction: BatchReduction = reduction if reduction == "batchmean" else known("KlDivLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Return the loss of log-probabilities and a target of the same shape."""
        return kl_div(input, target, log_target=self.log_target, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@composed
class PoissonNllLoss(Unplaced):
    """Negative log-likelihood of counts under Poisson distributions: see `burnpy.nn.functional.poisson_nll_loss`.

    Args:
        log_input: whether inputs are logarithms of rates.
        full: whether to add Stirling's approximation of the constant term.
        eps: is added to a rate before its logarithm.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(
        self, *, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        self.log_input, self.full, self.eps = log_input, full, eps
        self.reduction: Reduction = known("PoissonNllLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Return the loss of rates and counts of the same shape."""
        return poisson_nll_loss(
            input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@composed
class GaussianNllLoss(Unplaced):
    """Negative log-likelihood under normal distributions: see `burnpy.nn.functional.gaussian_nll_loss`.

    Args:
        full: whether to add the constant term.
        eps: the smallest variance.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        if not eps > 0.0:
            raise ArgumentError(f"GaussianNllLoss() got eps={eps!r:.80}; expected a number above 0")
        self.full, self.eps = full, eps
        self.reduction: Reduction = known("GaussianNllLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B], var: Tensor[B] | float) -> Tensor[B]:
        """Return the loss of means and targets of the same shape, under variances that fit."""
        return gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], var: Tensor[B] | float) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
