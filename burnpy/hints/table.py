"""The table of PyTorch's and NumPy's names of tensor operations: what one writes here instead, and why."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from burnpy.hints import computing, creating, moving, numpy_names

NOTHING = "–"
NOT_YET = "not yet"
IN_PLACE = "nothing is changed in place"


class Row(NamedTuple):
    """What is said of one name."""

    section: str
    ours: str
    """Python code; empty if there is nothing."""
    why: str
    """What differs, or why there is nothing: the end of a sentence, with code in backticks."""


@cache
def rows() -> dict[str, Row]:
    """All rows by their name: a method's or a function's; ``torch.name`` where the function means something else."""
    found: dict[str, Row] = {}
    for text in (creating.ROWS, computing.ROWS, moving.ROWS, numpy_names.ROWS):
        more = parsed(text)
        twice = found.keys() & more.keys()
        if twice:
            raise ValueError(f"the table of PyTorch's names has two rows for {', '.join(sorted(twice))}")
        found |= more
    return found


@cache
def parsed(text: str) -> dict[str, Row]:
    """The rows of one table: ``name | what to write | what differs``, with headings ``# section`` between them."""
    found: dict[str, Row] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line:
            name, ours, why = (*line.split(" | ", 2), "")[:3]
            if name in found:
                raise ValueError(f"the table of PyTorch's names has two rows for {name}")
            found[name] = Row(section, "" if ours == NOTHING else ours, why)
    return found


def row_of(name: str, *, function: bool = False) -> Row | None:
    """The row of a method, or of a function; what is in place has that of what is not.

    >>> row_of("add_").ours
    'x = x.add(y)'
    """
    table = rows()
    found = (table.get(f"torch.{name}") if function else None) or table.get(name)
    if found is None and name.endswith("_") and not name.startswith("_"):
        found = table.get(name[:-1])
        if found is not None and found.ours:
            target = "b" if found.ours.startswith("b.") else "i" if found.ours.startswith("i.") else "x"
            found = found._replace(ours=f"{target} = {found.ours}", why=IN_PLACE)
    return found


def advice(row: Row) -> str:
    """What a row says, as the end of a sentence.

    >>> advice(rows()["clip"]), advice(rows()["svd"])
    ('; write x.clamp(low, high)', '; it is not here yet: with linalg')
    """
    why = row.why.replace("`", "").replace(NOT_YET, "it is not here yet", 1)
    if row.ours:
        return f"; write {row.ours}{f' ({why})' if why else ''}"
    return f"; {why}"
