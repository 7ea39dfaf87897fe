"""Bijections: smooth, invertible functions with the logarithm of their derivative, for `Transformed` distributions.

>>> from burnpy.distributions import bijections
>>> f = bijections.Sigmoid()
>>> x = Tensor[NumPy].from_data([0.0, 2.0])
>>> f(x).tolist()[0], f.inverse(f(x)).round().tolist()
(0.5, [0.0, 2.0])
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.backend.lazy import lazy_attributes
from burnpy.distributions.parameters import (
    CHOLESKY_FACTOR,
    LOGIT,
    POSSIBLE,
    Constrained,
    Constraint,
    Given,
    Parameter,
    ParameterLike,
    held,
    parameters_of,
)
from burnpy.nn.module import Module
from burnpy.nn.param import Param
from burnpy.tensor.joining import cat
from burnpy.tensor.random_parameters import FINITE, NOT_NEGATIVE, OPEN_UNIT, POSITIVE, PROBABILITY, RATE, Bound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape

__all__ = [
    "Affine",
    "Bijection",
    "Exp",
    "Inverse",
    "LowerCholesky",
    "Power",
    "Sigmoid",
    "Softplus",
    "StickBreaking",
    "Tanh",
]


def __dir__() -> list[str]:
    return __all__


class Bijection(Module[B]):
    """An invertible, differentiable function of tensors.

    A bijection is a module: parameters of it can be learned. ``event_dims`` is the number of last dimensions that it
    maps together, and ``onto`` the numbers that it maps to, if these are not all.
    """

    event_dims: int = 0
    onto: Bound | None = None
    _explained = frozenset(("inverse", "log_det"))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the function."""
        raise NotImplementedError

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the inverse."""
        raise NotImplementedError

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the absolute determinant of the derivative at x, for each event."""
        raise NotImplementedError

    def sign(self) -> Tensor[B] | float:
        """Return 1 if the function is increasing, -1 if it is decreasing."""
        return 1.0

    def forward_event(self, shape: Shape) -> Shape:
        """Return the shape of the results for events of a shape."""
        return shape

    def equals(self, other: Bijection[Any]) -> bool:
        """Return whether another bijection is the same function: the class, the settings and the parameters' values."""
        if self is other or type(self) is not type(other):
            return self is other
        mine, others = vars(self), vars(other)
        return mine.keys() == others.keys() and all(_equal(value, others[name]) for name, value in mine.items())


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, Bijection):
        return isinstance(other, Bijection) and value.equals(other)
    first, second = getattr(value, "value", value), getattr(other, "value", other)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        same = first.shape == second.shape and first.device is second.device
        return first is second or (same and bool((first == second).all()))
    return bool(value == other)


class Affine(Bijection[B]):
    """loc + scale · x, for a scale other than 0.

    >>> Affine(1.0, 2.0, device=NumPy)(Tensor[NumPy].from_data([0.0, 1.0])).tolist()
    [1.0, 3.0]
    """

    loc = Parameter(FINITE)
    scale = Parameter(FINITE)

    def __init__(self, loc: ParameterLike[B], scale: ParameterLike[B], *, device: B | type[B] | None = None) -> None:
        for name, field in held("Affine", parameters_of(Affine), {"loc": loc, "scale": scale}, device, True).items():
            setattr(self, name, field)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute loc + scale · x."""
        return self.loc + self.scale * x

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute (y - loc) / scale."""
        return (y - self.loc) / self.scale

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log |scale|."""
        return self.scale.abs().log() + x.zeros_like()

    def sign(self) -> Tensor[B] | float:
        """Return the sign of the scale."""
        return self.scale.sign()


class Exp(Bijection[B]):
    """eˣ, onto the positive numbers."""

    onto = POSITIVE

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute eˣ."""
        return x.exp()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute log(y)."""
        return y.log()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return x."""
        return x


class Power(Bijection[B]):
    """xᵖ of positive numbers, onto them.

    Args:
        exponent: p, a number other than 0.
    """

    onto = POSITIVE

    def __init__(self, exponent: float) -> None:
        if not math.isfinite(exponent) or exponent == 0.0:
            raise ArgumentError(f"Power() got exponent={exponent!r:.80}; expected a finite number other than 0")
        self.exponent = exponent

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute xᵖ."""
        return x**self.exponent

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute y to the power of 1 / p."""
        return y ** (1.0 / self.exponent)

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log |p| + (p - 1) · log(x)."""
        return x.log() * (self.exponent - 1.0) + math.log(abs(self.exponent))

    def sign(self) -> Tensor[B] | float:
        """Return the sign of the exponent."""
        return math.copysign(1.0, self.exponent)


class Sigmoid(Bijection[B]):
    """1 / (1 + e⁻ˣ), onto the numbers between 0 and 1."""

    onto = OPEN_UNIT

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the sigmoid."""
        return x.sigmoid()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute log(y / (1 - y))."""
        return y.log() - (-y).log1p()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log(sigmoid(x)) + log(sigmoid(-x))."""
        return -x.softplus() - (-x).softplus()


