"""`Profile`: the calls of operations recorded on `Profiled` devices, with their costs, shown as tables.

Floating point operations (FLOPs) are those of the operation's declaration: see `burnpy.backend.schema.Flops`; those of
a formula of lists are the sum over its operations. A matrix product of (m, k) and (k, n) has 2 m n k, a multiplication
and an addition each (Golub and Van Loan, Matrix Computations, 1.1.15; PyTorch's ``torch.utils.flop_counter`` counts the
same).

Bytes are those of the arguments, read once, and of the results, written once; of an argument that is accessed at an
index, those of the accessed elements; for operations that may return a view, 0. Caches and temporaries of a backend are
not taken into account.

Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeAlias, final

from burnpy.backend.call_origin import Direction, Line, OpContext, Stack, lines_of, recorders
from burnpy.backend.device_memory import scaled, table, time_of
from burnpy.backend.entries import Operation
from burnpy.backend.primitives import DType, Shape

Meta: TypeAlias = tuple[Shape, DType]
Metas: TypeAlias = tuple[tuple[Meta, ...], ...]
"""Shape and dtype of the primitives of each argument or result: none of a number, several of a sequence."""


class Cost(NamedTuple):
    """The cost of one call."""

    bytes: int
    flops: int


def cost(op: Operation, arguments: Metas, results: Metas) -> Cost:
    """Return the cost of one call from the shapes and dtypes of its arguments and results, in order.

    >>> from burnpy.backend import operations
    >>> x, y = ((2, 3), np.dtype("float32")), ((3, 4), np.dtype("float32"))
    >>> cost(operations()["matmul"], ((x,), (y,)), ((((2, 4), np.dtype("float32")),),))
    Cost(bytes=104, flops=48)
    """
    shapes = [metas[0][0] if len(metas) == 1 else None for metas in arguments]
    return Cost(_bytes(op, arguments, results), sum(op.flops(shapes, shape) for shape, _ in results[0]))


def _bytes(op: Operation, arguments: Metas, results: Metas) -> int:
    if op.view is not None:
        return 0
    sizes = {a.name: sum(map(_size, metas)) for a, metas in zip(op.arguments, arguments, strict=True)}
    written = sum(_size(meta) for metas in results for meta in metas)
    if op.indexed is None:
        return sum(sizes.values()) + written
    others = sum(sizes.values()) - sizes[op.indexed]
    if op.indexed not in op.consumes:
        return others + 2 * written
    # Only the elements that have a counterpart in the last float argument are read, and written.
    last = [a.name for a in op.float_arguments if a.name != op.indexed][-1]
    return others + 2 * sizes[last]


def _size(meta: Meta) -> int:
    return math.prod(meta[0]) * meta[1].itemsize


def written(path: str | PathLike[str], timeline: Iterable[tuple[Event, float, float, Cost]], began: int) -> None:
    """Write events, each with its beginning and duration in nanoseconds and its cost, to ``path``.

    Args:
        path: the file.
        timeline: the events.
        began: the `perf_counter_ns` from which the beginnings count.
    """
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": trace_events(timeline, began), "displayTimeUnit": "ns"}, file)


def trace_events(timeline: Iterable[tuple[Event, float, float, Cost]], began: int) -> list[dict[str, Any]]:
    """Return the events of the format: one complete event per call, on a GPU a second one of the host, and the names of
    processes and threads."""
    processes: dict[str, int] = {}
    threads: dict[tuple[int, Any], int] = {}
    calls: list[dict[str, Any]] = []
    for e, begin, duration, spent in timeline:
        details = {
            "rule": e.place.rule,
            "arguments": _format_metas(e.given),
            "results": _format_metas(e.results),
            "bytes": spent.bytes,
            "flops": spent.flops,
            "line": "; ".join(f"{line.file}:{line.number}" for line in lines_of(e.stack[-1:])),
        }
        times = [(str(e.device), begin, duration)]
        if e.host is not None:
            times.append((f"host of {e.device}", float(e.host[0] - began), float(e.host[1] - e.host[0])))
        for process, start, length in times:
            pid = processes.setdefault(process, len(processes) + 1)
            calls.append(
                {
                    "name": e.op.name,
                    "cat": e.place.direction,
                    "ph": "X",
                    "ts": start / 1e3,
                    "dur": length / 1e3,
                    "pid": pid,
                    "tid": threads.setdefault((pid, e.thread), len(threads) + 1),
                    "args": {name: value for name, value in details.items() if value},
                }
            )
    names = [
        *({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}} for name, pid in processes.items()),
        *(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": thread.name}}
            for (pid, thread), tid in threads.items()
        ),
    ]
    return [*names, *calls]


def _format_metas(metas: Metas) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for members in metas for shape, dtype in members)


class Event(NamedTuple):
    """One recorded call of an operation; everything else is computed from it when the profile is read."""

    op: Operation
    place: OpContext
    stack: Stack
    thread: threading.Thread
    device: Any  #: the device that ran the operation
    start: Any  #: a timestamp of the device
    stop: Any
    host: (
        tuple[int, int] | None
    )  #: `perf_counter_ns` before and after the call; None if the device's time is the host's
    given: Metas  #: shape and dtype of the primitives of each argument
    results: Metas


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A row of a `ProfileTable`: the totals of one or more calls."""

    operation: str  #: the name of the operation; "" in a row by line, which sums all operations
    direction: Direction
    rule: str  #: in a backward pass, the operation whose gradient was computed
    line: Line | None
    calls: int
    seconds: float
    bytes: int
    flops: int
    host_seconds: float  #: the time of the calls on the host, which on a GPU only queue the work


