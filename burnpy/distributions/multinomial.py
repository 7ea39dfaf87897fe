"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.categorical import OfClasses
from burnpy.distributions.parameters import ParameterLike
from burnpy.distributions.successes import Binomial
from burnpy.nn.module import rebound
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Multinomial(OfClasses[B, Tensor[B]]):
    """The distribution of the numbers of draws from each of n classes.

    Args:
        total_count: the number of draws, an int.
        probs: relative probabilities (…, n), which need not add up to 1.
        logits: their logarithms, up to a constant, in place of ``probs``.
        validate: whether to check the parameters' numbers.

    >>> d = Multinomial(2, Tensor[NumPy].from_data([1.0, 1.0]))
    >>> d.log_prob(Tensor[NumPy].from_data([[2.0, 0.0], [1.0, 1.0], [1.0, 0.0]])).exp().tolist()
    [0.25, 0.5, 0.0]
    """

    def __init__(
        self,
        total_count: int,
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(probs, logits=logits, validate=validate)
        argument: object = total_count
        if not isinstance(argument, int) or not 0 <= argument <= 2**53:
            raise ArgumentError(f"Multinomial() got total_count={total_count!r:.80}; expected an int from 0 to 2**53")
        self.total_count = total_count

    @property
    def event_shape(self) -> Shape:
        """The number of classes."""
        return (self.num_classes,)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of draws, as floats: of each class a binomial one, given the classes before it."""
        shape = self._shape(sample_shape)[:-1]
        probs = self._log_probs().detach().double().exp()
        left = probs.flip(-1).cumsum(-1).flip(-1)  # the probability of this class and those after it
        share = (probs / left).clamp(0.0, 1.0).masked_fill(left <= 0.0, 0.0)
        remaining = Tensor.full(shape, float(self.total_count), dtype="float64", device=self.device)
        counts = []
        for k in range(self.num_classes - 1):
            count = Tensor.binomial(shape, remaining, share[..., k], generator=generator)
            counts.append(count)
            remaining = remaining - count
        return stack([*counts, remaining], dim=-1).to_dtype(self._dtype)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf unless the numbers are whole and add up to ``total_count``."""
        whole = ((value >= 0.0) & (value == value.floor())).all(dim=-1)
        fits = whole & (value.sum(dim=-1) == float(self.total_count))
        none = value == 0.0
        terms = value * self._log_probs().masked_fill(none, 0.0) - (value.clamp(0.0) + 1.0).lgamma()
        total = terms.sum(dim=-1) + math.lgamma(self.total_count + 1.0)
        return total.where(fits & (total > -math.inf), -math.inf)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs."""
        return self._shares() * float(self.total_count)

    @property
    def variance(self) -> Tensor[B]:
        """total_count · probs · (1 - probs)."""
        p = self._shares()
        return p * (1.0 - p) * float(self.total_count)

    def entropy(self) -> Tensor[B]:
        """Return the entropy, by a sum over the numbers of each class, from 0 to ``total_count``, in as much memory."""
        of_one_draw, p = super().entropy(), self._shares()
        numbers = Tensor.arange(self.total_count + 1, dtype=self._dtype, device=self.device)
        numbers = numbers.reshape(-1, *(1,) * p.ndim)
        chance = Binomial(self.total_count, p, validate=False).log_prob(numbers).exp()
        log_factorials = (chance * (numbers + 1.0).lgamma()).sum(dim=(0, -1))
        return of_one_draw * float(self.total_count) - math.lgamma(self.total_count + 1.0) + log_factorials

    def valid(self: Multinomial[Autodiff[I]]) -> Multinomial[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)
