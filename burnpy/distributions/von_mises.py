"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.distribution import Distribution
from burnpy.distributions.formulas import computed
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.functions import i0e, i1e
from burnpy.tensor.random_parameters import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator

_ROUNDS = 32
"""The proposals for each sample. Two of three are accepted, so that all fail with a probability below 1e-15."""


class VonMises(Distribution[B, Tensor[B]]):
    """The von Mises distribution of angles from -π to π.

    Its density is proportional to exp(concentration · cos(x - loc)).

    Args:
        loc: the mean angle.
        concentration: 1 / variance for large ones, above 0.
        device, validate: see `Distribution`.

    >>> VonMises(1.0, 400.0, device=NumPy).sample((1000,)).mean().round(decimals=1).item()
    1.0
    """

    loc = Parameter(FINITE)
    concentration = Parameter(POSITIVE)

    def __init__(
        self,
        loc: ParameterLike[B],
        concentration: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, loc=loc, concentration=concentration)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw angles by rejection from a wrapped Cauchy distribution; a fixed number of proposals, for plans.

        Source: Best and Fisher, Efficient Simulation of the von Mises Distribution, 1979.
        """
        shape, k = self._shape(sample_shape), self.concentration.detach().double()
        tau = 1.0 + (1.0 + 4.0 * k.square()).sqrt()
        rho = 2.0 * k / (tau + (2.0 * tau).sqrt())  # (tau - √(2 tau)) / (2 k), without cancellation
        r = (1.0 + rho.square()) / (2.0 * rho)
        settings: Any = {"dtype": "float64", "generator": generator, "device": self.device}
        angle = Tensor.zeros(shape, dtype="float64", device=self.device)
        pending = angle == 0.0
        for _ in range(_ROUNDS):
            z = (Tensor.uniform(shape, **settings) * math.pi).cos()
            f = (1.0 + r * z) / (r + z)
            c = k * (r - f)
            level = Tensor.uniform(shape, **settings)
            accepted = pending & ((c * (2.0 - c) > level) | ((c / level).log() + 1.0 - c >= 0.0))
            side = (Tensor.uniform(shape, **settings) - 0.5).sign()
            angle = (f.clamp(-1.0, 1.0).acos() * side).where(accepted, angle)
            pending = pending & ~accepted
            if self.device.discrete.eager_checks and not pending.any().item():
                break
        turned = angle + self.loc.detach() + math.pi
        return (turned - (turned / (2.0 * math.pi)).floor() * (2.0 * math.pi) - math.pi).to_dtype(self._dtype)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density, which has period 2π."""
        return computed("VonMises.log_prob", _log_prob, value, self.loc, self.concentration)

    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        k = self.concentration
        return ((2.0 * math.pi * i0e(k)).log() + k * self._shortfall()).expand(self.batch_shape)

    def _shortfall(self) -> Tensor[B]:
        return 1.0 - i1e(self.concentration) / i0e(self.concentration)

    @property
    def mean(self) -> Tensor[B]:
        """The mean angle."""
        return self.loc.expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """The mean angle."""
        return self.mean

    @property
    def variance(self) -> Tensor[B]:
        """The circular variance 1 - I₁(concentration) / I₀(concentration)."""
        return self._shortfall().expand(self.batch_shape)

    def valid(self: VonMises[Autodiff[I]]) -> VonMises[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, k: Float) -> tuple[Float]:
    sine, at_mode = b.sin(b.mul(b.sub(x, loc), 0.5)), b.neg(b.add(b.log(b.i0e(k)), math.log(2.0 * math.pi)))
    return (b.sub(at_mode, b.mul(b.mul(b.mul(sine, sine), k), 2.0)),)
