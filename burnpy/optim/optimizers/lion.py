"""Lion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, decay_rates
from burnpy.optim.update_step import Update, decayed, lerp

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Lion(Optimizer):
    """The Lion optimizer, which steps by the sign of an average::

        p = p · (1 - lr · weight_decay) - lr · sign(β₁ · m + (1 - β₁) · grad)
        m = β₂ · m + (1 - β₂) · grad

    Its learning rate is a third to a tenth of `AdamW`'s, and its weight decay three to ten times as large.

    Source: Chen et al., Symbolic discovery of optimization algorithms, 2023.

    Args:
        betas: (β₁, β₂), the decay rates of the average in the step and of the average that is kept, each in [0, 1).
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Lion()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.99)

    ranges: ClassVar[Ranges] = {"betas": decay_rates}

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the gradient."""
        return ("m",)

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        beta1, beta2 = self.betas
        return Update(lion_step, (step.lr, 1.0 - beta1, 1.0 - beta2), decoupled=True)


def lion_step(
    b: Any, param: Float, grad: Float, mean: Float, lr: Any, share1: Any, share2: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the shares 1 - β of the gradient."""
    param, grad = decayed(b, param, grad, decay, *how)
    sign = b.sign(lerp(b, mean, grad, share1))
    return b.sub(param, b.mul(sign, lr)), lerp(b, mean, grad, share2)
