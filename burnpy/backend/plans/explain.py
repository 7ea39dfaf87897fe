"""`PlanExplanation`: what a plan does, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from burnpy.backend.call_origin import Line


@dataclass(frozen=True)
class ProgramPart:
    """A program of a plan."""

    name: str  #: its operations, the first of them
    operations: tuple[str, ...]  #: all of them, in order
    rows: int
    columns: int
    text: str  #: its instructions


@dataclass(frozen=True)
class OperationPart:
    """An operation of a plan that is no part of a program."""

    name: str
    line: Line | None  #: the user's line that called it
    reason: str  #: why it is one


@dataclass(frozen=True)
class PlanExplanation:
    """The parts of a plan in the order in which they run, its memory and the time that it took to make."""

    parts: tuple[ProgramPart | OperationPart, ...]
    recorded: int  #: the number of operations that were recorded
    bytes: int  #: the memory that intermediate results share
    unshared_bytes: int  #: the memory that they would take without sharing
    seconds: float  #: the time that recording, planning and compiling took
    source: str  #: the generated function

    @property
    def programs(self) -> tuple[ProgramPart, ...]:
        """The programs."""
        return tuple(part for part in self.parts if isinstance(part, ProgramPart))

    @property
    def operations(self) -> tuple[OperationPart, ...]:
        """The operations that are no parts of programs."""
        return tuple(part for part in self.parts if isinstance(part, OperationPart))

    def __str__(self) -> str:
        programs, operations = self.programs, self.operations
        fused = sum(len(part.operations) for part in programs)
        counted = f"{len(programs)} programs of {fused} operations, and {len(operations)} single operations"
        shared = (
            f"{self.bytes / 1e6:.3g} MB for intermediate results ({self.unshared_bytes / 1e6:.3g} MB without sharing)"
        )
        lines = [f"{self.recorded} operations recorded; {counted}", f"{shared}, made in {self.seconds:.2f} s"]
        for part in programs:
            lines.append(f"program of ({part.rows}, {part.columns}): {', '.join(part.operations)}")
        counts = Counter((part.name, part.reason) for part in operations)
        for (name, reason), count in counts.most_common():
            lines.append(f"{name}, {'once' if count == 1 else f'{count} times'}: {reason}")
        return "\n".join(lines)
