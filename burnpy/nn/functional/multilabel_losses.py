"""Losses of examples that belong to several classes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import KindError, ShapeError
from burnpy.nn.argument_checks import above_zero
from burnpy.tensor.call_errors import explained
from burnpy.tensor.functions.loss_checks import Reduction, by_weight, class_weights, reduced, same_shape
from burnpy.tensor.operands import in_range, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


@explained
def multilabel_margin_loss(input: Tensor[B], target: Ints[B], *, reduction: Reduction = "mean") -> Tensor[B]:
    """Compute Σ max(0, 1 - x[own] + x[other]) / C over all pairs of an own class of an example and another one.

    Args:
        input: scores, shape (N, C), (C,), or () for one class.
        target: the classes of each example, of the same shape: those before the first -1 count.
        reduction: "mean", "sum", or "none" for the loss of each example.

    Raises:
        KindError: ``target`` is not an `IntTensor`.
        ShapeError: the shapes do not match.
        IndexRangeError: a class is out of range.

    >>> scores = Tensor[NumPy].from_data([0.1, 0.2, 0.4, 0.8])
    >>> round(multilabel_margin_loss(scores, IntTensor[NumPy].from_data([3, 0, -1, 1])).item(), 4)
    0.85
    """
    name = "multilabel_margin_loss"
    if not isinstance(input, Tensor):
        raise KindError(f"{name}() takes a float Tensor, got {describe(input)}")
    if not isinstance(target, IntTensor):
        raise KindError(f"{name}() takes its classes as an IntTensor, got {describe(target)}")
    together(name, input, target)  # raises an error if they cannot be combined
    if input.ndim == target.ndim == 0:
        return multilabel_margin_loss(input.reshape(1), target.reshape(1), reduction=reduction)
    shape = input.shape
    if len(shape) not in (1, 2) or not shape[-1] or target.shape != shape:
        raise ShapeError(
            f"{name}() got scores of shape {shape} and classes of shape {target.shape}; expected (N, C), or (C,), for "
            "both"
        )
    classes = shape[-1]
    d: Any = input.device.discrete
    own = target.ne(-1).int().cumprod(-1).bool()
    index = d.where(own._primitive, target._primitive, 0)
    index = in_range(d, index, classes, False, f"{name}()", len(shape) - 1, shape)
    listed = input._int(index)
    counts = d.scatter_add(d.full(shape, 0, int64), len(shape) - 1, index, d.to_int(own._primitive, int64))
    others = input._bool(d.eq(counts, 0))
    most = classes
    if d.eager_checks:  # the classes after the last one that counts in any example are left out
        most = max(1, int(d.to_numpy(own._primitive).sum(-1).max(initial=0)))
    own, listed = own[..., :most], listed[..., :most]
    excess = (1.0 - input.gather(-1, listed).unsqueeze(-1) + input.unsqueeze(-2)).relu()
    pairs = own.unsqueeze(-1) & others.unsqueeze(-2)
    return reduced(name, excess.where(pairs, 0.0).sum((-2, -1)) / float(classes), reduction)


@explained
def multilabel_soft_margin_loss(
    input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Compute the mean binary cross entropy over the C classes of each example, without overflow.

    Args:
        input: logits, shape (…, C).
        target: 1 for the classes of an example and 0 for others, or a probability, of the same shape.
        weight: the weight of each class, of shape (C,), or of each logit.
        reduction: "mean", "sum", or "none" for the loss of each example.

    Raises:
        ShapeError: the shapes do not match.

    >>> x, y = Tensor[NumPy].from_data([[100.0, 0.0]]), Tensor[NumPy].from_data([[1.0, 0.0]])
    >>> multilabel_soft_margin_loss(x, y).item()
    0.3465...
    """
    name = "multilabel_soft_margin_loss"
    same_shape(name, input, target)
    if not input.ndim:
        raise ShapeError(f"{name}() takes logits of shape (…, C), got shape ()")
    losses = _cross_entropy(input, target)
    if weight is not None:
        if getattr(weight, "shape", None) != input.shape:
            weight = class_weights(name, input, weight, input.ndim - 1)
        losses = by_weight(name, losses, weight.expand_as(losses))
    return reduced(name, losses.mean(-1), reduction)


@explained
def sigmoid_focal_loss(
    input: Tensor[B],
    target: Tensor[B],
    *,
    alpha: float | None = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute the binary cross entropy times ``(1 - p)^gamma``, p the probability of the target, from logits.

    Examples that are classified well count less, the less the larger ``gamma`` is.

    Args:
        input: logits, of any shape.
        target: 1 or 0, or a probability, of the same shape.
        alpha: the weight of the target 1; the target 0 has the weight 1 - alpha. None for no weights.
        gamma: the power, above 0.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: ``gamma`` is not above 0.

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.

    >>> x, y = Tensor[NumPy].from_data([0.0, 100.0]), Tensor[NumPy].ones((2,))
    >>> sigmoid_focal_loss(x, y, alpha=None, reduction="none").tolist()
    [0.173..., 0.0]
    """
    name = "sigmoid_focal_loss"
    same_shape(name, input, target)
    above_zero(name, gamma=gamma)
    missed = input.sigmoid() * (1.0 - target) + (-input).sigmoid() * target  # 1 - p, without cancellation
    losses = missed.pow(gamma) * _cross_entropy(input, target)
    if alpha is not None:
        losses = losses * (target * alpha + (1.0 - target) * (1.0 - alpha))
    return reduced(name, losses, reduction)


def _cross_entropy(x: Tensor[B], target: Tensor[B]) -> Tensor[B]:
    """Return the binary cross entropy of logits, whose small values are as accurate as large ones."""
    return target * (-x).softplus() + (1.0 - target) * x.softplus()
