"""RAdam."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates
from burnpy.optim.update_step import Update, decayed, lerp, mean_square

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class RAdam(Optimizer):
    """The RAdam optimizer, `Adam` without the division by √v as long as v is too uncertain::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        v = β₂ · v + (1 - β₂) · g²
        ρ = ρ∞ - 2 · t · β₂ᵗ / (1 - β₂ᵗ)                             with ρ∞ = 2 / (1 - β₂) - 1
        r = √((ρ - 4) · (ρ - 2) · ρ∞ / ((ρ∞ - 4) · (ρ∞ - 2) · ρ))
        p = p - lr · m / (1 - β₁ᵗ) · r · √(1 - β₂ᵗ) / (√v + eps)     if ρ > 5
        p = p - lr · m / (1 - β₁ᵗ)                                   otherwise

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.RAdam`.

    Source: Liu et al., On the variance of the adaptive learning rate and beyond, 2020.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        decoupled_weight_decay: whether p is multiplied by 1 - lr · weight_decay instead, as in `AdamW`.
        weight_decay: the coefficient of an L2 penalty, or the decay rate of the weights.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), RAdam()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.02]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decoupled_weight_decay: bool = False

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        beta1, beta2 = self.betas
        rate, scale = step.numbers(radam_rates, 1, beta1, beta2)
        numbers, counted = (rate, scale, 1.0 - beta1, beta2, 1.0 - beta2, self.eps), step.updates is not None
        flags = (counted or scale > 0.0, counted)
        return Update(radam_step, numbers, flags, decoupled=self.decoupled_weight_decay)


def radam_rates(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the corrected rate of an update, and r · √(1 - β₂ᵗ); 0 as long as ρ is at most 5."""
    correction = 1.0 - beta2**number
    limit = 2.0 / (1.0 - beta2) - 1.0
    length, rate = limit - 2.0 * number * beta2**number / correction, lr / (1.0 - beta1**number)
    if length <= 5.0:
        return rate, 0.0
    ratio = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
    return rate, math.sqrt(ratio) * math.sqrt(correction)


def radam_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, rate: Any, scale: Any, share1: Any, beta2: Any,
    share2: Any, eps: Any, decay: Any, rectified: bool, counted: bool, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `radam_rates` and the shares 1 - β of the gradient in the averages.

    If ``counted``, the device decides whether the update is rectified: where the rectification is not 0.
    """
    param, grad = decayed(b, param, grad, decay, *how)
    mean = lerp(b, mean, grad, share1)
    square = mean_square(b, square, grad, beta2, share2)
    change = b.mul(mean, rate)
    if rectified:
        number = scale if hasattr(scale, "dtype") else b.full((), scale, param.dtype)
        scaled = b.mul(change, b.div(number, b.add(b.sqrt(square), eps)))
        change = b.where(b.ne(number, 0.0), scaled, change) if counted else scaled
    return b.sub(param, change), mean, square
