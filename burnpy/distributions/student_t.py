"""Student's t distribution and the F distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, log_split, stirling_gap
from burnpy.distributions.distribution import Reparametrized, in_double
from burnpy.distributions.formulas import (
    at_end,
    computed,
    finite,
    gamma_entropy,
    log1p_of_square,
    quantile,
    with_ends,
    within,
)
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special import betainc
from burnpy.tensor.random_parameters import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class StudentT(Reparametrized[B]):
    """Student's t distribution of loc + scale · z, with the density of z proportional to (1 + z² / df)^(-(df + 1) / 2).

    Args:
        df: the degrees of freedom, above 0.
        loc: the location, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.

    >>> round(StudentT(3.0, device=NumPy).cdf(Tensor[NumPy].from_data(-3.182446)).item(), 4)
    0.025
    """

    df = Parameter(POSITIVE)
    loc = Parameter(FINITE)
    scale = Parameter(POSITIVE)

    def __init__(
        self,
        df: ParameterLike[B],
        loc: ParameterLike[B] = 0.0,
        scale: ParameterLike[B] = 1.0,
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, df=df, loc=loc, scale=scale)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters."""
        return Tensor.student_t(self._shape(sample_shape), self.df, self.loc, self.scale, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("StudentT.log_prob", _log_prob, value, self.df, self.loc, self.scale)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        half = self.df * 0.5
        more = half + 0.5
        gaps = gamma_entropy(half) - gamma_entropy(more) + more.digamma() - 1.5 * half.digamma()
        spread = self.scale.log() + 0.5 * self.df.log()
        return (gaps + spread + 0.5 * (1.0 + math.log(math.pi))).expand(self.batch_shape)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits. With I the incomplete beta
        function, the tail beyond ±z is I(df / (df + z²); df / 2, ½), and what is between them is I(z² / (df + z²); ½,
        df / 2)."""
        df, loc, scale = self.df.double(), self.loc.double(), self.scale.double()
        z = (value.double() - loc) / scale
        zero = z == 0.0
        size = z.abs().masked_fill(zero, 0.5)
        between = (size < 1.0) & (df > 0.0)  # beyond, 0.5 - the part between would lose the tail's digits
        root = df.sqrt()
        far = size > 1e10 * root  # the square would overflow, and the tail is a power
        ratio = (size.where(~far, 1.0) / root).square()
        share = (1.0 + ratio).reciprocal()
        share = (ratio * share).where(between, share)
        part = betainc((df * 0.5).where(~between, 0.5), (df * 0.5).where(between, 0.5), share) * 0.5
        at_mode = computed("StudentT.cdf", _at_mode, df)
        log_tail = (at_mode - df * (size.where(far, 1.0) / root).log() - 0.5 * df.log()).where(far, 0.0)
        tail = part.where(~between, 0.5 - part).where(~far, log_tail.exp())
        near = 0.5 + z * at_mode.exp()  # the slope at the location
        return near.where(zero, tail.where(z < 0.0, 1.0 - tail)).to_dtype(self._dtype)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of the smaller tail."""
        df, p = self.df.double(), probability.double()
        upper = p > 0.5
        of, constant = StudentT(df, validate=False), StudentT(df.detach(), validate=False)
        x = quantile(of, constant, (1.0 - p).where(upper, p), lambda t: -(-t).exp(), (-709.0, 745.0))
        z = with_ends((-x).where(upper, x), probability, -math.inf, math.inf)
        return (self.loc.double() + self.scale.double() * z).to_dtype(self._dtype)

    @property
    def _center(self) -> Tensor[B]:
        return self.loc

    @property
    def mean(self) -> Tensor[B]:
        """The location; NaN for df up to 1."""
        return self.loc.expand(self.batch_shape).where(self.df > 1.0, math.nan)

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)

    @property
    def variance(self) -> Tensor[B]:
        """scale² · df / (df - 2); inf for df up to 2, and NaN up to 1."""
        finite = self.scale.square() * (self.df / (self.df - 2.0).masked_fill(self.df <= 2.0, 1.0))
        return finite.where(self.df > 2.0, math.inf).where(self.df > 1.0, math.nan)

    def valid(self: StudentT[Autodiff[I]]) -> StudentT[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class FisherSnedecor(Reparametrized[B]):
    """The F distribution of the ratio of two chi-squared numbers, each divided by its degrees of freedom.

    Args:
        df1: the degrees of freedom of the numerator, above 0.
        df2: the degrees of freedom of the denominator, above 0.
        device, validate: see `Distribution`.

    >>> round(FisherSnedecor(2.0, 10.0, device=NumPy).cdf(Tensor[NumPy].from_data(4.102821)).item(), 4)
    0.95
    """

    _ends = (0.0, math.inf)
    df1 = Parameter(POSITIVE)
    df2 = Parameter(POSITIVE)

    def __init__(
        self, df1: ParameterLike[B], df2: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True
    ) -> None:
        self._hold(device, validate, df1=df1, df2=df2)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values; their gradients hold the probabilities of numerator and denominator fixed."""
        shape = self._shape(sample_shape)
        halves = [(df * 0.5).expand(self.batch_shape) for df in (self.df1, self.df2)]
        first, second = (Tensor.gamma(shape, half, log=True, generator=generator) - half.log() for half in halves)
        return (first - second).exp().clamp(*POSITIVE.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("FisherSnedecor.log_prob", _fisher_snedecor, value, self.df1, self.df2)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, c = self.df1 * 0.5, self.df2 * 0.5
        total = a + c
        shapes = gamma_entropy(a) + gamma_entropy(c) - gamma_entropy(total)
        return shapes + total.digamma() - 2.0 * c.digamma() + c.log() - a.log()

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        df1, df2, x = self.df1.double(), self.df2.double(), value.double()
        zero = x == 0.0
        share = (1.0 + df2 / df1 / x.where(~zero, 1.0)).reciprocal()
        return betainc(df1 * 0.5, df2 * 0.5, share).masked_fill(zero, 0.0).to_dtype(self._dtype)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of logarithms."""
        df1, df2 = self.df1.double(), self.df2.double()
        of, constant = (FisherSnedecor(*x, validate=False) for x in ((df1, df2), (df1.detach(), df2.detach())))
        x = quantile(of, constant, probability, lambda t: t.exp(), (-690.0, 690.0))
        return with_ends(x, probability, 0.0, math.inf).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """df2 / (df2 - 2); inf for df2 up to 2."""
        finite = self.df2 > 2.0
        mean = (self.df2 / (self.df2 - 2.0).where(finite, 1.0)).where(finite, math.inf)
        return mean.expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """(df1 - 2) / df1 · df2 / (df2 + 2), at least 0."""
        return (self.df1 - 2.0).clamp(0.0) / self.df1 * (self.df2 / (self.df2 + 2.0))

    @property
    def variance(self) -> Tensor[B]:
        """2 · df2² · (df1 + df2 - 2) / (df1 · (df2 - 2)² · (df2 - 4)); inf for df2 up to 4, NaN up to 2."""
        finite = self.df2 > 4.0
        df1, df2 = self.df1, self.df2.where(finite, 5.0)
        variance = 2.0 * (df2 / (df2 - 2.0)).square() * ((df1 + df2 - 2.0) / df1 / (df2 - 4.0))
        return variance.where(finite, math.inf).where(self.df2 > 2.0, math.nan)

    def valid(self: FisherSnedecor[Autodiff[I]]) -> FisherSnedecor[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _at_mode(b: Any, df: Float) -> Float:
    """log(Γ((df + 1) / 2) / (Γ(df / 2) · √(π · df))), by Stirling's series of both gamma functions."""
    half = b.mul(df, 0.5)
    gaps = b.sub(stirling_gap(b, b.add(half, 0.5)), stirling_gap(b, half))
    ratio = b.add(b.mul(half, b.log1p(b.reciprocal(df))), -0.5)
    return b.add(b.add(gaps, ratio), -HALF_LOG_TAU)


def _log_prob(b: Any, x: Float, df: Float, loc: Float, scale: Float) -> Float:
    inside = finite(b, x)
    growth = log1p_of_square(b, b.sub(b.where(inside, x, 0.0), loc), b.mul(scale, b.sqrt(df)))
    at_mode = b.sub(_at_mode(b, df), b.log(scale))
    return within(b, x, inside, b.sub(at_mode, b.mul(b.add(b.mul(df, 0.5), 0.5), growth)))


def _fisher_snedecor(b: Any, x: Float, df1: Float, df2: Float) -> Float:
    """Compute the density of the beta distribution of df1 · x / (df1 · x + df2), times the derivative of that. Near 0
    the power of x has the density's exponent, whose slope would otherwise be a difference of large numbers."""
    both = b.discrete.bitwise_and
    inside, a, c, ratio = both(b.gt(x, 0.0), b.lt(x, math.inf)), b.mul(df1, 0.5), b.mul(df2, 0.5), b.div(df1, df2)
    near = both(both(inside, b.lt(x, 0.1)), both(b.lt(df1, 8.0), b.lt(ratio, 1e30)))
    y, small = b.where(both(inside, b.discrete.bitwise_not(near)), x, 1.0), b.where(near, x, 0.1)
    odds = b.div(b.mul(df1, y), df2)
    inverse = b.div(df2, b.mul(df1, y))
    log_share, log_rest = b.neg(b.log1p(inverse)), b.neg(b.log1p(odds))
    size = b.sub(b.add(b.log(a), b.log(c)), b.log(b.add(a, c)))
    at_mean = b.add(b.mul(size, 0.5), -HALF_LOG_TAU)
    split = log_split(b, a, c, b.exp(log_share), b.exp(log_rest), log_share, log_rest)
    total = b.add(a, c)
    gaps = b.sub(stirling_gap(b, total), b.add(stirling_gap(b, a), stirling_gap(b, c)))
    change = b.mul(total, b.sub(b.log1p(ratio), b.log1p(b.mul(ratio, small))))
    rising = b.add(b.add(b.add(at_mean, gaps), change), b.mul(b.add(a, -1.0), b.log(small)))
    value = within(b, x, inside, b.where(near, rising, b.sub(b.add(at_mean, split), b.log(y))))
    tail = b.neg(b.add(c, 1.0))
    return at_end(b, x, a, value, lambda zero: b.mul(tail, b.log1p(b.div(zero, c))))
