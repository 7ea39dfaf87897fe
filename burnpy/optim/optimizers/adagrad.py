"""AdaGrad; AdaDelta, RMSprop and Adafactor, which average squared gradients in place of summing them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.dtypes import epsilon, largest
from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, fraction, number
from burnpy.optim.update_formula import Update, decayed, length, lerp, mean_square, root

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float, Shape
    from burnpy.optim.update_formula import Step


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
        """Return the formula with its numbers and flags."""
        return Update(adagrad_step, (*step.numbers(adagrad_rate, 1, self.lr_decay), self.eps))


def adagrad_rate(number: int, lr: float, lr_decay: float) -> tuple[float]:
    """Return the rate of an update."""
    return (lr / (1.0 + (number - 1) * lr_decay),)


def adagrad_step(
    b: Any, param: Float, grad: Float, total: Float, rate: Any, eps: Any, decay: Any, *decay_flags: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the `adagrad_rate`."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
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
        """Return the formula with its numbers and flags."""
        return Update(adadelta_step, (step.lr, self.rho, 1.0 - self.rho, self.eps))


def adadelta_step(
    b: Any, param: Float, grad: Float, square: Float, changes: Float, lr: Any, rho: Any, share: Any, eps: Any,
    decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter. New values have the share 1 - rho in the averages."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
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
        """Return the formula with its numbers and flags."""
        numbers = (step.lr, self.alpha, 1.0 - self.alpha, self.eps)
        if len(self.slots) == 1:
            return Update(rmsprop_step, numbers)
        return Update(rmsprop_momentum_step, (*numbers, self.momentum), (self.centered,))


def rmsprop_step(
    b: Any,
    param: Float,
    grad: Float,
    square: Float,
    lr: Any,
    alpha: Any,
    share: Any,
    eps: Any,
    decay: Any,
    *decay_flags: bool,
) -> tuple[Float, Float]:
    """Update one parameter, with the share 1 - alpha of the new square."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    square = mean_square(b, square, grad, alpha, share)
    return b.sub(param, b.div(b.mul(grad, lr), b.add(b.sqrt(square), eps))), square


