"""The error function and its relatives: the normal distribution function, its logarithm and inverse."""

from __future__ import annotations

from burnpy.special.elementary import of_one
from burnpy.tensor.call_errors import explained
from burnpy.tensor.linalg import floating
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def erf(x: Tensor[B]) -> Tensor[B]:
    """Compute the error function, ``x.erf()``.

    >>> print(erf(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.276 0.52  0.843]
    """
    return floating("erf", x, "x").erf()  # type: ignore[no-any-return]  # of a Tensor


@explained
def erfc(x: Tensor[B]) -> Tensor[B]:
    """Compute 1 - erf(x), ``x.erfc()``; small values keep all their digits.

    >>> print(erfc(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.724 0.48  0.157]
    """
    return floating("erfc", x, "x").erfc()  # type: ignore[no-any-return]  # of a Tensor


@explained
def erfinv(x: Tensor[B]) -> Tensor[B]:
    """Compute the inverse of the error function, ``x.erfinv()``; ±inf at ±1, NaN beyond.

    >>> print(erfinv(Tensor[NumPy].from_data([-1.0, 0.0, 0.5])).to_numpy().round(3))
    [ -inf 0.    0.477]
    """
    return floating("erfinv", x, "x").erfinv()  # type: ignore[no-any-return]  # of a Tensor


@explained
def erfcx(x: Tensor[B]) -> Tensor[B]:
    """Compute exp(x²) · erfc(x), which falls like 1 / x where erfc underflows; infinite below -26.6 in float64.

    Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.

    >>> [round(value, 4) for value in erfcx(Tensor[NumPy].from_data([0.0, 1.0, 100.0])).tolist()]
    [1.0, 0.4276, 0.0056]
    """
    return of_one("erfcx", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtr(x: Tensor[B]) -> Tensor[B]:
    """Compute the distribution function of the standard normal distribution; small values keep all their digits.

    >>> [round(value, 4) for value in ndtr(Tensor[NumPy].from_data([-1.0, 0.0, 1.0])).tolist()]
    [0.1587, 0.5, 0.8413]
    """
    return of_one("ndtr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def log_ndtr(x: Tensor[B]) -> Tensor[B]:
    """Compute the logarithm of `ndtr`, about -x² / 2 for negative x; finite, with its gradient, where ndtr underflows.

    >>> round(log_ndtr(Tensor[NumPy].from_data(-100.0)).item(), 1)
    -5005.5
    """
    return of_one("log_ndtr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtri(p: Tensor[B]) -> Tensor[B]:
    """Compute the inverse of `ndtr`, the quantiles of the normal distribution; ∓inf at 0 and 1, NaN outside.

    Source: Wichura, Algorithm AS 241, 1988.

    >>> round(ndtri(Tensor[NumPy].from_data(0.975)).item(), 4)
    1.96
    """
    return of_one("ndtri", p)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtri_exp(y: Tensor[B]) -> Tensor[B]:
    """Compute `ndtri` of exp(y), the inverse of `log_ndtr`, also where exp(y) underflows; ∓inf at -inf and 0.

    Source: as for `ndtri`, and below -700 the asymptotic series of the normal distribution function.

    >>> round(ndtri_exp(Tensor[NumPy].from_data(-5005.5)).item(), 1)
    -100.0
    """
    return of_one("ndtri_exp", y)  # type: ignore[no-any-return]  # a Tensor
