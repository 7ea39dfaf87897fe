"""Activation functions of vectors along a dimension: gates, and the softmin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import dim_of
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@explained
def glu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """The gated linear unit: the first half of x along ``dim`` times the sigmoid of the second.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2016.

    Raises:
        ShapeError: the size of ``dim`` is odd.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> glu(Tensor[NumPy].from_data([3.0, 0.0])).tolist()
    [1.5]
    """
    value, gate = _halves("glu", x, dim)
    return value * gate.sigmoid()


@explained
def swiglu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """The SwiGLU gate: the silu of the first half of x along ``dim`` times the second.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.

    Raises:
        ShapeError: the size of ``dim`` is odd.
    """
    gate, value = _halves("swiglu", x, dim)
    return gate.silu() * value


@explained
def softmin(x: Tensor[B], dim: int) -> Tensor[B]:
    """The softmax of -x along ``dim``."""
    (x,) = floats("softmin", 1, x=x)
    return (-x).softmax(dim)


def _halves(operation: str, x: Tensor[B], dim: int) -> tuple[Tensor[B], Tensor[B]]:
    (x,) = floats(operation, 1, x=x)
    if not x.ndim:
        raise ShapeError(f"{operation}() cannot halve a 0-d tensor; it needs a dimension of even size")
    size = x.shape[dim_of(dim, x.ndim, operation)]
    if size % 2:
        raise ShapeError(f"{operation}() cannot halve dim {dim} of shape {x.shape}, whose size is odd")
    first, second = x.split(size // 2, dim) if size else (x, x)
    return first, second
