"""Descriptions of the arguments of a case, by shape and range; arrays of any dtype and layout are created from them."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from burnpy.backend.dtypes import int64, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType, Shape

LAYOUTS = ("contiguous", "strided", "expanded")
"""Contiguous; every second element of a reversed, transposed array; expanded along the first dimension."""


class Sample:
    """An argument that becomes a primitive."""

    smooth: ClassVar[bool] = True  #: whether operations are differentiable at these values

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return the values in a dtype."""
        raise NotImplementedError

    def varied(self, device: Any, primitive: Any) -> Any:
        """Return the argument made of a primitive each of whose elements is varied when derivatives are checked."""
        return primitive


@dataclass(frozen=True)
class Array(Sample):
    """An array of the dtype that the case is run in: random floats and ints in low … high, or random bools."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0

    def __str__(self) -> str:
        return str(self.shape)

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random values, the same for the same arguments."""
        kind = kind_of(dtype)
        if kind == "float":
            return _uniform(self, seed).astype(dtype)
        if kind == "complex":
            return np.asarray(_uniform(self, seed) + 1j * _uniform(self, seed + 1000)).astype(dtype)
        generator = _generator(self, seed)
        if kind == "bool":
            return np.asarray(generator.integers(0, 2, self.shape).astype(dtype))
        low = max(math.ceil(self.low * 3), 0) if dtype.name.startswith("u") else math.ceil(self.low * 3)
        high = max(math.floor(self.high * 3), low)
        return np.asarray(generator.integers(low, high + 1, self.shape).astype(dtype))


def _generator(sample: Array, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(repr(sample).encode())])


@lru_cache(maxsize=256)  # one operation's examples, for every dtype
def _uniform(sample: Array, seed: int) -> NDArray[Any]:
    return np.asarray(_generator(sample, seed).uniform(sample.low, sample.high, sample.shape))


@dataclass(frozen=True)
class Large(Array):
    """An array large enough that a backend may use another implementation. Its derivatives are not checked."""

    smooth: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"large {self.shape}"


@dataclass(frozen=True)
class Values(Sample):
    """An array of given values, for edge cases such as infinities, NaN and signed zeros; see `array` for ints."""

    values: tuple[float, ...]
    shape: Shape = (-1,)
    smooth: ClassVar[bool] = False

    def __str__(self) -> str:
        return "special values"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return the values; 1 where an int or bool dtype cannot represent them, or a complex number is not finite."""
        if kind_of(dtype) == "complex":
            fitting = [complex(v, 0.5 * v) if math.isfinite(v) else 1.0 for v in self.values]
            return np.array(fitting, dtype).reshape(self.shape)
        if kind_of(dtype) == "float":
            return np.asarray(np.array(self.values).astype(dtype)).reshape(self.shape)
        limits = np.iinfo(dtype) if kind_of(dtype) == "int" else None
        low, high = (0, 1) if limits is None else (int(limits.min), int(limits.max))
        fitting = [int(v) if math.isfinite(v) and v == int(v) and low <= v <= high else 1 for v in self.values]
        return np.array(fitting, dtype).reshape(self.shape)


@dataclass(frozen=True)
class Mask(Sample):
    """A bool primitive, independent of the dtype of the case."""

    shape: Shape

    def __str__(self) -> str:
        return f"bools {self.shape}"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random bools."""
        generator = np.random.default_rng([seed, zlib.crc32(repr(self).encode())])
        return np.asarray(generator.integers(0, 2, self.shape).astype(np.bool_))


@dataclass(frozen=True)
class Index(Sample):
    """An int64 primitive of given values, independent of the dtype of the case."""

    values: int | tuple[Any, ...]

    def __str__(self) -> str:
        return f"index {np.shape(self.values)}"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return the values."""
        return np.array(self.values, int64)


@dataclass(frozen=True)
class EmptyIndex(Sample):
    """An int64 primitive without elements."""

    shape: Shape = (0,)

    def __str__(self) -> str:
        return f"index {self.shape}"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return an empty array."""
        return np.zeros(self.shape, int64)


@dataclass(frozen=True)
class ByKind:
    """A Python value, such as a number or a dtype, that depends on the kind of the dtype of the case."""

    of_float: Any
    of_int: Any
    of_bool: Any = True

    def __str__(self) -> str:
        return f"{self.of_float} or {self.of_int}"

    def of(self, dtype: DType) -> Any:
        """Return the value for the kind of ``dtype``."""
        kinds = {"float": self.of_float, "complex": self.of_float, "int": self.of_int, "bool": self.of_bool}
        return kinds[kind_of(dtype)]


@dataclass(frozen=True)
class ByDType:
    """A Python value that is made from the dtype of the case."""

    make: Callable[[DType], Any]
    name: str

    def of(self, dtype: DType) -> Any:
        """Return the value for ``dtype``."""
        return self.make(dtype)

    def __repr__(self) -> str:
        return self.name


class CaseDType:
    """The class of `CASE`."""

    def __str__(self) -> str:
        return "dtype"


CASE = CaseDType()
"""A placeholder for the dtype of the case."""


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Describe a random array: ``x(2, 3)``, ``x(4, low=0.1)``."""
    return Array(shape, low, high)


def arranged(values: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return ``values`` as they are in a layout: unchanged, except that "expanded" repeats the first slice."""
    if layout == "expanded" and values.ndim and len(values) > 1:
        return np.ascontiguousarray(np.broadcast_to(values[:1], values.shape))
    return values


def laid_out(device: Any, values: NDArray[Any], layout: str) -> Any:
    """Convert ``values``, returned by `arranged`, to a primitive of ``device`` in that layout."""
    if layout == "contiguous" or not values.ndim:
        return device.from_numpy(values)
    if layout == "expanded":
        return (
            device.expand(device.from_numpy(values[:1]), values.shape) if len(values) > 1 else device.from_numpy(values)
        )
    backward = tuple(range(values.ndim))[::-1]
    wide = np.zeros([2 * n for n in values.shape[::-1]], values.dtype)
    wide[tuple(slice(None, None, -2) for _ in backward)] = values.transpose(backward)
    narrow = device.slice(device.from_numpy(wide), tuple(slice(None, None, -2) for _ in backward))
    return device.permute(narrow, backward)
