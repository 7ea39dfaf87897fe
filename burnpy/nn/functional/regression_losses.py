"""Losses of the difference between a prediction and a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import above_zero
from burnpy.tensor.call_errors import explained
from burnpy.tensor.loss_checks import Reduction, by_weight, reduced, same_shape, weighted_mean
from burnpy.tensor.operands import together
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, y = Tensor[NumPy].from_data([0.5, 3.0]), Tensor[NumPy].zeros((2,))
    >>> smooth_l1_loss(x, y, reduction="none").tolist()
    [0.125, 2.5]
    """
    same_shape("smooth_l1_loss", input, target)
    if not beta >= 0.0:
        raise ArgumentError(f"smooth_l1_loss() got beta={beta!r:.80}; expected a number of at least 0")
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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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
