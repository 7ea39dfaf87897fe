"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, fraction
from burnpy.optim.update_step import Update, decayed

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
