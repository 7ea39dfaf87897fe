"""`Dataset`: samples by index, and methods that derive other datasets; `ArrayDataset` of whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError, KindError, ShapeError, a, counted
from burnpy.data.batch import Arrays, Indexable, Sample, SampleSource, checked_index
from burnpy.data.views import Concatenated, Mapped, RandomMapped, Subset, Windows, Zipped, drawn, halves
from burnpy.tensor.call_errors import explained
from burnpy.tensor.host_data import columns_of, frame_array, is_frame, refuse_masked, rows_of
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import T, T_co, U

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Dataset(SampleSource[T_co]):
    """Samples with the indices 0 to ``len(dataset) - 1``. A subclass defines ``__len__`` and ``__getitem__``.

    A dataset does not change: `map`, `subset` and so on return views of it, which compute a sample at access.

    >>> data = ArrayDataset(x=np.arange(6.0), y=np.arange(6) % 2)
    >>> small, rest = data.map(lambda sample: {**sample, "x": sample["x"] * 2}).split(1 / 3, seed=None)
    >>> [float(small[i]["x"]) for i in range(len(small))]
    [0.0, 2.0]
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(len(self), 'sample')})"

    @explained
    def map(self, f: Callable[[T_co], U]) -> Dataset[U]:
        """Return the samples ``f(sample)``. Functions of whole batches are faster: see `burnpy.data.collate`."""
        return DerivedDataset(Mapped(self, f))

    @explained
    def map_random(self, f: Callable[[T_co, np.random.Generator], U]) -> Dataset[U]:
        """Return the samples ``f(sample, rng)``, where rng depends on the loader's seed, the epoch and the sample
        alone.

        Outside of a loader the seed and the epoch are 0.
        """
        return DerivedDataset(RandomMapped(self, f))

    @explained
    def concat(self, *others: Dataset[T]) -> Dataset[T_co | T]:
        """Return the samples of this dataset, and after them those of others."""
        return DerivedDataset(Concatenated((self, *others)))

    def __add__(self, other: Dataset[T]) -> Dataset[T_co | T]:
        return self.concat(other)

    @explained
    def subset(self, indices: ArrayLike | range) -> Dataset[T_co]:
        """Return the samples at some indices, in that order; or where a mask of bools is True.

        Raises:
            IndexRangeError: an index is out of range.
            ArgumentError: the indices are not ints in one dimension, or a mask is of another length.
        """
        return DerivedDataset(Subset(self, indices))

    @explained
    def sample(self, n: int, *, seed: int) -> Dataset[T_co]:
        """Return ``n`` samples drawn without replacement, in random order.

        Raises:
            ArgumentError: there are fewer than ``n`` samples.
        """
        return self.subset(drawn(len(self), n, seed))

    @explained
    def window(self, size: int, *, step: int = 1) -> Dataset[Any]:
        """Return windows of ``size`` consecutive samples, which begin ``step`` apart; the rest at the end is left out.

        A window of mappings is one mapping, with each column stacked to the shape (size, …); of others, a tuple.

        Raises:
            ArgumentError: size or step is not positive.
        """
        return DerivedDataset(Windows(self, size, step))

    @explained
    def zip(self, *others: Dataset[Any]) -> Dataset[Any]:
        """Return the samples of several datasets of one length side by side: mappings merged into one, others as a
        tuple.

        Raises:
            ArgumentError: the lengths differ; or, when a sample is read, two mappings have a name in common.
        """
        return DerivedDataset(Zipped((self, *others)))

    @explained
    def split(
        self, fraction: float, *, seed: int | None, stratify: str | ArrayLike | None = None
    ) -> tuple[Dataset[T_co], Dataset[T_co]]:
        """Split into two datasets: ``fraction`` of the samples, rounded, and the rest, both in ascending order.

        Args:
            fraction: from 0 to 1.
            seed: decides which samples go where; None for the first samples and the last.
            stratify: the name of a column, or an array of labels. The classes then have the same shares in both, up
                to rounding.

        Raises:
            ArgumentError: the fraction is not between 0 and 1, the labels are not one for each sample, or ``stratify``
                comes without a seed.
        """
        first, second = halves(self, fraction, seed, stratify)
        return self.subset(first), self.subset(second)


