"""Augmentations of whole batches of images: functions of the columns and of random numbers for each sample.

Images are arrays of shape (n, channels, height, width). An augmentation is a value, which is given to `collate`, alone
or in a list::

    collate(device=Train, transform=[Shift(2), Flip(), Mixup(0.2, classes=10)])
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from burnpy.backend.dtypes import DTYPES, kind_of
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.data.order_and_randomness import BatchRandom
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.dim_checks import ABOVE_0, checked_count, checked_number
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColourJitter", "Crop", "Cutout", "Flip", "Mixup", "Normalize", "Rotate", "Shift"]


Limits: TypeAlias = Mapping[str, tuple[float, float]]
"""The least and the greatest value of settings, by name."""

FINITE = (-sys.float_info.max, sys.float_info.max)
POSITIVE = (ABOVE_0, sys.float_info.max)
MOST_PIXELS = 2**31 - 1


@dataclass(frozen=True)
class ImageTransform(metaclass=Explaining):
    """An augmentation of a column of images, shape (n, channels, height, width), of any dtype that is not complex."""

    numbers: ClassVar[Limits] = {}
    """The settings that are numbers, with their limits."""
    counts: ClassVar[Mapping[str, int]] = {}
    """The settings that are ints, with the least of each."""

    def __post_init__(self) -> None:
        check_settings(self, "column", self.numbers, self.counts)

    def __call__(self, columns: Mapping[str, Any], rng: BatchRandom) -> dict[str, Any]:
        """Return the columns, with augmented images."""
        name: str = getattr(self, "column")  # noqa: B009  # a field of each subclass, after its own ones
        return {**columns, name: self.images(images_of(columns, name, f"{type(self).__name__}()", rng), rng)}

    @abstractmethod
    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the augmented images, in new memory, of the dtype of ``x``."""


def check_settings(transform: Any, column: str, numbers: Limits, counts: Mapping[str, int]) -> None:
    """Check the settings of a transform: the field with the name of a column, numbers by their limits, and ints."""
    owner = f"{type(transform).__name__}()"
    for name, (least, most) in numbers.items():
        checked_number(getattr(transform, name), name, owner, least, most)
    for name, least in counts.items():
        if checked_count(getattr(transform, name), name, least, owner) > MOST_PIXELS:
            raise ArgumentError(f"{owner} got {name}={describe(getattr(transform, name))}; no image is that large")
    if not isinstance(getattr(transform, column), str):
        raise ArgumentError(
            f"{owner} got {column}={describe(getattr(transform, column))}; expected the name of a column"
        )


def column_of(
    columns: Mapping[str, Any], name: str, owner: str, rng: BatchRandom, setting: str = "column"
) -> NDArray[Any]:
    """Return a column as an array of numbers, with as many rows as there are random numbers."""
    if name not in columns:
        raise ArgumentError(f"{owner} augments {name}, and the samples have {', '.join(columns)}; give {setting}=...")
    x: Any = columns[name]
    if not isinstance(x, np.ndarray):
        raise KindError(f"{owner} augments an ndarray, and {name} is {describe(x)}")
    if x.dtype.name not in DTYPES or kind_of(x.dtype) == "complex":
        raise DTypeError(f"{owner} augments floats, ints and bools, and {name} has dtype {x.dtype}")
    if x.shape[:1] != (len(rng),):
        raise ShapeError(f"{owner} got {name} of shape {x.shape}, and random numbers for {len(rng)} samples")
    return x


def images_of(columns: Mapping[str, Any], name: str, owner: str, rng: BatchRandom) -> NDArray[Any]:
    """Return a column of images."""
    x = column_of(columns, name, owner, rng)
    if x.ndim != 4:
        raise ShapeError(
            f"{owner} augments images (n, channels, height, width), and {name} has {x.shape}; reshape it in a "
            "transform before"
        )
    return x


def fill_for(x: NDArray[Any], fill: float, owner: str) -> float:
    """Return the number for new pixels, which the dtype of the images must have."""
    number = checked_number(fill, "fill", owner)
    if x.dtype.kind in "iub" and not (number.is_integer() and _least(x.dtype) <= number <= _most(x.dtype)):
        raise ArgumentError(f"{owner} got fill={describe(fill)} for images of {x.dtype}, which do not have this value")
    return number


