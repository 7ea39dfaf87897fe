"""Lamb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates
from burnpy.optim.update_step import Update, decayed, length, lerp, mean_square, root

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Lamb(Optimizer):
    """The Lamb optimizer, `Adam` whose step has the length of the parameter, for large batches::

        m = β₁ · m + (1 - β₁) · grad
        v = β₂ · v + (1 - β₂) · grad²
        u = (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps) + weight_decay · p
        p = p - lr · ‖p‖ / ‖u‖ · u                       p - lr · u if a norm is 0

    t counts the updates of the parameter, from 1.

    Source: You et al., Large batch optimization for deep learning: Training BERT in 76 minutes, 2020.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        weight_decay: the share of the parameter in the step.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0 + 1.0), Lamb()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [0.99, 1.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        beta1, beta2 = self.betas
        corrections = step.numbers(lamb_corrections, 0, beta1, beta2)
        numbers = (step.lr, *corrections, 1.0 - beta1, beta2, 1.0 - beta2, self.eps)
        return Update(lamb_step, numbers, elementwise=False)


def lamb_corrections(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the bias corrections of an update: 1 / (1 - β₁ᵗ), and √(1 - β₂ᵗ), the divisor of √v."""
    return 1.0 / (1.0 - beta1**number), root(1.0 - beta2**number)


def lamb_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, lr: Any, correction: Any, root: Any, share1: Any,
    beta2: Any, share2: Any, eps: Any, decay: Any, decays: bool, maximize: bool, decoupled: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `lamb_corrections` and the shares 1 - β of the gradient in the averages."""
    _, grad = decayed(b, param, grad, decay, False, maximize, decoupled)
    mean = lerp(b, mean, grad, share1)
    square = mean_square(b, square, grad, beta2, share2)
    change = b.div(b.mul(mean, correction), b.add(b.div(b.sqrt(square), root), eps))
    if decays:
        change = b.add(change, b.mul(param, decay))
    of_param, of_change = length(b, param), length(b, change)
    some = b.discrete.bitwise_and(b.gt(of_param, 0.0), b.gt(of_change, 0.0))
    ratio = b.where(some, b.div(of_param, of_change), 1.0)
    return b.sub(param, b.mul(change, b.mul(ratio, lr))), mean, square
