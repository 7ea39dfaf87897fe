"""Datasets from files and from other libraries. Each source imports its packages when it is used.

| source | needs |
|---|---|
| `ImageFolder` | Pillow |
| `read_parquet`, `read_csv`, `ParquetStream` | pyarrow |
| `from_hugging_face`, `HuggingFaceStream` | datasets |
| `from_torch` | torch |

``pip install "burnpy[data]"`` installs Pillow and pyarrow.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError, DTypeError, a, counted, path_shown
from burnpy.backend.lazy import needed
from burnpy.backend.storage import files_below, inside, is_file, is_folder, is_url, local_copy, names_in, opened
from burnpy.data.batch import Arrays, Sample, checked_index
from burnpy.data.dataset import ArrayDataset, Dataset, from_sequence
from burnpy.data.streams import Stream
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import checked_count
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "HuggingFaceStream",
    "ImageFolder",
    "ParquetStream",
    "TableDataset",
    "from_hugging_face",
    "from_torch",
    "read_csv",
    "read_parquet",
]


class Table(Protocol):
    """A pyarrow ``Table``: what `TableDataset` reads of it."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def columns(self) -> list[Any]: ...


class TableDataset(Dataset[Sample]):
    """The rows of a pyarrow ``Table``. Numbers, bools and lists of one length are arrays, other values Python objects.

    Raises:
        DTypeError: a column of numbers has missing values.

    >>> import pytest; pa = pytest.importorskip("pyarrow")
    >>> data = TableDataset(pa.table({"x": [0.5, 1.5], "name": ["a", "b"]}))
    >>> data[1]["x"].item(), data[1]["name"]
    (1.5, 'b')
    """

    def __init__(self, table: Table) -> None:
        self._size: int = table.num_rows
        self._names: list[str] = table.column_names
        self._arrays: dict[str, NDArray[Any]] = {}
        self._others: dict[str, Any] = {}
        for name, column in zip(self._names, table.columns, strict=True):
            array = as_numpy(name, column)
            if array is None:
                self._others[name] = column
            else:
                self._arrays[name] = array

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        i = checked_index(index, self._size)
        return {
            name: self._arrays[name][i] if name in self._arrays else self._others[name][i].as_py()
            for name in self._names
        }

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the rows at some indices, where all columns are arrays."""
        return None if self._others else {name: array.take(indices, axis=0) for name, array in self._arrays.items()}

    def __repr__(self) -> str:
        return f"TableDataset({self._size} rows: {', '.join(self._names)})"


def as_numpy(name: str, column: Any) -> NDArray[Any] | None:
    """Return a column of numbers, bools, or lists of one length as an array; None for other columns."""
    pa = __import__("pyarrow")
    kind, shape = column.type, []
    while pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    chunks = []
    for chunk in column.chunks or [pa.array([], column.type)]:
        nulls = chunk.null_count
        for _ in shape:
            chunk = chunk.flatten()
            nulls += chunk.null_count
        if nulls:
            raise DTypeError(
                f"the column {name} has {counted(nulls, 'missing value')}, and tensors have none; fill or drop them in "
                "the table, as with table.drop_null(), or leave the column out with columns=[...]"
            )
        chunks.append(chunk.to_numpy(zero_copy_only=False))
    out: NDArray[Any] = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    return out.reshape(-1, *shape) if shape else out


def paths_of(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], owner: str) -> list[str]:
    """Return one path or several as a list of texts."""
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ArgumentError(f"{owner} got no path; expected at least one")
    for path in names:
        if not is_file(path):
            raise ArgumentError(f"{owner} got {path_shown(path)}, which is not a file")
    return names


def concatenated(tables: Sequence[Any], paths: Sequence[str], owner: str) -> Any:
    """Return tables one after another as one."""
    for table, path in zip(tables, paths, strict=True):
        if not table.schema.equals(tables[0].schema):
            raise ArgumentError(
                f"{owner} got files of different columns: {path_shown(paths[0])} has {_shown(tables[0])}, and "
                f"{path_shown(path)} has {_shown(table)}"
            )
    return __import__("pyarrow").concat_tables(tables)


def _shown(table: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in table.schema)


def refuse_unknown(columns: Sequence[str] | None, known: Sequence[str], owner: str, path: str) -> None:
    """Check that a file has some columns."""
    unknown = [name for name in columns or () if name not in known]
    if unknown:
        raise ArgumentError(
            f"{owner} found no column {', '.join(unknown)} in {path_shown(path)}, which has {', '.join(known)}"
        )


@explained
def read_csv(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    names: Sequence[str] | None = None,
) -> TableDataset:
    """Read CSV files into memory. The types of columns are inferred: int64, float64, bool, or text.

    Args:
        paths: one file, or several, whose rows follow each other.
        columns: the columns to keep; None for all.
        delimiter: the separator of two values.
        names: the names of the columns, for files whose first line does not say them.
    """
    files = paths_of(paths, "read_csv()")
    csv = needed("pyarrow.csv", "read_csv()", "pyarrow", "data")
    invalid = needed("pyarrow", "read_csv()", "pyarrow", "data").ArrowInvalid
    tables = []
    for path in files:
        try:
            with local_copy(path) as place:
                table = csv.read_csv(
                    place,
                    read_options=csv.ReadOptions(column_names=None if names is None else list(names)),
                    parse_options=csv.ParseOptions(delimiter=delimiter),
                )
        except invalid as error:
            raise ArgumentError(f"read_csv() cannot read {path_shown(path)}: {error}") from None
        refuse_unknown(columns, table.column_names, "read_csv()", path)
        tables.append(table if columns is None else table.select(list(columns)))
    return TableDataset(concatenated(tables, files, "read_csv()"))


@explained
def read_parquet(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, columns: Sequence[str] | None = None
) -> TableDataset:
    """Read Parquet files into memory; for larger ones see `ParquetStream`.

    Args:
        paths: one file, or several, whose rows follow each other.
        columns: the columns to read; None for all.
    """
    names = paths_of(paths, "read_parquet()")
    files = [_opened(path, "read_parquet()") for path in names]
    for file, path in zip(files, names, strict=True):
        refuse_unknown(columns, file.schema_arrow.names, "read_parquet()", path)
    return TableDataset(concatenated([file.read(columns=columns) for file in files], names, "read_parquet()"))


class ParquetStream(Stream[Sample]):
    """The rows of Parquet files one after another. One row group at a time is in memory.

    The state lists the numbers of the file, the row group and the row. `Stream.shuffle` mixes rows.

    Args:
        paths: one file, or several.
        columns: the columns to read; None for all.

    Raises:
        MissingPackageError: pyarrow is not installed.
        ArgumentError: a file is missing or is no Parquet file, or there is no such column.
    """

    def __init__(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, columns: Sequence[str] | None = None
    ) -> None:
        self.paths = paths_of(paths, "ParquetStream()")
        self.columns = None if columns is None else list(columns)
        for path in self.paths:
            with _opened(path, "ParquetStream()") as file:
                refuse_unknown(columns, file.schema_arrow.names, "ParquetStream()", path)

    def samples(self, epoch: int, state: Any) -> Iterator[tuple[Sample, Any]]:
        """Yield the rows after a state, each with the state after it; the same in each epoch."""
        first_file, first_group, first_row = state or (0, 0, 0)
        for f in range(first_file, len(self.paths)):
            with _opened(self.paths[f], "ParquetStream()") as file:
                for g in range(first_group, file.num_row_groups):
                    rows = TableDataset(file.read_row_group(g, columns=self.columns))
                    for row in range(first_row, len(rows)):
                        yield rows[row], [f, g, row + 1]
                    first_row = 0
            first_group = 0


def _opened(path: str, owner: str) -> Any:
    module = needed("pyarrow.parquet", owner, "pyarrow", "data")
    try:
        return module.ParquetFile(opened(path) if is_url(path) else path)
    except needed("pyarrow", owner, "pyarrow", "data").ArrowInvalid as error:
        raise ArgumentError(f"{owner} cannot read {path_shown(path)} as Parquet: {error}") from None


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
        if mode not in ("RGB", "L", "RGBA"):
            raise ArgumentError(f'ImageFolder() got mode={describe(mode)}; expected "RGB", "L" or "RGBA"')
        given: Any = size
        if given is not None and (not isinstance(given, (tuple, list)) or len(given) != 2):
            raise ArgumentError(f"ImageFolder() got size={describe(given)}; expected (height, width) or None")
        for pixels in given or ():
            checked_count(pixels, "size", 1, "ImageFolder()")
        folder = os.fspath(root)
        if not is_folder(folder):  # False, too, of a name that is too long
            raise ArgumentError(f"ImageFolder() got {path_shown(folder)}, which is not a folder")
        self._open = needed("PIL.Image", "ImageFolder", "pillow", "data").open
        self.classes = tuple(name for name in names_in(folder) if is_folder(inside(folder, name)))
        """The names of the classes."""
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            files = files_below(inside(folder, name))
            images = sorted((file for file in files if file.lower().endswith(_SUFFIXES)), key=PurePath)
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
            with opened(self.paths[i]) as file, self._open(file) as image:
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


class HuggingFaceDataset(Dataset[Sample]):
    """The rows of a ``datasets.Dataset``; `from_hugging_face` returns it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset.with_format("numpy")
        self._is_numeric = all(_is_number(feature) for feature in dataset.features.values())

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        row: Sample = self._dataset[checked_index(index, len(self))]
        return row

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the rows at some indices, read at once, where all columns are numbers."""
        if not self._is_numeric:
            return None
        rows: Arrays = self._dataset[indices.tolist()]
        return {name: np.array(column) for name, column in rows.items()}


@explained
def from_hugging_face(dataset: Any) -> Dataset[Sample]:
    """Return the rows of a ``datasets.Dataset`` as a dataset of mappings, with numbers and lists of them as arrays."""
    if isinstance(dataset, dict):
        raise CallError(f"from_hugging_face() got a dict of {', '.join(dataset)}; choose one, as splits['train']")
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        hint = "; for an iterable dataset there is HuggingFaceStream" if hasattr(dataset, "state_dict") else ""
        raise CallError(f"from_hugging_face() got {a(type(dataset).__name__)}; expected a datasets.Dataset{hint}")
    return HuggingFaceDataset(dataset)


class HuggingFaceStream(Stream[Sample]):
    """The rows of a ``datasets.IterableDataset``, whose ``state_dict()`` is the state.

    Raises:
        CallError: it is another object, or one without a state.
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "load_state_dict") and hasattr(dataset, "__iter__")):
            raise CallError(
                f"HuggingFaceStream() got {a(type(dataset).__name__)}; expected a datasets.IterableDataset; for "
                "a datasets.Dataset use from_hugging_face()"
            )
        self._dataset = dataset

    def samples(self, epoch: int, state: Any) -> Iterator[tuple[Sample, Any]]:
        """Yield the rows of an epoch after a state, each with the state after it."""
        dataset = copy.deepcopy(self._dataset)
        dataset.set_epoch(epoch)
        if state is not None:
            dataset.load_state_dict(state)
        for row in dataset:
            yield row, dataset.state_dict()


