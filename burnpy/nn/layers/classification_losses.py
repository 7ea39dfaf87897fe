"""Losses of classes and labels: cross entropies, focal and multi-label losses.

The functions `cross_entropy` and `nll_loss` are in `burnpy.tensor.losses`, since metrics use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import int64, tiny
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import above_zero
from burnpy.nn.layers.losses import Loss, PairLoss, WeightedLoss
from burnpy.tensor.call_errors import explained
from burnpy.tensor.losses import (
    Reduction,
    binary_cross_entropy_with_logits,
    by_weight,
    class_weights,
    cross_entropy,
    nll_loss,
    reduced,
    same_shape,
    weighted,
)
from burnpy.tensor.operand_checks import in_range, refuse_unless, refuse_wider, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe, made_of
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


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
        ArgumentError: a probability is not from 0 to 1.

    >>> p, target = Tensor[NumPy].from_data([0.5, 0.0]), Tensor[NumPy].from_data([1.0, 1.0])
    >>> binary_cross_entropy(p, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    name = "binary_cross_entropy"
    same_shape(name, input, target)
    p, labels = together(name, input, target)
    b = p._backend
    for word, x in (("input", p._primitive), ("target", labels._primitive)):
        hint = "; of logits, write binary_cross_entropy_with_logits(input, target)" if word == "input" else ""
        error = ArgumentError(f"{name}() takes probabilities as {word}, got values outside of 0 to 1{hint}")
        outside = b.discrete.bitwise_or(b.lt(x, 0.0), b.gt(x, 1.0))
        refuse_unless(p.device, b.discrete.bitwise_not(outside), error)
    (out,) = b.fused(_binary_entropy, (p._primitive, labels._primitive), (max(1e-12, tiny(p.dtype)),))
    losses = p._like(out)
    if weight is not None:
        refuse_wider(name, "a prediction", input.dtype, weight=weight)
        losses = weighted(losses, weight)
        if losses.shape != input.shape:
            raise ShapeError(f"{name}() got shape {input.shape} and a weight that broadcasts it to {losses.shape}")
    return reduced(name, losses, reduction)


def _binary_entropy(b: Any, x: Any, target: Any, smallest: float) -> tuple[Any]:
    rest, other = b.add(b.neg(x), 1.0), b.add(b.neg(target), 1.0)
    total = b.add(b.mul(target, _bounded_log(b, x, smallest)), b.mul(other, _bounded_log(b, rest, smallest)))
    return (b.neg(total),)


def _bounded_log(b: Any, x: Any, smallest: float) -> Any:
    """Return the logarithm, at least -100, with a derivative that is bounded where x is next to 0."""
    fixed = b.detach(x)
    inside = b.ge(fixed, smallest)
    beyond = b.discrete.bitwise_not(inside)
    value = b.clamp(b.log(b.where(beyond, fixed, 1.0)), -100.0, None)
    linear = b.div(b.where(beyond, b.sub(x, fixed), 0.0), smallest)
    return b.add(b.add(b.log(b.where(inside, x, 1.0)), value), linear)


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
        raise KindError(f"{name}() takes its classes as an IntTensor, got {describe(target)}{made_of(target)}")
    x, labels = together(name, input, target)
    if x.ndim == labels.ndim == 0:
        return multilabel_margin_loss(x.reshape(1), labels.reshape(1), reduction=reduction)
    shape = x.shape
    if len(shape) not in (1, 2) or not shape[-1] or labels.shape != shape:
        raise ShapeError(
            f"{name}() got scores of shape {shape} and classes of shape {labels.shape}; expected (N, C), or (C,), for "
            "both"
        )
    classes = shape[-1]
    d: Any = x.device.discrete
    own = labels.ne(-1).int().cumprod(-1).bool()
    index = d.where(own._primitive, labels._primitive, 0)
    index = in_range(d, index, classes, False, f"{name}()", len(shape) - 1, shape)
    listed = x._int(index)
    counts = d.scatter_add(d.full(shape, 0, int64), len(shape) - 1, index, d.to_int(own._primitive, int64))
    others = x._bool(d.eq(counts, 0))
    most = classes
    if d.eager_checks:  # the classes after the last one that counts in any example are left out
        most = max(1, int(d.to_numpy(own._primitive).sum(-1).max(initial=0)))
    own, listed = own[..., :most], listed[..., :most]
    excess = (1.0 - x.gather(-1, listed).unsqueeze(-1) + x.unsqueeze(-2)).relu()
    pairs = own.unsqueeze(-1) & others.unsqueeze(-2)
    return reduced(name, excess.where(pairs, 0.0).mean(-1).sum(-1), reduction)


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
    losses = binary_cross_entropy_with_logits(input, target, reduction="none")
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
    losses = missed.pow(gamma) * binary_cross_entropy_with_logits(input, target, reduction="none")
    if alpha is not None:
        losses = losses * (target * alpha + (1.0 - target) * (1.0 - alpha))
    return reduced(name, losses, reduction)


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
