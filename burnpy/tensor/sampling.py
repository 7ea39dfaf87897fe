"""Random tensors: the random factories, and samples from distributions that a tensor parametrizes."""

from __future__ import annotations

import math
from functools import cache
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import dtype_of, float32, float64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import DType, Shape
from burnpy.tensor.base import B, TensorBase, describe
from burnpy.tensor.creation import Factory, Size, shape_of
from burnpy.tensor.data import DTypeLike, fitting
from burnpy.tensor.ranges import refuse_unless

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.generator import Generator
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B2 = TypeVar("B2", bound=Backend)


@cache
def _drawing() -> Callable[[Generator | None, Any, str], np.random.Generator]:
    """Return `drawn_from`, imported at first use, so that `import burnpy` imports neither generators nor threads."""
    from burnpy.tensor.generator import drawn_from

    return drawn_from


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
    rng = _drawing()(generator, target.device, target.factory)
    return target.wrap(target.backend.random_integers(rng, first, last + 1, sizes, target_dtype))


def permutation(cls: Any, n: int, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``IntTensor.permutation``."""
    target = Factory(cls, device, "permutation")
    (count,) = shape_of((n,), target.factory)
    target_dtype = target.dtype(dtype)
    fitting(max(count - 1, 0), "int", target_dtype, target.factory)
    rng = _drawing()(generator, target.device, target.factory)
    return target.wrap(target.backend.random_permutation(rng, count, target_dtype))


def _uniform(device: Any, shape: Shape, low: Any, high: Any, dtype: DType, generator: Any, operation: str) -> Any:
    low, high = fitting(low, "float", dtype, operation), fitting(high, "float", dtype, operation)
    if not math.isfinite(high - low) or high < low:
        raise ArgumentError(
            f"{operation}() draws from low … high and was given {low} and {high}; give finite low <= high"
        )
    samples = device.random_uniform(_drawing()(generator, device, operation), shape, dtype)
    if (low, high) == (0.0, 1.0):
        return samples
    scaled = device.add(device.mul(samples, high - low), low)
    with np.errstate(all="ignore"):
        below = float(np.nextafter(dtype.type(high), dtype.type(low)))  # rounding must not reach high
    return device.minimum(scaled, max(below, low)) if high > low else scaled


def _normal(device: Any, shape: Shape, mean: Any, std: Any, dtype: DType, generator: Any, operation: str) -> Any:
    mean, std = fitting(mean, "float", dtype, operation), fitting(std, "float", dtype, operation)
    if not (math.isfinite(mean) and math.isfinite(std)) or std < 0:
        raise ArgumentError(
            f"{operation}() was given the mean {mean} and std {std}; give finite ones, std not negative"
        )
    samples = device.random_normal(_drawing()(generator, device, operation), shape, dtype)
    if std != 1.0:
        samples = device.mul(samples, std)
    return samples if mean == 0.0 else device.add(samples, mean)


class Filling(TensorBase[B]):
    """Methods that create a tensor of the shape, dtype and device of another one."""

    __slots__ = ()

    def zeros_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor of zeros (or False) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(False if self.kind == "bool" else 0, dtype, "zeros_like")

    def ones_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor of ones (or True) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(True if self.kind == "bool" else 1, dtype, "ones_like")

    def full_like(self, value: float, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor filled with ``value`` with this tensor's shape and, by default, its dtype.

        Raises:
            DTypeError: the value is of another kind, or does not fit the dtype.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 2]).full_like(7).tolist()
        [7, 7]
        """
        return self._filled_like(value, dtype, "full_like")

    def _filled_like(self, value: Any, dtype: Any, operation: str) -> Self:
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, self.kind)
        return self._like(
            self._backend.full(self.shape, fitting(value, self.kind, target_dtype, operation), target_dtype)
        )


