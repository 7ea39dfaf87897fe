"""Weights as 8-bit or 4-bit ints with scales: quantizing them, the linear function, and the way back to floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_args

from burnpy.backend.dtypes import float32, float64, int8, uint8
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError, a
from burnpy.backend.operations.matmul import dequantized
from burnpy.nn.argument_checks import QuantizedDType, check_choice, exact_dims, floats, positive_int
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Buffer, IntBuffer
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import broadcast_shape, index_of, refuse_unless, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.nn.param import Param
    from burnpy.tensor.tensor import IntTensor
    from burnpy.tensor.tensor_types import Ints

INT4_GROUP = 32
"""The number of elements that share a scale in 4 bits by default, as in llama.cpp's Q4_0."""


@explained
def quantize(
    weight: Tensor[B], dtype: QuantizedDType = "int8", *, group_size: int | None = None
) -> tuple[IntTensor[B], Tensor[B]]:
    """Round a matrix to ints from -127 to 127, or -7 to 7, times a scale for each group of elements.

    The scale of a group is its largest magnitude over 127 or 7. So the error of an element is at most half a scale, and
    no gradient passes.

    Args:
        weight: shape (in, out), as `Linear`'s.
        dtype: "int8" or "int4".
        group_size: the number of elements of a column that share a scale, which divides ``in``, and is even for int4;
            by default all in 8 bits, and 32 in 4 bits.

    Returns:
        The ints: int8 of shape (out, in), or uint8 of shape (out, in / 2), each two ints plus 8; and the scales, of
        shape (out, in / group_size).

    Raises:
        ShapeError: ``weight`` is not a matrix.
        ArgumentError: the group size does not divide ``in``; an element is infinite or NaN.
        KindError: ``weight`` is not a float tensor.

    >>> ints, scale = quantize(Tensor[NumPy].from_data([[1.27], [-0.5]]))
    >>> ints.tolist(), [[round(s, 3)] for (s,) in scale.tolist()]
    ([[127, -50]], [[0.01]])
    """
    (weight,) = floats("quantize", 1, weight=weight)
    exact_dims("quantize", "weight", weight.shape, 2, "(in, out)")
    check_choice("quantize", "dtype", dtype, get_args(QuantizedDType))
    size, outputs = weight.shape
    if not size or not outputs:
        raise ShapeError(f"quantize() got a weight of shape {weight.shape}, which has no elements")
    groups = _groups(size, dtype, group_size)
    wide = weight.detach().to_dtype(float64 if weight.dtype == float64 else float32).mT
    error = ArgumentError(f"quantize() got a weight of shape {weight.shape} with infinite elements or NaN")
    finite: Any = wide.isfinite()
    refuse_unless(wide._device, finite._primitive, error)
    parts = wide.reshape((outputs, groups, size // groups))
    limit = 127 if dtype == "int8" else 7
    largest = parts.abs().amax(dim=-1)
    scale = (largest / limit).masked_fill(largest == 0.0, 1.0).to_dtype(weight.dtype)
    # The scale of tiny numbers is rounded up, not to 0 or to one that the largest does not fit.
    scale = scale.nextafter(1.0).where(scale.to_dtype(wide.dtype) * (limit + 0.5) < largest, scale)
    ints = (parts / scale.to_dtype(wide.dtype).unsqueeze(-1)).round().clamp(-limit, limit).int("int8")
    if dtype == "int4":
        low, high = (ints + 8).to_dtype("uint8").chunk(2, -1)
        ints = low + high * 16
    return ints.reshape((outputs, ints.numel() // outputs)), scale


def _groups(size: int, dtype: QuantizedDType, group_size: int | None) -> int:
    """Return the number of groups of a column of ``size`` elements."""
    length = (size if dtype == "int8" else INT4_GROUP) if group_size is None else group_size
    positive_int("quantize", "group_size", length)
    if size % length or (dtype == "int4" and length % 2):
        even = "an even number that divides" if dtype == "int4" else "a number that divides"
        raise ArgumentError(
            f"quantize() got groups of {length} for a weight with {size} inputs in {dtype}; give a group_size, "
            f"{even} {size}, or leave the layer out"
        )
    return size // length


@explained
def dequantize(weight: Ints[B], scale: Tensor[B]) -> Tensor[B]:
    """Return a matrix of shape (in, out) from the ints and scales of `quantize`.

    Raises:
        ShapeError, DTypeError, KindError: see `quantized_linear`.

    >>> dequantize(*quantize(Tensor[NumPy].from_data([[1.27], [-0.5]]))).shape
    (2, 1)
    """
    (scale,) = floats("dequantize", 1, scale=scale)
    ints = _ints("dequantize", scale, weight)
    _check("dequantize", None, ints, scale.shape, None)
    return scale._like(dequantized(scale._device, ints, scale._primitive)).transpose(0, 1)


@explained
def quantized_linear(x: Tensor[B], weight: Ints[B], scale: Tensor[B], bias: Tensor[B] | None = None) -> Tensor[B]:
    """Return ``x @ dequantize(weight, scale) + bias``, without the matrix as floats where a kernel multiplies by ints.

    Gradients reach x, the scales and the bias.

    Args:
        x: shape (…, in).
        weight: the ints of `quantize`.
        scale: its scales, shape (out, groups).
        bias: shape (out,).

    Returns:
        Shape (…, out).

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: the ints are neither int8 nor uint8; x is wider than the scales.
        KindError: an argument is of another kind.

    >>> x, w = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].from_data([[1.27], [-0.5]])
    >>> round(quantized_linear(x, *quantize(w)).item(), 4)
    0.27
    """
    x, scale, bias = floats("quantized_linear", 2, x=x, scale=scale, bias=bias)
    ints = _ints("quantized_linear", scale, weight)
    _check("quantized_linear", x.shape, ints, scale.shape, None if bias is None else bias.shape)
    device: Any = x._device
    p, s = x._primitive, scale._primitive
    product = x._like(device.quantized_matmul(p if p.dtype == s.dtype else device.cast(p, s.dtype), ints, s))
    return product if bias is None else product + bias


@explained
def integer_matmul(x: IntTensor[B], y: IntTensor[B]) -> IntTensor[B]:
    """Return the matrix product of ints of 8 bits in int32, by the processor's instructions for it where it has some.

    ``x @ y`` has the dtype of x and y, in which few products fit. Sums beyond int32 wrap around.

    Args:
        x: int8 or uint8, of shape (…, n, k).
        y: int8 or uint8, of shape (…, k, m); … broadcasts.

    Returns:
        Shape (…, n, m).

    Raises:
        ShapeError: the inner sizes differ, other dimensions do not broadcast, or there are fewer than two.
        DTypeError: the dtype of x or y is neither int8 nor uint8.
        KindError: an argument is of another kind.

    >>> x = IntTensor[NumPy].from_data([[100, -100]], dtype="int8")
    >>> integer_matmul(x, x.T).tolist()
    [[20000]]
    """
    for ints in (x, y):
        if getattr(ints, "kind", None) != "int":
            raise KindError(f"integer_matmul() takes IntTensors of int8 or uint8, got {describe(ints)}")
        if ints.dtype != int8 and ints.dtype != uint8:
            raise DTypeError(f"integer_matmul() got ints of {ints.dtype}, expected int8 or uint8")
    x, y = together("integer_matmul", x, y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2] or broadcast_shape(x.shape[:-2], y.shape[:-2]) is None:
        raise ShapeError(f"integer_matmul() got shapes {x.shape} and {y.shape}, expected (…, n, k) and (…, k, m)")
    return x._like(x._backend.integer_matmul(x._primitive, y._primitive))


def _ints(operation: str, scale: Tensor[B], weight: Any) -> Any:
    """Return the primitive of the ints on the device of the scales."""
    index_of(scale, weight, operation)
    return together(operation, scale, weight)[1]._primitive


def _check(operation: str, x: Shape | None, ints: Any, scale: Shape, bias: Shape | None) -> None:
    """Check the shapes and the dtype of quantized weights."""
    if ints.dtype != int8 and ints.dtype != uint8:
        raise DTypeError(f"{operation}() got ints of {ints.dtype}; quantize() makes int8, or uint8 for 4 bits")
    shape = ints.shape
    if len(shape) != 2 or len(scale) != 2 or scale[0] != shape[0] or not scale[1] or shape[1] % scale[1]:
        raise ShapeError(
            f"{operation}() got ints of shape {shape} and scales of shape {scale}; expected (out, bytes) and (out, "
            "groups), as quantize() returns them"
        )
    size = shape[1] * (2 if ints.dtype == uint8 else 1)
    if x is not None and (not x or x[-1] != size):
        raise ShapeError(
            f"{operation}() got x of shape {x} for a weight with {size} inputs; the last dim must equal it"
        )
    if bias is not None and bias != scale[:1]:
        raise ShapeError(f"{operation}() got a bias of shape {bias} for {scale[0]} outputs")


class LinearLayer(Protocol[B]):
    """The parameters of a `burnpy.nn.Linear`."""

    weight: Param[B]
    bias: Param[B] | None


class QuantizedLinear(Module[B]):
    """A `Linear` layer whose weight is 8-bit or 4-bit ints with scales: see `burnpy.nn.functional.quantize`.

    The ints and the scales are buffers, so that training leaves them unchanged; gradients pass through the layer.
    ``model.quantized()`` makes such layers of all linear ones.

    Args:
        linear: the layer, whose bias is shared.
        weight_dtype: "int8" or "int4".
        group_size: the number of weights of an output that share a scale; by default all in 8 bits, and 32 in 4 bits.

    Raises:
        ArgumentError: the group size does not divide the number of inputs; a weight is infinite or NaN.

    >>> from burnpy.nn import Linear
    >>> layer = QuantizedLinear(Linear(64, 2, device=NumPy), "int4")
    >>> layer
    QuantizedLinear(64, 2, weight_dtype='int4', group_size=32)  2 parameters
      weight  (2, 32) buffer
      scale  (2, 2) buffer
      bias  (2,)
    >>> layer(Tensor[NumPy].ones((3, 64))).shape
    (3, 2)
    """

    def __init__(
        self, linear: LinearLayer[B], weight_dtype: QuantizedDType = "int8", *, group_size: int | None = None
    ) -> None:
        weight, scale = quantize(linear.weight.value, weight_dtype, group_size=group_size)
        self.weight, self.scale, self.bias = IntBuffer(weight), Buffer(scale), linear.bias

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map (…, in_features) to (…, out_features)."""
        bias = None if self.bias is None else self.bias.value
        return quantized_linear(x, self.weight.value, self.scale.value, bias)

    def dequantized(self) -> Tensor[B]:
        """Return the weight as floats, (in_features, out_features)."""
        return dequantize(self.weight.value, self.scale.value)

    @property
    def weight_dtype(self) -> QuantizedDType:
        """The size of the ints."""
        return "int8" if self.weight.dtype == int8 else "int4"

    @property
    def in_features(self) -> int:
        """The size of the last dimension of the input."""
        return self.weight.shape[1] * (1 if self.weight_dtype == "int8" else 2)

    @property
    def out_features(self) -> int:
        """The size of the last dimension of the output."""
        return self.weight.shape[0]

    @property
    def group_size(self) -> int:
        """The number of weights of an output that share a scale."""
        return self.in_features // self.scale.shape[1]

    def extra_repr(self) -> str:
        """Return the sizes and settings."""
        sizes = f"{self.in_features}, {self.out_features}, weight_dtype={self.weight_dtype!r}"
        return sizes if self.scale.shape[1] == 1 else f"{sizes}, group_size={self.group_size}"

    def valid(self: QuantizedLinear[Autodiff[I]]) -> QuantizedLinear[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class QuantizationError(NamedTuple):
    """The difference of a quantized model's outputs from the model's: see `quantization_error`."""

    relative: float  #: ‖y' - y‖ / ‖y‖ over all elements, 0 for equal outputs
    largest: float  #: the largest magnitude of y' - y
    agreement: float  #: the share of rows, along the last dimension, whose largest element is at the same place


@explained
def quantization_error(model: Module[Any], quantized: Module[Any], *inputs: Any) -> QuantizationError:
    """Return how far the outputs of a quantized model are from those of the model, such as logits.

    Args:
        model: a model that returns a float tensor, of at least one dimension.
        quantized: the same model with quantized layers, or any other with outputs of the same shape.
        inputs: the arguments of both.

    Raises:
        KindError: the output is not a float tensor.
        ShapeError: the outputs have different shapes, or no elements.

    >>> from burnpy.nn import Linear, Sequential
    >>> model = Sequential(Linear(64, 10, device=NumPy))
    >>> quantization_error(model, model.quantized(), Tensor[NumPy].ones((3, 64))).relative < 0.05
    True
    """
    exact, near = model(*inputs), quantized(*inputs)
    for y in (exact, near):
        if not isinstance(y, Tensor):
            raise KindError(f"quantization_error() compares float tensors, and a model returned {a(type(y).__name__)}")
    if exact.shape != near.shape or not exact.shape or not exact.numel():
        raise ShapeError(
            f"quantization_error() got outputs of shapes {exact.shape} and {near.shape}; they must be equal"
        )
    exact, near = exact.detach().to_dtype("float64"), near.detach().to_dtype("float64")
    difference, length = near - exact, exact.norm().item()
    distance = difference.norm().item()
    return QuantizationError(
        distance / length if length else (float("inf") if distance else 0.0),
        difference.abs().max().item(),
        (exact.argmax(-1) == near.argmax(-1)).float().mean().item(),
    )
