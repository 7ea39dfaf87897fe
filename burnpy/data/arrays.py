"""The types of samples and of batches while they are NumPy arrays, and the dataset of whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.data.base import Arrays, Sample, checked_index
from burnpy.data.dataset import Dataset
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArrayDataset(Dataset[Sample]):
    """Samples that are the rows of arrays: sample i is a dict of row i of each column.

    The arrays are not copied, so that ``np.load(path, mmap_mode="r")`` stays on the disk.

    Args:
        **columns: arrays with the same first dimension, or what NumPy and burnpy make arrays of, such as tensors.

    Raises:
        ShapeError: the columns have different numbers of rows, or one is 0-d.
        ArgumentError: there is no column.
        KindError: a column holds Python objects.

    >>> data = ArrayDataset(x=np.eye(3), y=np.array([0, 1, 2]))
    >>> len(data), data[2]["x"].tolist(), int(data[2]["y"])
    (3, [0.0, 0.0, 1.0], 2)
    """

    @explained
    def __init__(self, **columns: Any) -> None:
        arrays = {name: np.asanyarray(column) for name, column in columns.items()}
        if not arrays:
            raise ArgumentError("ArrayDataset() got no column; write ArrayDataset(x=images, y=labels)")
        for name, array in arrays.items():
            if array.dtype.kind == "O":
                raise KindError(
                    f"ArrayDataset() got {a(type(columns[name]).__name__)} as {name}, which NumPy reads as an "
                    "array of Python objects; give numbers of one shape, or wrap a list with burnpy.data.from_sequence"
                )
            if not array.ndim:
                raise ShapeError(f"ArrayDataset() got a 0-d {name}; a column has a row for each sample")
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{size} of {name}" for name, size in sizes.items())
            raise ShapeError(f"ArrayDataset() got {shown}; every column has one row for each sample")
        self._arrays = arrays
        self._size = next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        row = checked_index(index, self._size)
        return {name: array[row] for name, array in self._arrays.items()}

    def columns(self, indices: NDArray[np.int64]) -> Arrays:
        """The rows at some indices, as new arrays by column."""
        rows = as_slice(indices)
        if rows is not None:
            return {name: np.array(array[rows]) for name, array in self._arrays.items()}
        return {name: array.take(indices, axis=0) for name, array in self._arrays.items()}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={array.dtype}{list(array.shape[1:])}" for name, array in self._arrays.items())
        return f"ArrayDataset({self._size} samples: {shown})"


def as_slice(indices: NDArray[np.int64]) -> slice | None:
    """Return indices that count up by one as a slice, which is copied faster; None if they do not."""
    n = len(indices)
    if n > 1 and indices[-1] - indices[0] == n - 1 and bool((np.diff(indices) == 1).all()):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return None
