"""SGD with momentum, and averaged SGD.

`burnpy.optim.update_formula` explains the arguments of formulas, such as `momentum_step`; their ``b`` is the backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, fraction
from burnpy.optim.update_formula import Update, decayed, lerp

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_formula import Step


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
                f"Sgd(nesterov=True) needs a momentum and no dampening, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The velocity if there is momentum, otherwise nothing."""
        return ("velocity",) if self.momentum else ()

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        if not self.momentum:
            return Update(sgd_step, (step.lr,))
        # The first update differs from later ones. `Step.numbers` knows the number of the update even where only the
        # device counts updates; 0 of the results are proportional to the learning rate.
        share = step.numbers(momentum_share, 0, self.dampening) if self.dampening else (1.0,)
        return Update(momentum_step, (step.lr, self.momentum, *share), (self.nesterov,))


def momentum_share(number: int, lr: float, dampening: float) -> tuple[float]:
    """Return the share of the gradient in the velocity: all of it in the first update."""
    return (1.0 - dampening if number > 1 else 1.0,)


def sgd_step(b: Any, param: Float, grad: Float, lr: Any, decay: Any, *decay_flags: bool) -> tuple[Float]:
    """Update one parameter."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    return (b.sub(param, b.mul(grad, lr)),)


def momentum_step(
    b: Any, param: Float, grad: Float, velocity: Float, lr: Any, momentum: Any, share: Any, decay: Any, nesterov: bool,
    *decay_flags: bool,
) -> tuple[Float, Float]:  # fmt: skip
    """Update one parameter, with the `momentum_share` of the gradient."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    velocity = b.add(b.mul(velocity, momentum), b.mul(grad, share))
    change = b.add(grad, b.mul(velocity, momentum)) if nesterov else velocity
    return b.sub(param, b.mul(change, lr)), velocity


@dataclass(frozen=True, eq=False, kw_only=True)
class Asgd(Optimizer):
    """Stochastic gradient descent that also averages the parameters, as `torch.optim.ASGD`::

        rate = lr / (1 + lambd · lr · (t - 1))^alpha
        p = p · (1 - lambd · rate) - rate · (grad + weight_decay · p)
        average = average + (p - average) / max(1, t - 1 - t0)

    t counts the updates of the parameter, from 1. The model has the parameters p; their averages are in `state`, under
    "average". With a schedule, ``rate`` follows the learning rate at once, and PyTorch's a step later.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    Args:
        lambd: the decay of the parameters and of the rate.
        alpha: the power with which the rate falls.
        t0: the update after which averages begin.
        weight_decay: the share of the parameter that is added to its gradient.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(1, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Asgd(t0=0)
    >>> for _ in range(3):
    ...     loss = model(Tensor[Autodiff[NumPy]].ones((1, 1))).sum()
    ...     model = optim.step(1.0, model, loss.backward())
    >>> (average,) = optim.state()[model.weight.id].values["average"].flatten().tolist()
    >>> round(model.weight.value.item(), 1), round(average, 1)
    (-3.0, -2.5)
    """

    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6

    ranges: ClassVar[Ranges] = {"lambd": at_least_zero, "alpha": at_least_zero, "t0": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the parameter."""
        return ("average",)

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        return Update(asgd_step, step.numbers(asgd_rates, None, self.lambd, self.alpha, self.t0))


def asgd_rates(number: int, lr: float, lambd: float, alpha: float, t0: float) -> tuple[float, float, float]:
    """Return the rate, the factor of the parameter, and the share of the parameter in its average."""
    rate = lr / (1.0 + lambd * lr * (number - 1)) ** alpha
    return rate, 1.0 - lambd * rate, 1.0 / max(1.0, number - 1.0 - t0)


def asgd_step(
    b: Any,
    param: Float,
    grad: Float,
    average: Float,
    rate: Any,
    factor: Any,
    share: Any,
    decay: Any,
    *decay_flags: bool,
) -> tuple[Float, Float]:
    """Update one parameter and its average, with the `asgd_rates`."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    param = b.sub(b.mul(param, factor), b.mul(grad, rate))
    return param, lerp(b, average, param, share)
