"""`ImageFolder`: images in a folder for each class, read by Pillow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from burnpy.backend.errors import ArgumentError, path_shown
from burnpy.data.dataset import Dataset
from burnpy.data.sample_source import Sample, checked_index
from burnpy.data.sources.tables import needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder(Dataset[Sample]):
    """Images of classes: a sample has ``x``, uint8 of shape (channels, height, width), and ``y``, the class's number.

    The folder has one folder for each class, with images in it or in folders below. Classes and images are numbered in
    the order of their names. Threads read images at the same time, since Pillow decodes without holding the
    interpreter's lock.

    Args:
        root: the folder.
        size: (height, width) that images are resized to, by bilinear interpolation; None to leave them as they are.
        mode: "RGB" for three channels, "L" for one of grey, "RGBA" for four.

    Raises:
        MissingPackageError: Pillow is not installed.
        ArgumentError: there is no such folder, or no image in it.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        size: tuple[int, int] | None = None,
        mode: Literal["RGB", "L", "RGBA"] = "RGB",
    ) -> None:
        self._open = needed("PIL.Image", "ImageFolder", "pillow").open
        folder = Path(root)
        if not os.path.isdir(folder):  # False, too, of a name that is too long
            raise ArgumentError(f"ImageFolder() got {path_shown(folder)}, which is not a folder")
        self.classes = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
        """The names of the classes."""
        paths: list[Path] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            images = sorted(path for path in (folder / name).rglob("*") if path.suffix.lower() in _SUFFIXES)
            paths += images
            labels += [label] * len(images)
        if not paths:
            raise ArgumentError(
                f"ImageFolder() found no images in {path_shown(folder)}; it looks for a folder for each class, with "
                f"files that end in {', '.join(_SUFFIXES)}"
            )
        self.paths = tuple(paths)  #: the file of each sample
        self.labels: NDArray[np.int64] = np.array(labels, np.int64)
        """The class of each sample, to stratify or balance by."""
        self.size, self.mode = size, mode

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        i = checked_index(index, len(self))
        try:
            with self._open(self.paths[i]) as image:
                if self.size is not None:
                    image.draft(self.mode, self.size[::-1])  # a JPEG is decoded at about that size
                picture: Any = image.convert(self.mode)
        except OSError as error:
            raise ArgumentError(f"{path_shown(self.paths[i])} cannot be read as an image: {error!s:.200}") from error
        if self.size is not None:
            picture = picture.resize(self.size[::-1], 2)  # PIL.Image.Resampling.BILINEAR
        pixels = np.asarray(picture)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        return {"x": np.ascontiguousarray(pixels), "y": self.labels[i]}
