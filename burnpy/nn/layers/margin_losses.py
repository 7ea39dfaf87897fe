"""Losses with a margin as modules, each with the settings and errors of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import above_zero
from burnpy.nn.functional.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from burnpy.nn.layers.losses import Loss
from burnpy.tensor.functions.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


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
