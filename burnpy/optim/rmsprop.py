"""RMSprop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.matching import at_least_zero, fraction
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.update_step import decayed, lerp, mean_square, updated

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class RmsProp(Optimizer):
    """The RMSprop optimizer, which scales steps by a running average of squared gradients::

        g = grad + weight_decay · p
        s = alpha · s + (1 - alpha) · g²
        a = alpha · a + (1 - alpha) · g                                    centered only
        d = √s + eps                                                       centered: √(s - a²) + eps
        p = p - lr · g / d                                                 with momentum: b = momentum · b + g / d
                                                                                          p = p - lr · b

    The results equal those of `torch.optim.RMSprop`.

    Sources: Hinton, Neural networks for machine learning, lecture 6, 2012; centered: Graves, Generating sequences with
    recurrent neural networks, 2013.

    Args:
        alpha: the decay rate of the averages, in [0, 1).
        eps: added to the divisor to avoid division by zero.
        momentum: the momentum coefficient, in [0, 1).
        centered: whether to divide by an estimate of the standard deviation instead of the root mean square.
        weight_decay: the coefficient of an L2 penalty.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.
    """

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        fraction(self.alpha, "RmsProp(alpha=)")
        at_least_zero(self.eps, "RmsProp(eps=)")
        fraction(self.momentum, "RmsProp(momentum=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the square; if centered or with momentum, also the average and the momentum buffer."""
        return ("square", "average", "buffer") if self.centered or self.momentum else ("square",)

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and states by the formula of the class."""
        lists, numbers = (params, grads, *states), (step.lr, self.alpha, 1.0 - self.alpha, self.eps)
        if len(states) == 1:
            return updated(device, rmsprop_step, lists, numbers, step)
        return updated(device, rmsprop_momentum_step, lists, (*numbers, self.momentum), step, self.centered)


def rmsprop_step(
    b: Any, param: Float, grad: Float, square: Float, lr: Any, alpha: Any, share: Any, eps: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the share 1 - alpha of the new square."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, alpha, share)
    return b.sub(param, b.div(b.mul(grad, lr), b.add(b.sqrt(square), eps))), square


def rmsprop_momentum_step(
    b: Any, param: Float, grad: Float, square: Float, average: Float, velocity: Float, lr: Any, alpha: Any, share: Any,
    eps: Any, momentum: Any, decay: Any, centered: bool, *how: bool,
) -> tuple[Float, Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the share 1 - alpha of new values in the averages."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, alpha, share)
    if centered:
        average = lerp(b, average, grad, share)
        scale = b.sqrt(b.sub(square, b.square(average)))
    else:
        average = b.add(average, 0.0)
        scale = b.sqrt(square)
    velocity = b.add(b.mul(velocity, momentum), b.div(grad, b.add(scale, eps)))
    return b.sub(param, b.mul(velocity, lr)), square, average, velocity
