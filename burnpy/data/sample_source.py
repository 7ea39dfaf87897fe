"""`SampleSource`: the interface that loaders and other datasets use of a dataset, and the types of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from operator import index as as_int
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

import numpy as np

from burnpy.backend.errors import CallError, IndexRangeError
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import T_co

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sample: TypeAlias = Mapping[str, Any]
"""A sample: arrays, numbers or other values by name."""

Arrays: TypeAlias = "dict[str, NDArray[Any]]"
"""Samples of a batch by column, each of shape (n, …)."""


class Indexable(Protocol[T_co]):
    """Anything with ``len`` and ``[i]``: a `Dataset`, a list, a dataset of PyTorch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class SampleSource(ABC, Generic[T_co]):
    """Samples with the indices 0 to ``len(source) - 1``. A subclass defines ``__len__`` and ``__getitem__``."""

    is_random: bool = False
    """True if samples draw random numbers, as those of `Dataset.map_random` do."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> T_co: ...

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index, for which random maps draw from ``rng``: a generator if `is_random`, else
        None.
        """
        return self[index]

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the samples at some indices as one new array for each column; None where samples come one by one."""
        return None


def checked_index(index: Any, size: int) -> int:
    """Return an index as an int from 0 to size - 1; a negative one counts from the end.

    Raises:
        IndexRangeError: it is out of range.
        CallError: it is not an int.
    """
    try:
        i = as_int(index)
    except TypeError:
        hint = "; for several samples use data.subset(indices)" if isinstance(index, (slice, list, np.ndarray)) else ""
        raise CallError(f"a dataset got the index {describe(index)}; expected an int{hint}") from None
    if not -size <= i < size:
        raise IndexRangeError(f"no sample {i} in a dataset of {size}")
    return i + size if i < 0 else i
