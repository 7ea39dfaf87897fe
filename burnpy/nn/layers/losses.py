"""The frame of the losses as modules: a loss function with its settings, and the reduction.

It is a module of its own so that a loss of one family does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, get_args

from burnpy.nn.argument_checks import check_choice
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import composed
from burnpy.tensor.loss_checks import Reduction
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.nn.functional.likelihood_losses import BatchReduction
    from burnpy.tensor.tensor import Tensor


@composed
class Loss(Unplaced):
    """The base class of the losses.

    A subclass names its function and the settings that it passes to it beside the reduction, and writes ``forward``.
    """

    reduction: BatchReduction
    _function: ClassVar[Callable[..., Any]]
    _settings: ClassVar[tuple[str, ...]] = ()
    _reductions: ClassVar[tuple[str, ...]] = get_args(Reduction)

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        check_choice(type(self).__name__, "reduction", reduction, self._reductions)
        self.reduction = reduction

    def _loss(self, input: Tensor[B], *others: Any, **options: Any) -> Tensor[B]:
        """Call the function with the settings of the module."""
        for name in ("reduction", *self._settings):
            options[name] = getattr(self, name)
        return self._function(input, *others, **options)  # type: ignore[no-any-return]  # a loss function


class PairLoss(Loss):
    """The base class of losses of an input and a target."""

    def forward(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape."""
        return self._loss(input, target)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B]) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


class WeightedLoss(Loss):
    """The base class of losses of an input and a target with a weight for each element."""

    def forward(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
        """Return the loss of an input and a target of the same shape, with a weight for each element."""
        return self._loss(input, target, weight=weight)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
