"""Initializers: distributions of the initial values of parameters; and models without initial values."""

from __future__ import annotations

import collections.abc
import math
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of, float32, float64
from burnpy.backend.errors import ArgumentError, ShapeError, StateError
from burnpy.backend.lazy import lazy_attributes
from burnpy.tensor.call_errors import Explaining, explained, refuse_attribute
from burnpy.tensor.dim_checks import checked_count, shape_of
from burnpy.tensor.generator import Generator, drawn_from
from burnpy.tensor.host_data import float_of
from burnpy.tensor.levels import beneath_levels
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor_base import TensorBase

__all__ = [
    "Constant",
    "FanMode",
    "Fans",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Nonlinearity",
    "Normal",
    "Ones",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zeros",
    "around_zero",
    "fans",
    "gain",
]


def __dir__() -> list[str]:
    return __all__


Fans: TypeAlias = tuple[int, int]
"""(fan_in, fan_out)."""
FanMode: TypeAlias = Literal["fan_in", "fan_out"]
Nonlinearity: TypeAlias = Literal["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]


@explained
def fans(shape: Sequence[int]) -> Fans:
    """Return (fan_in, fan_out) of a weight's shape.

    A matrix is (in, out), as in `Linear`; a weight of more dimensions is (out, in, …), as in `Conv2d`.

    Raises:
        ShapeError: there are fewer than two dimensions.

    >>> fans((3, 4)), fans((8, 3, 5, 5))
    ((3, 4), (75, 200))
    """
    if len(shape) < 2:
        raise ShapeError(
            f"a shape of {len(shape)} dimensions, {tuple(shape)}, has no fans; pass fans=(fan_in, fan_out)"
        )
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


@explained
def gain(nonlinearity: Nonlinearity, slope: float = 0.01) -> float:
    """Return the recommended gain of a weight before a nonlinearity, so that variance is preserved; PyTorch's values.

    Args:
        nonlinearity: the function after the weight.
        slope: the slope of "leaky_relu" below 0.

    Raises:
        ArgumentError: the nonlinearity is unknown.

    >>> gain("tanh"), round(gain("relu"), 4)
    (1.6666666666666667, 1.4142)
    """
    known = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + float_of(slope, float64, "gain") ** 2))
    if nonlinearity not in known:
        raise ArgumentError(f"gain() knows {', '.join(known)} and leaky_relu, not {nonlinearity!r}")
    return known[nonlinearity]


@dataclass(frozen=True)
class Initializer(metaclass=Explaining):
    """The base class of initializers: a call returns a tensor of initial values."""

    if not TYPE_CHECKING:  # type checkers see only the attributes of the class
        __getattr__ = refuse_attribute

    def __call__(
        self,
        shape: Sequence[int],
        *,
        device: B | type[B],
        dtype: DTypeLike = float32,
        fans: Fans | None = None,
        generator: Generator | None = None,
    ) -> Tensor[B]:
        """Return an untracked tensor of initial values; within `burnpy.nn.init_empty_weights`, one without values.

        Args:
            shape: the shape of the tensor.
            device: the device of the tensor.
            dtype: a float dtype.
            fans: (fan_in, fan_out); by default `fans` of the shape.
            generator: the source of random numbers; by default `burnpy.default_generator` of the device.

        Raises:
            ShapeError: the shape does not suit the initializer.
        """
        place: Any = device_of(device)
        sizes = shape if isinstance(shape, tuple) else shape_of(shape, type(self).__name__)
        if without_values.get():
            return new_tensor(Tensor, place, unfilled(sizes, dtype_of(dtype, "float"), place))  # type: ignore[no-any-return]  # a Tensor
        settings = {"device": place, "dtype": dtype_of(dtype, "float"), "generator": generator}
        values: Tensor[B] = self._sample(sizes, fans, **settings)
        return values

    @abstractmethod
    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        """Create the tensor on a ``device``, of a ``dtype``, by a ``generator``. ``layer_fans`` are the fans passed by
        the caller, if any."""


@dataclass(frozen=True)
class Constant(Initializer):
    """A tensor filled with one value.

    >>> Constant(0.5)((2,), device=NumPy).tolist()
    [0.5, 0.5]
    """

    value: float

    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        return Tensor.full(shape, self.value, device=settings["device"], dtype=settings["dtype"])


@dataclass(frozen=True)
class Zeros(Constant):
    """A tensor of zeros."""

    value: float = 0.0


@dataclass(frozen=True)
class Ones(Constant):
    """A tensor of ones."""

    value: float = 1.0


