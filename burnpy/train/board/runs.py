"""Reading the logs that `burnpy.train.Jsonl` writes."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """A run, as read from its log."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    matrices: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    state: str = "running"


def runs_in(folder: Path) -> list[Run]:
    """Return the runs of all ``*.jsonl`` files in a folder and those inside of it, by name."""
    return [run_of(path, folder) for path in sorted(folder.rglob("*.jsonl"))]


def run_of(path: Path, folder: Path) -> Run:
    """Return the run of a log. Incomplete lines, such as one that is being written, are skipped."""
    name = path.relative_to(folder).with_suffix("").as_posix()
    run = Run(name.removesuffix("/log"))
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                _take(run, line)
    return run


def _take(run: Run, line: dict[str, Any]) -> None:
    kind, step = line.pop("event", None), line.pop("step", 0)
    if kind == "start":
        run.settings |= line.get("settings") or {}
        run.state = "running"
        for curve in run.curves.values():  # a resumed run takes the steps after its checkpoint again
            del curve[bisect_right(curve, step, key=lambda point: point[0]) :]
    elif kind == "end":
        run.state = line.get("stopped") or "done"
    elif kind in ("batch", "valid", "epoch"):
        run.matrices |= line.pop("matrices", {})
        for name, value in line.items():
            if name in ("time", "epoch", "seconds") or (kind == "epoch" and name.startswith("valid/")):
                continue
            if isinstance(value, (int, float)):
                prefix = "batch/" if kind == "batch" and name != "lr" else ""
                run.curves.setdefault(prefix + name.removeprefix("train/" if prefix else ""), []).append((step, value))
