"""Export of profiles in the Trace Event Format, which Chrome and Perfetto display.

Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

from burnpy.backend.decorators.costs import Cost, Metas
from burnpy.backend.source_lines import lines_of

if TYPE_CHECKING:
    from burnpy.backend.decorators.profile import Event


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
