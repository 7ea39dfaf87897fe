"""Adam and AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.matching import at_least_zero, decay_rates
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.update_step import decayed, lerp, mean_square, updated

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Adam(Optimizer):
    """The Adam optimizer, which uses running averages of the gradient and of its square::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        v = β₂ · v + (1 - β₂) · g²
        p = p - lr · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps)

    t counts the updates of the parameter, from 1. With ``amsgrad`` the elementwise maximum of v so far replaces v in
    the last line. The results equal those of `torch.optim.Adam`.

    Sources: Kingma and Ba, Adam: A method for stochastic optimization, 2015; Reddi et al., On the convergence of Adam
    and beyond, 2018.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        amsgrad: whether to use the maximum of v so far, so that the divisor never shrinks.
        weight_decay: the coefficient of an L2 penalty, which affects the averages; `AdamW` applies it separately.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Adam()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    decoupled: ClassVar[bool] = False
    """True if weight decay is decoupled from the averages, as in `AdamW`."""

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        name = type(self).__name__
        decay_rates(self.betas, f"{name}(betas=)")
        at_least_zero(self.eps, f"{name}(eps=)")

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square; with amsgrad, the maximum of the latter too."""
        return ("m", "v", "vmax") if self.amsgrad else ("m", "v")

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and averages by the formula of the class."""
        (beta1, beta2), formula = self.betas, amsgrad_step if self.amsgrad else adam_step
        numbers = (*step.numbers(adam_rates, 1, beta1, beta2), 1.0 - beta1, beta2, 1.0 - beta2, self.eps)
        return updated(device, formula, (params, grads, *states), numbers, step, decoupled=self.decoupled)


@dataclass(frozen=True, eq=False, kw_only=True)
class AdamW(Adam):
    """`Adam` with decoupled weight decay: p is first multiplied by 1 - lr · weight_decay, and g is grad.

    The results equal those of `torch.optim.AdamW`.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.

    Args:
        betas: see `Adam`.
        eps: see `Adam`.
        amsgrad: see `Adam`.
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        groups: parameters with different settings; biases and scales of norms often have no weight decay::

            AdamW(groups=[Group(lambda path, param: len(param.shape) < 2, weight_decay=0.0)])

        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.optim import Group
    >>> AdamW(weight_decay=0.1, groups=[Group("*.bias", weight_decay=0.0)]).groups
    (Group('*.bias', weight_decay=0.0),)
    """

    weight_decay: float = 0.01

    decoupled: ClassVar[bool] = True


def adam_rates(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the bias corrections of an update: the learning rate lr / (1 - β₁ᵗ), and √(1 - β₂ᵗ), the divisor of √v."""
    return lr / (1.0 - beta1**number), math.sqrt(1.0 - beta2**number)


def adam_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, rate: Any, root: Any, share1: Any, beta2: Any,
    share2: Any, eps: Any, decay: Any, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `adam_rates` and the shares 1 - β of the gradient in the averages."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, beta2, share2)
    mean = lerp(b, mean, grad, share1)
    return b.sub(param, _change(b, mean, square, rate, root, eps)), mean, square


def amsgrad_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, largest: Float, rate: Any, root: Any, share1: Any,
    beta2: Any, share2: Any, eps: Any, decay: Any, *how: bool,
) -> tuple[Float, Float, Float, Float]:  # fmt: skip
    """Update one parameter as `adam_step` does, with the maximum of the averages of the square so far."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, beta2, share2)
    mean = lerp(b, mean, grad, share1)
    largest = b.maximum(largest, square)
    return b.sub(param, _change(b, mean, largest, rate, root, eps)), mean, square, largest


def _change(b: Any, mean: Float, square: Float, rate: Any, root: Any, eps: Any) -> Float:
    """Return what is subtracted from the parameter."""
    return b.div(b.mul(mean, rate), b.add(b.div(b.sqrt(square), root), eps))
