"""`LocationScale`: distributions of loc + scale · z, where z has a standard distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.distributions.distribution import Reparametrized
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.tensor.draws import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class LocationScale(Reparametrized[B]):
    """The base class of distributions of loc + scale · z.

    Args:
        loc: the location, any finite number.
        scale: the scale, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.
    """

    loc = Parameter(FINITE)
    scale = Parameter(POSITIVE)

    def __init__(
        self,
        loc: ParameterLike[B],
        scale: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, loc=loc, scale=scale)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw loc + scale · z."""
        standard = self._standard(self._shape(sample_shape), self._dtype, self.device, generator)
        return self.loc + self.scale * standard

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        """Draw z."""
        raise NotImplementedError
