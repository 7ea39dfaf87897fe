"""The implementation of the random factories, and of random values for `burnpy.tensor.methods.random`."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType, Float, Shape
from burnpy.tensor.base import describe
from burnpy.tensor.creation import Factory, Size, shape_of
from burnpy.tensor.data import fitting
from burnpy.tensor.generator import drawn_from


def uniform(cls: Any, shape: Size, low: Any, high: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.uniform``."""
    target = Factory(cls, device, "uniform")
    target_dtype, sizes = target.dtype(dtype), shape_of(shape, target.factory)
    return target.wrap(uniform_values(target.device, sizes, low, high, target_dtype, generator, target.factory))


def normal(cls: Any, shape: Size, mean: Any, std: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.normal``."""
    target = Factory(cls, device, "normal")
    target_dtype, sizes = target.dtype(dtype), shape_of(shape, target.factory)
    return target.wrap(normal_values(target.device, sizes, mean, std, target_dtype, generator, target.factory))


def randint(cls: Any, low: int, high: int, shape: Size, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``IntTensor.randint``."""
    target = Factory(cls, device, "randint")
    target_dtype, sizes = target.dtype(dtype), shape_of(shape, target.factory)
    try:
        first, last = index(low), index(high) - 1
    except TypeError:
        raise ArgumentError(
            f"{target.factory}() draws ints and was given {describe(low)} and {describe(high)}; give two ints"
        ) from None
    if last < first:
        raise ArgumentError(
            f"{target.factory}() draws from low … high - 1 and was given {low} and {high}; give high > low"
        )
    first, last = (fitting(bound, "int", target_dtype, target.factory) for bound in (first, last))
    rng = drawn_from(generator, target.device, target.factory)
    return target.wrap(target.backend.random_integers(rng, first, last + 1, sizes, target_dtype))


def permutation(cls: Any, n: int, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``IntTensor.permutation``."""
    target = Factory(cls, device, "permutation")
    (count,) = shape_of((n,), target.factory)
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
        raise ArgumentError(
            f"{operation}() draws from low … high and was given {low} and {high}; give finite low <= high"
        )
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
        raise ArgumentError(
            f"{operation}() was given the mean {mean} and std {std}; give finite ones, std not negative"
        )
    samples = device.random_normal(drawn_from(generator, device, operation), shape, dtype)
    if std != 1.0:
        samples = device.mul(samples, std)
    return samples if mean == 0.0 else device.add(samples, mean)
