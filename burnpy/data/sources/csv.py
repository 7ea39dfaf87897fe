"""CSV files, read by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence

from burnpy.backend.errors import ArgumentError, path_shown
from burnpy.data.sources.packages import needed
from burnpy.data.sources.tables import TableDataset, joined, paths_of, refuse_unknown


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
        delimiter: what stands between two values.
        names: the names of the columns, for files whose first line does not say them.

    Raises:
        MissingPackageError: pyarrow is not installed.
        ArgumentError: a file is missing or cannot be parsed, the files differ, or there is no such column.
        DTypeError: a column of numbers has missing values.
    """
    files = paths_of(paths, "read_csv()")
    csv = needed("pyarrow.csv", "read_csv()", "pyarrow")
    invalid = needed("pyarrow", "read_csv()", "pyarrow").ArrowInvalid
    tables = []
    for path in files:
        try:
            table = csv.read_csv(
                path,
                read_options=csv.ReadOptions(column_names=None if names is None else list(names)),
                parse_options=csv.ParseOptions(delimiter=delimiter),
            )
        except invalid as error:
            raise ArgumentError(f"read_csv() cannot read {path_shown(path)}: {error}") from None
        refuse_unknown(columns, table.column_names, "read_csv()", path)
        tables.append(table if columns is None else table.select(list(columns)))
    return TableDataset(joined(tables, files, "read_csv()"))
