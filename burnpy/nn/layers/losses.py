"""Losses as modules, each with the settings and errors of its function: differences, log likelihoods, divergences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, get_args

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import above_zero, check_choice
from burnpy.nn.functional.losses import (
    BatchReduction,
    binary_cross_entropy,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from burnpy.nn.module import FunctionLayer
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.functions.loss_checks import Reduction
from burnpy.tensor.functions.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@inherit_methods
class Loss(FunctionLayer):
    """The base class of the losses: a loss function, with those of its arguments as settings that are no tensors.

    >>> HuberLoss(delta=2.0, reduction="sum")(Tensor[NumPy].from_data([0.5, 3.0]), Tensor[NumPy].zeros((2,))).item()
    4.125
    """

    reduction: BatchReduction
    _settings: ClassVar[tuple[str, ...]] = ("reduction",)
    _reductions: ClassVar[tuple[str, ...]] = get_args(Reduction)

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        check_choice(type(self).__name__, "reduction", reduction, self._reductions)
        self.reduction = reduction


class PairLoss(Loss):
    """The base class of losses of an input and a target."""

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape."""
        return self._result(input, target)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class WeightedLoss(Loss):
    """The base class of losses of an input and a target with a weight for each element."""

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape, with a weight for each element."""
        return self._result(input, target, weight=weight)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class MseLoss(WeightedLoss):
    """Mean squared error: see `burnpy.mse_loss`."""

    _function = staticmethod(mse_loss)


class L1Loss(WeightedLoss):
    """Mean absolute error: see `burnpy.nn.functional.l1_loss`."""

    _function = staticmethod(l1_loss)


class SmoothL1Loss(PairLoss):
    """Absolute error, squared near 0: see `burnpy.nn.functional.smooth_l1_loss`."""

    _function = staticmethod(smooth_l1_loss)
    _settings = ("beta", "reduction")

    def __init__(self, *, beta: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        if not beta >= 0.0:
            raise ArgumentError(f"SmoothL1Loss() got beta={beta!r:.80}; expected a number of at least 0")
        self.beta = beta


class HuberLoss(WeightedLoss):
    """Huber's loss, squared near 0 and linear beyond: see `burnpy.nn.functional.huber_loss`."""

    _function = staticmethod(huber_loss)
    _settings = ("delta", "reduction")

    def __init__(self, *, delta: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        above_zero("HuberLoss", delta=delta)
        self.delta = delta


class CrossEntropyLoss(Loss):
    """Cross entropy between the softmax of logits and target classes or probabilities: see `burnpy.cross_entropy`.

    >>> loss = CrossEntropyLoss()
    >>> round(loss(Tensor[NumPy].zeros((2, 4)), IntTensor[NumPy].from_data([0, 3])).item(), 4)
    1.3863
    """

    _function = staticmethod(cross_entropy)
    _settings = ("ignore_index", "label_smoothing", "reduction")

    def __init__(
        self, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(
                f"CrossEntropyLoss() got label_smoothing={label_smoothing}; expected a number from 0 to 1"
            )
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, logits: Tensor[B], target: Ints[B] | Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of logits (N, C, …) for classes (N, …) or probabilities (N, C, …); class weights are (C,)."""
        return self._result(logits, target, weight=weight)

    if TYPE_CHECKING:

        def __call__(
            self, logits: Tensor[B], target: Ints[B] | Tensor[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class NllLoss(Loss):
    """Negative log-likelihood of the target class: see `burnpy.nll_loss`."""

    _function = staticmethod(nll_loss)
    _settings = ("ignore_index", "reduction")

    def __init__(self, *, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, log_probabilities: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of log-probabilities (N, C, …) for classes (N, …), with class weights (C,)."""
        return self._result(log_probabilities, target, weight=weight)

    if TYPE_CHECKING:

        def __call__(
            self, log_probabilities: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class BceWithLogitsLoss(Loss):
    """Binary cross entropy of the sigmoid of logits: see `burnpy.binary_cross_entropy_with_logits`."""

    _function = staticmethod(binary_cross_entropy_with_logits)

    def forward(
        self,
        input: Tensor[B],
        target: Tensor[B],
        *,
        weight: Tensor[B] | None = None,
        pos_weight: Tensor[B] | None = None,
    ) -> Tensor[B]:
        """Return the loss of logits and a target of the same shape; the weights broadcast to it."""
        return self._result(input, target, weight=weight, pos_weight=pos_weight)

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


class BceLoss(WeightedLoss):
    """Binary cross entropy of probabilities: see `burnpy.nn.functional.binary_cross_entropy`."""

    _function = staticmethod(binary_cross_entropy)


class KlDivLoss(PairLoss):
    """Kullback-Leibler divergence from log-probabilities: see `burnpy.nn.functional.kl_div`."""

    _function = staticmethod(kl_div)
    _settings = ("log_target", "reduction")
    _reductions = get_args(BatchReduction)

    def __init__(self, *, log_target: bool = False, reduction: BatchReduction = "mean") -> None:
        argument: Any = reduction  # one of `_reductions`
        super().__init__(reduction=argument)
        self.log_target = log_target


class PoissonNllLoss(PairLoss):
    """Negative log-likelihood of counts under Poisson distributions: see `burnpy.nn.functional.poisson_nll_loss`."""

    _function = staticmethod(poisson_nll_loss)
    _settings = ("log_input", "full", "eps", "reduction")

    def __init__(
        self, *, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.log_input, self.full, self.eps = log_input, full, eps


class GaussianNllLoss(Loss):
    """Negative log-likelihood under normal distributions: see `burnpy.nn.functional.gaussian_nll_loss`."""

    _function = staticmethod(gaussian_nll_loss)
    _settings = ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        above_zero("GaussianNllLoss", eps=eps)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor[B], target: Tensor[B], var: Tensor[B] | float) -> Tensor[B]:
        """Return the loss of means and targets of the same shape, under variances that fit."""
        return self._result(input, target, var)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], var: Tensor[B] | float) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
