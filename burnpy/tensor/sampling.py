"""Factories that draw from the gamma, beta, Dirichlet, t, Poisson and binomial distributions.

Numbers of the gamma, beta and Dirichlet distribution are drawn on a scale without bounds, as logarithms or logits, so
that small ones do not underflow, and are differentiable by the parameters: see `burnpy.backend.operations.random`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Float, Int
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.generator import Generator, drawn_from
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.levels import drawing
from burnpy.tensor.operand_checks import refuse_unless
from burnpy.tensor.random_parameters import COUNT, FINITE, NEGATIVE, OPEN_UNIT, POSITIVE, PROBABILITY, RATE, Draw
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.creation import Size
    from burnpy.tensor.tensor import IntTensor

    Parameter = Any
    """A parameter of a distribution: a Python number, or a float tensor that broadcasts to the shape of the numbers."""
    Count = Any
    """The same, or an int tensor."""


class DistributionFactories(TensorBase[B]):
    """Random float tensors from distributions of several parameters, which are numbers or tensors."""

    __slots__ = ()

    @classmethod
    def gamma(
        cls,
        shape: Size,
        concentration: Parameter,
        rate: Parameter = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the gamma distribution, with a density proportional to x^(concentration-1) · e^(-rate·x).

        The parameters are numbers, or tensors that broadcast to ``shape``. Their gradients hold the probability of
        each number fixed (implicit reparametrization), as do second ones. The numbers of a concentration below 1 may be
        too small for the dtype, and are then its smallest normal number; their logarithms have all digits.

        Args:
            shape: the shape of the result.
            concentration: the shape parameter.
            rate: the inverse of the scale.
            log: whether to return the logarithms of the numbers, which do not underflow.
            dtype: the dtype of the result; by default the dtype of the parameters that are tensors, else float32.
            generator: the source of random numbers; by default `burnpy.default_generator` of the device.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``; neither is needed where a
                parameter is a tensor.

        Raises:
            ArgumentError: a parameter is not a finite number above 0.
            ShapeError: a parameter does not broadcast to ``shape``.
            DeviceError: a parameter is on another device.

        Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018.

        >>> a = Tensor[Autodiff[NumPy]].from_data([0.5, 2.0]).require_grad()
        >>> x = Tensor.gamma((1000, 2), a, generator=Generator(0))
        >>> (x.mean().backward()[a] * 2.0).round().tolist()  # the derivative of the mean, which is a
        [1.0, 1.0]
        """
        draw = Draw(
            cls, "gamma", shape, dtype, generator, device,
            concentration=(concentration, POSITIVE), rate=(rate, POSITIVE),
        )  # fmt: skip
        d, by = draw.device, draw.value("rate")
        out = d.random_gamma(draw.rng(), draw.full("concentration"), log, ())
        if isinstance(by, float):
            if by != 1.0:
                out = d.add(out, -float(np.log(by))) if log else d.div(out, by)
        else:
            out = d.sub(out, d.log(by)) if log else d.div(out, by)
        return draw.wrap(out, FINITE if log else POSITIVE)

    @classmethod
    def beta(
        cls,
        shape: Size,
        a: Parameter,
        b: Parameter,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the beta distribution, with a density proportional to x^(a-1) · (1-x)^(b-1) on (0, 1).

        The arguments, errors and gradients are those of `gamma`.

        >>> x = Tensor[NumPy].beta((1000,), 8.0, 2.0, generator=Generator(0))
        >>> round(x.mean().item(), 1)
        0.8
        """
        draw = Draw(cls, "beta", shape, dtype, generator, device, a=(a, POSITIVE), b=(b, POSITIVE))
        d = draw.device
        logit = d.random_logit_beta(draw.rng(), draw.full("a"), draw.full("b"), ())
        if log:
            return draw.wrap(d.neg(d.softplus(d.neg(logit), 1.0)), NEGATIVE)
        return draw.wrap(d.sigmoid(logit), OPEN_UNIT)

    @classmethod
    def dirichlet(
        cls,
        shape: Size,
        concentration: Parameter,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random probabilities from the Dirichlet distribution: rows over the last dimension, whose sums are 1.

        The arguments, errors and gradients are those of `gamma`. ``shape`` includes the last dimension, and a number as
        concentration stands for each component.

        >>> x = Tensor[NumPy].dirichlet((5, 3), 0.5, generator=Generator(0))
        >>> (x.sum(dim=-1) - 1.0).abs().amax().item() < 1e-6
        True
        """
        draw = Draw(cls, "dirichlet", shape, dtype, generator, device, concentration=(concentration, POSITIVE))
        if not draw.shape or not draw.shape[-1]:
            raise ShapeError(
                f"{draw.factory}() got shape {draw.shape}; its last dimension has the components, at least one"
            )
        d = draw.device
        logs = d.random_log_dirichlet(draw.rng(), draw.full("concentration"), ())
        return draw.wrap(logs, FINITE) if log else draw.wrap(d.exp(logs), POSITIVE)

    @classmethod
    def student_t(
        cls,
        shape: Size,
        df: Parameter,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from Student's t distribution with ``df`` degrees of freedom.

        The arguments, errors and gradients are those of `gamma`. A normal number is divided by the
        root of one of the gamma distribution, through which the gradient of ``df`` passes.

        >>> x = Tensor[NumPy].student_t((1000,), 3.0, loc=5.0, generator=Generator(0))
        >>> round(x.median().item())
        5
        """
        draw = Draw(
            cls, "student_t", shape, dtype, generator, device,
            df=(df, POSITIVE), loc=(loc, FINITE), scale=(scale, POSITIVE),
        )  # fmt: skip
        d, rng = draw.device, draw.rng()
        half = d.mul(draw.full("df"), 0.5)
        normal = d.random_normal(rng, draw.shape, draw.dtype)
        log_factor = d.sub(d.log(half), d.random_gamma(rng, half, True, ()))
        factor = d.clamp(d.exp(d.mul(log_factor, 0.5)), None, FINITE.ends(draw.dtype)[1])
        return draw.scaled(d.mul(normal, factor), "loc", "scale")

    @classmethod
    def poisson(
        cls,
        shape: Size,
        rate: Parameter,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random whole numbers from the Poisson distribution with mean ``rate``, which is at most 9e18.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are those of `gamma`.

        >>> rates = Tensor[NumPy].from_data([0.0, 1e8], dtype="float64")
        >>> x = Tensor.poisson((2,), rates, generator=Generator(0))
        >>> x[0].item(), round(x[1].item() / 1e8, 2)
        (0.0, 1.0)
        """
        draw = Draw(cls, "poisson", shape, dtype, generator, device, rate=(rate, RATE))
        d = draw.device
        return draw.wrap(d.random_poisson(draw.rng(), d.detach(draw.exact("rate")), ()))

    @classmethod
    def binomial(
        cls,
        shape: Size,
        count: Count,
        prob: Parameter,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers of successes in ``count`` trials, at most 2⁵³, with probability ``prob`` each.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are those of `gamma`, and ``count`` may be an `IntTensor` as well.

        >>> x = Tensor[NumPy].binomial((1000,), 10, 0.3, generator=Generator(0))
        >>> round(x.mean().item())
        3
        """
        draw = Draw(cls, "binomial", shape, dtype, generator, device, count=(count, COUNT), prob=(prob, PROBABILITY))
        d = draw.device
        parameters = [d.detach(draw.exact(name)) for name in ("count", "prob")]
        return draw.wrap(d.random_binomial(draw.rng(), *parameters, ()))


class Random(TensorBase[B]):
    """Random float tensors. None of the methods is differentiable, and none is recorded in the graph."""

    __slots__ = ()

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
        largest = device.amax(logits, (last,), True)
        refuse_unless(device, device.isfinite(largest), ArgumentError(message))
        logits = device.sub(logits, largest)  # beside large logits, the noise would be rounded away
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
