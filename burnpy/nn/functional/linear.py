"""`linear`: a product with a weight, and something added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ShapeError
from burnpy.nn.functional.checks import dims_at_least, exact_dims, floats

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


def linear(x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None = None) -> Tensor[B]:
    """``x @ weight + bias``.

    Args:
        x: shape (…, in).
        weight: shape (in, out), as it is multiplied; PyTorch's is the transpose.
        bias: shape (out,).

    Returns:
        Shape (…, out).

    Raises:
        ShapeError: the shapes do not belong together.
        KindError: one is no float tensor.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, w = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].from_data([[1.0], [10.0]])
    >>> linear(x, w, Tensor[NumPy].from_data([100.0])).tolist()
    [[121.0]]
    """
    x, weight, bias = floats("linear", x=x, weight=weight, bias=bias)
    exact_dims("linear", "weight", weight, 2, "(in, out)")
    dims_at_least("linear", "x", x, 1, "(…, in)")
    if x.shape[-1] != weight.shape[0]:
        hint = "; PyTorch's weights are transposed" if x.shape[-1] == weight.shape[1] else ""
        raise ShapeError(
            f"linear() was given x of shape {x.shape} and weight of shape {weight.shape}: the last dimension of the "
            "one "
            f"must be the first of the other{hint}"
        )
    if bias is None:
        return x @ weight
    if bias.shape != weight.shape[1:]:
        raise ShapeError(
            f"linear() was given weight of shape {weight.shape} and bias of shape {bias.shape}, which must be "
            f"{weight.shape[1:]}"
        )
    device: Any = x.device
    if x.ndim == 1:
        return x @ weight + bias
    return x._like(device.linear(x._primitive, weight._primitive, bias._primitive))
