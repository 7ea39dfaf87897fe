"""`TableDataset`: the rows of a table of Apache Arrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, DTypeError, path_shown
from burnpy.data.base import Arrays, Sample, checked_index
from burnpy.data.dataset import Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TableDataset(Dataset[Sample]):
    """The rows of a pyarrow ``Table``. Numbers, bools and lists of one length are arrays, other values Python objects.

    Raises:
        DTypeError: a column of numbers has missing values.

    >>> import pytest; pa = pytest.importorskip("pyarrow")
    >>> data = TableDataset(pa.table({"x": [0.5, 1.5], "name": ["a", "b"]}))
    >>> data[1]["x"].item(), data[1]["name"]
    (1.5, 'b')
    """

    def __init__(self, table: Any) -> None:
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
        """The rows at some indices, where all columns are arrays."""
        return None if self._others else {name: array.take(indices, axis=0) for name, array in self._arrays.items()}

    def __repr__(self) -> str:
        return f"TableDataset({self._size} rows: {', '.join(self._names)})"


def as_numpy(name: str, column: Any) -> NDArray[Any] | None:
    """Return a column of numbers, bools, or lists of one length as an array; None for other columns.

    Raises:
        DTypeError: a number is missing.
    """
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
                f"the column {name} has {nulls} missing values, and tensors have none; fill or drop them in the table, "
                "as with table.drop_null(), or leave the column out with columns=[...]"
            )
        chunks.append(chunk.to_numpy(zero_copy_only=False))
    out: NDArray[Any] = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    return out.reshape(-1, *shape) if shape else out


def paths_of(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], owner: str) -> list[str]:
    """Return one path or several as a list of texts.

    Raises:
        ArgumentError: there is none, or one names no file.
    """
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ArgumentError(f"{owner} got no path")
    for path in names:
        if not os.path.isfile(path):
            raise ArgumentError(f"{owner} got {path_shown(path)}, which is not a file")
    return names


def joined(tables: Sequence[Any], paths: Sequence[str], owner: str) -> Any:
    """Return tables one after another as one.

    Raises:
        ArgumentError: their columns differ.
    """
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
    """Check that a file has some columns.

    Raises:
        ArgumentError: it has not.
    """
    unknown = [name for name in columns or () if name not in known]
    if unknown:
        raise ArgumentError(
            f"{owner} found no column {', '.join(unknown)} in {path_shown(path)}, which has {', '.join(known)}"
        )
