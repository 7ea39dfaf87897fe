"""The linear and the bilinear layer, and embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import positive
from burnpy.nn.empty_weights import is_filled
from burnpy.nn.functional.dense import bilinear, embedding, linear, padding_row
from burnpy.nn.functional.quantization import QuantizedDType
from burnpy.nn.init import Initializer, Normal, Zeros, around_zero
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


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

    def forward(self, x: Tensor[B]) -> Tensor[B]:
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
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_names`."""
        return {"weight": "weight.T"}

    def valid(self: Linear[Autodiff[I]]) -> Linear[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


def linear_of(weight: Param[B], bias: Param[B] | None) -> Linear[B]:
    """Return a linear layer of a weight (in, out) and a bias (out,)."""
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
        """Return shape (…, outputs) of inputs of shapes (…, in1) and (…, in2)."""
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


class Embedding(Module[B]):
    """A learned table of vectors, looked up by int indices: from any shape to (*shape, size).

    Args:
        count: the number of vectors.
        size: the size of each vector.
        padding_idx: the index of a padding vector, which is initially zero and gets no gradient.
        device: the device of the layer.
        initializer: the initializer of the weight, (count, size); standard normal by default.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> Embedding(10, 4, device=NumPy)(IntTensor[NumPy].from_data([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        padding_idx: int | None = None,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("Embedding", count=count, size=size)
        self.padding_idx = padding_row(count, padding_idx)
        weight = (initializer or Normal())((count, size), device=device, generator=generator)
        self.weight = Param(with_zero_row(weight, self.padding_idx))

    def forward(self, index: Ints[B]) -> Tensor[B]:
        """Look up ints of any shape; the output has shape (*shape, size)."""
        return embedding(index, self.weight.value, padding_idx=self.padding_idx)

    @property
    def count(self) -> int:
        """The number of vectors."""
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        """The size of each vector."""
        return self.weight.shape[1]

    def valid(self: Embedding[Autodiff[I]]) -> Embedding[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


def with_zero_row(weight: Tensor[B], row: int | None) -> Tensor[B]:
    """Return initial vectors with zeros in the row of padding, if there is one and they have values."""
    return weight if row is None or not is_filled(weight) else weight.at[row].set(0.0)
