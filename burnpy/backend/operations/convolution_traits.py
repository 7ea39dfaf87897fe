"""The traits of a convolution, of one plus a bias, and of its two gradients: the same in two and in three dimensions.

The gradients of a convolution are each other's derivatives.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from burnpy.backend.primitives import Float, Shape
from burnpy.backend.rules import Folded, fold
from burnpy.backend.schema import Traits


class ConvolutionTraits(NamedTuple):
    """The traits of the four operations."""

    plain: Traits
    bias: Traits
    input: Traits
    weight: Traits


def convolution_traits(name: str, dims: int) -> ConvolutionTraits:
    """Return the traits of the operations ``name``, ``name_bias``, ``name_input`` and ``name_weight``.

    Args:
        name: the name of the convolution.
        dims: its number of dimensions.
    """

    def moved(i: Any, g: Float, weight: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
        """Return the convolution of another array in place of x."""
        return getattr(i, name)(g, weight, stride, padding, dilation, groups)

    def weighted(i: Any, g: Float, x: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
        """Return the convolution of x with another array in place of the weight."""
        return getattr(i, name)(x, g, stride, padding, dilation, groups)

    def by_x(
        i: Any, g: Float, weight: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_input")(g, weight, x_shape, stride, padding, dilation, groups)

    def by_weight(
        i: Any, g: Float, x: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_weight")(g, x, weight_shape, stride, padding, dilation, groups)

    def input_by_weight(
        i: Any, g: Float, grad: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_weight")(grad, g, weight_shape, stride, padding, dilation, groups)

    def weight_by_x(
        i: Any, g: Float, grad: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_input")(grad, g, x_shape, stride, padding, dilation, groups)

    def weight_batch(
        b: Any, grad: Any, x: Any, shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """Return the gradients of all examples, as groups of one convolution."""
        i, size = b.inner, b.size
        if not size:  # no groups
            return b.batched(i.full((0, *shape), 0.0, grad.dtype))
        whole = (size * shape[0], *shape[1:])
        operation = getattr(i, f"{name}_weight")
        out = operation(fold(b, grad, 1), fold(b, x, 1), whole, stride, padding, dilation, size * groups)
        return b.batched(i.reshape(out, (size, *shape)))

    ones = (1,) * dims
    return ConvolutionTraits(
        Traits(
            product=True,
            flops=lambda weight, out: 2 * prod(out) * prod(weight[1:]),
            vjp=(by_x, by_weight),
            batch=Folded(("x",), ("weight",)),
            onnx="windows.convolution",
        ),
        Traits(
            product=("x", "weight"),
            flops=lambda weight, out: prod(out) * (2 * prod(weight[1:]) + 1),
            vjp=(by_x, by_weight, lambda i, g: i.sum(g, (0, *range(2, 2 + dims)), False)),
            jvp=(moved, weighted, lambda i, t, out: i.expand(i.reshape(t, (t.shape[0], *ones)), out.shape)),
            batch=Folded(("x",), ("weight", "bias")),
            onnx="windows.convolution",
        ),
        Traits(
            product=True,
            flops=lambda grad, weight: 2 * prod(grad) * prod(weight[1:]),
            vjp=(moved, input_by_weight),
            batch=Folded(("grad", "shape"), ("weight",)),
            onnx="windows.transposed_convolution",
        ),
        Traits(
            product=True,
            flops=lambda grad, out: 2 * prod(grad) * prod(out[1:]),
            vjp=(weighted, weight_by_x),
            batch=weight_batch,
        ),
    )