class Softplus(Bijection[B]):
    """log(1 + eˣ), onto the positive numbers."""

    onto = POSITIVE

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute log(1 + eˣ)."""
        return x.softplus()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute log(eʸ - 1)."""
        return y + (-(-y).expm1()).log()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log(sigmoid(x))."""
        return -(-x).softplus()


class Tanh(Bijection[B]):
    """tanh(x), onto the numbers between -1 and 1."""

    onto = Bound("a number between -1 and 1", math.nextafter(-1.0, 0.0), high=math.nextafter(1.0, 0.0))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute tanh(x)."""
        return x.tanh()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute atanh(y)."""
        return y.atanh()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log(1 - tanh(x)²)."""
        return (math.log(2.0) - x - (-2.0 * x).softplus()) * 2.0


class StickBreaking(Bijection[B]):
    """Vectors of size n, onto probabilities of n + 1 classes: each takes a share of the rest of a stick.

    >>> [round(p, 4) for p in StickBreaking()(Tensor[NumPy].zeros((2,))).tolist()]
    [0.3333, 0.3333, 0.3333]
    """

    event_dims = 1

    def _offset(self, x: Tensor[B]) -> Tensor[B]:
        """Return the logarithms of n, n - 1, …, 1, which make equal probabilities of zeros."""
        count = x.shape[-1]
        return (count - Tensor.arange(count, dtype=x.dtype, device=x.device)).log()

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the probabilities."""
        logit = x - self._offset(x)
        rest = (-logit.softplus()).cumsum(-1)  # the logarithm of the rest after each share
        zero = rest[..., :1].zeros_like()
        shares = cat([-(-logit).softplus(), zero], dim=-1)
        return (shares + cat([zero, rest], dim=-1)).exp()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the vector."""
        first = y[..., :-1]
        rest = y.flip(-1).cumsum(-1).flip(-1)[..., 1:]  # the sum of those that follow
        return first.log() - rest.log() + self._offset(first)

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the logarithm for the first n probabilities as functions of the vector."""
        logit = x - self._offset(x)
        rest = (-logit.softplus()).cumsum(-1)
        return (rest - (-logit).softplus()).sum(dim=-1)

    def forward_event(self, shape: Shape) -> Shape:
        """Return the shape with one element more."""
        return (*shape[:-1], shape[-1] + 1)


class Inverse(Bijection[B]):
    """The inverse of a bijection.

    Args:
        bijection: a bijection onto all numbers, or onto all that are needed.
    """

    def __init__(self, bijection: Bijection[B]) -> None:
        self.bijection = bijection
        self.event_dims = bijection.event_dims

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the inverse of the bijection."""
        return self.bijection.inverse(x)

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the bijection."""
        return self.bijection(y)

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the negative of the bijection's at the result."""
        return -self.bijection.log_det(self.bijection.inverse(x))

    def sign(self) -> Tensor[B] | float:
        """Return the bijection's."""
        return self.bijection.sign()


class LowerCholesky(Bijection[B]):
    """Matrices whose lower triangle counts, onto Cholesky factors: the exponential of the diagonal, and the rest."""

    event_dims = 2

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the Cholesky factor."""
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the lower triangle of the matrix; the rest is 0."""
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the sum of the diagonal, for the derivative with respect to the lower triangle."""
        return x.diagonal(dim1=-2, dim2=-1).sum(dim=-1)


_ONTO: dict[Constraint, Bijection[Any]] = {
    POSITIVE: Exp(),
    NOT_NEGATIVE: Exp(),
    RATE: Exp(),
    PROBABILITY: Sigmoid(),
    POSSIBLE: Sigmoid(),
    OPEN_UNIT: Sigmoid(),
    CHOLESKY_FACTOR: LowerCholesky(),
}


def learned_onto(bound: Constraint, given: Given[B]) -> Param[B] | Constrained[B] | Given[B]:
    """Return a parameter that is learned, with the value of one that is not; a count stays as it is."""
    value = given.value.detach()
    if bound in (FINITE, LOGIT):
        return Param(value)
    bijection = _ONTO.get(bound)
    return given if bijection is None else Constrained(bijection, Param(bijection.inverse(value)))


if not TYPE_CHECKING:  # type checkers see only the names above
    __getattr__ = lazy_attributes(__name__, {})[0]