def _is_number(feature: Any) -> bool:
    """Return whether a feature is a number, so that NumPy's format gives one array for several rows."""
    dtype = getattr(feature, "dtype", None)
    return isinstance(dtype, str) and dtype.startswith(("int", "uint", "float", "bool"))


@explained
def from_torch(dataset: Any, *, names: Sequence[str] = ("x", "y")) -> Dataset[Sample]:
    """Return a map-style dataset of PyTorch as a dataset of mappings.

    A ``TensorDataset`` becomes an `ArrayDataset` that shares its memory. What a transform of torchvision gives, such as
    a tensor of floats, becomes an array in the batch.

    Args:
        dataset: anything with ``len`` and ``[i]``, whose samples are tuples, or mappings, which keep their names.
        names: names for the parts of samples that are tuples.

    Raises:
        CallError: the dataset can only be iterated, or the names do not fit the tensors.
    """
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple) and type(dataset).__name__ == "TensorDataset":
        if len(tensors) != len(names):
            raise CallError(f"from_torch() got {len(tensors)} tensors and the names {', '.join(names)}")
        return ArrayDataset(**{name: tensor.detach().numpy() for name, tensor in zip(names, tensors, strict=True)})
    if not hasattr(dataset, "__len__"):
        raise CallError(
            f"from_torch() got {type(dataset).__name__}, which has no length; write a burnpy.data.Stream that reads it"
        )
    return from_sequence(dataset, names)
