"""`Profile`: what `Profiled` devices did while it was recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from time import perf_counter_ns
from typing import Any, NamedTuple, final

from burnpy.backend.decorators.costs import Cost, Meta, cost
from burnpy.backend.decorators.tables import scaled, table, time_of
from burnpy.backend.entries import Operation
from burnpy.backend.op_context import Direction, OpContext, recorders
from burnpy.backend.source_lines import Line, Stack, lines_of


class Event(NamedTuple):
    """One call of one operation, as it was noted; what can be computed later is."""

    op: Operation
    place: OpContext
    stack: Stack
    thread: threading.Thread
    device: Any  #: that computed it
    start: Any  #: a moment of the device's
    stop: Any
    given: tuple[Meta, ...]
    results: tuple[Meta, ...]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What was done in one place: the sums of one or more calls."""

    operation: str  #: of a row by line, all of them: ""
    direction: Direction
    rule: str  #: in a backward pass, the operation whose gradient it served
    line: Line | None
    calls: int
    seconds: float
    bytes: int
    flops: int


class ProfileTable(tuple[ProfileRow, ...]):
    """Rows, most time first. Printed, they are a table."""

    __slots__ = ()

    def __str__(self) -> str:
        total = sum(row.seconds for row in self) or 1.0
        by_line = any(not row.operation for row in self)
        headers = ["line", "code"] if by_line else ["operation", "rule"]
        numbers = ["calls", "time", "share", "a call", "bytes", "a second", "FLOPs", "a second"]
        return table([*headers, "direction", *numbers], (self._texts(row, total) for row in self), left=3)

    @staticmethod
    def _texts(row: ProfileRow, total: float) -> list[str]:
        code = row.line.code if row.line else ""
        names = [row.operation, row.rule] if row.operation else [str(row.line or "unknown"), code[:50]]
        rate = 1 / row.seconds if row.seconds else 0.0
        return [
            *(*names, row.direction, str(row.calls), time_of(row.seconds), f"{row.seconds / total:.1%}"),
            *(time_of(row.seconds / row.calls), scaled(row.bytes, "B"), scaled(row.bytes * rate, "B")),
            *(scaled(row.flops, ""), scaled(row.flops * rate, "")),
        ]


@final
class Profile:
    """Every call of every operation on `Profiled` devices between the beginning and the end of a recording.

    `Profiled.record` makes it. It can be read during the recording and after it, as often as wanted; reading waits for
    devices that work on their own, as GPUs do, and recording never does.
    """

    def __init__(self, lines: bool) -> None:
        self.lines = lines  #: whether the user's lines are noted
        self._began = perf_counter_ns()
        self._events: list[Event] = []
        self._origins: dict[Any, tuple[Any, int]] = {}  # of each device: its first moment, and when that was here

    def add(self, event: Event) -> None:
        """Note a call; from any thread."""
        if event.device not in self._origins:
            self._origins.setdefault(event.device, (event.start, perf_counter_ns()))
        self._events.append(event)

    @contextmanager
    def resume(self) -> Generator[None, None, None]:
        """A block that is recorded too: later, or in a thread of its own, which does not inherit the recording.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy, Profiled
        >>> x = Tensor.ones((2,), device=Profiled[NumPy])
        >>> with Profiled.record() as p:
        ...     _ = x + x
        >>> with p.resume():
        ...     _ = x * x
        >>> sorted(row.operation for row in p.rows())
        ['add', 'mul']
        """
        token = recorders.set((*recorders.get(), self))
        try:
            yield
        finally:
            recorders.reset(token)

    def rows(self) -> ProfileTable:
        """What was done, by operation, direction, and in backward passes the rule that it served."""
        return self._summed(lambda e: (e.op.name, e.place.direction, e.place.rule, None))

    def by_operation(self) -> ProfileTable:
        """What was done, by operation and direction."""
        return self._summed(lambda e: (e.op.name, e.place.direction, "", None))

    def by_line(self) -> ProfileTable:
        """What was done, by the user's line and direction.

        Backward passes belong to the line that called ``backward()``; where the forward pass ran inside of
        `burnpy.autodiff.track_lines`, to the line of the forward pass.
        """
        return self._summed(lambda e: ("", e.place.direction, "", _line(e)))

    @property
    def seconds(self) -> float:
        """The time of all calls together."""
        return float(sum(e.device.duration(e.start, e.stop) for e in tuple(self._events))) / 1e9

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the calls as a file that chrome://tracing and ui.perfetto.dev open: a process for each device, in it
        a row for each thread."""
        from burnpy.backend.decorators.chrome_trace import written

        written(path, self.timeline())

    def timeline(self) -> Iterator[tuple[Event, float, float, Cost]]:
        """The calls in the order of their ends, each with its beginning and its duration in nanoseconds, the beginning
        counted from that of the profile, and its cost."""
        for e in tuple(self._events):
            first, here = self._origins[e.device]
            begin = here - self._began + e.device.duration(first, e.start)
            yield e, begin, e.device.duration(e.start, e.stop), cost(e.op, e.given, e.results)

    def __len__(self) -> int:
        return len(self._events)

    def __str__(self) -> str:
        return str(self.rows())

    def __repr__(self) -> str:
        return f"Profile({len(self)} calls)"

    def _summed(self, key: Callable[[Event], tuple[str, Direction, str, Line | None]]) -> ProfileTable:
        sums: dict[tuple[str, Direction, str, Line | None], list[float]] = {}
        known: dict[Any, Cost] = {}
        for e in tuple(self._events):
            shapes = (e.op.name, e.given, e.results)
            found = known.get(shapes)
            if found is None:
                found = known[shapes] = cost(e.op, e.given, e.results)
            row = sums.setdefault(key(e), [0, 0.0, 0, 0])
            for k, part in enumerate((1, e.device.duration(e.start, e.stop) / 1e9, *found)):
                row[k] += part
        rows = [
            ProfileRow(name, direction, rule, line, int(n), t, int(size), int(flops))
            for (name, direction, rule, line), (n, t, size, flops) in sums.items()
        ]
        return ProfileTable(sorted(rows, key=lambda row: -row.seconds))


def metas(values: Iterable[Any]) -> tuple[Meta, ...]:
    """Shape and dtype of the primitives among values, members of sequences included."""
    found: list[Meta] = []
    for x in values:
        shape = getattr(x, "shape", None)
        if shape is not None:
            found.append((shape, x.dtype))
        elif x.__class__ is list or x.__class__ is tuple:
            found += metas(x)
    return tuple(found)


def _line(e: Event) -> Line | None:
    return lines_of(e.stack[-1:])[0] if e.stack else None
