"""Losses of the difference between a prediction and a target, negative log likelihoods, and divergences."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import above_zero
from burnpy.tensor.call_errors import explained
from burnpy.tensor.functions.loss_checks import Reduction, by_weight, reduced, same_shape, weighted, weighted_mean
from burnpy.tensor.operands import number, operands, refuse_wider, together
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
def binary_cross_entropy(
    input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Compute the cross entropy of probabilities; for logits, `binary_cross_entropy_with_logits` is exact.

    A logarithm is at least -100, and its derivative at most 10¹² (2¹⁴ in float16), so that the loss and its gradient
    are finite where a prediction is 0 or 1.

    Args:
        input: probabilities from 0 to 1, of any shape.
        target: probabilities from 0 to 1, of the same shape.
        weight: the weight of each element; broadcasts to the shape of ``input``.
        reduction: "mean" divides by the number of elements, not by the sum of the weights.

    Raises:
        ShapeError: the shapes are not equal, or the weight does not broadcast to them.
        ArgumentError: a probability is not from 0 to 1; on devices that check values at once.

    >>> p, target = Tensor[NumPy].from_data([0.5, 0.0]), Tensor[NumPy].from_data([1.0, 1.0])
    >>> binary_cross_entropy(p, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    name = "binary_cross_entropy"
    same_shape(name, input, target)
    for word, x in (("input", input), ("target", target)):
        d: Any = x.device.discrete
        if d.eager_checks and x.detach().lt(0.0).logical_or(x.detach().gt(1.0)).any().item():
            hint = "; of logits, write binary_cross_entropy_with_logits(input, target)" if word == "input" else ""
            raise ArgumentError(f"{name}() takes probabilities as {word}, got values outside of 0 to 1{hint}")
    rest = 1.0 - input
    losses = -(target * _bounded_log(input, input.dtype) + (1.0 - target) * _bounded_log(rest, input.dtype))
    if weight is not None:
        refuse_wider(name, "a prediction", input.dtype, weight=weight)
        losses = weighted(losses, weight)
        if losses.shape != input.shape:
            raise ShapeError(f"{name}() got shape {input.shape} and a weight that broadcasts it to {losses.shape}")
    return reduced(name, losses, reduction)


@explained
def kl_div(
    input: Tensor[B], target: Tensor[B], *, log_target: bool = False, reduction: BatchReduction = "mean"
) -> Tensor[B]:
    """Compute the terms target · (log target - input) of the Kullback-Leibler divergence; 0 for a target of 0.

    The gradient of target · log target at 0, which is infinite, is taken to be 0.

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
    return losses.sum() / input.shape[0] if input.shape[0] else losses.sum() / 0.0


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
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        counted = target > 1.0
        count = target.where(counted, 1.0)
        stirling = count * count.log() - count + 0.5 * (2.0 * math.pi * count).log()
        losses = losses + stirling.where(counted, 0.0)
    return reduced("poisson_nll_loss", losses, reduction)


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
        ArgumentError: a variance is negative, on devices that check values at once; or ``eps`` is not positive.

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
    d: Any = input.device.discrete
    if d.eager_checks and variance.detach().lt(0.0).any().item():
        raise ArgumentError(f"{name}() got a variance below 0; of its logarithm, write var=log_var.exp()")
    small = variance.detach() < eps
    variance = variance.where(~small, variance - variance.detach() + eps)
    losses = 0.5 * (variance.log() + (input - target).square() / variance)
    return reduced(name, losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)


def _bounded_log(x: Tensor[B], dtype: Any) -> Tensor[B]:
    """Return the logarithm, at least -100, with a derivative that is bounded where x is next to 0."""
    smallest = max(1e-12, float(np.finfo(dtype if dtype.kind == "f" else np.float32).tiny))
    inside = x.detach() >= smallest
    value = x.detach().where(~inside, 1.0).log().clamp_min(-100.0)
    return x.where(inside, 1.0).log() + value + (x - x.detach()).where(~inside, 0.0) / smallest
