"""Losses as modules: the functions of the same names with settings put into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import composed
from burnpy.tensor.losses import Reduction, binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@composed
class CrossEntropyLoss(Unplaced):
    """The cross entropy of the softmax of logits against classes or probabilities: see `burnpy.cross_entropy`.

    Args:
        ignore_index: the class whose elements count for nothing.
        label_smoothing: how much of the target is spread evenly over all classes.
        reduction: "mean", "sum", or "none" for the losses of the single elements.

    Raises:
        ArgumentError: a setting makes no sense.

    >>> from burnpy import IntTensor, Tensor
    >>> from burnpy.backend import NumPy
    >>> loss = CrossEntropyLoss()
    >>> round(loss(Tensor[NumPy].zeros((2, 4)), IntTensor[NumPy].from_data([0, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: Reduction = "mean"
    ) -> None:
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(f"CrossEntropyLoss() was given label_smoothing={label_smoothing}; it is from 0 to 1")
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.reduction: Reduction = _known("CrossEntropyLoss", reduction)

    def forward(
        self, logits: Tensor[B], target: IntTensor[B] | Tensor[B], *, weight: Tensor[B] | None = None
    ) -> Tensor[B]:
        """Of logits (N, C, …) and classes (N, …) or probabilities (N, C, …); weight (C,): how much a class counts."""
        wanted: Any = target  # of either kind
        return cross_entropy(
            logits,
            wanted,
            weight=weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )

    if TYPE_CHECKING:

        def __call__(
            self, logits: Tensor[B], target: IntTensor[B] | Tensor[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """What `forward` computes."""
            ...


@composed
class NllLoss(Unplaced):
    """The negative logarithm of the probability given to the right class: see `burnpy.nll_loss`.

    Args:
        ignore_index: the class whose elements count for nothing.
        reduction: "mean", "sum", or "none" for the losses of the single elements.

    Raises:
        ArgumentError: a setting makes no sense.
    """

    def __init__(self, *, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        self.ignore_index = ignore_index
        self.reduction: Reduction = _known("NllLoss", reduction)

    def forward(
        self, log_probabilities: Tensor[B], target: IntTensor[B], *, weight: Tensor[B] | None = None
    ) -> Tensor[B]:
        """Of log-probabilities (N, C, …) and classes (N, …); weight (C,) says how much a class counts."""
        return nll_loss(
            log_probabilities, target, weight=weight, ignore_index=self.ignore_index, reduction=self.reduction
        )

    if TYPE_CHECKING:

        def __call__(
            self, log_probabilities: Tensor[B], target: IntTensor[B], *, weight: Tensor[B] | None = None
        ) -> Tensor[B]:
            """What `forward` computes."""
            ...


@composed
class MseLoss(Unplaced):
    """The squared differences: see `burnpy.mse_loss`.

    Args:
        reduction: "mean", "sum", or "none" for the losses of the single elements.

    Raises:
        ArgumentError: a setting makes no sense.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = _known("MseLoss", reduction)

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Of two tensors of one shape."""
        return mse_loss(input, target, reduction=self.reduction)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """What `forward` computes."""
            ...


@composed
class BceWithLogitsLoss(Unplaced):
    """The cross entropy of sigmoids against probabilities: see `burnpy.binary_cross_entropy_with_logits`.

    Args:
        reduction: "mean", "sum", or "none" for the losses of the single elements.

    Raises:
        ArgumentError: a setting makes no sense.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = _known("BceWithLogitsLoss", reduction)

    def forward(
        self,
        input: Tensor[B],
        target: Tensor[B],
        *,
        weight: Tensor[B] | None = None,
        pos_weight: Tensor[B] | None = None,
    ) -> Tensor[B]:
        """Of two tensors of one shape; what is weighted by ``weight`` and ``pos_weight`` broadcasts to it."""
        return binary_cross_entropy_with_logits(
            input, target, weight=weight, pos_weight=pos_weight, reduction=self.reduction
        )

    if TYPE_CHECKING:

        def __call__(
            self,
            input: Tensor[B],
            target: Tensor[B],
            *,
            weight: Tensor[B] | None = None,
            pos_weight: Tensor[B] | None = None,
        ) -> Tensor[B]:
            """What `forward` computes."""
            ...


def _known(loss: str, reduction: Reduction) -> Reduction:
    if reduction not in get_args(Reduction):
        raise ArgumentError(f"{loss}() was given reduction={reduction!r}; it is 'mean', 'sum' or 'none'")
    return reduction
