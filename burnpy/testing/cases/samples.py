"""How the arguments of a case are written down: by shape and range, to be made in any dtype and any layout."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from burnpy.backend.dtypes import int64, kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType, Shape

LAYOUTS = ("contiguous", "strided", "expanded")
"""As made; every second element of a reversed, transposed array; repeated by ``expand`` along the first dimension."""


class Sample:
    """An argument that becomes a primitive."""

    smooth: ClassVar[bool] = True  #: whether operations are differentiable there

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """The values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Array(Sample):
    """An array of the dtype that the case is run in: random floats and ints in low … high, or random bools."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Random, and the same for the same arguments."""
        generator = np.random.default_rng([seed, zlib.crc32(repr(self).encode())])
        kind = kind_of(dtype)
        if kind == "bool":
            return np.asarray(generator.integers(0, 2, self.shape).astype(dtype))
        if kind == "float":
            return np.asarray(generator.uniform(self.low, self.high, self.shape)).astype(dtype)
        low = max(math.ceil(self.low * 3), 0) if dtype.name.startswith("u") else math.ceil(self.low * 3)
        high = max(math.floor(self.high * 3), low)
        return np.asarray(generator.integers(low, high + 1, self.shape).astype(dtype))


@dataclass(frozen=True)
class Large(Array):
    """An array for which a backend may go another way than for small ones. Derivatives are left to the small."""

    smooth: ClassVar[bool] = False


@dataclass(frozen=True)
class Values(Sample):
    """An array of given floats, among them edges: infinities, NaN, zeros of both signs. Ints and bools: what fits."""

    values: tuple[float, ...]
    shape: Shape = (-1,)
    smooth: ClassVar[bool] = False

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """The values that the dtype holds exactly, each in its place; 1 for one that it does not hold."""
        if kind_of(dtype) == "float":
            return np.asarray(np.array(self.values).astype(dtype)).reshape(self.shape)
        limits = np.iinfo(dtype) if kind_of(dtype) == "int" else None
        low, high = (0, 1) if limits is None else (int(limits.min), int(limits.max))
        fitting = [int(v) if math.isfinite(v) and v == int(v) and low <= v <= high else 1 for v in self.values]
        return np.array(fitting, dtype).reshape(self.shape)


@dataclass(frozen=True)
class Mask(Sample):
    """A bool primitive, whatever the dtype of the case."""

    shape: Shape

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Random."""
        generator = np.random.default_rng([seed, zlib.crc32(repr(self).encode())])
        return np.asarray(generator.integers(0, 2, self.shape).astype(np.bool_))


@dataclass(frozen=True)
class Index(Sample):
    """An int64 primitive of given values, whatever the dtype of the case."""

    values: int | tuple[Any, ...]

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """The values."""
        return np.array(self.values, int64)


@dataclass(frozen=True)
class EmptyIndex(Sample):
    """An int64 primitive without elements."""

    shape: Shape = (0,)

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """No values."""
        return np.zeros(self.shape, int64)


@dataclass(frozen=True)
class ByKind:
    """A Python value that depends on the kind of the dtype that the case is run in: a number, or another dtype."""

    of_float: Any
    of_int: Any
    of_bool: Any = True

    def of(self, dtype: DType) -> Any:
        """The value for the kind of ``dtype``."""
        return {"float": self.of_float, "int": self.of_int, "bool": self.of_bool}[kind_of(dtype)]


class CaseDType:
    """What `CASE` is."""


CASE = CaseDType()
"""Stands for the dtype that the case is run in."""


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """A random array: ``x(2, 3)``, ``x(4, low=0.1)``."""
    return Array(shape, low, high)


def arranged(values: NDArray[Any], layout: str) -> NDArray[Any]:
    """What ``values`` are in a layout: the same, but for "expanded", of which the first slice repeats."""
    if layout == "expanded" and values.ndim and len(values) > 1:
        return np.ascontiguousarray(np.broadcast_to(values[:1], values.shape))
    return values


def laid_out(device: Any, values: NDArray[Any], layout: str) -> Any:
    """``values``, which `arranged` made, as a primitive of ``device`` in that layout."""
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
