"""`RmsProp`: steps scaled by a running average of the gradient's square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.optim.checks import at_least_zero, fraction
from burnpy.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float


@dataclass(frozen=True, eq=False, kw_only=True)
class RmsProp(Optimizer):
    """Steps scaled by a running average of the gradient's square::

        g = grad + weight_decay · p
        s = alpha · s + (1 - alpha) · g²
        a = alpha · a + (1 - alpha) · g                                    centered only
        d = √s + eps                                                       centered: √(s - a²) + eps
        p = p - lr · g / d                                                 with momentum: b = momentum · b + g / d
                                                                                          p = p - lr · b

    The numbers are those of `torch.optim.RMSprop`.

    Sources: Hinton, Neural networks for machine learning, lecture 6, 2012; centered: Graves, Generating sequences with
    recurrent neural networks, 2013.

    Args:
        alpha: how much of the averages stays, in [0, 1).
        eps: what keeps the divisor from 0.
        momentum: how much of the last step stays, in [0, 1).
        centered: whether the divisor is an estimate of the standard deviation.
        weight_decay: the strength of an L2 penalty.
        groups: parameters for which some of it is different: see `Group`.

    Raises:
        ArgumentError: a number is out of its range.
    """

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def check(self) -> None:
        """Refuse numbers out of their ranges.

        Raises:
            ArgumentError: one is.
        """
        super().check()
        fraction(self.alpha, "RmsProp(alpha=)")
        at_least_zero(self.eps, "RmsProp(eps=)")
        fraction(self.momentum, "RmsProp(momentum=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the square; centered or with momentum, the average and the last step too."""
        return ("square", "average", "buffer") if self.centered or self.momentum else ("square",)

    def update(
        self,
        device: Any,
        param: Float,
        grad: Float,
        state: tuple[Float, ...],
        *,
        lr: float,
        weight_decay: float,
        step: int,
        owned: bool,
    ) -> tuple[Float, ...]:
        """See the class."""
        found: tuple[Float, ...]
        if len(state) == 1:
            found = device.rmsprop_update(param, grad, *state, lr, self.alpha, self.eps, weight_decay, owned)
        else:
            found = device.rmsprop_momentum_update(
                param, grad, *state, lr, self.alpha, self.eps, weight_decay, self.momentum, self.centered, owned
            )
        return found