def rmsprop_momentum_step(
    b: Any, param: Float, grad: Float, square: Float, average: Float, velocity: Float, lr: Any, alpha: Any, share: Any,
    eps: Any, momentum: Any, decay: Any, centered: bool, *decay_flags: bool,
) -> tuple[Float, Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the share 1 - alpha of new values in the averages."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    square = mean_square(b, square, grad, alpha, share)
    if centered:
        average = lerp(b, average, grad, share)
        scale = b.sqrt(b.clamp(b.sub(square, b.square(average)), 0.0, None))  # below 0 by rounding alone
    else:
        average = b.add(average, 0.0)
        scale = b.sqrt(square)
    velocity = b.add(b.mul(velocity, momentum), b.div(grad, b.add(scale, eps)))
    return b.sub(param, b.mul(velocity, lr)), square, average, velocity


@dataclass(frozen=True, eq=False, kw_only=True)
class Adafactor(Optimizer):
    """The Adafactor optimizer, which remembers squared gradients of a matrix by row and by column only::

        r = r + t^beta2_decay · (mean of grad² over the last dimension - r)
        c = c + t^beta2_decay · (mean of grad² over the last dimension but one - c)
        u = grad / max(√(r · c / mean of r), eps₁)
        p = p · (1 - lr · weight_decay) - min(lr, 1/√t) · max(rms(p), eps₂) / max(1, rms(u) / d) · u

    t counts the updates of the parameter, from 1, and rms is the root of the mean of squares. A vector has an average
    of each square in place of r · c / mean of r. The results equal those of `torch.optim.Adafactor`.

    Source: Shazeer and Stern, Adafactor: Adaptive learning rates with sublinear memory cost, 2018.

    Args:
        beta2_decay: the exponent by which the share of new squares falls, at most 0.
        eps: (eps₁, eps₂), the least divisor, None for the precision of the dtype, and the least size of a parameter.
        d: the size of a step, in root mean square, above which it is clipped.
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(300, 200, device=Autodiff[NumPy]), Adafactor()
    >>> loss = model(Tensor[Autodiff[NumPy]].ones((1, 300))).square().sum()
    >>> model = optim.step(0.01, model, loss.backward())
    >>> {name: x.shape for name, x in optim.state()[model.weight.id].values.items()}
    {'row': (300, 1), 'column': (1, 200)}
    """

    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0

    factored: ClassVar[bool] = True
    takes_complex: ClassVar[bool] = False

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        if number(self.beta2_decay, "Adafactor(beta2_decay=)") > 0:
            raise ArgumentError(f"Adafactor(beta2_decay=) is {self.beta2_decay!r}; expected a number of at most 0")
        eps: object = self.eps
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise ArgumentError(f"Adafactor(eps=) is {eps!r:.80}; expected a pair such as (None, 1e-3)")
        for value in self.eps:
            if value is not None:
                at_least_zero(value, "one of Adafactor(eps=)")
        if not number(self.d, "Adafactor(d=)") > 0:
            raise ArgumentError(f"Adafactor(d=) is {self.d!r}; expected a number above 0")

    @property
    def slots(self) -> tuple[str, ...]:
        """The average squares by row and by column; of a vector all of them, and none."""
        return ("row", "column")

    def slot_shape(self, slot: str, shape: Shape) -> Shape:
        """Return the shape of a state tensor of a parameter: a row and a column of a matrix have one average each."""
        if slot == "column":
            return (*shape[:-2], 1, shape[-1]) if len(shape) > 1 else ()
        return (*shape[:-1], 1) if slot == "row" and len(shape) > 1 else shape

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        least, smallest = self.eps
        numbers = (step.lr, *step.numbers(adafactor_rates, 0, self.beta2_decay), least or 0.0, smallest, self.d)
        return Update(adafactor_step, numbers, (least is None,), decoupled=True, elementwise=False)


def adafactor_rates(number: int, lr: float, beta2_decay: float) -> tuple[float, float]:
    """Return the highest rate of an update, and the share of new squares."""
    return 1.0 / root(number), (1.0 * number) ** beta2_decay


def adafactor_step(
    b: Any, param: Float, grad: Float, row: Float, column: Float, lr: Any, highest: Any, share: Any, least: Any,
    smallest: Any, d: Any, decay: Any, of_dtype: bool, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `adafactor_rates`; ``of_dtype`` puts the precision in place of ``least``."""
    dtype, size = param.dtype, math.prod(param.shape)
    if not size:
        return b.mul(param, 1.0), b.mul(row, 1.0), b.mul(column, 1.0)
    scale = 1.0 / math.sqrt(size)
    rate = b.mul(b.clamp(b.mul(length(b, param), scale), smallest, None), _least(b, lr, highest, dtype))
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    least = epsilon(dtype) if of_dtype else least
    if len(param.shape) > 1:
        last, first = len(param.shape) - 1, len(param.shape) - 2
        row = lerp(b, row, _mean_square(b, grad, last), share)
        column = lerp(b, column, _mean_square(b, grad, first), share)
        mean = b.clamp(b.sum(b.mul(row, 1.0 / param.shape[first]), (first,), True), least, None)
        squares = b.mul(b.div(row, mean), column)  # the quotient first: the product of both overflows
    else:
        squares = b.clamp(b.square(grad), None, 0.5 * largest(dtype))
        row, column = lerp(b, row, squares, share), b.mul(column, 1.0)
        squares = row
    change = b.mul(grad, b.rsqrt(b.clamp(squares, least * least, None)))
    rate = b.div(rate, b.clamp(b.div(b.mul(length(b, change), scale), d), 1.0, None))
    return b.sub(param, b.mul(change, rate)), row, column


def _mean_square(b: Any, x: Float, dim: int) -> Float:
    """Return the mean of squares over a dimension, by a norm, which does not overflow; their mean does not, either."""
    norm = b.vector_norm(x, 2.0, (dim,), True)
    return b.clamp(b.square(b.mul(norm, 1.0 / math.sqrt(x.shape[dim]))), None, 0.5 * largest(x.dtype))


def _least(b: Any, x: Any, y: Any, dtype: Any) -> Float:
    """Return the smaller of two numbers, each a Python number or a 0-d primitive."""
    x, y = (z if hasattr(z, "dtype") else b.full((), z, dtype) for z in (x, y))
    return b.minimum(x, y)
