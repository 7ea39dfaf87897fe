"""Special functions of float tensors, named as in ``torch.special``: error, gamma, zeta and Bessel functions, and more.

All are elementwise, but for softmax, log_softmax and logsumexp. They are differentiable by every float argument, at
every order, in reverse and forward mode. Values are exact to a few roundings, also where they are tiny: most are
computed in float64 and rounded to the dtype of the argument. On NumPy and CuPy each is one kernel.

>>> from burnpy import special
>>> x = Tensor[NumPy].from_data([0.5, -40.0], dtype="float64")
>>> [f"{value:.6f}" for value in special.log_ndtr(x).tolist()]
['-0.368946', '-804.608442']
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.lazy import lazy_attributes
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import DimsLike
from burnpy.tensor.linalg import floating
from burnpy.tensor.operand_checks import broadcast_shape, explain, explain_memory, operands, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B

__all__ = [
    "betainc", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc",
    "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "ndtri_exp", "polygamma", "psi", "round", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__getattr__, __dir__ = lazy_attributes(__name__, {})


def of_one(operation: str, x: Any) -> Any:
    """Return the result of an operation of a float tensor."""
    x = floating(operation, x, "x")
    try:
        return new_tensor(Tensor, x._device, getattr(x._backend, operation)(x._primitive))
    except MemoryError as error:
        explain_memory(error, operation, x)
        raise


def of_two(operation: str, x: Any, y: Any) -> Any:
    """Return the result of an operation of two operands, a float tensor and another or a number."""
    x = first_operand(operation, x, y)
    tensor, value = operands(x, y, operation)
    try:
        return new_tensor(Tensor, tensor._device, getattr(tensor._backend, operation)(tensor._primitive, value))
    except Exception as error:  # of the array library, of any class; it is explained or raised again
        explain(error, operation, x, y)
        raise


def of_three(operation: str, **operands: Any) -> Any:
    """Return the result of an operation of three float tensors or numbers, at least one a tensor."""
    some = next((x for x in operands.values() if isinstance(x, TensorBase)), None)
    if some is None:
        shown = " and ".join(map(describe, operands.values()))
        raise KindError(f"{operation}() takes float Tensors and numbers, at least one Tensor, got {shown}")
    tensors = [
        Tensor.from_data(float(x), dtype=some.dtype, device=some.device)
        if isinstance(x, (int, float))
        else floating(operation, x, name)
        for name, x in operands.items()
    ]
    if broadcast_shape(*[x.shape for x in tensors]) is None:
        shown = " and ".join(str(x.shape) for x in tensors)
        raise ShapeError(f"{operation}() got shapes {shown}, which do not broadcast")
    first, *_ = tensors = list(together(operation, *tensors))
    return first._like(getattr(first._backend, operation)(*[x._primitive for x in tensors]))


def first_operand(operation: str, x: Any, y: Any) -> Any:
    """Return the first operand as a float tensor: a number becomes a 0-d tensor beside y."""
    if isinstance(x, (int, float)) and isinstance(y, TensorBase):
        y = floating(operation, y, "y")
        return Tensor.from_data(float(x), dtype=y.dtype, device=y.device)
    if not isinstance(x, TensorBase):
        raise KindError(f"{operation}() takes a float Tensor or a number beside one, got {describe(x)}")
    return floating(operation, x, "x")


@explained
def entr(x: Tensor[B]) -> Tensor[B]:
    """Compute -x · log(x), which is 0 at 0 and -inf for negative x. The gradient at 0 is inf.

    >>> entr(Tensor[NumPy].from_data([-1.0, 0.0, 0.5])).tolist()[:2]
    [-inf, 0.0]
    """
    return of_one("entr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlog1py(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(1 + y), which is 0 at x = 0 unless y is NaN. One of both may be a Python number.

    >>> xlog1py(Tensor[NumPy].from_data([0.0, 2.0]), Tensor[NumPy].from_data([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    return of_two("xlog1py", x, y)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlogy(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(y), ``x.xlogy(y)``, which is 0 at x = 0 unless y is NaN. One of both may be a Python number.

    >>> print(xlogy(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), 2.0).to_numpy().round(3))
    [0.173 0.347 0.693]
    """
    return first_operand("xlogy", x, y).xlogy(y)  # type: ignore[no-any-return]  # of a Tensor


@explained
def exp2(x: Tensor[B]) -> Tensor[B]:
    """Compute 2ˣ, ``x.exp2()``.

    >>> print(exp2(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [1.189 1.414 2.   ]
    """
    return floating("exp2", x, "x").exp2()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expm1(x: Tensor[B]) -> Tensor[B]:
    """Compute exp(x) - 1, ``x.expm1()``.

    >>> print(expm1(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.284 0.649 1.718]
    """
    return floating("expm1", x, "x").expm1()  # type: ignore[no-any-return]  # of a Tensor


@explained
def log1p(x: Tensor[B]) -> Tensor[B]:
    """Compute log(1 + x), ``x.log1p()``.

    >>> print(log1p(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.223 0.405 0.693]
    """
    return floating("log1p", x, "x").log1p()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expit(x: Tensor[B]) -> Tensor[B]:
    """Compute the logistic sigmoid, ``x.sigmoid()``.

    >>> print(expit(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.562 0.622 0.731]
    """
    return floating("expit", x, "x").sigmoid()  # type: ignore[no-any-return]  # of a Tensor


