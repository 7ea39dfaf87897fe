"""Augmentations that leave something out, or mix samples: Cutout and Mixup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from burnpy.backend.errors import ArgumentError, DTypeError
from burnpy.data.randomness import BatchRandom
from burnpy.data.transforms.images import ImageTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ArgumentError(f"Cutout() got size={self.size}; expected a number of at least 1")

    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """Return the images with squares in them."""
        out = x.copy()
        middles = (rng.uniform(shape=(2,), dtype=np.float64) * np.array(x.shape[2:])).astype(np.int64)
        starts = middles - self.size // 2
        for image, (top, left) in zip(out, starts.tolist(), strict=True):
            image[:, max(top, 0) : max(top + self.size, 0), max(left, 0) : max(left + self.size, 0)] = self.fill
        return out


@dataclass(frozen=True)
class Mixup:
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
        if self.alpha <= 0 or (self.classes is not None and self.classes < 1):
            raise ArgumentError(f"Mixup() got alpha={self.alpha} and classes={self.classes}; both are positive")

    def __call__(self, columns: Mapping[str, Any], rng: BatchRandom) -> dict[str, Any]:
        """Return the columns with mixed samples.

        Raises:
            ArgumentError: a column is missing, or a label is no class.
            DTypeError: the samples are no floats, or labels are ints and ``classes`` is not given.
        """
        for name in (self.column, self.labels):
            if name not in columns:
                raise ArgumentError(f"Mixup() mixes {name}, and the samples have {', '.join(columns)}")
        x, y = columns[self.column], columns[self.labels]
        if x.dtype.kind != "f":
            raise DTypeError(f"Mixup() got {self.column} of {x.dtype}; it mixes floats, so normalize before")
        if y.dtype.kind != "f":
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
