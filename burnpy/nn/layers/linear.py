"""The linear function and the bilinear one, with weight and bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.errors import ShapeError
from burnpy.nn.argument_checks import QuantizedDType, alike, floats, positive
from burnpy.nn.init import Initializer, Zeros, around_zero
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import ComplexTensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


@overload
def linear(x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None = None) -> Tensor[B]: ...
@overload
def linear(x: ComplexTensor[B], weight: ComplexTensor[B], bias: ComplexTensor[B] | None = None) -> ComplexTensor[B]: ...
@explained
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x @ weight + bias``, of floats or of complex numbers.

    Args:
        x: shape (…, in).
        weight: shape (in, out), the transpose of PyTorch's.
        bias: shape (out,).

    Returns:
        Shape (…, out).

    Raises:
        ShapeError: the shapes do not match.
        KindError: an argument is not a float tensor, or not all are complex.
        DTypeError: x is wider than the weights.

    >>> x, w = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].from_data([[1.0], [10.0]])
    >>> linear(x, w, Tensor[NumPy].from_data([100.0])).tolist()
    [[121.0]]
    """
    if not alike(x, weight, bias):  # convert the arguments, or explain why they do not fit
        x, weight, bias = floats("linear", 2, x=x, weight=weight, bias=bias)
    p, w, b = x._primitive, weight._primitive, None if bias is None else bias._primitive
    shape, sizes = p.shape, w.shape
    if not shape or len(sizes) != 2 or shape[-1] != sizes[0] or (b is not None and b.shape != sizes[1:]):
        raise _shape_error(shape, sizes, None if b is None else b.shape)
    # The backend's operation adds the bias to the rows of the product, of floats.
    if bias is None or len(shape) == 1 or x.__class__ is ComplexTensor:
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
    # For each example, x1 turns the weight into a matrix (out, in2), which x2 multiplies.
    matrices = (x1 @ weight.permute(1, 0, 2).reshape((in1, out * in2))).reshape((*first[:-1], out, in2))
    product = (matrices @ x2.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias


def _shape_error(shape: Shape, weight: Shape, bias: Shape | None) -> ShapeError:
    """Return the error that says which shapes do not match."""
    if len(weight) != 2:
        return ShapeError(f"linear() takes weight of shape (in, out), got shape {weight}")
    if not shape or shape[-1] != weight[0]:
        hint = "; if the weight is PyTorch's, it must be transposed" if shape and shape[-1] == weight[1] else ""
        return ShapeError(
            f"linear() got x of shape {shape} and weight of shape {weight}; the last dim of x must equal the "
            f"first dim of the weight{hint}"
        )
    return ShapeError(f"linear() got weight of shape {weight} and bias of shape {bias}, which must be {weight[1:]}")


class Linear(Module[B]):
    """A linear layer, ``x @ weight + bias``, from (…, in_features) to (…, out_features).

    The weight is (in_features, out_features), the transpose of PyTorch's.

    Args:
        in_features: the size of the last dimension of the input.
        out_features: the size of the last dimension of the output.
        bias: whether the layer has a bias.
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√in_features.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a size is not positive.

    >>> Linear(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 3))).shape
    (2, 4)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("Linear", in_features=in_features, out_features=out_features)
        default = around_zero(in_features)
        fans = (in_features, out_features)
        self.weight = Param((initializer or default)(fans, device=device, fans=fans, generator=generator))
        self.bias = Param(default((out_features,), device=device, generator=generator)) if bias else None

    @overload
    def forward(self, x: Tensor[B]) -> Tensor[B]: ...
    @overload
    def forward(self, x: ComplexTensor[B]) -> ComplexTensor[B]: ...
    def forward(self, x: Any) -> Any:
        """Map (…, in_features) to (…, out_features)."""
        return linear(x, self.weight.value, None if self.bias is None else self.bias.value)

    @property
    def in_features(self) -> int:
        """The size of the last dimension of the input."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """The size of the last dimension of the output."""
        return self.weight.shape[1]

    def _quantized(self, dtype: QuantizedDType, group_size: int | None) -> QuantizedLinear[B]:
        return QuantizedLinear(self, dtype, group_size=group_size)

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        return {"weight": "weight.T"}

    def valid(self: Linear[Autodiff[I]]) -> Linear[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


def linear_of(weight: Param[B], bias: Param[B] | None) -> Linear[B]:
    """Return a linear layer with a weight of shape (in, out) and a bias of shape (out,)."""
    inputs, outputs = weight.shape
    empty = Linear(inputs, outputs, bias=False, device=weight.device, initializer=Zeros())
    return empty.replace(weight=weight, bias=bias)


class Bilinear(Module[B]):
    """``x1ᵀ · weight[k] · x2 + bias[k]`` for each k: see `burnpy.nn.functional.bilinear`.

    Args:
        in1: the size of the last dimension of the first input.
        in2: the size of the last dimension of the second input.
        outputs: the size of the last dimension of the output.
        bias: whether the layer has a bias.
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√in1.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a size is not positive.

    >>> Bilinear(3, 4, 5, device=NumPy)(Tensor[NumPy].ones((2, 3)), Tensor[NumPy].ones((2, 4))).shape
    (2, 5)
    """

    def __init__(
        self,
        in1: int,
        in2: int,
        outputs: int,
        *,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("Bilinear", in1=in1, in2=in2, outputs=outputs)
        default = around_zero(in1)
        self.weight = Param((initializer or default)((outputs, in1, in2), device=device, generator=generator))
        self.bias = Param(default((outputs,), device=device, generator=generator)) if bias else None

    def forward(self, x1: Tensor[B], x2: Tensor[B]) -> Tensor[B]:
        """Map (…, in1) and (…, in2) to (…, outputs)."""
        return bilinear(x1, x2, self.weight.value, None if self.bias is None else self.bias.value)

    @property
    def in1(self) -> int:
        """The size of the last dimension of the first input."""
        return self.weight.shape[1]

    @property
    def in2(self) -> int:
        """The size of the last dimension of the second input."""
        return self.weight.shape[2]

    @property
    def outputs(self) -> int:
        """The size of the last dimension of the output."""
        return self.weight.shape[0]

    def valid(self: Bilinear[Autodiff[I]]) -> Bilinear[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
