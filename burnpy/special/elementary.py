"""Entropies and products with logarithms, and names of ``torch.special`` for methods of tensors."""

from __future__ import annotations

from burnpy.special.elementwise_calls import first_operand, of_one, of_two
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import DimsLike
from burnpy.tensor.matrix_arguments import floating
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def entr(x: Tensor[B]) -> Tensor[B]:
    """Compute -x · log(x), which is 0 at 0 and -inf for negative x. The gradient at 0 is inf.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> entr(Tensor[NumPy].from_data([-1.0, 0.0, 0.5])).tolist()[:2]
    [-inf, 0.0]
    """
    return of_one("entr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlog1py(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(1 + y), which is 0 at x = 0 unless y is NaN. One of both may be a Python number.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> xlog1py(Tensor[NumPy].from_data([0.0, 2.0]), Tensor[NumPy].from_data([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    return of_two("xlog1py", x, y)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlogy(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(y), ``x.xlogy(y)``, which is 0 at x = 0 unless y is NaN. One of both may be a Python number."""
    return first_operand("xlogy", x, y).xlogy(y)  # type: ignore[no-any-return]  # of a Tensor


@explained
def exp2(x: Tensor[B]) -> Tensor[B]:
    """Compute 2ˣ, ``x.exp2()``."""
    return floating("exp2", x, "x").exp2()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expm1(x: Tensor[B]) -> Tensor[B]:
    """Compute exp(x) - 1, ``x.expm1()``."""
    return floating("expm1", x, "x").expm1()  # type: ignore[no-any-return]  # of a Tensor


@explained
def log1p(x: Tensor[B]) -> Tensor[B]:
    """Compute log(1 + x), ``x.log1p()``."""
    return floating("log1p", x, "x").log1p()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expit(x: Tensor[B]) -> Tensor[B]:
    """Compute the logistic sigmoid, ``x.sigmoid()``."""
    return floating("expit", x, "x").sigmoid()  # type: ignore[no-any-return]  # of a Tensor


@explained
def logit(x: Tensor[B], eps: float | None = None) -> Tensor[B]:
    """Compute the inverse of `expit`, ``x.logit(eps)``; see `burnpy.Tensor.logit`."""
    return floating("logit", x, "x").logit(eps)  # type: ignore[no-any-return]  # of a Tensor


@explained
def sinc(x: Tensor[B]) -> Tensor[B]:
    """Compute sin(πx) / (πx), ``x.sinc()``."""
    return floating("sinc", x, "x").sinc()  # type: ignore[no-any-return]  # of a Tensor


@explained
def round(x: Tensor[B], *, decimals: int = 0) -> Tensor[B]:
    """Round to a number of decimals, ``x.round(decimals)``; halves to the even neighbour."""
    return floating("round", x, "x").round(decimals)  # type: ignore[no-any-return]  # of a Tensor


@explained
def softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute exponentials divided by their sum, ``x.softmax(dim)``."""
    return floating("softmax", x, "x").softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def log_softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute the logarithm of `softmax`, ``x.log_softmax(dim)``."""
    return floating("log_softmax", x, "x").log_softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def logsumexp(x: Tensor[B], dim: DimsLike, keepdim: bool = False) -> Tensor[B]:
    """Compute the logarithm of the sum of exponentials, ``x.logsumexp(dim, keepdim)``."""
    return floating("logsumexp", x, "x").logsumexp(dim, keepdim)  # type: ignore[no-any-return]  # of a Tensor
