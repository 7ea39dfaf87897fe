"""Augmentations of colours, and normalizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, DTypeError, ShapeError
from burnpy.data.randomness import BatchRandom
from burnpy.data.transforms.base import ImageTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LUMA = np.array([0.299, 0.587, 0.114])
"""The weights of red, green and blue in brightness. Source: ITU-R BT.601."""


@dataclass(frozen=True)
class ColourJitter(ImageTransform):
    """Changes brightness, contrast and saturation of each image by random factors, in that order.

    A factor is uniform between 1 - s and 1 + s, for the given s. Images of floats are from 0 to ``high``, and cut off
    there; those of uint8 from 0 to 255, and are rounded. Saturation is for images of three channels.

    Raises:
        ArgumentError: a range is not between 0 and 1.

    >>> from burnpy.data import BatchRandom
    >>> x = np.full((2, 3, 4, 4), 0.5, np.float32)
    >>> out = ColourJitter(brightness=0.2)({"x": x}, BatchRandom(0, 0, [0, 1]))["x"]
    >>> bool((abs(out - 0.5) <= 0.1).all()), out.dtype
    (True, dtype('float32'))
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    high: float = 1.0
    column: str = "x"

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"ColourJitter() got {name}={getattr(self, name)}; expected a number from 0 to 1")

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """The images in other colours.

        Raises:
            ShapeError: saturation is to change, and there are not three channels.
            DTypeError: the images are of ints other than uint8.
        """
        if x.dtype.kind != "f" and x.dtype != np.uint8:
            raise DTypeError(f"ColourJitter() got images of {x.dtype}; expected floats and uint8")
        if self.saturation and x.shape[1] != 3:
            raise ShapeError(f"ColourJitter() cannot change the saturation of {x.shape[1]} channels; expected 3")
        factors = 1 + rng.uniform(-1.0, 1.0, (3,)) * np.array([self.brightness, self.contrast, self.saturation], "f4")
        brightness, contrast, saturation = factors.astype("f4").T[:, :, None, None, None]
        out: NDArray[Any] = x.astype(np.float32 if x.dtype == np.uint8 else x.dtype)
        out *= brightness.astype(out.dtype)
        if self.contrast:
            mean = out.mean(axis=(1, 2, 3), keepdims=True)
            out = mean + (out - mean) * contrast.astype(out.dtype)
        if self.saturation:
            grey = np.tensordot(out, _LUMA.astype(out.dtype), (1, 0))[:, None]
            out = grey + (out - grey) * saturation.astype(out.dtype)
        if x.dtype == np.uint8:
            return np.asarray(np.rint(np.clip(out, 0, 255)), np.uint8)
        return np.clip(out, 0, self.high, out=out)


@dataclass(frozen=True)
class Normalize(ImageTransform):
    """Computes ``(x / scale - mean) / std`` for each channel, in float32; with ``scale=255`` of images of uint8.

    Raises:
        ArgumentError: a standard deviation or the scale is not positive.

    >>> from burnpy.data import BatchRandom
    >>> x = np.full((1, 1, 1, 2), 255, np.uint8)
    >>> Normalize([0.5], [0.25], scale=255)({"x": x}, BatchRandom(0, 0, [0]))["x"].tolist()
    [[[[2.0, 2.0]]]]
    """

    mean: Sequence[float]
    std: Sequence[float]
    scale: float = 1.0
    column: str = "x"

    def __post_init__(self) -> None:
        if min(*self.std, self.scale) <= 0:
            raise ArgumentError(f"Normalize() got std={self.std} and scale={self.scale}; expected a positive number")

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """The normalized images.

        Raises:
            ShapeError: there are not as many means and deviations as channels.
        """
        if not len(self.mean) == len(self.std) == x.shape[1]:
            raise ShapeError(
                f"Normalize() has {len(self.mean)} means and {len(self.std)} deviations, and the images {x.shape[1]} "
                "channels"
            )
        mean, std = (np.array(values, np.float32)[:, None, None] for values in (self.mean, self.std))
        out = x * (1 / (self.scale * std))
        out -= mean / std
        return out.astype(np.float32, copy=False)
