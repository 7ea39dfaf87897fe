"""The factories of random float tensors, with signatures as in `burnpy.tensor.factories`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike

    Parameter = Any
    """A parameter of a distribution: a Python number, or a float tensor that broadcasts to the shape of the numbers."""
    Count = Any
    """The same, or an int tensor."""


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
        from burnpy.tensor import random

        return random.uniform(cls, shape, low, high, dtype, generator, device)

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

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].normal((2, 3), std=0.02, generator=Generator(0)).shape
        (2, 3)
        """
        from burnpy.tensor import random

        return random.normal(cls, shape, mean, std, dtype, generator, device)

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

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].truncated_normal((100,), std=0.02, low=-0.04, high=0.04, generator=Generator(0))
        >>> x.abs().amax().item() <= 0.04
        True
        """
        from burnpy.tensor import distributions

        return distributions.truncated_normal(cls, shape, mean, std, low, high, dtype, generator, device)

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

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].exponential((2, 3), rate=0.5, generator=Generator(0)).amin().item() >= 0.0
        True
        """
        from burnpy.tensor import random

        return random.exponential(cls, shape, rate, dtype, generator, device)

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

        The parameters are numbers, or tensors that broadcast to ``shape``. Gradients by them hold the probability of
        each number fixed (implicit reparametrization), as do second ones. The numbers of a concentration below 1 may be
        too small for the dtype, and are then 0; their logarithms are not.

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

        >>> from burnpy import Autodiff, Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> a = Tensor[Autodiff[NumPy]].from_data([0.5, 2.0]).require_grad()
        >>> x = Tensor.gamma((1000, 2), a, generator=Generator(0))
        >>> (x.mean().backward()[a] * 2.0).round().tolist()  # the derivative of the mean, which is a
        [1.0, 1.0]
        """
        from burnpy.tensor import distributions

        return distributions.gamma(cls, shape, concentration, rate, log, dtype, generator, device)

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
        """Random numbers in [0, 1] from the beta distribution, with a density proportional to x^(a-1) · (1-x)^(b-1).

        The arguments, errors and gradients are as of `gamma`.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].beta((1000,), 8.0, 2.0, generator=Generator(0))
        >>> round(x.mean().item(), 1)
        0.8
        """
        from burnpy.tensor import distributions

        return distributions.beta(cls, shape, a, b, log, dtype, generator, device)

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

        The arguments, errors and gradients are as of `gamma`. ``shape`` includes the last dimension, and a number as
        concentration stands for each component.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].dirichlet((5, 3), 0.5, generator=Generator(0))
        >>> (x.sum(dim=-1) - 1.0).abs().amax().item() < 1e-6
        True
        """
        from burnpy.tensor import distributions

        return distributions.dirichlet(cls, shape, concentration, log, dtype, generator, device)

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

        The arguments, errors and gradients are as of `gamma`. A normal number is divided by the
        root of one of the gamma distribution, through which the gradient by ``df`` passes.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].student_t((1000,), 3.0, loc=5.0, generator=Generator(0))
        >>> round(x.median().item())
        5
        """
        from burnpy.tensor import distributions

        return distributions.student_t(cls, shape, df, loc, scale, dtype, generator, device)

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

        The arguments and errors are as of `gamma`. Tensors as parameters have gradients.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].gumbel((10000,), generator=Generator(0))
        >>> round(x.mean().item(), 1)  # Euler's constant, 0.577
        0.6
        """
        from burnpy.tensor import distributions

        return distributions.gumbel(cls, shape, loc, scale, dtype, generator, device)

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
        are as of `gamma`.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> rates = Tensor[NumPy].from_data([0.0, 1e8], dtype="float64")
        >>> x = Tensor.poisson((2,), rates, generator=Generator(0))
        >>> x[0].item(), round(x[1].item() / 1e8, 2)
        (0.0, 1.0)
        """
        from burnpy.tensor import distributions

        return distributions.poisson(cls, shape, rate, dtype, generator, device)

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
        are as of `gamma`, and ``count`` may be an `IntTensor` as well.

        >>> from burnpy import Generator, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].binomial((1000,), 10, 0.3, generator=Generator(0))
        >>> round(x.mean().item())
        3
        """
        from burnpy.tensor import distributions

        return distributions.binomial(cls, shape, count, prob, dtype, generator, device)

    @classmethod
    def sobol(
        cls,
        shape: Size,
        *,
        start: int = 0,
        seed: int | None = None,
        dtype: DTypeLike | None = None,
        device: Any = None,
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

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].sobol((4, 2)).tolist()
        [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
        """
        from burnpy.tensor.sobol import sobol

        return sobol(cls, shape, start, seed, dtype, device)