class Sampling(Filling[B]):
    """Random float tensors. None of the methods is differentiable, and none is recorded in the graph."""

    __slots__ = ()

    @overload
    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...

    @overload
    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...

    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers drawn uniformly from [low, high).

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device.

        Raises:
            ArgumentError: ``low`` is above ``high``, or one of them is not finite.
        """
        target = Factory(cls, device, "uniform")
        target_dtype, sizes = target.dtype(dtype), shape_of(shape, target.factory)
        return target.wrap(_uniform(target.device, sizes, low, high, target_dtype, generator, target.factory))

    @overload
    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...

    @overload
    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...

    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers drawn from the normal distribution with the given mean and standard deviation.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device.

        Raises:
            ArgumentError: ``std`` is negative, or one of them is not finite.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].normal((2, 3), std=0.02, generator=Generator(0)).shape
        (2, 3)
        """
        target = Factory(cls, device, "normal")
        target_dtype, sizes = target.dtype(dtype), shape_of(shape, target.factory)
        return target.wrap(_normal(target.device, sizes, mean, std, target_dtype, generator, target.factory))

    def uniform_like(
        self, low: float = 0.0, high: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random numbers drawn uniformly from [low, high), with this tensor's shape and, by default, its dtype."""
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, "float")
        return self._like(_uniform(self._device, self.shape, low, high, target_dtype, generator, "uniform_like"))

    def normal_like(
        self, mean: float = 0.0, std: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random numbers from the normal distribution, with this tensor's shape and, by default, its dtype."""
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, "float")
        return self._like(_normal(self._device, self.shape, mean, std, target_dtype, generator, "normal_like"))

    def bernoulli(self, *, generator: Generator | None = None) -> Self:
        """Samples from the Bernoulli distributions whose probabilities are the elements: 1 or 0, of this dtype.

        Raises:
            ArgumentError: an element is not a probability: it is below 0, above 1 or NaN.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 1.0]).bernoulli().tolist()
        [0.0, 1.0]
        """
        device: Any = self._device
        discrete = device.discrete
        p = device.detach(self._primitive)
        valid = discrete.bitwise_and(device.ge(p, 0.0), device.le(p, 1.0))
        message = (
            f"bernoulli() takes probabilities, from 0 to 1, and was asked of a Tensor of shape {self.shape} with "
            "an element that is none; of logits, use x.sigmoid().bernoulli()"
        )
        refuse_unless(device, valid, ArgumentError(message))
        sample_dtype = (
            float64 if self.dtype == float64 else float32
        )  # 16-bit floats are too coarse to compare probabilities with
        samples = device.random_uniform(_drawing()(generator, device, "bernoulli"), self.shape, sample_dtype)
        return self._like(device.to_float(device.lt(samples, device.cast(p, sample_dtype)), self.dtype))

    def categorical(self, *, generator: Generator | None = None) -> IntTensor[B]:
        """Class indices of shape (…), drawn with the probabilities ``softmax(x, -1)`` for logits of shape (…, classes).

        Raises:
            ShapeError: there are no classes to draw from.
            ArgumentError: a row does not define a distribution: it has a NaN or +inf, or all of it is -inf.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[0.0, -99.0], [-99.0, 0.0]]).categorical().tolist()
        [0, 1]
        """
        device: Any = self._device
        shape = self.shape
        if not shape or shape[-1] == 0:
            raise ShapeError(
                f"categorical() takes logits of shape (…, classes), at least one class, not of shape {shape}"
            )
        last = len(shape) - 1
        logits = device.cast(device.detach(self._primitive), float64)  # in float32, rare classes would never be drawn
        message = (
            f"categorical() was asked of logits of shape {shape} with a row that describes no distribution: "
            "the largest logit of each must be finite"
        )
        refuse_unless(device, device.isfinite(device.amax(logits, (last,), False)), ArgumentError(message))
        samples = device.random_uniform(_drawing()(generator, device, "categorical"), shape, float64)
        gumbel = device.neg(device.log(device.neg(device.log(samples))))
        return self._int(device.argmax(device.add(logits, gumbel), last, False))
