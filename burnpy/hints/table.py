"""The table of PyTorch's and NumPy's tensor operations: for each name, the code to write here, and what differs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from burnpy.hints import computing, creating, numpy_names, rearranging

NOTHING = "–"
NOT_YET = "not yet"
IN_PLACE = "nothing is changed in place"


class Row(NamedTuple):
    """The suggestion for one name."""

    section: str
    ours: str
    """Python code; empty if there is no counterpart."""
    why: str
    """The difference, or the reason why there is no counterpart: the end of a sentence, with code in backticks."""


@cache
def rows() -> dict[str, Row]:
    """All rows by the name of the method or function; ``torch.name`` is a function that differs from the method.

    A row that says how to do without an operation is replaced once there is a method of that name.
    """
    table: dict[str, Row] = {}
    for text in (creating.ROWS, computing.ROWS, rearranging.ROWS, numpy_names.ROWS):
        section_rows = parsed(text)
        duplicates = table.keys() & section_rows.keys()
        if duplicates:
            raise ValueError(f"the table of PyTorch's names has two rows for {', '.join(sorted(duplicates))}")
        table |= section_rows
    return table | {name: row for name, old in table.items() if (row := _by_method(name, old)) is not None}


def _by_method(name: str, row: Row) -> Row | None:
    """Return the row of an elementwise operation that is a method of float tensors, in place of one without it."""
    classes = import_module("burnpy.tensor").Tensor.__mro__  # by name, since packages above this one are meant
    operation = import_module("burnpy.backend.backend").operations().get(name)
    has_method = any(name in vars(cls) for cls in classes)  # asking Tensor for what it lacks would read this table
    if operation is None or not operation.elementwise or not has_method or f".{name}(" in row.ours:
        return None
    if any(argument.kind is None for argument in operation.arguments):
        return None
    return Row(row.section, f"x.{name}({', '.join('y' for _ in operation.arguments[1:])})", "")


@cache
def parsed(text: str) -> dict[str, Row]:
    """Parse one table, whose lines are ``name | what to write | what differs``, or ``# section`` for a heading."""
    table: dict[str, Row] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line:
            name, ours, why = (*line.split(" | ", 2), "")[:3]
            if name in table:
                raise ValueError(f"the table of PyTorch's names has two rows for {name}")
            table[name] = Row(section, "" if ours == NOTHING else ours, why)
    return table


def row_of(name: str, *, function: bool = False) -> Row | None:
    """Return the row of a method or a function; an in-place name such as ``add_`` has the row of the name without _.

    >>> row_of("add_").ours
    'x = x.add(y)'
    """
    all_rows = rows()
    row = (all_rows.get(f"torch.{name}") if function else None) or all_rows.get(name)
    if row is None and name.endswith("_") and not name.startswith("_"):
        row = all_rows.get(name[:-1])
        if row is not None and row.ours:
            target = "b" if row.ours.startswith("b.") else "i" if row.ours.startswith("i.") else "x"
            row = row._replace(ours=f"{target} = {row.ours}", why=IN_PLACE)
    return row


def advice(row: Row) -> str:
    """Return a row as the end of an error message.

    >>> advice(rows()["clip"]), advice(rows()["stft"])
    ('; write x.clamp(low, high)', '; it is not here yet: with fft')
    """
    why = row.why.replace("`", "").replace(NOT_YET, "it is not here yet", 1)
    if row.ours:
        return f"; write {row.ours}{f' ({why})' if why else ''}"
    return f"; {why}"
