"""SGD with momentum, and Lion, which steps by signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates, fraction
from burnpy.optim.update_step import Update, decayed, lerp

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Sgd(Optimizer):
    """Stochastic gradient descent, optionally with momentum::

        g = grad + weight_decay · p
        v = momentum · v + (1 - dampening) · g       initially v = g
        p = p - lr · v                               nesterov: p - lr · (g + momentum · v)

    Without momentum p = p - lr · g, and there is no state. The results equal those of `torch.optim.SGD`.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.

    Args:
        momentum: the momentum coefficient, in [0, 1).
        dampening: the part of the gradient that is left out of the velocity, in [0, 1].
        nesterov: whether to use Nesterov momentum, which requires a momentum and no dampening.
        weight_decay: the coefficient of an L2 penalty.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Sgd(momentum=0.5)
    >>> for _ in range(2):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, 2.0]])).sum()
    ...     model = optim.step(0.5, model, loss.backward())
    >>> model.weight.value.tolist()
    [[-1.25], [-2.5]]
    """

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    ranges: ClassVar[Ranges] = {"momentum": fraction, "dampening": at_least_zero}

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        if self.dampening > 1:
            raise ArgumentError(f"Sgd(dampening=) is {self.dampening!r}; expected a number of at most 1")
        if self.nesterov and not (self.momentum > 0 and self.dampening == 0):
            raise ArgumentError(
                f"Sgd(nesterov=True) wants a momentum and no dampening, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The velocity if there is momentum, otherwise nothing."""
        return ("velocity",) if self.momentum else ()

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        if not self.momentum:
            return Update(sgd_step, (step.lr,))
        share = step.numbers(momentum_share, 0, self.dampening) if self.dampening else (1.0,)
        return Update(momentum_step, (step.lr, self.momentum, *share), (self.nesterov,))


def momentum_share(number: int, lr: float, dampening: float) -> tuple[float]:
    """Return the share of the gradient in the velocity: all of the first."""
    return (1.0 - dampening if number > 1 else 1.0,)


def sgd_step(b: Any, param: Float, grad: Float, lr: Any, decay: Any, *how: bool) -> tuple[Float]:
    """Update one parameter."""
    param, grad = decayed(b, param, grad, decay, *how)
    return (b.sub(param, b.mul(grad, lr)),)


def momentum_step(
    b: Any, param: Float, grad: Float, velocity: Float, lr: Any, momentum: Any, share: Any, decay: Any, nesterov: bool,
    *how: bool,
) -> tuple[Float, Float]:  # fmt: skip
    """Update one parameter, with the `momentum_share` of the gradient."""
    param, grad = decayed(b, param, grad, decay, *how)
    velocity = b.add(b.mul(velocity, momentum), b.mul(grad, share))
    change = b.add(grad, b.mul(velocity, momentum)) if nesterov else velocity
    return b.sub(param, b.mul(change, lr)), velocity


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
