"""Parquet files, read by pyarrow: as a whole, or as a stream of row groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from burnpy.backend.errors import ArgumentError, path_shown
from burnpy.data.base import Sample
from burnpy.data.sources.packages import needed
from burnpy.data.sources.tables import TableDataset, joined, paths_of, refuse_unknown
from burnpy.data.streams import Stream


def read_parquet(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, columns: Sequence[str] | None = None
) -> TableDataset:
    """Read Parquet files into memory; for larger ones see `ParquetStream`.

    Args:
        paths: one file, or several, whose rows follow each other.
        columns: the columns to read; None for all.

    Raises:
        MissingPackageError: pyarrow is not installed.
        ArgumentError: a file is missing or is no Parquet file, the files differ, or there is no such column.
        DTypeError: a column of numbers has missing values.
    """
    names = paths_of(paths, "read_parquet()")
    files = [_opened(path, "read_parquet()") for path in names]
    for file, path in zip(files, names, strict=True):
        refuse_unknown(columns, file.schema_arrow.names, "read_parquet()", path)
    return TableDataset(joined([file.read(columns=columns) for file in files], names, "read_parquet()"))


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
        """The rows after a state, each with the state after it; the same in each epoch."""
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
    module = needed("pyarrow.parquet", owner, "pyarrow")
    try:
        return module.ParquetFile(path)
    except needed("pyarrow", owner, "pyarrow").ArrowInvalid as error:
        raise ArgumentError(f"{owner} cannot read {path_shown(path)} as Parquet: {error}") from None
