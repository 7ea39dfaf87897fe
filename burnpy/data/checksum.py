"""A checksum of some samples of a dataset, by which a resumed run notices that the data have changed."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from burnpy.data.base import SampleSource

SAMPLES = 16
"""The number of samples that are read: enough to tell another set, or another order, and quick to read."""


def checksum(dataset: SampleSource[Any]) -> str | None:
    """Return a checksum of up to 16 samples at even distances, as hexadecimal digits.

    Only samples that come as columns are read, such as those of `burnpy.data.ArrayDataset` and parts of it: a function
    that makes samples one by one may draw random numbers of its own.

    Returns:
        Equal for equal samples, in every process; None where there are no columns or no samples.

    >>> from burnpy.data import ArrayDataset
    >>> data = ArrayDataset(x=np.arange(100.0))
    >>> checksum(data) == checksum(ArrayDataset(x=np.arange(100.0))), checksum(data) == checksum(data.subset(range(99)))
    (True, False)
    """
    size = len(dataset)
    if not size or dataset.is_random:
        return None
    rows = np.unique(np.linspace(0, size - 1, SAMPLES).round().astype(np.int64))
    columns = dataset.columns(rows)
    if columns is None:
        return None
    total = 0
    for name, column in sorted(columns.items()):
        if not column.dtype.hasobject:  # whose bytes are addresses
            total = crc32(f"{name} {column.dtype} {column.shape}".encode(), total)
            total = crc32(np.ascontiguousarray(column).tobytes(), total)
    return f"{total:08x}"
