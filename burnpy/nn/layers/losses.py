"""Losses of regression, the Kullback-Leibler divergence, and the base classes of all loss layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import above_zero, check_choice
from burnpy.nn.module import FunctionLayer
from burnpy.tensor.call_errors import explained, inherit_methods
from burnpy.tensor.linalg import at_least_float32
from burnpy.tensor.losses import Reduction, by_weight, mse_loss, reduced, same_shape, weighted, weighted_mean
from burnpy.tensor.operand_checks import number, operands, refuse_unless, refuse_wider, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B


@explained
def l1_loss(
    input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Compute the mean absolute error, whose gradient is 0 where prediction and target are equal.

    Args:
        input: the prediction, of any shape.
        target: the target values, of the same shape.
        weight: the weight of each element, of the same shape; "mean" divides by the sum of the weights.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.

    >>> l1_loss(Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 4.0])).item()
    1.0
    """
    same_shape("l1_loss", input, target)
    return weighted_mean("l1_loss", (input - target).abs(), weight, reduction)


@explained
def smooth_l1_loss(
    input: Tensor[B], target: Tensor[B], *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Compute the absolute error |d| less beta / 2, and d² / (2 · beta) where |d| < beta.

    Args:
        input: the prediction, of any shape.
        target: the target values, of the same shape.
        beta: the error from which on the loss is linear; 0 makes it `l1_loss`.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: ``beta`` is negative.

    Source: Girshick, Fast R-CNN, 2015.

    >>> x, y = Tensor[NumPy].from_data([0.5, 3.0]), Tensor[NumPy].zeros((2,))
    >>> smooth_l1_loss(x, y, reduction="none").tolist()
    [0.125, 2.5]
    """
    same_shape("smooth_l1_loss", input, target)
    if not beta >= 0.0:
        raise ArgumentError(f"smooth_l1_loss() got beta={beta!r:.80}; expected a number of at least 0")
    beta = number(input, beta, "smooth_l1_loss")
    losses = (input - target).abs() if beta == 0.0 else _quadratic_to_linear(input, target, beta)
    if beta not in (0.0, 1.0):
        losses = losses / beta
    return reduced("smooth_l1_loss", losses, reduction)


@explained
def huber_loss(
    input: Tensor[B],
    target: Tensor[B],
    *,
    delta: float = 1.0,
    weight: Tensor[B] | None = None,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute Huber's loss: d² / 2 where |d| < delta, and delta · (|d| - delta / 2) elsewhere.

    Args:
        input: the prediction, of any shape.
        target: the target values, of the same shape.
        delta: the error from which on the loss is linear.
        weight: the weight of each element, of the same shape; "mean" divides by the number of elements, as in PyTorch.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: ``delta`` is not positive.

    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    >>> huber_loss(Tensor[NumPy].from_data([0.5, 3.0]), Tensor[NumPy].zeros((2,)), delta=2.0, reduction="none").tolist()
    [0.125, 4.0]
    """
    same_shape("huber_loss", input, target)
    above_zero("huber_loss", delta=delta)
    losses = by_weight("huber_loss", _quadratic_to_linear(input, target, delta), weight)
    return reduced("huber_loss", losses, reduction)


def _quadratic_to_linear(input: Tensor[B], target: Tensor[B], bound: float) -> Tensor[B]:
    """Return d² / 2 of differences d within ±bound, and its tangents beyond."""
    x, y = together("loss", input, target)
    (losses,) = x._backend.fused(_with_tangents, (x._primitive, y._primitive), (-bound, bound))
    return x._like(losses)  # type: ignore[no-any-return]  # a Tensor


def _with_tangents(b: Any, x: Any, y: Any, low: Any, high: Any) -> tuple[Any]:
    difference = b.sub(x, y)  # whose abs would lose the second derivative at 0
    within = b.clamp(difference, low, high)
    # The slope of a tangent is a constant, so that no derivative multiplies an infinite difference by 0.
    beyond = b.mul(b.detach(within), b.sub(difference, within))
    return (b.add(b.mul(b.mul(within, within), 0.5), beyond),)


BatchReduction: TypeAlias = Literal["mean", "batchmean", "sum", "none"]


@explained
def poisson_nll_loss(
    input: Tensor[B],
    target: Tensor[B],
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute the negative log likelihood of counts under Poisson distributions: rate - count · log rate.

    Args:
        input: the logarithm of the rate, or the rate itself, of any shape.
        target: the counts, of the same shape.
        log_input: whether ``input`` is the logarithm.
        full: whether to add Stirling's approximation of log count!, for counts above 1.
        eps: is added to a rate before its logarithm.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.

    >>> poisson_nll_loss(Tensor[NumPy].zeros((2,)), Tensor[NumPy].from_data([0.0, 3.0]), reduction="none").tolist()
    [1.0, 1.0]
    """
    same_shape("poisson_nll_loss", input, target)
    x, y = at_least_float32(input), at_least_float32(target)
    losses = x.exp() - y * x if log_input else x - y * (x + eps).log()
    if full:
        counted = y > 1.0
        count = y.where(counted, 1.0)
        stirling = count * count.log() - count + 0.5 * (2.0 * math.pi * count).log()
        losses = losses + stirling.where(counted, 0.0)
    return reduced("poisson_nll_loss", losses, reduction).to_dtype(input.dtype)


@explained
def gaussian_nll_loss(
    input: Tensor[B],
    target: Tensor[B],
    var: Tensor[B] | float,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute the negative log likelihood under normal distributions: (log var + (input - target)² / var) / 2.

    A variance below ``eps`` is ``eps``, and its gradient that at ``eps``.

    Args:
        input: the means, of any shape.
        target: the values, of the same shape.
        var: the variances: a number, or a tensor of the same shape, or with 1 as last dimension, or without it.
        full: whether to add log(2π) / 2.
        eps: the smallest variance.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentError: a variance is negative, or ``eps`` is not positive.

    Source: Nix and Weigend, Estimating the Mean and Variance of the Target Probability Distribution, 1994.

    >>> mean, target = Tensor[NumPy].zeros((2,)), Tensor[NumPy].from_data([1.0, 2.0])
    >>> gaussian_nll_loss(mean, target, Tensor[NumPy].ones((2,)), reduction="none").tolist()
    [0.5, 2.0]
    """
    name = "gaussian_nll_loss"
    same_shape(name, input, target)
    above_zero(name, eps=eps)
    number: Any = var
    if isinstance(number, (int, float, np.number)):
        variance = input.full_like(float(number))
    elif isinstance(number, Tensor):
        operands(input, number, name)  # raises an error if they cannot be combined
        refuse_wider(name, "a prediction", input.dtype, var=number)
        shape = number.shape
        if shape not in (input.shape, input.shape[:-1], (*input.shape[:-1], 1)):
            raise ShapeError(
                f"{name}() got shape {input.shape} and a variance of shape {shape}; it is of the same shape, "
                "or with 1 as last dimension, or without it"
            )
        variance = number.unsqueeze(-1) if shape != input.shape and len(shape) < input.ndim else number
    else:
        raise KindError(f"{name}() takes the variance as a Tensor or a number, got {describe(number)}")
    error = ArgumentError(f"{name}() got a variance below 0; of its logarithm, write var=log_var.exp()")
    refuse_unless(variance.device, (~(variance.detach() < 0.0))._primitive, error)
    small = variance.detach() < eps
    variance = variance.where(~small, variance - variance.detach() + eps)
    x, y, variance = (at_least_float32(each) for each in (input, target, variance))
    losses = 0.5 * (variance.log() + (x - y).square() / variance)
    losses = losses + 0.5 * math.log(2.0 * math.pi) if full else losses
    return reduced(name, losses, reduction).to_dtype(input.dtype)


@explained
def kl_div(
    input: Tensor[B], target: Tensor[B], *, log_target: bool = False, reduction: BatchReduction = "mean"
) -> Tensor[B]:
    """Compute the terms target · (log target - input) of the Kullback-Leibler divergence; 0 for a target of 0.

    The gradient of target · log target at 0, which is infinite, is computed as 0.

    Args:
        input: logarithms of probabilities, of any shape.
        target: probabilities, or logarithms of them, of the same shape.
        log_target: whether the target holds logarithms.
        reduction: "mean" over all elements; "batchmean" is the sum over the size of the first dimension, which is the
            divergence; "sum", or "none" for each term.

    Raises:
        ShapeError: the shapes differ, or "batchmean" of a 0-d tensor.

    Source: Kullback and Leibler, On Information and Sufficiency, 1951.

    >>> p = Tensor[NumPy].from_data([[0.5, 0.5], [1.0, 0.0]])
    >>> uniform = Tensor[NumPy].full((2, 2), 0.5).log()
    >>> round(kl_div(uniform, p, reduction="batchmean").item(), 4)
    0.3466
    """
    same_shape("kl_div", input, target)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = target * target.where(target != 0.0, 1.0).log() - weighted(input, target)
    if reduction != "batchmean":
        return reduced("kl_div", losses, reduction)
    if not input.ndim:
        raise ShapeError('kl_div() got reduction="batchmean" of a 0-d tensor, which has no batch')
    total = losses.sum(dtype=losses.dtype if losses.dtype.itemsize > 2 else float32)  # which may exceed 16-bit floats
    return (total / (input.shape[0] or 0.0)).to_dtype(losses.dtype)


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


class KlDivLoss(PairLoss):
    """Kullback-Leibler divergence from log-probabilities: see `burnpy.nn.functional.kl_div`."""

    _function = staticmethod(kl_div)
    _settings = ("log_target", "reduction")
    _reductions = get_args(BatchReduction)

    def __init__(self, *, log_target: bool = False, reduction: BatchReduction = "mean") -> None:
        argument: Any = reduction  # one of `_reductions`
        super().__init__(reduction=argument)
        self.log_target = log_target
