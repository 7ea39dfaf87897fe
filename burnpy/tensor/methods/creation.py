"""Tensors like another one, filled or random, and samples from distributions that a tensor parametrizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import dtype_of, float32, float64, int64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Float, Int
from burnpy.tensor.dims import integer
from burnpy.tensor.generator import Generator, drawn_from
from burnpy.tensor.host_data import DTypeLike, fitting
from burnpy.tensor.levels import drawing
from burnpy.tensor.methods.random_factories import normal_values, uniform_values
from burnpy.tensor.operands import refuse_unless
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor


class Filling(TensorBase[B]):
    """Methods that create a tensor of the shape, dtype and device of another one."""

    __slots__ = ()

    def zeros_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of zeros (or False) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(False if self.kind == "bool" else 0, dtype, "zeros_like")

    def ones_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of ones (or True) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(True if self.kind == "bool" else 1, dtype, "ones_like")

    def full_like(self, value: float, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor filled with ``value`` with this tensor's shape and, by default, its dtype.

        Raises:
            DTypeError: the value is of another kind, or does not fit the dtype.

        >>> IntTensor[NumPy].from_data([1, 2]).full_like(7).tolist()
        [7, 7]
        """
        return self._filled_like(value, dtype, "full_like")

    def _filled_like(self, value: Any, dtype: Any, operation: str) -> Self:
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, self.kind)
        return self._like(
            self._backend.full(self.shape, fitting(value, self.kind, target_dtype, operation), target_dtype)
        )


class Random(TensorBase[B]):
    """Random float tensors. None of the methods is differentiable, and none is recorded in the graph."""

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

    def bernoulli(self, *, generator: Generator | None = None) -> Self:
        """Return samples from the Bernoulli distributions whose probabilities are the elements: 1 or 0, of this dtype.

        Raises:
            ArgumentError: an element is not a probability: it is below 0, above 1 or NaN.

        >>> Tensor[NumPy].from_data([0.0, 1.0]).bernoulli().tolist()
        [0.0, 1.0]
        """
        self = drawing(self)
        device: Any = self._device
        discrete = device.discrete
        p = device.detach(self._primitive)
        valid = discrete.bitwise_and(device.ge(p, 0.0), device.le(p, 1.0))
        message = (
            f"bernoulli() takes probabilities, from 0 to 1, got a Tensor of shape {self.shape} with "
            "an element outside that range; for logits, use x.sigmoid().bernoulli()"
        )
        refuse_unless(device, valid, ArgumentError(message))
        # 16-bit floats are too coarse to compare probabilities with
        sample_dtype = float64 if self.dtype == float64 else float32
        samples = device.random_uniform(drawn_from(generator, device, "bernoulli"), self.shape, sample_dtype)
        return self._like(device.to_float(device.lt(samples, device.cast(p, sample_dtype)), self.dtype))

    def categorical(self, *, generator: Generator | None = None) -> IntTensor[B]:
        """Class indices of shape (…), drawn with the probabilities ``softmax(x, -1)`` for logits of shape (…, classes).

        Raises:
            ShapeError: there are no classes to draw from.
            ArgumentError: a row does not define a distribution: it has a NaN or +inf, or all of it is -inf.

        >>> Tensor[NumPy].from_data([[0.0, -99.0], [-99.0, 0.0]]).categorical().tolist()
        [0, 1]
        """
        self = drawing(self)
        device: Any = self._device
        shape = self.shape
        if not shape or shape[-1] == 0:
            raise ShapeError(
                f"categorical() takes logits of shape (…, classes), at least one class, not of shape {shape}"
            )
        last = len(shape) - 1
        logits = device.cast(device.detach(self._primitive), float64)  # in float32, rare classes would never be drawn
        message = (
            f"categorical() got logits of shape {shape} with a row that describes no distribution: "
            "the largest logit of each must be finite"
        )
        refuse_unless(device, device.isfinite(device.amax(logits, (last,), False)), ArgumentError(message))
        samples = device.random_uniform(drawn_from(generator, device, "categorical"), shape, float64)
        gumbel = device.neg(device.log(device.neg(device.log(samples))))
        return self._int(device.argmax(device.add(logits, gumbel), last, False))

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> IntTensor[B]:
        """Class indices drawn with probabilities proportional to the elements, the weights of the classes.

        Classes of weight 0 are not drawn. Of logits, use ``x.softmax(-1).multinomial(n)`` or `categorical`. Without
        replacement, each further index takes a pass over the classes.

        Args:
            num_samples: how many indices to draw, for each row.
            replacement: whether an index may be drawn more than once; if not, they are in the order of the draws.
            generator: the source of random numbers; by default `burnpy.default_generator` of the device.

        Returns:
            Shape (num_samples) for weights of shape (classes), (rows, num_samples) for (rows, classes).

        Raises:
            ShapeError: x has another number of dimensions, or no classes.
            ArgumentError: ``num_samples`` is below 1, or above the number of classes without replacement; a weight is
                negative or not finite; or a row has fewer classes of weight above 0 than it needs.

        >>> Tensor[NumPy].from_data([0.0, 3.0]).multinomial(2, replacement=True).tolist()
        [1, 1]
        """
        self = drawing(self)
        device: Any = self._device
        d, shape = device.discrete, self.shape
        count = integer(num_samples, "number of samples", "multinomial")
        if not isinstance(replacement, bool):
            raise ArgumentError(f"multinomial() got replacement={describe(replacement)}; expected True or False")
        if len(shape) not in (1, 2) or not shape[-1]:
            raise ShapeError(
                f"multinomial() takes weights of shape (classes) or (rows, classes), at least one class, not {shape}"
            )
        rows, classes = (1, *shape)[-2:]
        if count < 1 or (count > classes and not replacement):
            raise ArgumentError(
                f"multinomial() got {count} of {classes} classes; ask for 1 to {classes}, or with "
                "replacement for 1 or more"
            )
        weights = device.cast(device.reshape(device.detach(self._primitive), (rows, classes)), float64)
        valid = d.bitwise_and(device.ge(weights, 0.0), device.isfinite(weights))
        message = f"multinomial() got weights of shape {shape} with a negative or non-finite element"
        refuse_unless(device, valid, ArgumentError(message))
        positive = d.sum(d.to_int(device.gt(weights, 0.0), int64), (1,), False)
        least = 1 if replacement else count
        message = f"multinomial() got weights of shape {shape} with a row of fewer than {least} above 0"
        refuse_unless(device, d.ge(positive, least), ArgumentError(message))
        drawn = multinomial_values(device, weights, count, replacement, generator)
        return self._int(drawn if len(shape) == 2 else d.reshape(drawn, (count,)))


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
