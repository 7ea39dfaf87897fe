"""The logarithm, derivatives and incomplete forms of the gamma function; zeta; modified Bessel functions."""

from __future__ import annotations

from burnpy.special.elementary import first_operand, of_one, of_three, of_two
from burnpy.tensor.call_errors import explained
from burnpy.tensor.linalg import floating
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def gammaln(x: Tensor[B]) -> Tensor[B]:
    """Compute the logarithm of the absolute value of the gamma function, ``x.lgamma()``.

    >>> print(gammaln(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [1.288 0.572 0.   ]
    """
    return floating("gammaln", x, "x").lgamma()  # type: ignore[no-any-return]  # of a Tensor


@explained
def digamma(x: Tensor[B]) -> Tensor[B]:
    """Compute the derivative of `gammaln`, ``x.digamma()``.

    >>> print(digamma(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [-4.227 -1.964 -0.577]
    """
    return floating("digamma", x, "x").digamma()  # type: ignore[no-any-return]  # of a Tensor


@explained
def psi(x: Tensor[B]) -> Tensor[B]:
    """Compute the derivative of `gammaln`, as `digamma`.

    >>> print(psi(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [-4.227 -1.964 -0.577]
    """
    return floating("psi", x, "x").digamma()  # type: ignore[no-any-return]  # of a Tensor


@explained
def polygamma(n: int, x: Tensor[B]) -> Tensor[B]:
    """Compute the n-th derivative of `digamma`, ``x.polygamma(n)``.

    Raises:
        ArgumentError: ``n`` is negative.

    >>> print(polygamma(1, Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [17.197  4.935  1.645]
    """
    return floating("polygamma", x, "x").polygamma(n)  # type: ignore[no-any-return]  # of a Tensor


@explained
def multigammaln(x: Tensor[B], p: int) -> Tensor[B]:
    """Compute the logarithm of the multivariate gamma function of dimension p, ``x.mvlgamma(p)``.

    Raises:
        ArgumentError: ``p`` is less than 1.

    >>> print(multigammaln(Tensor[NumPy].from_data([1.0, 2.5]), 2).to_numpy().round(3))
    [1.145 0.857]
    """
    return floating("multigammaln", x, "x").mvlgamma(p)  # type: ignore[no-any-return]  # of a Tensor


@explained
def gammainc(a: Tensor[B] | float, x: Tensor[B] | float) -> Tensor[B]:
    """Compute the regularized lower incomplete gamma function P(a, x), ``a.igamma(x)``.

    Args:
        a: the shape, 0 or a positive number; it broadcasts with ``x``. One of both may be a Python number.
        x: the end of the integral, 0 or a positive number.

    >>> round(gammainc(1.0, Tensor[NumPy].from_data(2.0)).item(), 4)  # 1 - exp(-2)
    0.8647
    """
    return first_operand("gammainc", a, x).igamma(x)  # type: ignore[no-any-return]  # of a Tensor


@explained
def gammaincc(a: Tensor[B] | float, x: Tensor[B] | float) -> Tensor[B]:
    """Compute the regularized upper incomplete gamma function 1 - P(a, x), ``a.igammac(x)``; see `gammainc`.

    >>> f"{gammaincc(1.0, Tensor[NumPy].from_data(50.0)).item():.4g}"  # exp(-50)
    '1.929e-22'
    """
    return first_operand("gammaincc", a, x).igammac(x)  # type: ignore[no-any-return]  # of a Tensor


@explained
def betainc(a: Tensor[B] | float, b: Tensor[B] | float, x: Tensor[B] | float) -> Tensor[B]:
    """Compute the regularized incomplete beta function, the integral of tᵃ⁻¹ · (1 - t)ᵇ⁻¹ / B(a, b) from 0 to x.

    It has derivatives by all arguments. PyTorch has no such function.

    Args:
        a: a positive number, or 0; the arguments broadcast. At least one of them is a tensor.
        b: a positive number, or 0, but not both.
        x: the end of the integral, from 0 to 1.

    >>> f"{betainc(2.0, 1.0, Tensor[NumPy].from_data(1e-9)).item():.4g}"  # x²
    '1e-18'
    """
    return of_three("betainc", x=x, a=a, b=b)  # type: ignore[no-any-return]  # a Tensor


@explained
def zeta(x: Tensor[B] | float, q: Tensor[B] | float) -> Tensor[B]:
    """Compute Hurwitz' zeta function, the sum of (q + k)⁻ˣ over k from 0 on; Riemann's for q = 1.

    It is infinite at x = 1, and where q is 0 or a negative integer, and NaN for x < 1; for other negative q, x must be
    an integer. Where q is positive, it has derivatives by both; PyTorch has none by x.

    Source: DLMF, 25.11, and Moshier, Cephes Mathematical Library, zeta.c.

    >>> round(zeta(Tensor[NumPy].from_data(2.0), 1.0).item(), 4)  # π² / 6
    1.6449
    """
    return of_two("zeta", x, q)  # type: ignore[no-any-return]  # a Tensor


@explained
def i0(x: Tensor[B]) -> Tensor[B]:
    """Compute I₀(x), ``x.i0()``; infinite beyond ±713.98 in float64 and ±91.9 in float32.

    >>> print(i0(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [1.016 1.063 1.266]
    """
    return floating("i0", x, "x").i0()  # type: ignore[no-any-return]  # of a Tensor


@explained
def i0e(x: Tensor[B]) -> Tensor[B]:
    """Compute e^-|x| I₀(x), which is finite everywhere. The gradient at 0 is 0.

    >>> [round(value, 4) for value in i0e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).tolist()]
    [1.0, 0.4658, 0.004]
    """
    return of_one("i0e", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1(x: Tensor[B]) -> Tensor[B]:
    """Compute I₁(x), the derivative of I₀.

    >>> [round(value, 4) for value in i1(Tensor[NumPy].from_data([0.0, 1.0, -1.0])).tolist()]
    [0.0, 0.5652, -0.5652]
    """
    return of_one("i1", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1e(x: Tensor[B]) -> Tensor[B]:
    """Compute e^-|x| I₁(x), which is finite everywhere. The gradient at 0 is ½.

    >>> [round(value, 4) for value in i1e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).tolist()]
    [0.0, 0.2079, 0.004]
    """
    return of_one("i1e", x)  # type: ignore[no-any-return]  # a Tensor
