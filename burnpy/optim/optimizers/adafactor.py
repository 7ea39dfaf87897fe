"""Adafactor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.dtypes import epsilon, largest
from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import at_least_zero, number
from burnpy.optim.update_step import Update, decayed, length, lerp, root

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float, Shape
    from burnpy.optim.update_step import Step


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
        """Return the formula of the class, and its numbers."""
        least, smallest = self.eps
        numbers = (step.lr, *step.numbers(adafactor_rates, 0, self.beta2_decay), least or 0.0, smallest, self.d)
        return Update(adafactor_step, numbers, (least is None,), decoupled=True, elementwise=False)


def adafactor_rates(number: int, lr: float, beta2_decay: float) -> tuple[float, float]:
    """Return the highest rate of an update, and the share of new squares."""
    return 1.0 / root(number), (1.0 * number) ** beta2_decay


def adafactor_step(
    b: Any, param: Float, grad: Float, row: Float, column: Float, lr: Any, highest: Any, share: Any, least: Any,
    smallest: Any, d: Any, decay: Any, of_dtype: bool, *how: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `adafactor_rates`; ``of_dtype`` puts the precision in place of ``least``."""
    dtype, size = param.dtype, math.prod(param.shape)
    if not size:
        return b.mul(param, 1.0), b.mul(row, 1.0), b.mul(column, 1.0)
    scale = 1.0 / math.sqrt(size)
    rate = b.mul(b.clamp(b.mul(length(b, param), scale), smallest, None), _least(b, lr, highest, dtype))
    param, grad = decayed(b, param, grad, decay, *how)
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
