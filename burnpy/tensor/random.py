"""The implementation of the random factories, and of random values for `burnpy.tensor.methods.creation`."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float64, int64
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType, Float, Int, Shape
from burnpy.tensor.creation import Factory, Size, factory_shape
from burnpy.tensor.generator import drawn_from
from burnpy.tensor.host_data import fitting
from burnpy.tensor.tensor_base import describe


def uniform(cls: Any, shape: Size, low: Any, high: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.uniform``."""
    target = Factory(cls, device, "uniform", draws=True)
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    return target.wrap(uniform_values(target.device, sizes, low, high, target_dtype, generator, target.factory))


def normal(cls: Any, shape: Size, mean: Any, std: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.normal``."""
    target = Factory(cls, device, "normal", draws=True)
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    return target.wrap(normal_values(target.device, sizes, mean, std, target_dtype, generator, target.factory))


def truncated_normal(
    cls: Any,
    shape: Size,
    mean: Any,
    std: Any,
    low: Any,
    high: Any,
    dtype: Any,
    generator: Any,
    device: Any,
) -> Any:
    """Implement ``Tensor.truncated_normal``."""
    target = Factory(cls, device, "truncated_normal", draws=True)
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    m, s, a, z = (fitting(number, "float", target_dtype, target.factory) for number in (mean, std, low, high))
    return target.wrap(truncated_values(target.device, sizes, m, s, a, z, target_dtype, generator, target.factory))


def exponential(cls: Any, shape: Size, rate: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.exponential``."""
    target = Factory(cls, device, "exponential", draws=True)
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    return target.wrap(exponential_values(target.device, sizes, rate, target_dtype, generator, target.factory))


def randint(cls: Any, low: int, high: int, shape: Size, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``IntTensor.randint``."""
    target = Factory(cls, device, "randint", draws=True)
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    try:
        first, last = index(low), index(high) - 1
    except TypeError:
        raise ArgumentError(
            f"{target.factory}() got low={describe(low)} and high={describe(high)}; expected two ints"
        ) from None
    if last < first:
        raise ArgumentError(f"{target.factory}() got low={low} and high={high}; expected low < high")
    first, last = (fitting(bound, "int", target_dtype, target.factory) for bound in (first, last))
    rng = drawn_from(generator, target.device, target.factory)
    return target.wrap(target.backend.random_integers(rng, first, last + 1, sizes, target_dtype))


def permutation(cls: Any, n: int, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``IntTensor.permutation``."""
    target = Factory(cls, device, "permutation", draws=True)
    (count,) = factory_shape((n,), target.factory)
    target_dtype = target.dtype(dtype)
    fitting(max(count - 1, 0), "int", target_dtype, target.factory)
    rng = drawn_from(generator, target.device, target.factory)
    return target.wrap(target.backend.random_permutation(rng, count, target_dtype))


def uniform_values(
    device: Any, shape: Shape, low: Any, high: Any, dtype: DType, generator: Any, operation: str
) -> Float:
    """Return a primitive of random numbers drawn uniformly from [low, high).

    Raises:
        ArgumentError: ``low`` is above ``high``, or one of them is not finite.
    """
    low, high = fitting(low, "float", dtype, operation), fitting(high, "float", dtype, operation)
    if not math.isfinite(high - low) or high < low:
        raise ArgumentError(f"{operation}() got low={low} and high={high}; expected finite low <= high")
    samples = device.random_uniform(drawn_from(generator, device, operation), shape, dtype)
    if (low, high) == (0.0, 1.0):
        return samples
    scaled = device.add(device.mul(samples, high - low), low)
    with np.errstate(all="ignore"):
        below = float(np.nextafter(dtype.type(high), dtype.type(low)))  # rounding must not reach high
    return device.minimum(scaled, max(below, low)) if high > low else scaled


def normal_values(
    device: Any, shape: Shape, mean: Any, std: Any, dtype: DType, generator: Any, operation: str
) -> Float:
    """Return a primitive of random numbers from the normal distribution.

    Raises:
        ArgumentError: ``std`` is negative, or one of them is not finite.
    """
    mean, std = fitting(mean, "float", dtype, operation), fitting(std, "float", dtype, operation)
    if not (math.isfinite(mean) and math.isfinite(std)) or std < 0:
        raise ArgumentError(f"{operation}() got the mean {mean} and std {std}; give finite ones, std not negative")
    samples = device.random_normal(drawn_from(generator, device, operation), shape, dtype)
    if std != 1.0:
        samples = device.mul(samples, std)
    return samples if mean == 0.0 else device.add(samples, mean)


def truncated_values(
    device: Any,
    shape: Shape,
    mean: float,
    std: float,
    low: float,
    high: float,
    dtype: DType,
    generator: Any,
    operation: str,
) -> Float:
    """Return a primitive of random numbers from a truncated normal distribution, by the inverse of its distribution
    function.

    Raises:
        ArgumentError: there is no such distribution, or its interval lies more than 6 standard deviations from the
            mean, where the inverse of the distribution function of float64 has few right digits.
    """
    if not (math.isfinite(mean) and math.isfinite(std)) or std <= 0 or not low < high:
        raise ArgumentError(
            f"{operation}() got the mean {mean}, std {std} and the interval {low} … {high}; give a finite mean "
            "and std, std above 0, and low < high"
        )
    ends = ((low - mean) / std, (high - mean) / std)
    if ends[0] > 6.0 or ends[1] < -6.0:
        raise ArgumentError(
            f"{operation}() got the mean {mean}, std {std} and the interval {low} … {high}, which lies more than "
            "6 standard deviations from the mean; almost no number is drawn there"
        )
    sign = -1.0 if ends[0] > 0.0 else 1.0  # the lower tail has more digits than the upper one
    first, last = (math.erfc(-end / math.sqrt(2.0)) for end in (ends if sign > 0.0 else (-ends[1], -ends[0])))
    samples = device.random_uniform(drawn_from(generator, device, operation), shape, float64)
    inverse = device.erfinv(device.add(device.mul(samples, last - first), first - 1.0))
    drawn = device.cast(device.add(device.mul(inverse, sign * std * math.sqrt(2.0)), mean), dtype)
    return device.maximum(device.minimum(drawn, high), low)  # rounding must not leave the interval


def exponential_values(device: Any, shape: Shape, rate: Any, dtype: DType, generator: Any, operation: str) -> Float:
    """Return a primitive of random numbers from the exponential distribution: -log(1 - u) / rate, u uniform on [0, 1).

    Raises:
        ArgumentError: ``rate`` is not above 0, or not finite.
    """
    rate = fitting(rate, "float", dtype, operation)
    if not (math.isfinite(rate) and rate > 0):
        raise ArgumentError(f"{operation}() got the rate {rate}; give a finite one above 0")
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    samples = device.random_uniform(drawn_from(generator, device, operation), shape, wide)
    drawn = device.neg(device.log1p(device.neg(samples)))
    return device.cast(drawn if rate == 1.0 else device.div(drawn, rate), dtype)


def multinomial_values(device: Any, weights: Float, count: int, replacement: bool, generator: Any) -> Int:
    """Return a primitive of ``count`` indices for each row of ``weights`` (rows, classes), float64 and all valid.

    With replacement, the inverse of the cumulative distribution is found by bisection. Without, each draw is the
    largest of log(weight) + Gumbel noise among the classes that are left: the noise stays the same for all draws.
    Source: W. Kool et al., Stochastic Beams and Where to Find Them, 2019.
    """
    d = device.discrete
    rows, classes = weights.shape
    rng = drawn_from(generator, device, "multinomial")
    if replacement:
        cumulative = device.cumsum(weights, 1)
        total = device.slice(cumulative, (slice(None, None, 1), slice(classes - 1, classes, 1)))
        below_one = 1.0 - 2.0**-52  # rounding must not reach the total
        target = device.mul(device.mul(device.random_uniform(rng, (rows, count), float64), below_one), total)
        low, high = d.full((rows, count), 0, int64), d.full((rows, count), classes - 1, int64)
        for _ in range((classes - 1).bit_length()):
            middle = d.floor_divide(d.add(low, high), 2)
            further = device.le(device.gather(cumulative, 1, middle), target)
            low, high = d.where(further, d.add(middle, 1), low), d.where(further, high, middle)
        return low
    noise = device.log(device.neg(device.log(device.random_uniform(rng, (rows, classes), float64))))
    keys = device.sub(device.log(weights), noise)
    drawn = []
    for _ in range(count):
        best = d.reshape(device.argmax(keys, 1, False), (rows, 1))
        keys = device.scatter(keys, 1, best, device.full((rows, 1), -math.inf, float64))
        drawn.append(best)
    return d.cat(drawn, 1)