def _least(dtype: Any) -> int:
    return 0 if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _most(dtype: Any) -> int:
    return 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)


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

    numbers: ClassVar[Limits] = {**dict.fromkeys(("brightness", "contrast", "saturation"), (0, 1)), "high": POSITIVE}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the images in other colours."""
        if kind_of(x.dtype) != "float" and x.dtype != np.uint8:
            raise DTypeError(f"ColourJitter() got images of {x.dtype}; expected floats and uint8")
        if self.saturation and x.shape[1] != 3:
            raise ShapeError(f"ColourJitter() cannot change the saturation of {x.shape[1]} channels; expected 3")
        factors = 1 + rng.uniform(-1.0, 1.0, (3,)) * np.array([self.brightness, self.contrast, self.saturation], "f4")
        brightness, contrast, saturation = factors.astype("f4").T[:, :, None, None, None]
        out: NDArray[Any] = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
        out *= brightness.astype(out.dtype)
        if self.contrast:
            mean = out.mean(axis=(1, 2, 3), keepdims=True)
            out = mean + (out - mean) * contrast.astype(out.dtype)
        if self.saturation:
            grey = np.tensordot(out, _LUMA.astype(out.dtype), (1, 0))[:, None]
            out = grey + (out - grey) * saturation.astype(out.dtype)
        if x.dtype == np.uint8:
            return np.asarray(np.rint(np.clip(out, 0, 255)), np.uint8)
        return np.clip(out, 0, self.high, out=out).astype(x.dtype, copy=False)


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

    numbers: ClassVar[Limits] = {"scale": POSITIVE}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("mean", FINITE[0]), ("std", ABOVE_0)):
            values: Any = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
                raise ArgumentError(f"Normalize() got {name}={describe(values)}; expected a list of numbers")
            for number in values:
                checked_number(number, f"a number of {name}", "Normalize()", least)

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the normalized images."""
        if not len(self.mean) == len(self.std) == x.shape[1]:
            raise ShapeError(
                f"Normalize() has {len(self.mean)} means and {len(self.std)} deviations, and the images {x.shape[1]} "
                "channels"
            )
        mean, std = (np.array(values, np.float32)[:, None, None] for values in (self.mean, self.std))
        out = x * (1 / (self.scale * std))
        out -= mean / std
        return out.astype(np.float32, copy=False)


@dataclass(frozen=True)
class Shift(ImageTransform):
    """Moves each image by up to ``pixels`` in each direction; pixels that come in are ``fill``.

    Raises:
        ArgumentError: ``pixels`` is negative.

    >>> from burnpy.data import BatchRandom
    >>> x = np.arange(4.0).reshape(1, 1, 2, 2)
    >>> Shift(1)({"x": x}, BatchRandom(0, 0, [2]))["x"].tolist()
    [[[[0.0, 0.0], [1.0, 0.0]]]]
    """

    pixels: int
    fill: float = 0.0
    column: str = "x"

    counts: ClassVar[Mapping[str, int]] = {"pixels": 0}
    numbers: ClassVar[Limits] = {"fill": FINITE}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the shifted images."""
        p, fill = self.pixels, fill_for(x, self.fill, "Shift()")
        padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=fill)
        return _cut(padded, rng.integers(0, 2 * p + 1, (2,)), x.shape[2], x.shape[3])


@dataclass(frozen=True)
class Crop(ImageTransform):
    """Cuts a part of ``height × width`` out of each image, at a random place, or with ``center=True`` the middle.

    Raises:
        ArgumentError: the size is not positive.

    >>> from burnpy.data import BatchRandom
    >>> Crop(2, 3)({"x": np.zeros((5, 3, 8, 8))}, BatchRandom(0, 0, range(5)))["x"].shape
    (5, 3, 2, 3)
    """

    height: int
    width: int
    center: bool = False
    column: str = "x"

    counts: ClassVar[Mapping[str, int]] = {"height": 1, "width": 1}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the parts."""
        free = x.shape[2] - self.height, x.shape[3] - self.width
        if min(free) < 0:
            raise ShapeError(
                f"Crop() got images of {x.shape[2]} × {x.shape[3]}; expected {self.height} × {self.width} or more"
            )
        if self.center:
            top, left = free[0] // 2, free[1] // 2
            return x[:, :, top : top + self.height, left : left + self.width].copy()
        places = (rng.uniform(shape=(2,), dtype=np.float64) * (np.array(free) + 1)).astype(np.int64)
        return _cut(x, places, self.height, self.width)


