"""Samples that are made of others: mapped, subset, split, concatenated, zipped, and windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError, IndexRangeError
from burnpy.data.batch import Arrays, SampleSource, checked_index
from burnpy.data.collate import stacked
from burnpy.data.order_and_randomness import SAMPLES, SPLITS, BatchRandom, checked_seed, philox
from burnpy.tensor.dim_checks import checked_count, checked_number
from burnpy.tensor.host_data import rows_of
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import T, T_co, U

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def drawn(size: int, n: int, seed: int) -> NDArray[np.int64]:
    """Return ``n`` of the indices below ``size`` in random order."""
    if not 0 <= n <= size:
        raise ArgumentError(f"sample() got {n} of {size} samples; ask for at most {size}")
    return philox(checked_seed(seed, "sample()"), 0, SPLITS).permutation(size)[:n]


def halves(
    data: SampleSource[Any], fraction: float, seed: int | None, stratify: str | ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of both parts of a split, each ascending; see `Dataset.split`."""
    size = len(data)
    count = round(checked_number(fraction, "fraction", "split()", 0, 1) * size)
    if seed is None:
        if stratify is not None:
            raise ArgumentError("split() got stratify without a seed, which draws from each class; pass seed=0")
        return np.arange(count), np.arange(count, size)
    order = philox(checked_seed(seed, "split()"), 0, SPLITS).permutation(size)
    if stratify is not None:
        order = _interleaved(order, _labels(data, stratify))
    return np.sort(order[:count]), np.sort(order[count:])


