"""`AdaGrad`: steps scaled by the sum of the gradient's squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.optim.checks import at_least_zero
from burnpy.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float


@dataclass(frozen=True, eq=False, kw_only=True)
class AdaGrad(Optimizer):
    """Steps scaled by the sum of the gradient's squares::

        g = grad + weight_decay · p
        s = s + g²                                    at first initial_sum
        p = p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps)

    t counts the updates of the parameter. The numbers are those of `torch.optim.Adagrad`.

    Source: Duchi et al., Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    Args:
        lr_decay: how fast the learning rate falls with the count of updates.
        eps: what keeps the divisor from 0.
        initial_sum: where s begins.
        weight_decay: the strength of an L2 penalty.
        groups: parameters for which some of it is different: see `Group`.

    Raises:
        ArgumentError: a number is out of its range.
    """

    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_sum: float = 0.0

    def check(self) -> None:
        """Refuse numbers out of their ranges.

        Raises:
            ArgumentError: one is.
        """
        super().check()
        for name in ("lr_decay", "eps", "initial_sum"):
            at_least_zero(getattr(self, name), f"AdaGrad({name}=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The sum of the squares."""
        return ("total",)

    def initial(self, device: Any, param: Float) -> tuple[Float, ...]:
        """The sum at first."""
        return (device.full(param.shape, float(self.initial_sum), param.dtype),)

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
        found: tuple[Float, ...] = device.adagrad_update(
            param, grad, *state, lr, self.lr_decay, self.eps, weight_decay, step, owned
        )
        return found
