"""`ImageTransform`: the base class of augmentations of one column of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.data.randomness import BatchRandom

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ImageTransform(ABC):
    """An augmentation of a column of images, shape (n, channels, height, width), of any dtype."""

    def __call__(self, columns: Mapping[str, Any], rng: BatchRandom) -> dict[str, Any]:
        """The columns, with augmented images.

        Raises:
            ArgumentError: there is no such column.
            ShapeError: the column has no images.
        """
        name: str = getattr(self, "column")  # noqa: B009  # a field of each subclass, after its own ones
        return {**columns, name: self.images(images_of(columns, name, type(self).__name__), rng)}

    @abstractmethod
    def images(self, x: NDArray[Any], rng: BatchRandom) -> NDArray[Any]:
        """The augmented images, in new memory, of the dtype of ``x``."""


def images_of(columns: Mapping[str, Any], name: str, owner: str) -> NDArray[Any]:
    """Return a column of images.

    Raises:
        ArgumentError: there is no such column.
        ShapeError: it is not of shape (n, channels, height, width).
    """
    if name not in columns:
        raise ArgumentError(f"{owner}() augments {name}, and the samples have {', '.join(columns)}; give column=...")
    x: NDArray[Any] = columns[name]
    if getattr(x, "ndim", 0) != 4:
        shape = getattr(x, "shape", "no shape")
        raise ShapeError(
            f"{owner}() augments images (n, channels, height, width), and {name} has {shape}; reshape it in a "
            "transform before"
        )
    return x
