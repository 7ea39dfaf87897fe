"""AdaGrad, and AdaDelta and RMSprop, which average squared gradients in place of summing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, fraction
from burnpy.optim.update_step import Update, decayed, lerp, mean_square

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_step import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class AdaGrad(Optimizer):
    """The AdaGrad optimizer, which scales steps by the sum of squared gradients::

        g = grad + weight_decay · p
        s = s + g²                                    initially s = initial_sum
        p = p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps)

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.Adagrad`.

    Source: Duchi et al., Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    Args:
        lr_decay: the rate at which the learning rate falls with the number of updates.
        eps: added to the divisor to avoid division by zero.
        initial_sum: the initial value of s.
        weight_decay: the coefficient of an L2 penalty.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.
    """

    lr_decay: float = 0.0
    eps: float = 1e-10
    initial_sum: float = 0.0

    ranges: ClassVar[Ranges] = {"lr_decay": at_least_zero, "eps": at_least_zero, "initial_sum": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The sum of squared gradients."""
        return ("total",)

    def initial(self, device: Any, param: Float) -> tuple[Float, ...]:
        """Return the initial sum."""
        return (device.full(param.shape, float(self.initial_sum), param.dtype),)

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        return Update(adagrad_step, (*step.numbers(adagrad_rate, 1, self.lr_decay), self.eps))


def adagrad_rate(number: int, lr: float, lr_decay: float) -> tuple[float]:
    """Return the rate of an update."""
    return (lr / (1.0 + (number - 1) * lr_decay),)


def adagrad_step(
    b: Any, param: Float, grad: Float, total: Float, rate: Any, eps: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the `adagrad_rate`."""
    param, grad = decayed(b, param, grad, decay, *how)
    total = b.add(total, b.square(grad))
    return b.sub(param, b.div(b.mul(grad, rate), b.add(b.sqrt(total), eps))), total


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
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), AdaDelta()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 6) for (w,) in optim.step(1.0, model, loss.backward()).weight.value.tolist()]
    [-0.003162, 0.003162]
    """

    rho: float = 0.9
    eps: float = 1e-6

    ranges: ClassVar[Ranges] = {"rho": fraction, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the square of the gradient and of the square of the change."""
        return ("square", "change")

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        return Update(adadelta_step, (step.lr, self.rho, 1.0 - self.rho, self.eps))


def adadelta_step(
    b: Any, param: Float, grad: Float, square: Float, changes: Float, lr: Any, rho: Any, share: Any, eps: Any,
    decay: Any, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter. New values have the share 1 - rho in the averages."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, rho, share)
    change = b.mul(b.div(b.sqrt(b.add(changes, eps)), b.sqrt(b.add(square, eps))), grad)
    return b.sub(param, b.mul(change, lr)), square, mean_square(b, changes, change, rho, share)


@dataclass(frozen=True, eq=False, kw_only=True)
class RmsProp(Optimizer):
    """The RMSprop optimizer, which scales steps by a running average of squared gradients::

        g = grad + weight_decay · p
        s = alpha · s + (1 - alpha) · g²
        a = alpha · a + (1 - alpha) · g                                    centered only
        d = √s + eps                                                       centered: √(s - a²) + eps
        p = p - lr · g / d                                                 with momentum: b = momentum · b + g / d
                                                                                          p = p - lr · b

    The results equal those of `torch.optim.RMSprop`.

    Sources: Hinton, Neural networks for machine learning, lecture 6, 2012; centered: Graves, Generating sequences with
    recurrent neural networks, 2013.

    Args:
        alpha: the decay rate of the averages, in [0, 1).
        eps: added to the divisor to avoid division by zero.
        momentum: the momentum coefficient, in [0, 1).
        centered: whether to divide by an estimate of the standard deviation instead of the root mean square.
        weight_decay: the coefficient of an L2 penalty.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.
    """

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    ranges: ClassVar[Ranges] = {"alpha": fraction, "eps": at_least_zero, "momentum": fraction}

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the square; if centered or with momentum, also the average and the momentum buffer."""
        return ("square", "average", "buffer") if self.centered or self.momentum else ("square",)

    def formula(self, step: Step) -> Update:
        """Return the formula of the class, and its numbers."""
        numbers = (step.lr, self.alpha, 1.0 - self.alpha, self.eps)
        if len(self.slots) == 1:
            return Update(rmsprop_step, numbers)
        return Update(rmsprop_momentum_step, (*numbers, self.momentum), (self.centered,))


def rmsprop_step(
    b: Any, param: Float, grad: Float, square: Float, lr: Any, alpha: Any, share: Any, eps: Any, decay: Any, *how: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the share 1 - alpha of the new square."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, alpha, share)
    return b.sub(param, b.div(b.mul(grad, lr), b.add(b.sqrt(square), eps))), square


def rmsprop_momentum_step(
    b: Any, param: Float, grad: Float, square: Float, average: Float, velocity: Float, lr: Any, alpha: Any, share: Any,
    eps: Any, momentum: Any, decay: Any, centered: bool, *how: bool,
) -> tuple[Float, Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the share 1 - alpha of new values in the averages."""
    param, grad = decayed(b, param, grad, decay, *how)
    square = mean_square(b, square, grad, alpha, share)
    if centered:
        average = lerp(b, average, grad, share)
        scale = b.sqrt(b.sub(square, b.square(average)))
    else:
        average = b.add(average, 0.0)
        scale = b.sqrt(square)
    velocity = b.add(b.mul(velocity, momentum), b.div(grad, b.add(scale, eps)))
    return b.sub(param, b.mul(velocity, lr)), square, average, velocity
