"""The linear layer with quantized weights, and the error that quantizing a model makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from burnpy.backend.dtypes import int8
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.nn.functional.quantization import QuantizedDType, dequantize, quantize, quantized_linear
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Buffer, IntBuffer
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.variable import Param


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
        raise ShapeError(f"quantization_error() got outputs of the shapes {exact.shape} and {near.shape}")
    exact, near = exact.detach().to_dtype("float64"), near.detach().to_dtype("float64")
    difference, length = near - exact, exact.norm().item()
    distance = difference.norm().item()
    return QuantizationError(
        distance / length if length else (float("inf") if distance else 0.0),
        difference.abs().max().item(),
        (exact.argmax(-1) == near.argmax(-1)).float().mean().item(),
    )
