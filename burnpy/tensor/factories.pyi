"""The signatures of the factories, made from the factories' source by ``python -m burnpy.docs.stubs``."""

from typing import Any, Self, overload

from numpy.typing import ArrayLike

from burnpy.autodiff.autodiff import Autodiff
from burnpy.tensor.creation import Size
from burnpy.tensor.generator import Generator
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B2, B, I

class TensorFactories(TensorBase[B]):
    """The factories of `Tensor`."""

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self:
        """Return a tensor with a copy of ``data``: numbers, nested lists of numbers, an array or another tensor.

        The numbers are of the kind: a `Tensor` takes floats and ints, which become float32 unless ``dtype`` says
        otherwise, an `IntTensor` ints, which become int64, and a `BoolTensor` bools. An array keeps its dtype, which
        must be of the kind; with ``dtype``, ints and bools are converted to wider kinds.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the numbers or the array are of another kind, or the dtype is unknown or cannot represent them.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> Tensor[NumPy].from_data([[1, 2], [3, 4]]).dtype, IntTensor[NumPy].from_data([1, 2]).dtype
        (dtype('float32'), dtype('int64'))
        """
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 0, or False.

        >>> Tensor[NumPy].zeros((2,)).tolist(), BoolTensor[NumPy].zeros((2,)).tolist()
        ([0.0, 0.0], [False, False])
        """
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 1, or True."""
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: float, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: float, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self:
        """Return a tensor with a copy of another library's array, which supports DLPack.

        An array on a GPU becomes a tensor on `CuPy`, and is copied there, in order with the streams of both.

        Memory that others may still write to is copied, and DLPack does not say who may: its read-only flag binds only
        the importer. Arrays that ``from_data(copy=False)`` accepts are not copied: a tensor's own memory, and a NumPy
        array over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` cannot be read by DLPack.
        """
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: Tensor[I]) -> Tensor[Autodiff[I]]:
        """Return the values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> Tensor.from_inner(Tensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
    @overload
    @classmethod
    def from_inner(cls, x: Tensor[Any], *, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Return a matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def arange(cls, start: float, end: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None) -> Self:
        """Return a 1-d tensor of start, start + step, …, excluding ``end``; with one argument, from 0 to that number.

        Raises:
            ArgumentError: the step is 0 or leads away from the end.

        >>> Tensor[NumPy].arange(3).tolist(), IntTensor[NumPy].arange(4, 0, -2).tolist()
        ([0.0, 1.0, 2.0], [4, 2])
        """
    @overload
    @classmethod
    def arange(
        cls,
        start: float,
        end: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def uniform(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers drawn uniformly from [low, high).

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. Tensors as bounds broadcast
        to ``shape``, and have gradients.

        Raises:
            ArgumentError: ``low`` is above ``high``, or one of them is not finite.
        """
    @overload
    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: float | Tensor[B2] = 0.0,
        high: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def normal(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers drawn from the normal distribution with the given mean and standard deviation.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. Tensors as parameters
        broadcast to ``shape``, and have gradients.

        Raises:
            ArgumentError: ``std`` is negative, or one of them is not finite.

        >>> Tensor[NumPy].normal((2, 3), std=0.02, generator=Generator(0)).shape
        (2, 3)
        """
    @overload
    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: float | Tensor[B2] = 0.0,
        std: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def truncated_normal(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        low: float = -2.0,
        high: float = 2.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
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
    @overload
    @classmethod
    def truncated_normal(
        cls,
        shape: Size,
        mean: float | Tensor[B2] = 0.0,
        std: float | Tensor[B2] = 1.0,
        low: float | Tensor[B2] = -2.0,
        high: float | Tensor[B2] = 2.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def exponential(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls, shape: Size, rate: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random numbers, 0 or larger, drawn from the exponential distribution, whose mean is 1 / ``rate``.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device. A tensor as rate broadcasts
        to ``shape``, and has a gradient.

        Raises:
            ArgumentError: ``rate`` is not above 0, or not finite.

        >>> Tensor[NumPy].exponential((2, 3), rate=0.5, generator=Generator(0)).amin().item() >= 0.0
        True
        """
    @overload
    @classmethod
    def exponential(
        cls,
        shape: Size,
        rate: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def gumbel(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        loc: float = 0.0,
        scale: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers from the Gumbel distribution, with the density e^(-z - e^-z) of z = (x - loc) / scale.

        The arguments and errors are as of `gamma`. Tensors as parameters have gradients.

        >>> x = Tensor[NumPy].gumbel((10000,), generator=Generator(0))
        >>> round(x.mean().item(), 1)  # Euler's constant, 0.577
        0.6
        """
    @overload
    @classmethod
    def gumbel(
        cls,
        shape: Size,
        loc: float | Tensor[B2] = 0.0,
        scale: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def sobol(cls, shape: Size, *, start: int = 0, seed: int | None = None, dtype: DTypeLike | None = None) -> Self:
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
    @overload
    @classmethod
    def sobol(
        cls,
        shape: Size,
        *,
        start: int = 0,
        seed: int | None = None,
        dtype: DTypeLike | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def gamma(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        concentration: float,
        rate: float = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers from the gamma distribution, with a density proportional to x^(concentration-1) · e^(-rate·x).

        The parameters are numbers, or tensors that broadcast to ``shape``. Gradients by them hold the probability of
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
    @overload
    @classmethod
    def gamma(
        cls,
        shape: Size,
        concentration: float | Tensor[B2],
        rate: float | Tensor[B2] = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def beta(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        a: float,
        b: float,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers from the beta distribution, with a density proportional to x^(a-1) · (1-x)^(b-1) on (0, 1).

        The arguments, errors and gradients are as of `gamma`.

        >>> x = Tensor[NumPy].beta((1000,), 8.0, 2.0, generator=Generator(0))
        >>> round(x.mean().item(), 1)
        0.8
        """
    @overload
    @classmethod
    def beta(
        cls,
        shape: Size,
        a: float | Tensor[B2],
        b: float | Tensor[B2],
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def dirichlet(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        concentration: float,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random probabilities from the Dirichlet distribution: rows over the last dimension, whose sums are 1.

        The arguments, errors and gradients are as of `gamma`. ``shape`` includes the last dimension, and a number as
        concentration stands for each component.

        >>> x = Tensor[NumPy].dirichlet((5, 3), 0.5, generator=Generator(0))
        >>> (x.sum(dim=-1) - 1.0).abs().amax().item() < 1e-6
        True
        """
    @overload
    @classmethod
    def dirichlet(
        cls,
        shape: Size,
        concentration: float | Tensor[B2],
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def student_t(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        df: float,
        loc: float = 0.0,
        scale: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers from Student's t distribution with ``df`` degrees of freedom.

        The arguments, errors and gradients are as of `gamma`. A normal number is divided by the
        root of one of the gamma distribution, through which the gradient by ``df`` passes.

        >>> x = Tensor[NumPy].student_t((1000,), 3.0, loc=5.0, generator=Generator(0))
        >>> round(x.median().item())
        5
        """
    @overload
    @classmethod
    def student_t(
        cls,
        shape: Size,
        df: float | Tensor[B2],
        loc: float | Tensor[B2] = 0.0,
        scale: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def poisson(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls, shape: Size, rate: float, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random whole numbers from the Poisson distribution with mean ``rate``, which is at most 9e18.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are as of `gamma`.

        >>> rates = Tensor[NumPy].from_data([0.0, 1e8], dtype="float64")
        >>> x = Tensor.poisson((2,), rates, generator=Generator(0))
        >>> x[0].item(), round(x[1].item() / 1e8, 2)
        (0.0, 1.0)
        """
    @overload
    @classmethod
    def poisson(
        cls,
        shape: Size,
        rate: float | Tensor[B2],
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def binomial(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        count: float,
        prob: float,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """Random numbers of successes in ``count`` trials, at most 2⁵³, with probability ``prob`` each.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are as of `gamma`, and ``count`` may be an `IntTensor` as well.

        >>> x = Tensor[NumPy].binomial((1000,), 10, 0.3, generator=Generator(0))
        >>> round(x.mean().item())
        3
        """
    @overload
    @classmethod
    def binomial(
        cls,
        shape: Size,
        count: float | Tensor[B2] | IntTensor[B2],
        prob: float | Tensor[B2],
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def linspace(cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None) -> Self:
        """Return a 1-d tensor of ``steps`` numbers evenly spaced from ``start`` to ``end``, both included."""
    @overload
    @classmethod
    def linspace(
        cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

class IntTensorFactories(TensorBase[B]):
    """The factories of `IntTensor`."""

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self:
        """Return a tensor with a copy of ``data``: numbers, nested lists of numbers, an array or another tensor.

        The numbers are of the kind: a `Tensor` takes floats and ints, which become float32 unless ``dtype`` says
        otherwise, an `IntTensor` ints, which become int64, and a `BoolTensor` bools. An array keeps its dtype, which
        must be of the kind; with ``dtype``, ints and bools are converted to wider kinds.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the numbers or the array are of another kind, or the dtype is unknown or cannot represent them.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> Tensor[NumPy].from_data([[1, 2], [3, 4]]).dtype, IntTensor[NumPy].from_data([1, 2]).dtype
        (dtype('float32'), dtype('int64'))
        """
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 0, or False.

        >>> Tensor[NumPy].zeros((2,)).tolist(), BoolTensor[NumPy].zeros((2,)).tolist()
        ([0.0, 0.0], [False, False])
        """
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 1, or True."""
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: int, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self:
        """Return a tensor with a copy of another library's array, which supports DLPack.

        An array on a GPU becomes a tensor on `CuPy`, and is copied there, in order with the streams of both.

        Memory that others may still write to is copied, and DLPack does not say who may: its read-only flag binds only
        the importer. Arrays that ``from_data(copy=False)`` accepts are not copied: a tensor's own memory, and a NumPy
        array over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` cannot be read by DLPack.
        """
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[I]) -> IntTensor[Autodiff[I]]:
        """Return the values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> Tensor.from_inner(Tensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[Any], *, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Return a matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def arange(cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None) -> Self:
        """Return a 1-d tensor of start, start + step, …, excluding ``end``; with one argument, from 0 to that number.

        Raises:
            ArgumentError: the step is 0 or leads away from the end.

        >>> Tensor[NumPy].arange(3).tolist(), IntTensor[NumPy].arange(4, 0, -2).tolist()
        ([0.0, 1.0, 2.0], [4, 2])
        """
    @overload
    @classmethod
    def arange(
        cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def randint(
        cls, low: int, high: int, shape: Size, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self:
        """Random ints drawn uniformly from low … high - 1.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device.

        Raises:
            ArgumentError: ``high`` is not above ``low``.
            DTypeError: the dtype cannot represent low … high - 1.
        """
    @overload
    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: Size,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2],
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def permutation(cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None) -> Self:
        """Return a random permutation of 0 … n - 1, as a 1-d tensor.

        >>> sorted(IntTensor[NumPy].permutation(4).tolist())
        [0, 1, 2, 3]
        """
    @overload
    @classmethod
    def permutation(
        cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

class BoolTensorFactories(TensorBase[B]):
    """The factories of `BoolTensor`."""

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self:
        """Return a tensor with a copy of ``data``: numbers, nested lists of numbers, an array or another tensor.

        The numbers are of the kind: a `Tensor` takes floats and ints, which become float32 unless ``dtype`` says
        otherwise, an `IntTensor` ints, which become int64, and a `BoolTensor` bools. An array keeps its dtype, which
        must be of the kind; with ``dtype``, ints and bools are converted to wider kinds.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the numbers or the array are of another kind, or the dtype is unknown or cannot represent them.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> Tensor[NumPy].from_data([[1, 2], [3, 4]]).dtype, IntTensor[NumPy].from_data([1, 2]).dtype
        (dtype('float32'), dtype('int64'))
        """
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 0, or False.

        >>> Tensor[NumPy].zeros((2,)).tolist(), BoolTensor[NumPy].zeros((2,)).tolist()
        ([0.0, 0.0], [False, False])
        """
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with 1, or True."""
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: bool, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: bool, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self:
        """Return a tensor with a copy of another library's array, which supports DLPack.

        An array on a GPU becomes a tensor on `CuPy`, and is copied there, in order with the streams of both.

        Memory that others may still write to is copied, and DLPack does not say who may: its read-only flag binds only
        the importer. Arrays that ``from_data(copy=False)`` accepts are not copied: a tensor's own memory, and a NumPy
        array over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` cannot be read by DLPack.
        """
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[I]) -> BoolTensor[Autodiff[I]]:
        """Return the values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> Tensor.from_inner(Tensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[Any], *, device: B2 | type[B2]) -> BoolTensor[B2]: ...
