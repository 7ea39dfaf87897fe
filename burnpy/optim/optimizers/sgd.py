"""SGD with momentum and averaged SGD; Rprop and Lion, which step by signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates, fraction
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
        """Return the formula of the class, and its numbers."""
        return Update(asgd_step, step.numbers(asgd_rates, None, self.lambd, self.alpha, self.t0))


def asgd_rates(number: int, lr: float, lambd: float, alpha: float, t0: float) -> tuple[float, float, float]:
    """Return the rate, the factor of the parameter, and the share of the parameter in its average."""
    rate = lr / (1.0 + lambd * lr * (number - 1)) ** alpha
    return rate, 1.0 - lambd * rate, 1.0 / max(1.0, number - 1.0 - t0)


def asgd_step(
    b: Any, param: Float, grad: Float, average: Float, rate: Any, factor: Any, share: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter and its average, with the `asgd_rates`."""
    param, grad = decayed(b, param, grad, decay, *how)
    param = b.sub(b.mul(param, factor), b.mul(grad, rate))
    return param, lerp(b, average, param, share)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rprop(Optimizer):
    """Resilient backpropagation: each element has a step of its own, which only signs of gradients change::

        size = size · η₊ where grad has the sign of the last, size · η₋ where it has the other; within step_sizes
        grad = 0 where it has the other sign
        p = p - size · sign(grad)

    It is for gradients of all examples, not of batches. The learning rate of the first step is the size of all steps
    there; later ones have no effect. The results equal those of `torch.optim.Rprop`.

    Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning, 1993.

    Args:
        etas: (η₋, η₊), the factors of the size, with 0 < η₋ < 1 < η₊.
        step_sizes: the smallest and the largest size.
        weight_decay: the share of the parameter that is added to its gradient.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Rprop()
    >>> for _ in range(3):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -20.0]])).sum()
    ...     model = optim.step(0.1, model, loss.backward())
    >>> [round(w, 3) for (w,) in model.weight.value.tolist()]
    [-0.364, 0.364]
    """

    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        for name, pair in (("etas", self.etas), ("step_sizes", self.step_sizes)):
            value: object = pair
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise ArgumentError(f"Rprop({name}=) is {value!r:.80}; expected two numbers")
            for part in pair:
                at_least_zero(part, f"one of Rprop({name}=)")
        if not 0.0 < self.etas[0] < 1.0 < self.etas[1]:
            raise ArgumentError(f"Rprop(etas=) is {self.etas!r}; expected a number between 0 and 1, and one above 1")
        if self.step_sizes[0] > self.step_sizes[1]:
            raise ArgumentError(f"Rprop(step_sizes=) is {self.step_sizes!r}; expected the smaller number first")

    @property
    def slots(self) -> tuple[str, ...]:
        """The last gradient, 0 where its sign had changed, and the size of the step."""
        return ("previous", "size")

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        return Update(rprop_step, (*step.numbers(rprop_first, 1), *self.etas, *self.step_sizes))


def rprop_first(number: int, lr: float) -> tuple[float]:
    """Return the size of the first step, and 0 for later ones."""
    return (lr if number == 1 else 0.0,)


def rprop_step(
    b: Any, param: Float, grad: Float, previous: Float, size: Float, first: Any, shorter: Any, longer: Any,
    smallest: Any, largest: Any, decay: Any, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter; ``first`` is added to a size of 0."""
    param, grad = decayed(b, param, grad, decay, *how)
    size = b.add(size, first)
    turn = b.mul(b.sign(grad), b.sign(previous))
    turned = b.lt(turn, 0.0)
    size = b.where(b.gt(turn, 0.0), b.mul(size, longer), b.where(turned, b.mul(size, shorter), size))
    size = b.clamp(size, smallest, largest)
    grad = b.where(turned, b.mul(size, 0.0), grad)
    return b.sub(param, b.mul(b.sign(grad), size)), grad, size


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