@dataclass(frozen=True)
class Flip(ImageTransform):
    """Mirrors each image left to right with probability p, or with ``vertical=True`` top to bottom.

    Raises:
        ArgumentError: ``p`` is not a probability.

    >>> from burnpy.data import BatchRandom
    >>> Flip(p=1.0)({"x": np.arange(3.0).reshape(1, 1, 1, 3)}, BatchRandom(0, 0, [0]))["x"].tolist()
    [[[[2.0, 1.0, 0.0]]]]
    """

    p: float = 0.5
    vertical: bool = False
    column: str = "x"

    numbers: ClassVar[Limits] = {"p": (0, 1)}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the images, some of them mirrored."""
        chosen = rng.bernoulli(self.p)
        out = x.copy()
        out[chosen] = x[chosen, :, ::-1] if self.vertical else x[chosen, :, :, ::-1]
        return out


@dataclass(frozen=True)
class Rotate(ImageTransform):
    """Turns each image about its middle by up to ``degrees`` in each direction; pixels that come in are ``fill``.

    Pixels between others are interpolated linearly; images of ints are rounded.

    Raises:
        ArgumentError: ``degrees`` is negative.

    >>> from burnpy.data import BatchRandom
    >>> Rotate(15.0)({"x": np.ones((2, 1, 8, 8))}, BatchRandom(0, 0, [0, 1]))["x"].shape
    (2, 1, 8, 8)
    """

    degrees: float
    fill: float = 0.0
    column: str = "x"

    numbers: ClassVar[Limits] = {"degrees": (0, FINITE[1]), "fill": FINITE}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the turned images."""
        angles = np.deg2rad(rng.uniform(-self.degrees, self.degrees, dtype=np.float64))
        return turned(x, angles, fill_for(x, self.fill, "Rotate()"))


def turned(x: NDArray[Any], angles: NDArray[np.float64], fill: float) -> NDArray[Any]:
    """Return images turned counter-clockwise about their middles, by bilinear interpolation."""
    n, _, height, width = x.shape
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    rows, columns = rows - (height - 1) / 2, columns - (width - 1) / 2
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    from_row = cos * rows + sin * columns + (height - 1) / 2
    from_column = -sin * rows + cos * columns + (width - 1) / 2
    top, left = np.floor(from_row).astype(np.int64), np.floor(from_column).astype(np.int64)
    down, right = from_row - top, from_column - left
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    image = np.arange(n)[:, None, None]
    out = np.zeros((n, height, width, x.shape[1]), np.float32 if x.dtype == np.float32 else np.float64)
    for row, weight in ((top, 1 - down), (top + 1, down)):
        for column, share in ((left, 1 - right), (left + 1, right)):
            at = np.clip(row + 1, 0, height + 1), np.clip(column + 1, 0, width + 1)
            out += padded[image, :, at[0], at[1]] * (weight * share)[..., None].astype(out.dtype)
    if x.dtype.kind in "iub":
        out = np.rint(out)
    return np.ascontiguousarray(out.transpose(0, 3, 1, 2)).astype(x.dtype, copy=False)


def _cut(x: NDArray[Any], places: NDArray[np.int64], height: int, width: int) -> NDArray[Any]:
    """Return a part of each image; ``places`` are the tops and lefts, shape (n, 2)."""
    out = np.empty((*x.shape[:2], height, width), x.dtype)
    for target, image, (top, left) in zip(out, x, places.tolist(), strict=True):
        target[...] = image[:, top : top + height, left : left + width]
    return out


