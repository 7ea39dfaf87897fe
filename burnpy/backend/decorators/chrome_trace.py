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


def written(path: str | PathLike[str], timeline: Iterable[tuple[Event, float, float, Cost]]) -> None:
    """Write events, each with its beginning and duration in nanoseconds and its cost, to ``path``."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": trace_events(timeline), "displayTimeUnit": "ns"}, file)


def trace_events(timeline: Iterable[tuple[Event, float, float, Cost]]) -> list[dict[str, Any]]:
    """Return the events of the format: one complete event per call, and the names of processes and threads."""
    processes: dict[Any, int] = {}
    threads: dict[tuple[int, Any], int] = {}
    calls = []
    for e, begin, duration, spent in timeline:
        pid = processes.setdefault(e.device, len(processes) + 1)
        tid = threads.setdefault((pid, e.thread), len(threads) + 1)
        details = {
            "rule": e.place.rule,
            "arguments": _format_metas(e.given),
            "results": _format_metas(e.results),
            "bytes": spent.bytes,
            "flops": spent.flops,
            "line": "; ".join(f"{line.file}:{line.number}" for line in lines_of(e.stack[-1:])),
        }
        calls.append(
            {
                "name": e.op.name,
                "cat": e.place.direction,
                "ph": "X",
                "ts": begin / 1e3,
                "dur": duration / 1e3,
                "pid": pid,
                "tid": tid,
                "args": {name: value for name, value in details.items() if value},
            }
        )
    names = [
        *({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": str(d)}} for d, pid in processes.items()),
        *(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": thread.name}}
            for (pid, thread), tid in threads.items()
        ),
    ]
    return [*names, *calls]


def _format_metas(metas: Metas) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for members in metas for shape, dtype in members)