class ProfileTable(tuple[ProfileRow, ...]):
    """Rows in descending order of time, formatted by ``str`` as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        total = sum(row.seconds for row in self) or 1.0
        by_line = any(not row.operation for row in self)
        queued = any(row.host_seconds != row.seconds for row in self)
        headers = ["line", "code"] if by_line else ["operation", "rule"]
        numbers = ["calls", "time", "share", "a call", *["host"] * queued, "bytes", "a second", "FLOPs", "a second"]
        return table([*headers, "direction", *numbers], (self._cells(row, total, queued) for row in self), left=3)

    @staticmethod
    def _cells(row: ProfileRow, total: float, queued: bool) -> list[str]:
        code = row.line.code if row.line else ""
        names = [row.operation, row.rule] if row.operation else [str(row.line or "unknown"), code[:50]]
        rate = 1 / row.seconds if row.seconds else 0.0
        return [
            *(*names, row.direction, str(row.calls), time_of(row.seconds), f"{row.seconds / total:.1%}"),
            *(time_of(row.seconds / row.calls), *[time_of(row.host_seconds)] * queued),
            *(scaled(row.bytes, "B"), scaled(row.bytes * rate, "B")),
            *(scaled(row.flops, ""), scaled(row.flops * rate, "")),
        ]


@final
class Profile:
    """Every call of an operation on `Profiled` devices during a recording.

    `Profiled.record` creates it. It can be read during the recording and afterwards, any number of times; reading
    synchronizes asynchronous devices such as GPUs, and recording never does.
    """

    def __init__(self, lines: bool) -> None:
        self.lines = lines  #: whether the user's source lines are recorded
        self._began = perf_counter_ns()
        self._events: list[Event] = []
        self._origins: dict[Any, tuple[Any, int]] = {}  # by device: its first timestamp, and the time here

    def add(self, event: Event) -> None:
        """Record a call; may be called from any thread."""
        if event.device not in self._origins:
            here = perf_counter_ns() if event.host is None else event.host[0]
            self._origins.setdefault(event.device, (event.start, here))
        self._events.append(event)

    @contextmanager
    def resume(self) -> Generator[None, None, None]:
        """Return a context manager that continues the recording later, or in another thread, which does not inherit it.

        >>> from burnpy.backend import Profiled
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
        """Return the totals by operation, direction and, in backward passes, rule."""
        return self._summed(lambda e: (e.op.name, e.place.direction, e.place.rule, None))

    def by_operation(self) -> ProfileTable:
        """Return the totals by operation and direction."""
        return self._summed(lambda e: (e.op.name, e.place.direction, "", None))

    def by_line(self) -> ProfileTable:
        """Return the totals by source line of the user and direction.

        Backward passes belong to the line that called ``backward()``, or, if the forward pass ran within
        `burnpy.autodiff.track_lines`, to the line of the forward pass.
        """
        return self._summed(lambda e: ("", e.place.direction, "", lines_of(e.stack[-1:])[0] if e.stack else None))

    @property
    def seconds(self) -> float:
        """The total time of all calls, on the device."""
        return float(sum(e.device.duration(e.start, e.stop) for e in tuple(self._events))) / 1e9

    @property
    def host_seconds(self) -> float:
        """The total time of all calls on the host, which on a GPU only queue the work; otherwise equal to `seconds`."""
        return float(sum(_host_time(e) for e in tuple(self._events))) / 1e9

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the calls to a file for chrome://tracing and ui.perfetto.dev.

        There is a process for each device, with a row for each thread, and for a GPU another with the times
        of its calls on the host, which queues them.
        """
        written(path, self.timeline(), self._began)

    def timeline(self) -> Iterator[tuple[Event, float, float, Cost]]:
        """Yield the calls in the order of their ends, each with its start, its duration and its cost.

        Start and duration are in nanoseconds; the start is relative to the start of the profile.
        """
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
        costs: dict[Any, Cost] = {}
        for e in tuple(self._events):
            shapes = (id(e.op), e.given, e.results)
            spent = costs.get(shapes)
            if spent is None:
                spent = costs[shapes] = cost(e.op, e.given, e.results)
            row = sums.setdefault(key(e), [0, 0.0, 0, 0, 0.0])
            seconds = e.device.duration(e.start, e.stop) / 1e9
            for k, part in enumerate((1, seconds, *spent, _host_time(e) / 1e9)):
                row[k] += part
        rows = [
            ProfileRow(name, direction, rule, line, int(n), t, int(size), int(flops), on_host)
            for (name, direction, rule, line), (n, t, size, flops, on_host) in sums.items()
        ]
        return ProfileTable(sorted(rows, key=lambda row: -row.seconds))


def metas(values: Iterable[Any]) -> tuple[Meta, ...]:
    """Return the shape and dtype of each primitive among values, members of sequences included."""
    result: list[Meta] = []
    for x in values:
        shape = getattr(x, "shape", None)
        if shape is not None:
            result.append((shape, x.dtype))
        elif x.__class__ is list or x.__class__ is tuple:
            result += metas(x)
    return tuple(result)


def _host_time(e: Event) -> float:
    """Return the nanoseconds that a call took on the host."""
    return float(e.device.duration(e.start, e.stop) if e.host is None else e.host[1] - e.host[0])
