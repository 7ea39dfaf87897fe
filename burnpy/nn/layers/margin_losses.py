"""Losses with a margin: of scores, of rankings, of vectors and of triplets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import above_zero
from burnpy.nn.layers.losses import Loss
from burnpy.tensor.call_errors import explained
from burnpy.tensor.distances import pairwise_distance
from burnpy.tensor.linalg import at_least_float32
from burnpy.tensor.losses import (
    Reduction,
    class_targets,
    class_weights,
    labels,
    reduced,
    same_shape,
    value_at_class,
    weight_at_class,
)
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


@explained
def hinge_embedding_loss(
    input: Tensor[B], target: Tensor[B] | Ints[B], *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Compute the hinge loss of distances x: x where the label is 1, and max(0, margin - x) where it is -1.

    Args:
        input: the distances, of any shape.
        target: labels, 1 for similar and -1 for dissimilar pairs, of the same shape.
        margin: the distance from which on dissimilar pairs cost nothing.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.

    >>> distances, target = Tensor[NumPy].from_data([0.25, 0.25]), IntTensor[NumPy].from_data([1, -1])
    >>> hinge_embedding_loss(distances, target, reduction="none").tolist()
    [0.25, 0.75]
    """
    name = "hinge_embedding_loss"
    _float(name, input)
    sign = labels(name, input, target, input.shape)
    apart = (margin - input).clamp_min(0.0).where(sign != 1.0, 0.0)
    return reduced(name, apart + input.where(sign != -1.0, 0.0), reduction)


