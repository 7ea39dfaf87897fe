"""The variance or standard deviation of a tensor together with its mean."""

from __future__ import annotations

from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import DimsLike
from burnpy.tensor.operands import need_floats
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def var_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]:
    """The variance and the mean over ``dim``: ``(x.var(dim, keepdim, correction=1), x.mean(dim, keepdim))``.

    >>> from burnpy import Tensor, var_mean
    >>> from burnpy.backend import NumPy
    >>> var, mean = var_mean(Tensor[NumPy].from_data([1.0, 2.0, 3.0]))
    >>> var.item(), mean.item()
    (1.0, 2.0)
    """
    need_floats("var_mean", x)
    return x.var(dim, keepdim, correction=correction), x.mean(dim, keepdim)


@explained
def std_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]:
    """The standard deviation and the mean over ``dim``: see `var_mean`."""
    need_floats("std_mean", x)
    return x.std(dim, keepdim, correction=correction), x.mean(dim, keepdim)
