"""The linear function with weight and bias, the bilinear one, and embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import exact_dims, floats
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operands import in_range, index_of, together
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@explained
def linear(x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None = None) -> Tensor[B]:
    """Return ``x @ weight + bias``.

    Args:
        x: shape (…, in).
        weight: shape (in, out), the transpose of PyTorch's.
        bias: shape (out,).

    Returns:
        Shape (…, out).

    Raises:
        ShapeError: the shapes do not match.
        KindError: an argument is not a float tensor.
        DTypeError: x is wider than the weights.

    >>> x, w = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].from_data([[1.0], [10.0]])
    >>> linear(x, w, Tensor[NumPy].from_data([100.0])).tolist()
    [[121.0]]
    """
    x, weight, bias = floats("linear", 2, x=x, weight=weight, bias=bias)
    p, w, b = x._primitive, weight._primitive, None if bias is None else bias._primitive
    shape, sizes = p.shape, w.shape
    if not shape or len(sizes) != 2 or shape[-1] != sizes[0] or (b is not None and b.shape != sizes[1:]):
        raise _explained(shape, sizes, None if b is None else b.shape)
    if bias is None or len(shape) == 1:
        product = x @ weight
        return product if bias is None else product + bias
    device: Any = x._device
    return x._like(device.linear(p, w, b))


@explained
def bilinear(x1: Tensor[B], x2: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None = None) -> Tensor[B]:
    """Return ``x1ᵀ · weight[k] · x2 + bias[k]`` for each k, as `torch.nn.functional.bilinear`.

    Args:
        x1: shape (…, in1).
        x2: shape (…, in2), with the same leading dimensions.
        weight: shape (out, in1, in2), as PyTorch's.
        bias: shape (out,).

    Returns:
        Shape (…, out).

    Raises:
        ShapeError: the shapes do not match.
        KindError: an argument is not a float tensor.

    >>> x, y = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([3.0])
    >>> bilinear(x, y, Tensor[NumPy].ones((1, 2, 1))).tolist()
    [9.0]
    """
    x1, x2, weight, bias = floats("bilinear", 3, x1=x1, x2=x2, weight=weight, bias=bias)
    first, second, sizes = x1.shape, x2.shape, weight.shape
    if len(sizes) != 3 or not first or not second or first[:-1] != second[:-1] or sizes[1:] != (first[-1], second[-1]):
        raise ShapeError(
            f"bilinear() got x1 {first}, x2 {second} and weight {sizes}; expected the shapes "
            "(…, in1), (…, in2) and (out, in1, in2)"
        )
    if bias is not None and bias.shape != sizes[:1]:
        raise ShapeError(
            f"bilinear() got weight of shape {sizes} and bias of shape {bias.shape}, which must be {sizes[:1]}"
        )
    out, in1, in2 = sizes
    matrices = (x1 @ weight.permute(1, 0, 2).reshape((in1, out * in2))).reshape((*first[:-1], out, in2))
    product = (matrices @ x2.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias


def _explained(shape: Shape, weight: Shape, bias: Shape | None) -> ShapeError:
    """Return the error that says which shapes do not match."""
    if len(weight) != 2:
        return ShapeError(f"linear() takes weight of shape (in, out), got shape {weight}")
    if not shape or shape[-1] != weight[0]:
        hint = "; PyTorch's weights are transposed" if shape and shape[-1] == weight[1] else ""
        return ShapeError(
            f"linear() got x of shape {shape} and weight of shape {weight}; the last dim of x must equal the "
            f"first dim of the weight{hint}"
        )
    return ShapeError(f"linear() got weight of shape {weight} and bias of shape {bias}, which must be {weight[1:]}")


@explained
def embedding(index: Ints[B], weight: Tensor[B], *, padding_idx: int | None = None) -> Tensor[B]:
    """Look up the rows of ``weight`` at ``index``.

    Args:
        index: of any shape, from 0 to count - 1.
        weight: shape (count, size).
        padding_idx: the index of a row that gets no gradient; negative indices count from the end.

    Returns:
        Shape (*index.shape, size).

    Raises:
        KindError: ``index`` is not an `IntTensor`.
        IndexRangeError: an index is out of range.
        ArgumentError: ``padding_idx`` is out of range.

    >>> embedding(IntTensor[NumPy].from_data([1, 0]), Tensor[NumPy].from_data([[0.0, 1.0], [2.0, 3.0]])).tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    (weight,) = floats("embedding", 1, weight=weight)
    exact_dims("embedding", "weight", weight.shape, 2, "(count, size)")
    count = weight.shape[0]
    indices = index_of(weight, index, "embedding")
    weight = together("embedding", weight, index)[0]
    device: Any = weight.device
    rows = in_range(device, indices, count, False, "embedding()", 0, weight.shape)
    return weight._like(device.embedding(weight._primitive, rows, padding_row(count, padding_idx)))


def padding_row(count: int, padding_idx: int | None) -> int | None:
    """Return ``padding_idx`` as a non-negative row index, or None.

    Raises:
        ArgumentError: it is out of range.
    """
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise ArgumentError(f"embedding() got padding_idx={padding_idx} for {count} rows")
    return padding_idx % count
