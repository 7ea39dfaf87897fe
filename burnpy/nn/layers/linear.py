"""`Linear`: x @ weight + bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.linear import linear
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Linear(Module[B]):
    """``x @ weight + bias``, from (…, in_features) to (…, out_features).

    The weight is (in_features, out_features), as it is multiplied; PyTorch's is the transpose.

    Args:
        in_features: the size of the last dimension of what comes in.
        out_features: the size of the last dimension of what goes out.
        bias: whether something is added.
        device: where the layer is.
        initializer: of the weight; as of the bias uniform in ±1/√in_features, unless given.
        generator: what to draw the first values from.

    Raises:
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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
        first = around_zero(in_features)
        fans = (in_features, out_features)
        self.weight = Param((initializer or first)(fans, device=device, fans=fans, generator=generator))
        self.bias = Param(first((out_features,), device=device, generator=generator)) if bias else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From (…, in_features) to (…, out_features)."""
        return linear(x, self.weight.value, None if self.bias is None else self.bias.value)

    @property
    def in_features(self) -> int:
        """The size of the last dimension of what comes in."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """The size of the last dimension of what goes out."""
        return self.weight.shape[1]

    def torch_names(self) -> dict[str, str]:
        """PyTorch's names, where they differ: see `burnpy.record.torch_names`."""
        return {"weight": "weight.T"}

    def valid(self: Linear[Autodiff[I]]) -> Linear[I]:
        """The same layer on the inner backend."""
        return rebound(self)
