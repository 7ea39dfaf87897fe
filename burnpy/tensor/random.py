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
from burnpy.tensor.draws import FINITE, NOT_NEGATIVE, POSITIVE, Draw
from burnpy.tensor.generator import drawn_from
from burnpy.tensor.host_data import fitting
from burnpy.tensor.operands import refuse_unless
from burnpy.tensor.tensor_base import TensorBase, describe


def uniform(cls: Any, shape: Size, low: Any, high: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.uniform``."""
    if not (isinstance(low, TensorBase) or isinstance(high, TensorBase)):
        target = Factory(cls, device, "uniform", draws=True)
        target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
        return target.wrap(uniform_values(target.device, sizes, low, high, target_dtype, generator, target.factory))
    draw = Draw(cls, "uniform", shape, dtype, generator, device, low=(low, FINITE), high=(high, FINITE))
    d, first, last = draw.device, draw.full("low"), draw.full("high")
    message = f"{draw.factory}() got an element of low above the one of high; expected low <= high"
    refuse_unless(d, d.le(d.detach(first), d.detach(last)), ArgumentError(message))
    samples = d.add(d.mul(d.random_uniform(draw.rng(), draw.shape, draw.dtype), d.sub(last, first)), first)
    return draw.wrap(d.where(d.lt(d.detach(samples), d.detach(last)), samples, first))  # rounding must not reach high


def normal(cls: Any, shape: Size, mean: Any, std: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.normal``."""
    if not (isinstance(mean, TensorBase) or isinstance(std, TensorBase)):
        target = Factory(cls, device, "normal", draws=True)
        target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
        return target.wrap(normal_values(target.device, sizes, mean, std, target_dtype, generator, target.factory))
    draw = Draw(cls, "normal", shape, dtype, generator, device, mean=(mean, FINITE), std=(std, NOT_NEGATIVE))
    return draw.scaled(draw.device.random_normal(draw.rng(), draw.shape, draw.dtype), "mean", "std")


def exponential(cls: Any, shape: Size, rate: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.exponential``."""
    draw = Draw(cls, "exponential", shape, dtype, generator, device, rate=(rate, POSITIVE))
    by = draw.value("rate")
    drawn = draw.device.random_exponential(draw.rng(), draw.shape, draw.dtype)
    return draw.wrap(drawn if isinstance(by, float) and by == 1.0 else draw.device.div(drawn, by))


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


def multinomial_values(device: Any, weights: Float, count: int, replacement: bool, generator: Any) -> Int:
    """Return a primitive of ``count`` indices for each row of ``weights`` (rows, classes), float64 and all valid.

    With replacement, the inverse of the cumulative distribution is found by bisection. Without, the draws are the
    largest of log(weight) + Gumbel noise, in order, the noise being the same for all draws.
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
    keys = device.sub(device.log(weights), device.log(device.random_exponential(rng, (rows, classes), float64)))
    return device.topk_index(keys, 1, count, True)
