"""AdaDelta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.matching import at_least_zero, fraction
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.update_step import decayed, mean_square, updated

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class AdaDelta(Optimizer):
    """The AdaDelta optimizer, whose steps have the scale of past steps::

        g = grad + weight_decay · p
        s = rho · s + (1 - rho) · g²
        c = √(a + eps) / √(s + eps) · g
        a = rho · a + (1 - rho) · c²
        p = p - lr · c

    The learning rate is often 1. The results equal those of `torch.optim.Adadelta`.

    Source: Zeiler, ADADELTA: An adaptive learning rate method, 2012.

    Args:
        rho: the decay rate of the averages, in [0, 1).
        eps: added to the averages; it determines the size of the first steps.
        weight_decay: the coefficient of an L2 penalty.
        maximize: whether to go up the gradient instead of down.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), AdaDelta()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 6) for (w,) in optim.step(1.0, model, loss.backward()).weight.value.tolist()]
    [-0.003162, 0.003162]
    """

    rho: float = 0.9
    eps: float = 1e-6

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        fraction(self.rho, "AdaDelta(rho=)")
        at_least_zero(self.eps, "AdaDelta(eps=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the square of the gradient and of the square of the change."""
        return ("square", "change")

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and states by the formula of the class."""
        numbers = (step.lr, self.rho, 1.0 - self.rho, self.eps)
        return updated(device, adadelta_step, (params, grads, *states), numbers, step)


def adadelta_step(
    b: Any, param: Float, grad: Float, square: Float, changes: Float, lr: Any, rho: Any, share: Any, eps: Any,
    decay: Any, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter. New values have the share 1 - rho in the averages."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, rho, share)
    change = b.mul(b.div(b.sqrt(b.add(changes, eps)), b.sqrt(b.add(square, eps))), grad)
    return b.sub(param, b.mul(change, lr)), square, mean_square(b, changes, change, rho, share)
