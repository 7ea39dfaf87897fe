"""AdaGrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.matching import at_least_zero
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.update_step import decayed, updated

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class AdaGrad(Optimizer):
    """The AdaGrad optimizer, which scales steps by the sum of squared gradients::

        g = grad + weight_decay · p
        s = s + g²                                    initially s = initial_sum
        p = p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps)

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.Adagrad`.

    Source: Duchi et al., Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    Args:
        lr_decay: the rate at which the learning rate falls with the number of updates.
        eps: added to the divisor to avoid division by zero.
        initial_sum: the initial value of s.
        weight_decay: the coefficient of an L2 penalty.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.
    """

    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_sum: float = 0.0

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        for name in ("lr_decay", "eps", "initial_sum"):
            at_least_zero(getattr(self, name), f"AdaGrad({name}=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The sum of squared gradients."""
        return ("total",)

    def initial(self, device: Any, param: Float) -> tuple[Float, ...]:
        """Return the initial sum."""
        return (device.full(param.shape, float(self.initial_sum), param.dtype),)

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and sums by the formula of the class."""
        numbers = (*step.numbers(adagrad_rate, 1, self.lr_decay), self.eps)
        return updated(device, adagrad_step, (params, grads, *states), numbers, step)


def adagrad_rate(number: int, lr: float, lr_decay: float) -> tuple[float]:
    """Return the rate of an update."""
    return (lr / (1.0 + (number - 1) * lr_decay),)


def adagrad_step(
    b: Any, param: Float, grad: Float, total: Float, rate: Any, eps: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the `adagrad_rate`."""
    param, grad = decayed(b, param, grad, decay, *how)
    total = b.add(total, b.square(grad))
    return b.sub(param, b.div(b.mul(grad, rate), b.add(b.sqrt(total), eps))), total
