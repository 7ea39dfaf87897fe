"""The loss of sequences whose alignment to their labels is not known, as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import whole
from burnpy.nn.functional.alignment import Lengths, ctc_loss
from burnpy.nn.layers.losses import Loss
from burnpy.tensor.functions.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


class CtcLoss(Loss):
    """Connectionist temporal classification: see `burnpy.nn.functional.ctc_loss`."""

    _function = staticmethod(ctc_loss)
    _settings = ("blank", "reduction", "zero_infinity")

    def __init__(self, *, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = whole("CtcLoss", "blank", blank)
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor[B], targets: Ints[B], input_lengths: Lengths[B], target_lengths: Lengths[B]
    ) -> Tensor[B]:
        """Return the loss of log probabilities (T, N, C) and labels (N, S), of given lengths."""
        return self._result(log_probs, targets, input_lengths, target_lengths)

    if TYPE_CHECKING:

        def __call__(
            self, log_probs: Tensor[B], targets: Ints[B], input_lengths: Lengths[B], target_lengths: Lengths[B]
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
