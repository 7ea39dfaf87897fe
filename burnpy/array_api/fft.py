"""The extension ``fft`` of the namespace: functions of `burnpy.fft` with the standard's names and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import burnpy.fft as transforms
from burnpy.array_api.creation_and_manipulation import Axes, default_device
from burnpy.array_api.data_types import dtype_from, missing_from, standard

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]


class Transform(Protocol):
    """A transform along one axis."""

    def __call__(self, x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
        """Call it."""
        ...


class TransformN(Protocol):
    """A transform along several axes, by default all."""

    def __call__(
        self, x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
    ) -> Any:
        """Call it."""
        ...


def _transform(name: str) -> Any:
    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
        return getattr(transforms, name)(x, n, axis, norm)

    return _named(function, name)


def _transform_n(name: str) -> Any:
    def function(
        x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
    ) -> Any:
        return getattr(transforms, name)(x, s, axes, norm)

    return _named(function, name)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Compute `burnpy.fft.{name}`."
    return standard(function)


fft: Transform = _transform("fft")
hfft: Transform = _transform("hfft")
ifft: Transform = _transform("ifft")
ihfft: Transform = _transform("ihfft")
irfft: Transform = _transform("irfft")
rfft: Transform = _transform("rfft")
fftn: TransformN = _transform_n("fftn")
ifftn: TransformN = _transform_n("ifftn")
irfftn: TransformN = _transform_n("irfftn")
rfftn: TransformN = _transform_n("rfftn")


@standard
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `fft`, for samples at a distance of ``d``."""
    return _frequencies(transforms.fftfreq, n, d, dtype, device)


@standard
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `rfft`, for samples at a distance of ``d``."""
    return _frequencies(transforms.rfftfreq, n, d, dtype, device)


def _frequencies(function: Any, n: int, d: float, dtype: Any, device: Any) -> Any:
    on = default_device() if device is None else device
    return function(n, d, dtype=None if dtype is None else dtype_from(dtype), device=on)


@standard
def fftshift(x: Any, /, *, axes: Axes | None = None) -> Any:
    """Move frequency 0 to the middle of axes, by default of all."""
    return transforms.fftshift(x, axes)


@standard
def ifftshift(x: Any, /, *, axes: Axes | None = None) -> Any:
    """Move frequency 0 back to the beginning: the inverse of `fftshift`."""
    return transforms.ifftshift(x, axes)


if not TYPE_CHECKING:
    __getattr__ = missing_from(__name__)