@explained
def logit(x: Tensor[B], eps: float | None = None) -> Tensor[B]:
    """Compute the inverse of `expit`, ``x.logit(eps)``; see `burnpy.Tensor.logit`.

    >>> print(logit(Tensor[NumPy].from_data([0.25, 0.5, 0.75])).to_numpy().round(3))
    [-1.099  0.     1.099]
    """
    return floating("logit", x, "x").logit(eps)  # type: ignore[no-any-return]  # of a Tensor


@explained
def sinc(x: Tensor[B]) -> Tensor[B]:
    """Compute sin(πx) / (πx), ``x.sinc()``.

    >>> print(sinc(Tensor[NumPy].from_data([0.0, 0.25, 0.5])).to_numpy().round(3))
    [1.    0.9   0.637]
    """
    return floating("sinc", x, "x").sinc()  # type: ignore[no-any-return]  # of a Tensor


@explained
def round(x: Tensor[B], *, decimals: int = 0) -> Tensor[B]:
    """Round to a number of decimals, ``x.round(decimals)``; halves to the even neighbour.

    >>> round(Tensor[NumPy].from_data([0.5, 1.5, -2.5])).tolist()
    [0.0, 2.0, -2.0]
    """
    return floating("round", x, "x").round(decimals)  # type: ignore[no-any-return]  # of a Tensor


@explained
def softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute exponentials divided by their sum, ``x.softmax(dim)``.

    >>> print(softmax(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    [0.227 0.292 0.481]
    """
    return floating("softmax", x, "x").softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def log_softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute the logarithm of `softmax`, ``x.log_softmax(dim)``.

    >>> print(log_softmax(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    [-1.482 -1.232 -0.732]
    """
    return floating("log_softmax", x, "x").log_softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def logsumexp(x: Tensor[B], dim: DimsLike, keepdim: bool = False) -> Tensor[B]:
    """Compute the logarithm of the sum of exponentials, ``x.logsumexp(dim, keepdim)``.

    >>> print(logsumexp(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    1.732
    """
    return floating("logsumexp", x, "x").logsumexp(dim, keepdim)  # type: ignore[no-any-return]  # of a Tensor


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

    >>> print(erfcx(Tensor[NumPy].from_data([0.0, 1.0, 100.0])).to_numpy().round(4))
    [1.     0.4276 0.0056]
    """
    return of_one("erfcx", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtr(x: Tensor[B]) -> Tensor[B]:
    """Compute the distribution function of the standard normal distribution; small values keep all their digits.

    >>> print(ndtr(Tensor[NumPy].from_data([-1.0, 0.0, 1.0])).to_numpy().round(4))
    [0.1587 0.5    0.8413]
    """
    return of_one("ndtr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def log_ndtr(x: Tensor[B]) -> Tensor[B]:
    """Compute the logarithm of `ndtr`, about -x² / 2 for negative x; finite, with its gradient, where ndtr underflows.

    >>> print(log_ndtr(Tensor[NumPy].from_data(-100.0)).to_numpy().round(1))
    -5005.5
    """
    return of_one("log_ndtr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtri(p: Tensor[B]) -> Tensor[B]:
    """Compute the inverse of `ndtr`, the quantiles of the normal distribution; ∓inf at 0 and 1, NaN outside.

    Source: Wichura, Algorithm AS 241, 1988.

    >>> print(ndtri(Tensor[NumPy].from_data(0.975)).to_numpy().round(4))
    1.96
    """
    return of_one("ndtri", p)  # type: ignore[no-any-return]  # a Tensor


@explained
def ndtri_exp(y: Tensor[B]) -> Tensor[B]:
    """Compute `ndtri` of exp(y), the inverse of `log_ndtr`, also where exp(y) underflows; ∓inf at -inf and 0.

    Source: as for `ndtri`, and below -700 the asymptotic series of the normal distribution function.

    >>> print(ndtri_exp(Tensor[NumPy].from_data(-5005.5)).to_numpy().round(1))
    -100.0
    """
    return of_one("ndtri_exp", y)  # type: ignore[no-any-return]  # a Tensor


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

    >>> print(gammainc(1.0, Tensor[NumPy].from_data(2.0)).to_numpy().round(4))  # 1 - exp(-2)
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

    It is differentiable in all arguments. PyTorch has no such function.

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
    an integer. Where q is positive, it is differentiable in both; PyTorch's is not in x.

    Source: DLMF, 25.11, and Moshier, Cephes Mathematical Library, zeta.c.

    >>> print(zeta(Tensor[NumPy].from_data(2.0), 1.0).to_numpy().round(4))  # π² / 6
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

    >>> print(i0e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).to_numpy().round(4))
    [1.     0.4658 0.004 ]
    """
    return of_one("i0e", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1(x: Tensor[B]) -> Tensor[B]:
    """Compute I₁(x), the derivative of I₀.

    >>> print(i1(Tensor[NumPy].from_data([0.0, 1.0, -1.0])).to_numpy().round(4))
    [ 0.      0.5652 -0.5652]
    """
    return of_one("i1", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1e(x: Tensor[B]) -> Tensor[B]:
    """Compute e^-|x| I₁(x), which is finite everywhere. The gradient at 0 is ½.

    >>> print(i1e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).to_numpy().round(4))
    [0.     0.2079 0.004 ]
    """
    return of_one("i1e", x)  # type: ignore[no-any-return]  # a Tensor
