"""The frame of the losses as modules: a loss function with its settings, and the reduction.

It is a module of its own so that a loss of one family does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, get_args

from burnpy.nn.argument_checks import check_choice
from burnpy.nn.module import FunctionLayer
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.functional.likelihood_losses import BatchReduction
    from burnpy.tensor.tensor import Tensor


@inherit_methods
class Loss(FunctionLayer):
    """The base class of the losses: a loss function with its settings, such as the reduction."""

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