@explained
def cosine_embedding_loss(
    input1: Tensor[B],
    input2: Tensor[B],
    target: Tensor[B] | Ints[B],
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute the loss of cosines c of pairs: 1 - c where the label is 1, and max(0, c - margin) where it is -1.

    Args:
        input1: vectors, shape (N, D) or (D,).
        input2: vectors, of the same shape.
        target: labels, 1 for similar and -1 for dissimilar pairs, of shape (N,) or ().
        margin: the cosine up to which dissimilar pairs cost nothing.
        reduction: "mean", "sum", or "none" for the loss of each pair.

    Raises:
        ShapeError: the shapes do not match.

    >>> x, y = Tensor[NumPy].from_data([[1.0, 0.0]]), Tensor[NumPy].from_data([[0.0, 2.0]])
    >>> cosine_embedding_loss(x, y, IntTensor[NumPy].from_data([1])).item()
    1.0
    """
    name = "cosine_embedding_loss"
    same_shape(name, input1, input2)
    if input1.ndim not in (1, 2):
        raise ShapeError(f"{name}() takes vectors of shape (N, D) or (D,), got shape {input1.shape}")
    sign = labels(name, input1, target, input1.shape[:-1])
    vectors = [at_least_float32(x) for x in (input1, input2)]
    units = [x / (x.square().sum(-1, keepdim=True) + 1e-12).sqrt() for x in vectors]
    cosine = (units[0] * units[1]).sum(-1)
    losses = (1.0 - cosine).where(sign == 1.0, 0.0) + (cosine - margin).clamp_min(0.0).where(sign == -1.0, 0.0)
    return reduced(name, losses, reduction).to_dtype(input1.dtype)


@explained
def margin_ranking_loss(
    input1: Tensor[B],
    input2: Tensor[B],
    target: Tensor[B] | Ints[B],
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute max(0, margin - label · (input1 - input2)): the label 1 ranks the first higher, -1 the second.

    Args:
        input1: the first of each pair, of any shape.
        input2: the second, of the same shape.
        target: labels 1 and -1, of the same shape.
        margin: the difference from which on a pair costs nothing.
        reduction: "mean", "sum", or "none" for the loss of each pair.

    Raises:
        ShapeError: the shapes differ.

    >>> x, y = Tensor[NumPy].from_data([3.0, 1.0]), Tensor[NumPy].from_data([2.0, 2.0])
    >>> margin_ranking_loss(x, y, Tensor[NumPy].ones((2,)), reduction="none").tolist()
    [0.0, 1.0]
    """
    name = "margin_ranking_loss"
    same_shape(name, input1, input2)
    sign = labels(name, input1, target, input1.shape)
    return reduced(name, (margin - sign * (input1 - input2)).clamp_min(0.0), reduction)


@explained
def triplet_margin_loss(
    anchor: Tensor[B] | ComplexTensor[B],
    positive: Tensor[B] | ComplexTensor[B],
    negative: Tensor[B] | ComplexTensor[B],
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute max(0, margin + d(anchor, positive) - d(anchor, negative)), d the p-norm of a difference + ``eps``.

    Args:
        anchor: vectors, shape (N, D) or (D,); all three may be complex.
        positive: vectors that should be near, of the same shape.
        negative: vectors that should be far, of the same shape.
        margin: by how much farther the negative is to be.
        p: the power of the norm, above 0; ``math.inf`` for the largest magnitude.
        eps: is added to differences.
        swap: whether to take the negative's distance from the positive where that is smaller.
        reduction: "mean", "sum", or "none" for the loss of each triplet.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentError: ``margin`` or ``p`` is not above 0.

    Source: Balntas et al., Learning local feature descriptors with triplets and shallow convolutional neural networks,
    2016.

    >>> x, near, far = (Tensor[NumPy].from_data([a]) for a in ([0.0, 0.0], [0.0, 1.0], [0.5, 0.0]))
    >>> round(triplet_margin_loss(x, near, far).item(), 4)
    1.5
    """
    name = "triplet_margin_loss"
    same_shape(name, anchor, positive)
    same_shape(name, anchor, negative)
    if anchor.ndim not in (1, 2):
        raise ShapeError(f"{name}() takes vectors of shape (N, D) or (D,), got shape {anchor.shape}")
    above_zero(name, margin=margin, p=p)
    x, y, z = (at_least_float32(vectors) for vectors in (anchor, positive, negative))
    near, far = (pairwise_distance(x, other, p, eps) for other in (y, z))
    if swap:
        far = far.minimum(pairwise_distance(y, z, p, eps))
    loss = reduced(name, (margin + near - far).clamp_min(0.0), reduction)
    return loss.to_dtype(anchor.dtype) if isinstance(anchor, Tensor) else loss


@explained
def soft_margin_loss(input: Tensor[B], target: Tensor[B] | Ints[B], *, reduction: Reduction = "mean") -> Tensor[B]:
    """Compute log(1 + exp(-label · input)), without overflow.

    Args:
        input: scores, of any shape.
        target: labels 1 and -1, of the same shape.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.

    >>> x, target = Tensor[NumPy].from_data([0.0, -100.0]), Tensor[NumPy].ones((2,))
    >>> soft_margin_loss(x, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    _float("soft_margin_loss", input)
    sign = labels("soft_margin_loss", input, target, input.shape)
    return reduced("soft_margin_loss", (-sign * input).softplus(), reduction)


@explained
def multi_margin_loss(
    input: Tensor[B],
    target: Ints[B],
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor[B] | None = None,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Compute the mean over the C classes of max(0, margin - x[target] + x[class])ᵖ, with 0 for the target itself.

    Args:
        input: scores, shape (N, C) or (C,).
        target: the class of each, from 0 to C - 1, shape (N,) or ().
        p: the power, 1 or 2.
        margin: the distance by which the target's score should exceed all others.
        weight: the weight of each target class, of shape (C,); "mean" divides by N.
        reduction: "mean", "sum", or "none" for the loss of each row.

    Raises:
        ShapeError: the shapes do not match.
        IndexRangeError: a class is out of range.
        ArgumentError: ``p`` is not 1 or 2.

    >>> scores = Tensor[NumPy].from_data([[0.0, 1.0, 3.0, 0.5]])
    >>> multi_margin_loss(scores, IntTensor[NumPy].from_data([1])).item()
    0.875
    """
    name = "multi_margin_loss"
    _float(name, input)
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ShapeError(f"{name}() takes scores of shape (N, C) or (C,), got shape {input.shape}")
    if p not in (1, 2):
        raise ArgumentError(f"{name}() got p={p!r:.80}; expected 1 or 2")
    dim = input.ndim - 1
    x, index = class_targets(name, input, target, dim)
    weights = None if weight is None else class_weights(name, x, weight, dim)
    classes = IntTensor.arange(x.shape[-1], device=x.device)
    labels: Any = target
    others = classes != labels.unsqueeze(-1)
    excess = (margin - value_at_class(x, dim, index).unsqueeze(-1) + x).relu()
    losses = (excess if p == 1 else excess.square()).where(others, 0.0).mean(-1)
    if weights is not None:
        losses = losses * weight_at_class(weights, index)
    return reduced(name, losses, reduction)


def _float(operation: str, x: object) -> None:
    """Check that x is a float tensor."""
    if not isinstance(x, Tensor):
        raise KindError(f"{operation}() takes a float Tensor, got {describe(x)}")


class LabelLoss(Loss):
    """The base class of losses of numbers and their labels, 1 and -1."""

    def forward(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of numbers and labels 1 and -1 of the same shape."""
        return self._result(input, target)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class PairLabelLoss(Loss):
    """The base class of losses of pairs and their labels, 1 and -1, with a margin."""

    _settings = ("margin", "reduction")

    def __init__(self, *, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin

    def forward(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of pairs in two tensors of the same shape, vectors (N, D) or scores, with their labels."""
        return self._result(input1, input2, target)

    if TYPE_CHECKING:

        def __call__(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class HingeEmbeddingLoss(LabelLoss):
    """Hinge loss of the distances of pairs: see `burnpy.nn.functional.hinge_embedding_loss`."""

    _function = staticmethod(hinge_embedding_loss)
    _settings = ("margin", "reduction")

    def __init__(self, *, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin


class CosineEmbeddingLoss(PairLabelLoss):
    """Loss of the cosine of pairs of vectors: see `burnpy.nn.functional.cosine_embedding_loss`."""

    _function = staticmethod(cosine_embedding_loss)


class MarginRankingLoss(PairLabelLoss):
    """Ranking loss of pairs of scores: see `burnpy.nn.functional.margin_ranking_loss`."""

    _function = staticmethod(margin_ranking_loss)


class TripletMarginLoss(Loss):
    """Loss of the distances from an anchor to others: see `burnpy.nn.functional.triplet_margin_loss`."""

    _function = staticmethod(triplet_margin_loss)
    _settings = ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        *,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        above_zero("TripletMarginLoss", margin=margin, p=p)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor[B], positive: Tensor[B], negative: Tensor[B]) -> Tensor[B]:
        """Return the loss of three batches of vectors (N, D)."""
        return self._result(anchor, positive, negative)

    if TYPE_CHECKING:

        def __call__(self, anchor: Tensor[B], positive: Tensor[B], negative: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class SoftMarginLoss(LabelLoss):
    """Logistic loss of scores for two classes: see `burnpy.nn.functional.soft_margin_loss`."""

    _function = staticmethod(soft_margin_loss)


class MultiMarginLoss(Loss):
    """Hinge loss of the scores of several classes: see `burnpy.nn.functional.multi_margin_loss`."""

    _function = staticmethod(multi_margin_loss)
    _settings = ("p", "margin", "reduction")

    def __init__(self, *, p: int = 1, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        if p not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss() got p={p!r:.80}; expected 1 or 2")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of scores (N, C) for classes (N,), with class weights (C,)."""
        return self._result(input, target, weight=weight)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
