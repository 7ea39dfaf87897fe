"""Formulas of densities, which are one pass over the memory, and quantiles by halving an interval.

See `Backend.fused`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, digamma_gap, log_split, stirling_gap
from burnpy.backend.numerics.special import log_gamma_near_one
from burnpy.backend.primitives import Bool, Float
from burnpy.tensor.operand_checks import broadcast_shape, together
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import describe, new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.operations.programs import Formula
    from burnpy.distributions.distribution import Distribution

EULER = 0.5772156649015329
_LEAST_EXPANDED = 2048
"""The least number of elements for which one pass over expanded operands is faster than several that broadcast."""


def computed(called: str, formula: Callable[..., Float], *operands: Tensor[B]) -> Tensor[B]:
    """Return the tensor that a formula gives for float tensors that broadcast.

    Args:
        called: the method, for messages: "Normal.log_prob".
        formula: an elementwise function ``f(b, *primitives)`` of a backend, which returns its result. It is known by
            identity, as for `Backend.fused`: a function made anew for each call would be compiled for each call.
        operands: the tensors, a value first.

    Raises:
        KindError: the value is not a float tensor.
        ShapeError: the shapes do not broadcast.
        DeviceError: they are on different devices.
    """
    if not isinstance(operands[0], Tensor):
        raise KindError(f"{called}() got {describe(operands[0])}; expected a float Tensor")
    tensors = together(called, *operands)
    device: Any = tensors[0]._device
    primitives = device.promote(*[x._primitive for x in tensors])
    dtype = primitives[0].dtype
    if dtype.itemsize < 4:
        primitives = [device.cast(x, float32) for x in primitives]
    shapes = [x.shape for x in primitives]
    shape = broadcast_shape(*shapes)
    if shape is None:
        raise ShapeError(
            f"{called}() got a value of shape {shapes[0]}, which does not broadcast with parameters of shapes "
            f"{', '.join(map(str, shapes[1:]))}"
        )
    if math.prod(shape) >= _LEAST_EXPANDED and not device.fuses(primitives):
        expanded = [x if x.shape == shape else device.expand(x, shape) for x in primitives]
        primitives = expanded if device.fuses(expanded) else primitives
    (out,) = device.fused(_of_results(formula), primitives)
    return new_tensor(Tensor, device, out if out.dtype == dtype else device.cast(out, dtype))  # type: ignore[no-any-return]  # of that class


@cache
def _of_results(formula: Callable[..., Float]) -> Formula:
    """Return the formula as one with a tuple of results, the same for each call."""

    @wraps(formula)
    def results(b: Any, *primitives: Float) -> tuple[Float]:
        return (formula(b, *primitives),)

    return results


def replaced(b: Any, condition: Bool, x: Float, number: float) -> Float:
    """Return x with a number where a condition holds, through which no gradient passes there."""
    return b.where(b.discrete.bitwise_not(condition), x, number)


def impossible(b: Any, condition: Bool, x: Float) -> Float:
    """Return x, a logarithm of a density, with -inf where a condition holds."""
    return replaced(b, condition, x, -math.inf)


def within(b: Any, x: Float, inside: Bool, value: Float) -> Float:
    """Return a logarithm of a density at x where x is inside of the support; elsewhere -inf, and NaN at NaN."""
    return b.where(inside, value, b.where(b.ne(x, x), x, -math.inf))


def at_end(b: Any, x: Float, power: Float, value: Float, exponential: Callable[[Float], Float]) -> Float:
    """Return a logarithm of a density of x > 0 that goes as x^(power - 1), with its limit at 0. ``exponential``
    computes it from x for a power of 1, so that its derivatives at 0 are right."""
    end = b.eq(x, 0.0)
    zero = b.where(end, x, 0.0)
    limit = b.where(b.gt(power, 1.0), b.full(power.shape, -math.inf, power.dtype), math.inf)
    return b.where(end, b.where(b.eq(power, 1.0), exponential(zero), limit), value)


def of_mass(b: Any, x: Float, inside: Bool, value: Float) -> Float:
    """Return the same for a logarithm of a probability, through which no gradient passes where that is 0."""
    return within(b, x, b.discrete.bitwise_and(inside, b.ne(value, -math.inf)), value)


def finite(b: Any, x: Float) -> Bool:
    """Return where x is finite."""
    return b.lt(b.abs(x), math.inf)


def whole(b: Any, x: Float) -> Bool:
    """Return where x is a whole number, 0 or larger."""
    return b.discrete.bitwise_and(b.discrete.bitwise_and(b.ge(x, 0.0), b.lt(x, math.inf)), b.eq(x, b.floor(x)))


def log_of(b: Any, p: Float) -> Float:
    """Compute log(p), whose derivative at 0 is 0: a probability that underflowed moves nothing."""
    possible = b.ne(p, 0.0)
    return b.where(possible, b.log(b.where(possible, p, 1.0)), -math.inf)


def log_of_rest(b: Any, p: Float) -> Float:
    """Compute log(1 - p), whose derivative at 1 is 0."""
    possible = b.ne(p, 1.0)
    return b.where(possible, b.log1p(b.neg(b.where(possible, p, 0.0))), -math.inf)


def log_binomial(b: Any, successes: Float, failures: Float, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    """Compute log(pˢ · qᶠ · Γ(s + f + 1) / (Γ(s + 1) · Γ(f + 1))) for numbers s and f, 0 or larger, and q = 1 - p."""
    d = b.discrete
    none, all_ = b.eq(successes, 0.0), b.eq(failures, 0.0)
    some_p, some_q = b.ne(log_p, -math.inf), b.ne(log_q, -math.inf)
    log_p, log_q = b.where(some_p, log_p, 0.0), b.where(some_q, log_q, 0.0)
    s, f = replaced(b, none, successes, 1.0), replaced(b, all_, failures, 1.0)
    size = b.log(b.mul(b.div(s, b.add(s, f)), b.mul(f, 2.0 * math.pi)))
    inside = b.sub(log_split(b, s, f, p, q, log_p, log_q), b.mul(size, 0.5))
    # Without failures the binomial coefficient is 1; its slope by their number is not 0.
    more, end = b.where(all_, b.add(successes, 1.0), 1.0), b.where(all_, failures, 0.0)
    ways = b.sub(b.sub(b.lgamma(b.add(more, end)), b.lgamma(more)), b.lgamma(b.add(end, 1.0)))
    powers = b.add(b.mul(successes, log_p), b.mul(failures, log_q))
    possible = d.bitwise_and(d.bitwise_or(none, some_p), d.bitwise_or(all_, some_q))
    return b.where(possible, b.where(d.bitwise_or(none, all_), b.add(powers, ways), inside), -math.inf)


def times_log(b: Any, x: Float, logarithm: Float) -> Float:
    """Compute x · logarithm, which is 0 for x = 0."""
    some = b.ne(logarithm, -math.inf)
    possible = b.discrete.bitwise_or(some, b.eq(x, 0.0))
    return b.where(possible, b.mul(x, b.where(some, logarithm, 0.0)), -math.inf)


def log_ratio(b: Any, x: Float, y: Float) -> Float:
    """Compute log(x / y) for x, y > 0, without cancellation where they are close, and without overflow."""
    gap = b.sub(x, y)
    close = b.le(b.abs(gap), b.mul(y, 0.5))
    near = b.log1p(b.div(b.where(close, gap, 0.0), y))
    return b.where(close, near, b.mul(b.log(b.div(b.sqrt(x), b.sqrt(y))), 2.0))


def log_quotient(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Compute `log_ratio` of tensors."""
    return computed("kl", log_ratio, x, y)


