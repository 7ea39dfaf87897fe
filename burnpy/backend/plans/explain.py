"""`PlanExplanation`: what a plan does, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from burnpy.backend.call_origin import Line
from burnpy.backend.errors import counted
from burnpy.backend.primitives import Shape

_MOST_ROWS = 60
"""The number of parts that are listed one by one."""
_MOST_READS = 12
"""The number of places outside of the arguments that are listed."""


@dataclass(frozen=True)
class ProgramPart:
    """A program of a plan: operations that one kernel computes."""

    name: str  #: the first of its operations
    operations: tuple[str, ...]  #: all of them, in order
    shape: Shape  #: of its arrays
    split: int  #: the number of leading dims that are its rows
    line: Line | None  #: the user's line that called the last one
    text: str  #: its instructions


@dataclass(frozen=True)
class OperationPart:
    """An operation of a plan that is no part of a program."""

    name: str
    shapes: tuple[Shape, ...]  #: of its results
    line: Line | None  #: the user's line that called it
    reason: str  #: why it is one
    inside: tuple[PlanExplanation, ...] = ()  #: of a loop or branch, the plans of its bodies


@dataclass(frozen=True)
class PlanExplanation:
    """The parts of a plan in the order in which they run, its memory and the time that it took to make.

    As text it is a table with one row for each kernel or operation: what is computed, the shape of the result, the
    user's line, and for an operation why it is not in a kernel with its neighbours.
    """

    parts: tuple[ProgramPart | OperationPart, ...]
    recorded: int  #: the number of operations that were recorded
    bytes: int  #: the memory that intermediate results share
    unshared_bytes: int  #: the memory that they would take without sharing
    seconds: float  #: the time that recording, planning and compiling took
    source: str  #: the generated function
    runs: int = 0  #: how often a compiled function ran it
    reads: tuple[str, ...] = ()  #: what it depends on besides the arguments, as the code of the function says it

    @property
    def programs(self) -> tuple[ProgramPart, ...]:
        """The programs."""
        return tuple(part for part in self.parts if isinstance(part, ProgramPart))

    @property
    def operations(self) -> tuple[OperationPart, ...]:
        """The operations that are no parts of programs."""
        return tuple(part for part in self.parts if isinstance(part, OperationPart))

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._table()])

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it; the plans of loops and branches fold."""
        from burnpy.backend import html

        rows = [(*_row(part),) for part in self.parts]
        inside = [
            html.folded(escape(part.name), plan._repr_html_()) for part in self.operations for plan in part.inside
        ]
        table = html.table(["part", "shape", "line", "note"], rows, left=4, most=_MOST_ROWS)
        return html.block(*(html.headline("", line) for line in self._head()), table, *inside)

    def _head(self) -> list[str]:
        """Return the lines above the table."""
        programs = self.programs
        fused = sum(len(part.operations) for part in programs)
        kernels, single = counted(len(programs), "kernel"), counted(len(self.operations), "single operation")
        shared, apart = _size(self.bytes), _size(self.unshared_bytes)
        use = [f"ran {counted(self.runs, 'time')}"] if self.runs else []
        if self.reads:
            more = len(self.reads) - _MOST_READS
            shown = ", ".join(self.reads[:_MOST_READS]) + (f" and {more} more" if more > 0 else "")
            use.append(f"made again if one of these changes: {shown}")
        return [
            f"{self.recorded} operations recorded: {kernels} of {counted(fused, 'operation')}, and {single}",
            f"{shared} for intermediate results, {apart} without sharing; made in {self.seconds:.2f} s",
            *use,
        ]

    def _table(self) -> Iterator[str]:
        """Yield the lines of the table of parts."""
        listed = self.parts[:_MOST_ROWS]
        rows = [_row(part) for part in listed]
        widths = [max([len(row[k]) for row in rows], default=0) for k in range(3)]
        for part, row in zip(listed, rows, strict=True):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            yield "  ".join(["", *cells, row[3]]).rstrip()
            for plan in getattr(part, "inside", ()):
                yield from (f"      {line}" for line in str(plan).split("\n"))
        rest = self.parts[_MOST_ROWS:]
        if rest:
            counts = Counter("kernel" if isinstance(part, ProgramPart) else part.name for part in rest)
            kinds = ", ".join(f"{name} × {count}" for name, count in counts.most_common(12))
            yield f"  and {len(rest)} more: {kinds}{', …' if len(counts) > 12 else ''}"


def _row(part: ProgramPart | OperationPart) -> tuple[str, str, str, str]:
    """Return the cells of a part: what it is, its shape, the user's line and the reason."""
    line = "" if part.line is None else str(part.line)
    if isinstance(part, ProgramPart):
        names = " · ".join(part.operations)
        return "kernel" if len(names) > 46 else f"kernel  {names}", str(part.shape), line, names[46:] and names
    shapes = ", ".join(map(str, part.shapes))
    return part.name, shapes if len(shapes) <= 24 else f"{len(part.shapes)} arrays", line, part.reason


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1e3:.3g} KB" if count < 1e6 else f"{count / 1e6:.3g} MB"
