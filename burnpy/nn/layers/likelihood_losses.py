"""Negative log likelihoods and divergences as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@inherit_methods
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


@inherit_methods
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


@inherit_methods
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


@inherit_methods
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
