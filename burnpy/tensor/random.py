"""Random floats and ints: uniform, normal and others, and permutations.

Signatures are as in `burnpy.tensor.factories`.
"""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from burnpy.backend.dtypes import dtype_of, float64, tiny
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType, Float, Shape
from burnpy.tensor.creation import Factory, factory_shape
from burnpy.tensor.generator import Generator, drawn_from
from burnpy.tensor.host_data import DTypeLike, fitting, float_of
from burnpy.tensor.levels import drawing
from burnpy.tensor.operand_checks import refuse_unless
from burnpy.tensor.random_parameters import ANY, FINITE, NOT_NEGATIVE, POSITIVE, Draw
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.creation import Size

    Parameter = Any
    """A parameter of a distribution: a Python number, or a float tensor that broadcasts to the shape of the numbers."""


_FARTHEST = 1e100
"""The standard deviations to which ends are limited, so that their squares are finite."""


class RandomFactories(TensorBase[B]):
    """Random float tensors, with parameters that are numbers or tensors."""

    __slots__ = ()

    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: Parameter = 0.0,
        high: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers drawn uniformly from [low, high).

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. Tensors as bounds broadcast
        to ``shape``, and have gradients.

        Raises:
            ArgumentError: ``low`` is above ``high``, or one of them is not finite.
        """
        if not (isinstance(low, TensorBase) or isinstance(high, TensorBase)):
            target = Factory(cls, device, "uniform", draws=True)
            target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory, low)
            return target.wrap(uniform_values(target.device, sizes, low, high, target_dtype, generator, target.factory))
        draw = Draw(cls, "uniform", shape, dtype, generator, device, low=(low, FINITE), high=(high, FINITE))
        d, first, last = draw.device, draw.full("low"), draw.full("high")
        message = f"{draw.factory}() got an element of low above the one of high; expected low <= high"
        refuse_unless(d, d.le(d.detach(first), d.detach(last)), ArgumentError(message))
        samples = d.add(d.mul(d.random_uniform(draw.rng(), draw.shape, draw.dtype), d.sub(last, first)), first)
        below = d.lt(d.detach(samples), d.detach(last))  # rounding must not reach high
        return draw.wrap(d.where(below, samples, first))

    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: Parameter = 0.0,
        std: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers drawn from the normal distribution with the given mean and standard deviation.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. Tensors as parameters
        broadcast to ``shape``, and have gradients.

        Raises:
            ArgumentError: ``std`` is negative, or one of them is not finite.

        >>> Tensor[NumPy].normal((2, 3), std=0.02, generator=Generator(0)).shape
        (2, 3)
        """
        if not (isinstance(mean, TensorBase) or isinstance(std, TensorBase)):
            target = Factory(cls, device, "normal", draws=True)
            target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory, mean)
            return target.wrap(normal_values(target.device, sizes, mean, std, target_dtype, generator, target.factory))
        draw = Draw(cls, "normal", shape, dtype, generator, device, mean=(mean, FINITE), std=(std, NOT_NEGATIVE))
        return draw.scaled(draw.device.random_normal(draw.rng(), draw.shape, draw.dtype), "mean", "std")

    @classmethod
    def truncated_normal(
        cls,
        shape: Size,
        mean: Parameter = 0.0,
        std: Parameter = 1.0,
        low: Parameter = -2.0,
        high: Parameter = 2.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the normal distribution of the given mean and standard deviation, within [low, high].

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. ``low`` and ``high`` are in
        units of the numbers, not of ``std``, and may be infinite; numbers far from the mean are exact too. Tensors as
        parameters broadcast to ``shape``, and have gradients.

        Raises:
            ArgumentError: ``std`` is not above 0, ``low`` is not below ``high``, or the mean or ``std`` is not finite.

        >>> x = Tensor[NumPy].truncated_normal((100,), std=0.02, low=-0.04, high=0.04, generator=Generator(0))
        >>> x.abs().amax().item() <= 0.04
        True
        """
        # The probability up to a number of the standard distribution is p₁ · (1 - v · (1 - p₀ / p₁)), where p₀ and p₁
        # are those of both ends, and v is uniform; its inverse is taken in float64, of logarithms. An interval above
        # the mean is mirrored, as small probabilities have more digits.
        draw = Draw(
            cls, "truncated_normal", shape, dtype, generator, device,
            mean=(mean, FINITE), std=(std, POSITIVE), low=(low, ANY), high=(high, ANY),
        )  # fmt: skip
        d = draw.device
        center, width, first, last = (draw.primitive(name, float64) for name in ("mean", "std", "low", "high"))
        message = f"{draw.factory}() got an interval from low to high that is empty"
        refuse_unless(d, d.lt(d.detach(first), d.detach(last)), ArgumentError(message))
        ends = [_standardized(d, bound, center, width) for bound in (first, last)]
        above = d.gt(d.detach(ends[0]), 0.0)
        near, far = d.where(above, d.neg(ends[1]), ends[0]), d.where(above, d.neg(ends[0]), ends[1])
        most = d.log_ndtr(far)
        rest = d.expm1(d.sub(d.log_ndtr(near), most))
        share = d.add(d.neg(d.random_uniform(draw.rng(), draw.shape, float64)), 1.0)
        inverse = d.ndtri_exp(d.add(d.log1p(d.mul(share, rest)), most))
        drawn = d.add(d.mul(d.where(above, d.neg(inverse), inverse), width), center)
        return draw.wrap(d.maximum(d.minimum(drawn, last), first))  # rounding must not leave the interval

    @classmethod
    def exponential(
        cls,
        shape: Size,
        rate: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers, 0 or larger, drawn from the exponential distribution, whose mean is 1 / ``rate``.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. A tensor as rate broadcasts
        to ``shape``, and has a gradient.

        Raises:
            ArgumentError: ``rate`` is not above 0, or not finite.

        >>> Tensor[NumPy].exponential((2, 3), rate=0.5, generator=Generator(0)).amin().item() >= 0.0
        True
        """
        draw = Draw(cls, "exponential", shape, dtype, generator, device, rate=(rate, POSITIVE))
        by = draw.value("rate")
        drawn = draw.device.random_exponential(draw.rng(), draw.shape, draw.dtype)
        return draw.wrap(drawn if isinstance(by, float) and by == 1.0 else draw.device.div(drawn, by))

    @classmethod
    def gumbel(
        cls,
        shape: Size,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the Gumbel distribution, with the density e^(-z - e^-z) of z = (x - loc) / scale.

        The arguments and errors are those of `gamma`. Tensors as parameters have gradients.

        >>> x = Tensor[NumPy].gumbel((10000,), generator=Generator(0))
        >>> round(x.mean().item(), 1)  # Euler's constant, 0.577
        0.6
        """
        draw = Draw(cls, "gumbel", shape, dtype, generator, device, loc=(loc, FINITE), scale=(scale, POSITIVE))
        d = draw.device
        wide = draw.dtype if draw.dtype.itemsize >= 4 else np.dtype(np.float32)  # 16 bits round small ones to 0
        drawn = d.random_exponential(draw.rng(), draw.shape, wide)
        noise = d.neg(d.log(d.maximum(drawn, tiny(wide))))
        return draw.scaled(d.cast(noise, draw.dtype), "loc", "scale")

    @classmethod
    def sobol(
        cls, shape: Size, *, start: int = 0, seed: int | None = None, dtype: DTypeLike | None = None, device: Any = None
    ) -> Any:
        """Points of the Sobol sequence in [0, 1)ⁿ, which fill the unit cube more evenly than random ones.

        Point k depends on k and the seed alone, so ``start`` continues a sequence. A number of points that is a power
        of 2, from a multiple of it on, is the most even.

        Args:
            shape: (points, dims), with at most 40 dims; up to 2³² points.
            start: the number of the first point.
            seed: a non-negative int to scramble the points by: each is then uniformly distributed, and they are
                as even as before. None for the sequence itself, whose first point is 0.
            dtype: the dtype of the result; by default float32.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.

        Raises:
            ShapeError: the shape is not (points, dims), or has too many dims.
            ArgumentError: the start or seed is negative or not an int, or the sequence ends before the last point.

        Source: Joe and Kuo, Constructing Sobol Sequences with Better Two-Dimensional Projections, 2008.

        >>> Tensor[NumPy].sobol((4, 2)).tolist()
        [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
        """
        from burnpy.tensor.generator import sobol

        return sobol(cls, shape, start, seed, dtype, device)


class RandomIntFactories(TensorBase[B]):
    """Random int tensors."""

    __slots__ = ()

    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: Size,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random ints drawn uniformly from low … high - 1.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device.

        Raises:
            ArgumentError: ``high`` is not above ``low``.
            DTypeError: the dtype cannot represent low … high - 1.
        """
        target = Factory(cls, device, "randint", draws=True)
        target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
        try:
            first, last = index(low), index(high) - 1
        except TypeError:
            raise ArgumentError(
                f"{target.factory}() got low={describe(low)} and high={describe(high)}; expected two ints, "
                "and then the shape, as in randint(0, 10, (2, 3))"
            ) from None
        if last < first:
            raise ArgumentError(f"{target.factory}() got low={low} and high={high}; expected low < high")
        first, last = (fitting(bound, "int", target_dtype, target.factory) for bound in (first, last))
        rng = drawn_from(generator, target.device, target.factory)
        return target.wrap(target.backend.random_integers(rng, first, last + 1, sizes, target_dtype))

    @classmethod
    def permutation(
        cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None, device: Any = None
    ) -> Any:
        """Return a random permutation of 0 … n - 1, as a 1-d tensor.

        >>> sorted(IntTensor[NumPy].permutation(4).tolist())
        [0, 1, 2, 3]
        """
        target = Factory(cls, device, "permutation", draws=True)
        (count,) = factory_shape((n,), target.factory)
        target_dtype = target.dtype(dtype)
        fitting(max(count - 1, 0), "int", target_dtype, target.factory)
        rng = drawn_from(generator, target.device, target.factory)
        return target.wrap(target.backend.random_permutation(rng, count, target_dtype))


def uniform_values(
    device: Any, shape: Shape, low: Any, high: Any, dtype: DType, generator: Any, operation: str
) -> Float:
    """Return a primitive of random numbers drawn uniformly from [low, high)."""
    low, high = float_of(low, dtype, operation), float_of(high, dtype, operation)
    if not math.isfinite(high - low) or high < low:
        raise ArgumentError(f"{operation}() got low={low} and high={high}; expected finite low <= high")
    samples = device.random_uniform(drawn_from(generator, device, operation), shape, dtype)
    if (low, high) == (0.0, 1.0):
        return samples
    samples = device.mul(samples, high - low)  # under one name, so that no more than two are in memory
    samples = device.add(samples, low)
    with np.errstate(all="ignore"):
        below = float(np.nextafter(dtype.type(high), dtype.type(low)))  # rounding must not reach high
    return device.minimum(samples, max(below, low)) if high > low else samples


def normal_values(
    device: Any, shape: Shape, mean: Any, std: Any, dtype: DType, generator: Any, operation: str
) -> Float:
    """Return a primitive of random numbers from the normal distribution."""
    mean, std = float_of(mean, dtype, operation), float_of(std, dtype, operation)
    if not (math.isfinite(mean) and math.isfinite(std)) or std < 0:
        raise ArgumentError(f"{operation}() got the mean {mean} and std {std}; give finite ones, std not negative")
    samples = device.random_normal(drawn_from(generator, device, operation), shape, dtype)
    if std != 1.0:
        samples = device.mul(samples, std)
    return samples if mean == 0.0 else device.add(samples, mean)


def _standardized(d: Any, bound: Float, mean: Float, std: Float) -> Float:
    """Return the standard deviations from the mean to a bound, limited to `_FARTHEST`."""
    finite = d.isfinite(d.detach(bound))
    inner = d.where(finite, bound, 0.0)
    distance = d.where(finite, d.div(d.sub(inner, mean), std), d.detach(bound))
    return d.clamp(distance, -_FARTHEST, _FARTHEST)


class RandomLike(TensorBase[B]):
    """Random floats in the shape and dtype of a tensor."""

    __slots__ = ()

    def uniform_like(
        self, low: float = 0.0, high: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random numbers drawn uniformly from [low, high), with this tensor's shape and, by default, its dtype."""
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, "float")
        like = drawing(self)
        return like._like(uniform_values(like._device, like.shape, low, high, target_dtype, generator, "uniform_like"))

    def normal_like(
        self, mean: float = 0.0, std: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random numbers from the normal distribution, with this tensor's shape and, by default, its dtype."""
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, "float")
        like = drawing(self)
        return like._like(normal_values(like._device, like.shape, mean, std, target_dtype, generator, "normal_like"))