class DerivedDataset(Dataset[T_co]):
    """The samples of a view; the methods of `Dataset` return it."""

    def __init__(self, view: SampleSource[T_co]) -> None:
        self.view = view
        self.is_random = view.is_random

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, index: int) -> T_co:
        return self.view[index]

    def draw(self, index: int, rng: np.random.Generator | None) -> T_co:
        """Return the sample at an index of the view."""
        return self.view.draw(index, rng)

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the columns of samples, where the view gives them."""
        return self.view.columns(indices)


class SequenceDataset(Dataset[T_co]):
    """The samples of anything with ``len`` and ``[i]``; `from_sequence` returns it."""

    def __init__(self, source: Indexable[T_co]) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> T_co:
        return self._source[checked_index(index, len(self._source))]


class NamedDataset(Dataset[Sample]):
    """The samples of a sequence of tuples, as mappings from names; mappings are left as they are."""

    def __init__(self, source: Indexable[Any], names: tuple[str, ...]) -> None:
        self._source, self._names = source, names

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Sample:
        values = self._source[checked_index(index, len(self._source))]
        if isinstance(values, Mapping):
            return values
        parts = values if isinstance(values, (tuple, list)) else (values,)
        if len(parts) != len(self._names):
            raise ArgumentError(
                f"sample {index} has {len(parts)} parts, but there are {len(self._names)} names: "
                f"{', '.join(map(str, self._names))}"
            )
        return dict(zip(self._names, parts, strict=True))


@overload
def from_sequence(source: Indexable[T]) -> Dataset[T]: ...
@overload
def from_sequence(source: Indexable[Any], names: Sequence[str]) -> Dataset[Sample]: ...
@explained
def from_sequence(source: Indexable[Any], names: Sequence[str] | None = None) -> Dataset[Any]:
    """Return a dataset of anything with ``len`` and ``[i]``: a list, or an object of one's own.

    Args:
        source: the samples.
        names: names for the parts of samples that are tuples, which makes mappings of them.

    Raises:
        CallError: ``source`` has no ``len`` or no ``[i]``.

    >>> from_sequence([(0.5, 1), (0.25, 0)], names=("x", "y"))[1]
    {'x': 0.25, 'y': 0}
    """
    refuse_unindexable(source, "from_sequence()")
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"from_sequence() got names={describe(names)}; expected a list of strings")
    return SequenceDataset(source) if names is None else NamedDataset(source, tuple(names))


def refuse_unindexable(source: object, owner: str) -> None:
    """Check that an object has ``len`` and ``[i]``."""
    is_indexable = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if is_indexable and not isinstance(source, (str, bytes, Mapping)) and not is_frame(source):
        return
    hint = "; of a mapping of arrays write ArrayDataset(**columns)" if isinstance(source, Mapping) else ""
    hint = "; of a frame write ArrayDataset(frame)" if is_frame(source) else hint
    if hasattr(source, "__iter__") and not hasattr(source, "__len__"):
        hint = "; what can only be iterated is for burnpy.data.StreamLoader"
    raise CallError(f"{owner} got {a(type(source).__name__)}, and a dataset has len() and gives sample i as [i]{hint}")


class ArrayDataset(Dataset[Sample]):
    """Samples that are the rows of arrays: sample i is a dict of row i of each column.

    The arrays are not copied, so that ``np.load(path, mmap_mode="r")`` stays on the disk.

    Args:
        frame: a frame of pandas or Polars, whose columns keep their names.
        **columns: arrays with the same first dimension, or values that become arrays, such as tensors. A series becomes
            an array, and a frame an array of shape (n, columns), as in ``x=frame[["height", "width"]]``.

    Raises:
        ShapeError: the columns have different numbers of rows, or one is 0-d.
        ArgumentError: there is no column, there are two of one name, or one is a masked array.
        KindError: a column holds Python objects; or one of a frame, strings or dates.
        DTypeError: a frame or a series has missing values.
        CallError: ``frame`` is not a frame, or a lazy one.

    >>> data = ArrayDataset(x=np.eye(3), y=np.array([0, 1, 2]))
    >>> len(data), data[2]["x"].tolist(), int(data[2]["y"])
    (3, [0.0, 0.0, 1.0], 2)
    """

    @explained
    def __init__(self, frame: Any = None, /, **columns: Any) -> None:
        owner = "ArrayDataset()"
        arrays = {} if frame is None else columns_of(frame, owner)
        for name, column in columns.items():
            if name in arrays:
                raise ArgumentError(f"{owner} got {name}, which is also a column of the frame; rename one of them")
            refuse_masked(column, f"{owner} got {name},")
            array = frame_array(column, f"{owner} got {name},")
            arrays[name] = rows_of(column, f"{owner} got {name} as") if array is None else array
        if not arrays:
            raise ArgumentError(f"{owner} got no column; write ArrayDataset(x=images, y=labels)")
        for name, array in arrays.items():
            if array.dtype.kind == "O":
                raise KindError(
                    f"{owner} got {a(type(columns[name]).__name__)} as {name}, which NumPy reads as an "
                    "array of Python objects; give numbers of one shape, or wrap a list with burnpy.data.from_sequence"
                )
            if not array.ndim:
                raise ShapeError(f"{owner} got a 0-d {name}; a column has a row for each sample")
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{counted(size, 'row')} of {name}" for name, size in sizes.items())
            raise ShapeError(f"{owner} got {shown}; every column has one row for each sample")
        self._arrays = arrays
        self._size = next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        row = checked_index(index, self._size)
        return {name: array[row] for name, array in self._arrays.items()}

    @explained
    def columns(self, indices: NDArray[np.int64]) -> Arrays:
        """Return the rows at some indices, as new arrays by column.

        Raises:
            IndexRangeError: an index is out of range.
        """
        rows = as_slice(indices)
        if rows is not None and rows.stop <= self._size:
            return {name: np.array(array[rows]) for name, array in self._arrays.items()}
        try:
            return {name: array.take(indices, axis=0) for name, array in self._arrays.items()}
        except IndexError:
            for index in np.ravel(indices):
                checked_index(index, self._size)
            raise

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={array.dtype}{list(array.shape[1:])}" for name, array in self._arrays.items())
        return f"ArrayDataset({counted(self._size, 'sample')}: {shown})"


def as_slice(indices: NDArray[np.int64]) -> slice | None:
    """Return indices from 0 that count up by one as a slice, which is copied faster; None for others."""
    n = len(indices)
    if n > 1 and indices[0] >= 0 and indices[-1] - indices[0] == n - 1 and bool((np.diff(indices) == 1).all()):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return None