def _interleaved(order: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order so that each beginning of it has each class in its share, up to rounding. The k-th of the m
    samples of a class goes to the place (k + 1/2) / m of the whole."""
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
        labels = rows_of(stratify, "split() got stratify as")
    if labels.shape != (size,):
        raise ArgumentError(
            f"split() got labels of shape {labels.shape} to stratify by; {size} samples need the shape ({size},)"
        )
    return labels


def column(data: SampleSource[Any], name: str) -> NDArray[Any]:
    """Return one column of all samples, at once where the dataset can."""
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


class View(SampleSource[T_co]):
    """The base class of views of other samples, which pass random numbers on to them."""

    def __getitem__(self, index: int) -> T_co:
        i = checked_index(index, len(self))
        return self.draw(i, next(BatchRandom(0, 0, [i], purpose=SAMPLES).generators()) if self.is_random else None)

    @abstractmethod
    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, from those of the datasets that this one is made of."""


def _checked_function(function: T, owner: str) -> T:
    if not callable(function):
        raise CallError(f"{owner} takes a function of a sample, got {describe(function)}")
    return function


class Mapped(View[T_co]):
    """The samples ``f(sample)``."""

    def __init__(self, inner: SampleSource[U], function: Callable[[U], T_co]) -> None:
        self.inner: SampleSource[Any] = inner
        self.function = _checked_function(function, "map()")
        self.is_random = inner.is_random

    def __len__(self) -> int:
        return len(self.inner)

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        return self.function(self.inner.draw(index, rng))


class RandomMapped(View[T_co]):
    """The samples ``f(sample, rng)``."""

    is_random = True

    def __init__(self, inner: SampleSource[U], function: Callable[[U, np.random.Generator], T_co]) -> None:
        self.inner: SampleSource[Any] = inner
        self.function = _checked_function(function, "map_random()")

    def __len__(self) -> int:
        return len(self.inner)

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        assert rng is not None  # since this is random
        return self.function(self.inner.draw(index, rng), rng)


class Subset(View[T_co]):
    """The samples at some indices."""

    def __init__(self, inner: SampleSource[T_co], indices: ArrayLike | range) -> None:
        self.inner = inner
        self.indices = _rows(indices, len(inner))
        self.is_random = inner.is_random

    def __len__(self) -> int:
        return len(self.indices)

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        return self.inner.draw(int(self.indices[index]), rng)

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the columns of samples, where the datasets that this one is made of give them."""
        return self.inner.columns(self.indices[indices])


class Concatenated(View[T_co]):
    """The samples of several datasets, one after another."""

    def __init__(self, parts: tuple[SampleSource[T_co], ...]) -> None:
        self.parts = parts
        self.ends = np.array([*accumulate(map(len, parts))], np.int64)
        self.is_random = any(part.is_random for part in parts)
        self.has_columns = _have_alike_columns(parts)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        k = int(np.searchsorted(self.ends, index, side="right"))
        part = self.parts[k]
        return part.draw(index - int(self.ends[k]) + len(part), rng)

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the columns of samples, where the datasets that this one is made of give alike ones."""
        if not self.has_columns:
            return None
        owners = np.searchsorted(self.ends, indices, side="right")
        out: Arrays = {}
        for k in np.unique(owners).tolist():
            rows = np.nonzero(owners == k)[0]
            part = self.parts[k]
            columns: Arrays | None = part.columns(indices[rows] - self.ends[k] + len(part))
            if columns is None:
                return None
            if len(rows) == len(indices):
                return columns
            for name, column in columns.items():
                out.setdefault(name, np.empty((len(indices), *column.shape[1:]), column.dtype))[rows] = column
        return out


class Zipped(View[Any]):
    """The samples of several datasets side by side."""

    def __init__(self, parts: tuple[SampleSource[Any], ...]) -> None:
        sizes = [len(part) for part in parts]
        if len(set(sizes)) > 1:
            raise ArgumentError(
                f"zip() got datasets of {', '.join(map(str, sizes))} samples; take a subset of the longer ones"
            )
        self.parts = parts
        self.is_random = any(part.is_random for part in parts)

    def __len__(self) -> int:
        return len(self.parts[0])

    def draw(self, index: int, rng: np.random.Generator | None) -> Any:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        samples = [part.draw(index, rng) for part in self.parts]
        return _merged(samples) if all(isinstance(sample, Mapping) for sample in samples) else tuple(samples)

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the columns of samples, where the datasets that this one is made of give them."""
        columns_of_parts = []
        for part in self.parts:
            columns = part.columns(indices)
            if columns is None:
                return None
            columns_of_parts.append(columns)
        return _merged(columns_of_parts)


class Windows(View[Any]):
    """Windows of consecutive samples."""

    def __init__(self, inner: SampleSource[Any], size: int, step: int) -> None:
        self.inner = inner
        self.size, self.step = checked_count(size, "size", 1, "window()"), checked_count(step, "step", 1, "window()")
        self.is_random = inner.is_random

    def __len__(self) -> int:
        return max(0, (len(self.inner) - self.size) // self.step + 1)

    def draw(self, index: int, rng: np.random.Generator | None) -> Any:
        """Return the sample at an index, from those of the datasets that this one is made of."""
        rows = range(index * self.step, index * self.step + self.size)
        samples = [self.inner.draw(row, rng) for row in rows]
        return stacked(samples, rows) if isinstance(samples[0], Mapping) else tuple(samples)

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the columns of samples, where the datasets that this one is made of give them."""
        rows = indices[:, None] * self.step + np.arange(self.size)
        columns: Arrays | None = self.inner.columns(rows.ravel())
        return (
            None
            if columns is None
            else {name: x.reshape(len(indices), self.size, *x.shape[1:]) for name, x in columns.items()}
        )


def _have_alike_columns(parts: tuple[SampleSource[Any], ...]) -> bool:
    """Return whether parts that are not empty give columns of the same names, dtypes and shapes."""
    first: list[Arrays] = []
    for part in parts:
        if len(part):
            columns: Arrays | None = part.columns(np.zeros(1, np.int64))
            if columns is None or (first and not _alike(first[0], columns)):
                return False  # samples come one by one, and `stacked` says what differs
            first.append(columns)
    return True


def _alike(some: Arrays, others: Arrays) -> bool:
    """Return whether two sets of columns have the same names, dtypes and shapes of samples."""
    return some.keys() == others.keys() and all(
        (x.dtype, x.shape[1:]) == (others[name].dtype, others[name].shape[1:]) for name, x in some.items()
    )


def _merged(parts: list[Any]) -> dict[str, Any]:
    """Return one mapping with the items of several."""
    out: dict[str, Any] = {}
    for part in parts:
        common = out.keys() & part.keys()
        if common:
            raise ArgumentError(
                f"zip() got datasets that both have {', '.join(sorted(common))}; rename it in one of them, as "
                'with data.map(lambda sample: {"other": sample["x"]})'
            )
        out.update(part)
    return out


def _rows(indices: ArrayLike | range, size: int) -> NDArray[np.int64]:
    """Return indices, or a mask, as checked indices from 0 to size - 1."""
    rows = rows_of(indices, "subset() got")
    if rows.size == 0 and rows.dtype.kind == "f":
        rows = rows.astype(np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iub":
        raise ArgumentError(f"subset() got {describe(indices)}; expected a list of ints, or of one bool a sample")
    if rows.dtype.kind == "b":
        if len(rows) != size:
            raise ArgumentError(f"subset() got a mask of {len(rows)}; expected a bool for each of {size} samples")
        return np.flatnonzero(rows)
    wrong = rows[(rows < -size) | (rows >= size)]
    if len(wrong):
        raise IndexRangeError(f"subset() got the index {wrong[0]}, and the dataset has {size} samples")
    return np.where(rows < 0, rows + size, rows).astype(np.int64)