@dataclass(frozen=True)
class Uniform(Initializer):
    """The uniform distribution on [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        return Tensor.uniform(shape, self.low, self.high, **settings)


@dataclass(frozen=True)
class Normal(Initializer):
    """The normal distribution."""

    mean: float = 0.0
    std: float = 1.0

    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        return Tensor.normal(shape, self.mean, self.std, **settings)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """The normal distribution with the given mean and standard deviation, within [low, high].

    >>> TruncatedNormal(std=0.02, low=-0.04, high=0.04)((100,), device=NumPy).abs().amax().item() <= 0.04
    True
    """

    mean: float = 0.0
    std: float = 1.0
    low: float = -2.0  #: in units of the numbers, not of ``std``
    high: float = 2.0

    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        limits = (self.mean, self.std, self.low, self.high)
        return Tensor.truncated_normal(shape, *limits, **settings)


class _Scaled(Initializer):
    """The base class of initializers whose standard deviation depends on the fans."""

    def std(self, fan_pair: Fans) -> float:
        """Return the standard deviation for (fan_in, fan_out)."""
        raise NotImplementedError


class _ScaledUniform(_Scaled):
    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        bound = math.sqrt(3.0) * self.std(layer_fans or fans(shape))
        return Tensor.uniform(shape, -bound, bound, **settings)


class _ScaledNormal(_Scaled):
    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        std = self.std(layer_fans or fans(shape))
        return Tensor.normal(shape, 0.0, std, **settings)


def _gain(initializer: Any) -> float:
    """Return the gain of an initializer as a float."""
    name = type(initializer).__name__
    gain = float_of(initializer.gain, float64, name)
    if not math.isfinite(gain):
        raise ArgumentError(f"{name}() got gain={gain}; expected a finite number")
    return gain


@dataclass(frozen=True)
class _Kaiming(_Scaled):
    gain: float = math.sqrt(2.0)  #: see `gain`; the default is for "relu"
    mode: FanMode = (
        "fan_in"  #: the fan to divide by: "fan_in" preserves the variance of outputs, "fan_out" of gradients
    )

    def std(self, fan_pair: Fans) -> float:
        """Return gain / √fan."""
        return _gain(self) / math.sqrt(max(fan_pair[0 if self.mode == "fan_in" else 1], 1))


@dataclass(frozen=True)
class KaimingUniform(_Kaiming, _ScaledUniform):
    """The uniform distribution around 0 with standard deviation gain / √fan.

    Source: He et al., Delving Deep into Rectifiers, 2015.

    >>> KaimingUniform()((2, 3), device=NumPy, generator=Generator(0)).shape
    (2, 3)
    """


@dataclass(frozen=True)
class KaimingNormal(_Kaiming, _ScaledNormal):
    """The normal distribution around 0 with standard deviation gain / √fan.

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """


@dataclass(frozen=True)
class _Xavier(_Scaled):
    gain: float = 1.0  #: see `gain`

    def std(self, fan_pair: Fans) -> float:
        """Return gain · √(2 / (fan_in + fan_out))."""
        return _gain(self) * math.sqrt(2.0 / max(sum(fan_pair), 1))


@dataclass(frozen=True)
class XavierUniform(_Xavier, _ScaledUniform):
    """The uniform distribution around 0 with standard deviation gain · √(2 / (fan_in + fan_out)).

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """


@dataclass(frozen=True)
class XavierNormal(_Xavier, _ScaledNormal):
    """The normal distribution around 0 with standard deviation gain · √(2 / (fan_in + fan_out)).

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """A random matrix with orthonormal rows or columns, whichever are fewer, times ``gain``.

    Dimensions after the first are flattened into one.

    Source: Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear networks, 2013.

    >>> w = Orthogonal()((4, 2), device=NumPy)
    >>> ((w.mT @ w) - w.eye(2, device=NumPy)).abs().max().item() < 1e-6
    True
    """

    gain: float = 1.0  #: see `gain`

    def _sample(self, shape: Shape, layer_fans: Fans | None, **settings: Any) -> Any:
        device, generator = settings["device"], settings["generator"]
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal() makes matrices, got shape {shape}; use Normal()")
        rows, columns = shape[0], math.prod(shape[1:])
        gaussian = drawn_from(generator, device, "Orthogonal").standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(gaussian)
        q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # makes the distribution uniform over orthogonal matrices
        matrix = (q if rows >= columns else q.T) * _gain(self)
        return Tensor.from_data(matrix.reshape(shape), device=device).to_dtype(settings["dtype"])


@explained
def around_zero(fan_in: int) -> Uniform:
    """Return the uniform initializer on ±1 / √fan_in: the default of `Linear`, `Conv2d` and `Lstm`, as in PyTorch."""
    bound = 1.0 / math.sqrt(fan_in) if checked_count(fan_in, "fan_in", 0, "around_zero()") else 0.0
    return Uniform(-bound, bound)


if not TYPE_CHECKING:  # type checkers see only the names above
    __getattr__ = lazy_attributes(__name__, {})[0]


without_values: ContextVar[bool] = ContextVar("burnpy_without_values", default=False)
"""True inside `init_empty_weights`."""


class Unfilled:
    """The primitive of a parameter without a value yet: only its shape and dtype can be read without an error."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error()

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise self._error()

    def __array_ufunc__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise self._error()

    def _error(self) -> StateError:
        return StateError(
            f"a parameter of shape {self.shape} has no value yet, as the model was made within init_empty_weights(); "
            "load weights into all of it, as with record.from_torch(model, path)"
        )


@contextmanager
@explained
def init_empty_weights() -> collections.abc.Generator[None]:
    """Return a context manager in which layers get parameters without values, for a model that is filled from a file.

    The parameters have shapes and dtypes alone. What a layer does not draw by an initializer, such as a bias of zeros,
    has its value.

    >>> from burnpy.nn import Linear
    >>> from burnpy.record import from_torch
    >>> with init_empty_weights():
    ...     model = Linear(2, 1, device=NumPy)
    >>> model = from_torch(model, {"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])})
    >>> model.weight.value.tolist()
    [[1.0], [2.0]]
    """
    token = without_values.set(True)
    try:
        yield
    finally:
        without_values.reset(token)


def unfilled(shape: Shape, dtype: DType, device: Any) -> Any:
    """Return an untracked primitive of a device that has no value yet."""
    if device.differentiates:
        return device.lift(unfilled(shape, dtype, device.inner))
    return Unfilled(shape, dtype)


def is_filled(x: TensorBase[Any]) -> bool:
    """Return whether an untracked tensor has a value."""
    return type(beneath_levels(x._device, x._primitive)) is not Unfilled