@dataclass(frozen=True)
class Cutout(ImageTransform):
    """Fills a square of ``size`` pixels in each image, centered on a random pixel.

    Source: DeVries and Taylor, Improved regularization of convolutional neural networks with Cutout, 2017.

    Raises:
        ArgumentError: ``size`` is not positive.

    >>> from burnpy.data import BatchRandom
    >>> out = Cutout(4)({"x": np.ones((3, 1, 8, 8))}, BatchRandom(0, 0, range(3)))["x"]
    >>> [4 <= int(64 - image.sum()) <= 16 for image in out]
    [True, True, True]
    """

    size: int
    fill: float = 0.0
    column: str = "x"

    counts: ClassVar[Mapping[str, int]] = {"size": 1}
    numbers: ClassVar[Limits] = {"fill": FINITE}

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the images with squares in them."""
        out, fill = x.copy(), fill_for(x, self.fill, "Cutout()")
        middles = (rng.uniform(shape=(2,), dtype=np.float64) * np.array(x.shape[2:])).astype(np.int64)
        starts = middles - self.size // 2
        for image, (top, left) in zip(out, starts.tolist(), strict=True):
            image[:, max(top, 0) : max(top + self.size, 0), max(left, 0) : max(left + self.size, 0)] = fill
        return out


@dataclass(frozen=True)
class Mixup(metaclass=Explaining):
    """Mixes each sample with another of its batch: ``share · x + (1 - share) · x'``, and the labels likewise.

    The share is drawn from Beta(alpha, alpha), and is at least a half. Labels that are ints become rows of
    ``classes`` weights. The pairs of samples depend on the seed, the epoch and the batch, and are the same on all ranks
    of `Loader.shard`. Each rank loads the samples that are mixed with its own.

    Source: Zhang et al., mixup: beyond empirical risk minimization, 2018.

    Raises:
        ArgumentError: alpha or the number of classes is not positive.

    >>> from burnpy.data import BatchRandom
    >>> columns = {"x": np.zeros((2, 1, 2, 2), np.float32), "y": np.array([0, 1])}
    >>> out = Mixup(0.4, classes=2)(columns, BatchRandom(0, 0, [0, 1]))
    >>> out["y"].shape, out["y"].sum(axis=1).tolist()
    ((2, 2), [1.0, 1.0])
    """

    mixes: ClassVar[bool] = True

    alpha: float
    classes: int | None = None
    column: str = "x"
    labels: str = "y"

    def __post_init__(self) -> None:
        check_settings(self, "column", {"alpha": POSITIVE}, {} if self.classes is None else {"classes": 1})
        check_settings(self, "labels", {}, {})

    def __call__(self, columns: Mapping[str, Any], rng: BatchRandom) -> dict[str, Any]:
        """Return the columns with mixed samples."""
        x = column_of(columns, self.column, "Mixup()", rng)
        y = column_of(columns, self.labels, "Mixup()", rng, "labels")
        if kind_of(x.dtype) != "float":
            raise DTypeError(f"Mixup() got {self.column} of {x.dtype}; it mixes floats, so normalize before")
        if kind_of(y.dtype) != "float":
            y = self._weights(y)
        share = rng.beta(self.alpha, self.alpha)
        share = np.maximum(share, 1 - share)
        partner = rng.partners()
        return {**columns, self.column: _mixed(x, partner, share), self.labels: _mixed(y, partner, share)}

    def _weights(self, y: NDArray[Any]) -> NDArray[np.float32]:
        if self.classes is None or y.ndim != 1:
            raise DTypeError(
                f"Mixup() got {self.labels} of dtype {y.dtype} and shape {y.shape}; pass classes=... to turn labels of "
                "shape (n,) into weights, or pass labels that are weights"
            )
        if len(y) and (y.min() < 0 or y.max() >= self.classes):
            raise ArgumentError(f"Mixup() got labels from {y.min()} to {y.max()}, and classes={self.classes}")
        weights: NDArray[np.float32] = np.eye(self.classes, dtype=np.float32)[y]
        return weights


def _mixed(x: NDArray[Any], partner: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[Any]:
    weight = share.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    out: NDArray[Any] = x * weight + x[partner] * (1 - weight)
    return out