def log_factorial(b: Any, x: Float) -> Float:
    """Compute log Γ(1 + x) for x >= 0, without rounding 1 + x where x is small."""
    small = b.le(x, 1.0)
    near = log_gamma_near_one(b, b.where(small, x, 1.0))
    return b.where(small, near, b.lgamma(b.add(b.where(small, b.full((), 1.0, x.dtype), x), 1.0)))


def excess(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Compute x / y - 1 - log(x / y) for x, y > 0, which is not negative, without cancellation where they are close."""
    return computed("kl", _excess, x, y)


def log_gamma_excess(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Compute log Γ(x) - log Γ(y) - (x - y) · ψ(y) for x, y > 0, which is not negative, without large terms."""
    return computed("kl", _log_gamma_excess, x, y)


def gamma_entropy(a: Tensor[B]) -> Tensor[B]:
    """Compute the entropy log Γ(a) + a - (a - 1) · ψ(a) of a gamma distribution of rate 1, without large terms."""
    return computed("entropy", _gamma_entropy, a)


def relative_entropy(p: Tensor[B], q: Tensor[B], log_p: Tensor[B], log_q: Tensor[B]) -> Tensor[B]:
    """Compute p · log(p / q) - p + q for p, q >= 0, which is not negative; the logarithm has no slope where p is 0."""
    return computed("kl", _relative_entropy, p, q, log_p, log_q)


def _excess(b: Any, x: Float, y: Float) -> Float:
    gap = b.sub(x, y)
    close = b.le(b.abs(gap), b.mul(y, 0.1))
    near = _near_excess(b, b.div(b.where(close, gap, 0.0), y))
    return b.where(close, near, b.sub(b.div(gap, y), log_ratio(b, x, y)))


def _near_excess(b: Any, x: Float) -> Float:
    """Compute x - log(1 + x) for x next to 0, by the series of x - 2 · artanh(x / (2 + x))."""
    s = b.div(x, b.add(x, 2.0))
    square, series = b.mul(s, s), b.mul(s, 0.0)
    for power in (13, 11, 9, 7, 5, 3):
        series = b.add(b.mul(series, square), 1.0 / power)
    return b.mul(s, b.sub(x, b.mul(b.mul(square, series), 2.0)))


def _log_gamma_excess(b: Any, x: Float, y: Float) -> Float:
    """Compute `log_gamma_excess`, by Stirling's series: x · excess(y / x) + excess(x / y) / 2 and the gaps."""
    large = _relative_entropy(b, x, y, b.log(x), b.log(y))
    gaps = b.add(b.sub(stirling_gap(b, x), stirling_gap(b, y)), b.mul(b.sub(x, y), digamma_gap(b, y)))
    return b.add(b.add(large, b.mul(_excess(b, x, y), 0.5)), gaps)


def _gamma_entropy(b: Any, a: Float) -> Float:
    size = b.add(b.mul(b.log(a), 0.5), 0.5 + HALF_LOG_TAU)
    gaps = b.add(stirling_gap(b, a), b.mul(b.add(a, -1.0), digamma_gap(b, a)))
    return b.add(size, b.sub(gaps, b.mul(b.reciprocal(a), 0.5)))


def _relative_entropy(b: Any, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    d = b.discrete
    some = b.ne(p, 0.0)
    divisor = b.where(some, p, 1.0)
    change = b.div(b.sub(q, divisor), divisor)
    close = d.bitwise_and(some, b.le(b.abs(change), 0.1))
    near = b.mul(p, _near_excess(b, b.where(close, change, 0.0)))
    ratio = b.where(some, b.sub(b.where(some, log_p, 0.0), log_q), 0.0)
    return b.where(close, near, b.add(b.sub(q, p), b.mul(p, ratio)))


def on_simplex(value: Tensor[B], *, closed: bool = False) -> BoolTensor[B]:
    """Return where vectors are probabilities, whose sum is 1 up to rounding; above 0, or 0 as well."""
    tolerance = {8: 1e-6, 4: 1e-4}.get(value.dtype.itemsize, 2e-2)
    fits = (value >= 0.0 if closed else value > 0.0).all(dim=-1)
    return fits & ((value.sum(dim=-1) - 1.0).abs() <= tolerance)


def log1p_of_square(b: Any, x: Float, root: Float) -> Float:
    """Compute log(1 + (x / root)²) without overflow, for root > 0."""
    size = b.abs(x)
    far = b.ge(size, root)
    divisor = b.where(far, size, 1.0)
    ratio = b.where(far, b.div(root, divisor), b.div(replaced(b, far, x, 0.0), root))
    return b.add(b.log1p(b.mul(ratio, ratio)), b.where(far, b.mul(b.sub(b.log(divisor), b.log(root)), 2.0), 0.0))


_HALVINGS = 64
"""The halvings of an interval of logarithms, after which float64 has no number left inside."""


def quantile(
    of: Distribution[B, Tensor[B]],
    constant: Distribution[B, Tensor[B]],
    probability: Tensor[B],
    mapped: Callable[[Tensor[B]], Tensor[B]],
    ends: tuple[float, float],
) -> Tensor[B]:
    """Return x with ``of.cdf(x) == probability``, in float64.

    The interval is halved a fixed number of times, so that plans and `vmap` have it, too. Two steps of Newton's method
    follow, so that derivatives with respect to the probability and the parameters are right, first and second ones. A
    quantile beyond the interval, which no float64 is near, is where ±∞ is mapped to.

    Args:
        of: the distribution, of float64 parameters.
        constant: the same distribution, without gradients.
        probability: from 0 to 1; beyond, and at both ends, the result has no meaning.
        mapped: an increasing function from the real numbers to the distribution's support.
        ends: of the interval.
    """
    p = probability.double()
    wanted = p.detach() + constant.mean.detach().double().zeros_like()
    low, high = wanted.full_like(ends[0]), wanted.full_like(ends[1])
    for _ in range(_HALVINGS):
        middle = (low + high) * 0.5
        below = constant.cdf(mapped(middle)) < wanted
        low, high = middle.where(below, low), high.where(below, middle)
    x, limits = refined(of, mapped(high), p), [mapped(high.full_like(end)) for end in (-math.inf, math.inf)]
    return x.where(constant.cdf(mapped(high.full_like(ends[0]))) <= wanted, limits[0]).where(
        constant.cdf(mapped(high.full_like(ends[1]))) >= wanted, limits[1]
    )


def refined(of: Distribution[B, Tensor[B]], x: Tensor[B], p: Tensor[B]) -> Tensor[B]:
    """Return a quantile x after two steps of Newton's method, which give it its derivatives. Where no number is near
    the quantile, x is a constant."""
    density, error = of.log_prob(x).exp().detach(), of.cdf(x).detach() - p.detach()
    usable = (density > 1e-290) & density.isfinite() & (error.abs() <= 1e-3 * p.detach())
    mean = of.mean.detach().double()  # elsewhere, derivatives at x may be NaN; 0.5 is in all supports
    near = x.where(usable, mean.where(mean.isfinite(), 0.5))
    p = p.where(usable, of.cdf(near).detach())  # there, both steps are 0
    for _ in range(2):
        near = near - (of.cdf(near) - p) / of.log_prob(near).exp()
    return near.where(usable, x)


def with_ends(x: Tensor[B], probability: Tensor[B], low: float, high: float) -> Tensor[B]:
    """Return quantiles with the ends of the support at 0 and at 1."""
    return x.where(probability > 0.0, low).where(probability < 1.0, high)


def least_count(of: Distribution[B, Tensor[B]], probability: Tensor[B], most: Tensor[B] | float) -> Tensor[B]:
    """Return the least whole number whose ``of.cdf`` is a probability or more, by halving an interval up to 2⁵³.

    Args:
        of: the distribution of whole numbers.
        probability: from 0 to 1.
        most: the largest number, the quantile of 1.
    """
    exact = of._doubled()
    wanted = probability.detach().double()
    reached = wanted * (1.0 - 2.0**-49)  # a probability that `cdf` rounded down is still its own
    low = wanted * 0.0 - 1.0 + exact.mean.detach().zeros_like()
    high = low.full_like(2.0**53)
    for _ in range(54):
        middle = ((low + high) * 0.5).floor()
        enough = exact.cdf(middle).detach() >= reached
        low, high = low.where(enough, middle), middle.where(enough, high)
    return high.where(wanted < 1.0, most).to_dtype(of._dtype)
