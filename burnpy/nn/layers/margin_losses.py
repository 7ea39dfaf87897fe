"""Losses with a margin as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from burnpy.nn.layers.losses import known
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Ints
    from burnpy.tensor.tensor import Tensor


@inherit_methods
class HingeEmbeddingLoss(Unplaced):
    """Hinge loss of the distances of pairs: see `burnpy.nn.functional.hinge_embedding_loss`.

    Args:
        margin: the margin.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        self.margin = margin
        self.reduction: Reduction = known("HingeEmbeddingLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of distances and labels 1 and -1 of the same shape."""
        return hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class CosineEmbeddingLoss(Unplaced):
    """Loss of the cosine of pairs of vectors: see `burnpy.nn.functional.cosine_embedding_loss`.

    Args:
        margin: the margin.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        self.margin = margin
        self.reduction: Reduction = known("CosineEmbeddingLoss", reduction)

    def forward(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of two batches of vectors (N, D) with labels 1 and -1 (N,)."""
        return cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class MarginRankingLoss(Unplaced):
    """Ranking loss of pairs of scores: see `burnpy.nn.functional.margin_ranking_loss`.

    Args:
        margin: the margin.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        self.margin = margin
        self.reduction: Reduction = known("MarginRankingLoss", reduction)

    def forward(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of two tensors of scores and labels 1 and -1 of the same shape."""
        return margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input1: Tensor[B], input2: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class TripletMarginLoss(Unplaced):
    """Loss of the distances from an anchor to others: see `burnpy.nn.functional.triplet_margin_loss`.

    Args:
        margin: the margin.
        p: the power of the norm.
        eps: is added to differences.
        swap: whether to take the negative's distance from the positive where that is smaller.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        if not margin > 0.0:
            raise ArgumentError(f"TripletMarginLoss() got margin={margin!r:.80}; expected a number above 0")
        if not p > 0.0:
            raise ArgumentError(f"TripletMarginLoss() got p={p!r:.80}; expected a number above 0")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap
        self.reduction: Reduction = known("TripletMarginLoss", reduction)

    def forward(self, anchor: Tensor[B], positive: Tensor[B], negative: Tensor[B]) -> Tensor[B]:
        """Return the loss of three batches of vectors (N, D)."""
        return triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )

    if TYPE_CHECKING:

        def __call__(self, anchor: Tensor[B], positive: Tensor[B], negative: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class SoftMarginLoss(Unplaced):
    """Logistic loss of scores for two classes: see `burnpy.nn.functional.soft_margin_loss`.

    Args:
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = known("SoftMarginLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
        """Return the loss of scores and labels 1 and -1 of the same shape."""
        return soft_margin_loss(input, target, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B] | Ints[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class MultiMarginLoss(Unplaced):
    """Hinge loss of the scores of several classes: see `burnpy.nn.functional.multi_margin_loss`.

    Args:
        p: the power, 1 or 2.
        margin: the margin.
        reduction: "mean", "sum", or "none" for one loss per element.

    Raises:
        ArgumentError: a setting is invalid.
    """

    def __init__(self, *, p: int = 1, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        if p not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss() got p={p!r:.80}; expected 1 or 2")
        self.p, self.margin = p, margin
        self.reduction: Reduction = known("MultiMarginLoss", reduction)

    def forward(self, input: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of scores (N, C) for classes (N,), with class weights (C,)."""
        return multi_margin_loss(input, target, weight=weight, p=self.p, margin=self.margin, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Ints[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
