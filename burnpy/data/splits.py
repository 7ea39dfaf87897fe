"""Random and stratified choices of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.data.base import SampleSource
from burnpy.data.randomness import SPLITS, checked_seed, philox

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def drawn(size: int, n: int, seed: int) -> NDArray[np.int64]:
    """Return ``n`` of the indices below ``size`` in random order.

    Raises:
        ArgumentError: there are fewer.
    """
    if not 0 <= n <= size:
        raise ArgumentError(f"sample() got {n} of {size} samples; ask for at most {size}")
    return philox(checked_seed(seed, "sample()"), 0, SPLITS).permutation(size)[:n]


def halves(
    data: SampleSource[Any], fraction: float, seed: int | None, stratify: str | ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of both parts of a split, each ascending; see `Dataset.split`."""
    size = len(data)
    given: object = fraction
    if not isinstance(given, (int, float)) or not 0 <= fraction <= 1:
        raise ArgumentError(f"split() got fraction={fraction}; expected a number from 0 to 1, as in split(0.8, seed=0)")
    count = round(fraction * size)
    if seed is None:
        if stratify is not None:
            raise ArgumentError("split() got stratify without a seed, which draws from each class; pass seed=0")
        return np.arange(count), np.arange(count, size)
    order = philox(checked_seed(seed, "split()"), 0, SPLITS).permutation(size)
    if stratify is not None:
        order = _interleaved(order, _labels(data, stratify))
    return np.sort(order[:count]), np.sort(order[count:])


def _interleaved(order: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order so that each beginning of it has each class in its share, up to rounding.

    The k-th of the m samples of a class goes to the place (k + 1/2) / m of the whole.
    """
    _, classes = np.unique(labels[order], return_inverse=True)
    by_class = np.argsort(classes, kind="stable")
    counts = np.bincount(classes)
    k = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = (k + 0.5) / np.repeat(counts, counts)
    return order[by_class[np.argsort(places, kind="stable")]]


def _labels(data: SampleSource[Any], stratify: str | ArrayLike) -> NDArray[Any]:
    """Return one label for each sample, from a column or an array."""
    size = len(data)
    if isinstance(stratify, str):
        labels = column(data, stratify)
    else:
        labels = np.asarray(stratify)
    if labels.shape != (size,):
        raise ArgumentError(
            f"split() got labels of shape {labels.shape} to stratify by; {size} samples need the shape ({size},)"
        )
    return labels


def column(data: SampleSource[Any], name: str) -> NDArray[Any]:
    """Return one column of all samples, at once where the dataset can.

    Raises:
        ArgumentError: the samples have no such column.
    """
    columns = data.columns(np.arange(len(data)))
    if columns is None:
        samples = [data[i] for i in range(len(data))]
        names = list(samples[0]) if samples and hasattr(samples[0], "keys") else []
        if samples and name not in names:
            raise ArgumentError(f"stratify={name!r} names no column; the samples have {', '.join(names) or 'no names'}")
        return np.array([sample[name] for sample in samples])
    if name not in columns:
        raise ArgumentError(f"stratify={name!r} names no column; the samples have {', '.join(columns)}")
    return columns[name]
