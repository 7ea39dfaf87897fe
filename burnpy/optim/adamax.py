"""Adamax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.matching import at_least_zero, decay_rates
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.update_step import decayed, lerp, updated

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Adamax(Optimizer):
    """The Adamax optimizer, `Adam` with the infinity norm of past gradients in place of the 2-norm::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        u = max(β₂ · u, |g| + eps)
        p = p - lr / (1 - β₁ᵗ) · m / u

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.Adamax`.

    Source: Kingma and Ba, Adam: A method for stochastic optimization, 2015, section 7.1.

    Args:
        betas: (β₁, β₂), the decay rates of the average and of the norm, each in [0, 1).
        eps: added to the magnitude of the gradient to avoid division by zero.
        weight_decay: the coefficient of an L2 penalty.
        maximize: whether to go up the gradient instead of down.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Adamax()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        decay_rates(self.betas, "Adamax(betas=)")
        at_least_zero(self.eps, "Adamax(eps=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the gradient, and the norm."""
        return ("m", "u")

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and states by the formula of the class."""
        beta1, beta2 = self.betas
        numbers = (*step.numbers(adamax_rate, 1, beta1), 1.0 - beta1, beta2, self.eps)
        return updated(device, adamax_step, (params, grads, *states), numbers, step)


def adamax_rate(number: int, lr: float, beta1: float) -> tuple[float]:
    """Return the corrected rate of an update."""
    return (lr / (1.0 - beta1**number),)


def adamax_step(
    b: Any, param: Float, grad: Float, mean: Float, norm: Float, rate: Any, share1: Any, beta2: Any, eps: Any,
    decay: Any, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the corrected rate and the share 1 - β₁ of the gradient."""
    param, grad = decayed(b, param, grad, decay, *how)
    mean = lerp(b, mean, grad, share1)
    norm = b.maximum(b.mul(norm, beta2), b.add(b.abs(grad), eps))
    return b.sub(param, b.div(b.mul(mean, rate), norm)), mean, norm
