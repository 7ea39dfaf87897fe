"""A page of runs from their logs, as HTML with inline SVG: ``python -m burnpy.train.board runs/ [--port 6007]``.

It loads nothing from other places, and only this machine can reach it.

`chart` and `matrix` draw curves and confusion matrices for the board and for notebooks. Colors and fonts are
attributes, so that a chart needs no style sheet; text and grid have the color of the page's text.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import path_shown

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

COLORS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#db2777", "#65a30d")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 240, 56, 26, 10
MOST_POINTS = 800
_TEXT = 'font-family="system-ui, sans-serif" font-size="10" fill="currentColor" fill-opacity=".7"'
_FAINT = 'stroke="currentColor" stroke-opacity=".15"'

Curve = Sequence[tuple[float, float]]


def chart(title: str, curves: Mapping[str, Curve], colors: Mapping[str, str]) -> str:
    """Return a chart of the curves of runs over the steps; runs are colored by name.

    >>> "polyline" in chart("loss", {"a": [(0, 1.0), (1, 0.5)]}, {"a": COLORS[0]})
    True
    """
    points = [p for curve in curves.values() for p in curve]
    low_x, high_x = _bounds([x for x, _ in points])
    low_y, high_y = _bounds([y for _, y in points])

    def at(x: float, y: float) -> str:
        across = LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - LEFT - 10)
        down = HEIGHT - BOTTOM - (y - low_y) / (high_y - low_y) * (HEIGHT - BOTTOM - TOP)
        return f"{across:.1f},{down:.1f}"

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{escape(title)}" {_TEXT}>']
    for y in ticks(low_y, high_y):
        _, down = at(low_x, y).split(",")
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{down}" y2="{down}" {_FAINT}/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down}" text-anchor="end" dy=".35em">{y:.6g}</text>')
    for x in ticks(low_x, high_x):
        across, _ = at(x, low_y).split(",")
        parts.append(f'<text x="{across}" y="{HEIGHT - 8}" text-anchor="middle">{x:.6g}</text>')
    for run, curve in curves.items():
        curve = [point for point in curve if math.isfinite(point[1])]
        thinned = curve[:: max(1, len(curve) // MOST_POINTS)]
        drawn = " ".join(at(x, y) for x, y in thinned)
        line = f'<polyline points="{drawn}" stroke="{colors[run]}" fill="none" stroke-width="1.6">'
        parts.append(f"{line}<title>{escape(run)}</title></polyline>")
        if curve:
            x, y = curve[-1]
            across, down = at(x, y).split(",")
            dot = f'<circle cx="{across}" cy="{down}" r="3" fill="{colors[run]}">'
            parts.append(f"{dot}<title>{escape(run)}: {y:.6g}</title></circle>")
    return "".join([*parts, "</svg>"])


def matrix(title: str, rows: Sequence[Sequence[float]]) -> str:
    """Return a matrix as colored cells, true classes downwards and predicted ones across.

    >>> matrix("confusion", [[3.0, 1.0], [0.0, 4.0]]).count("<rect")
    4
    """
    size = max(len(rows), 1)
    cell = min(48.0, 300 / size)
    edge = cell * size + 30
    box = f'viewBox="0 0 {edge:.0f} {edge:.0f}" width="{edge:.0f}"'
    parts = [f'<svg {box} role="img" aria-label="{escape(title)}" {_TEXT} text-anchor="middle">']
    for i, row in enumerate(rows):
        total = sum(row) or 1.0
        for j, count in enumerate(row):
            share = count / total
            x, y = 24 + j * cell, 24 + i * cell
            ink = ' fill="#fff" fill-opacity="1"' if share > 0.5 else ""
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}" '
                f'fill="{COLORS[0]}" fill-opacity="{share:.3f}" {_FAINT}>'
                f"<title>{i} taken for {j}: {count:g}</title></rect>"
            )
            if size <= 12:
                parts.append(f'<text x="{x + cell / 2:.1f}" y="{y + cell / 2:.1f}" dy=".35em"{ink}>{count:g}</text>')
        label = f"{24 + (i + 0.5) * cell:.1f}"
        parts.append(f'<text x="12" y="{label}" dy=".35em">{i}</text><text x="{label}" y="14" dy=".35em">{i}</text>')
    return "".join([*parts, "</svg>"])


def ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers from low to high.

    >>> ticks(1, 80), ticks(0.198, 0.7)
    ([20.0, 40.0, 60.0, 80.0], [0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(step for step in (5 * power, 2 * power, power) if (high - low) / step >= 3)
    slack = 1e-9 * step
    first, last = math.ceil((low - slack) / step), math.floor((high + slack) / step)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        return low - pad, high + pad
    return low, high


def charts(curves: Mapping[str, Curve]) -> str:
    """Return a chart for each metric as HTML, with the curves of "train/loss" and "valid/loss" in the one of "loss".

    >>> html = charts({"train/loss": [(1, 0.5)], "valid/loss": [(1, 0.6)], "lr": [(1, 0.1)]})
    >>> html.count("<svg"), html.count("<polyline")
    (2, 3)
    """
    groups: dict[str, dict[str, Curve]] = {}
    for name in sorted(curves):
        series, _, metric = name.rpartition("/")
        groups.setdefault(metric, {})[series] = curves[name]
    colors = dict(zip(sorted({series for group in groups.values() for series in group}), cycle(COLORS), strict=False))
    parts = ['<div style="display:flex;flex-wrap:wrap;gap:12px">']
    for metric, group in groups.items():
        legend = "".join(
            f' <span style="color:{colors[series]}">● {escape(series)}</span>' for series in group if series
        )
        drawn = chart(metric, group, colors)
        parts.append(f'<div style="flex:1 1 300px;max-width:{WIDTH}px"><b>{escape(metric)}</b>{legend}{drawn}</div>')
    return "".join([*parts, "</div>"])


@dataclass
class LoggedRun:
    """A run, as read from its log."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    matrices: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    state: str = "running"


def runs_in(folder: Path) -> list[LoggedRun]:
    """Return the runs of all ``*.jsonl`` files in a folder and those inside of it, by name."""
    return [run_of(path, folder) for path in sorted(folder.rglob("*.jsonl"))]


def run_of(path: Path, folder: Path) -> LoggedRun:
    """Return the run of a log. Incomplete lines, such as one that is being written, are skipped."""
    name = path.relative_to(folder).with_suffix("").as_posix()
    run = LoggedRun(name.removesuffix("/log"))
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                _take(run, line)
    return run


def _take(run: LoggedRun, line: dict[str, Any]) -> None:
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


_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #111; background: #fff; }
h1 { font-size: 18px; } h2 { font-size: 14px; margin: 0 0 4px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); gap: 20px; }
.card { border: 1px solid #ddd; border-radius: 6px; padding: 10px; }
table { border-collapse: collapse; margin-bottom: 20px; }
.runs { overflow-x: auto; } td, th { padding: 3px 16px 3px 0; text-align: left; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin-right: 6px; }
svg { display: block; max-width: 100%; } .note { margin: 4px 0 0; font-size: 12px; color: #777; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #111; } .card { border-color: #333; } }
"""

_SCRIPT = """
const main = document.querySelector("main");
let seen = "";
setInterval(async () => {
  try {
    const body = await (await fetch("runs")).text();
    if (body !== seen) { main.innerHTML = body; seen = body; }
    document.title = "burnpy";
  } catch (error) { document.title = "burnpy (offline)"; }
}, 2000);
"""


def page(runs: Sequence[LoggedRun]) -> str:
    """Return the whole page, which asks for `figures` again every two seconds."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>burnpy</title>'
        f"<style>{_STYLE}</style></head><body><h1>Training runs</h1><main>{figures(runs)}</main>"
        f"<script>{_SCRIPT}</script></body></html>"
    )


def figures(runs: Sequence[LoggedRun]) -> str:
    """Return the part of the page that changes: a table of the runs, a chart for each value, and confusion matrices.

    >>> figures([])
    '<p>There are no runs yet.</p>'
    """
    if not runs:
        return "<p>There are no runs yet.</p>"
    colors = {run.name: COLORS[k % len(COLORS)] for k, run in enumerate(runs)}
    names = sorted({name for run in runs for name in run.curves}, key=lambda name: (name == "lr", name))
    parts = [_table(runs, colors), '<div class="charts">']
    for name in names:
        curves = {run.name: run.curves[name] for run in runs if name in run.curves}
        parts.append(f'<div class="card"><h2>{escape(name)}</h2>{chart(name, curves, colors)}</div>')
    for run in runs:
        for name, rows in run.matrices.items():
            title = f"{name}, {run.name}"
            note = '<p class="note">true classes downwards, predicted ones across</p>'
            parts.append(f'<div class="card"><h2>{escape(title)}</h2>{matrix(title, rows)}{note}</div>')
    return "".join([*parts, "</div>"])


def _table(runs: Sequence[LoggedRun], colors: dict[str, str]) -> str:
    """Return the state, the last values and the settings of each run; values of single batches are in the charts."""
    names = sorted({name for run in runs for name in run.curves if not name.startswith("batch/") and name != "lr"})
    head = ["<th>run</th><th>state</th>", *(f'<th class="number">{escape(name)}</th>' for name in ("step", *names))]
    rows = [f"<tr>{''.join(head)}<th>settings</th></tr>"]
    for run in runs:
        last = {name: f"{curve[-1][1]:.4g}" for name, curve in run.curves.items() if curve}
        step = max((curve[-1][0] for curve in run.curves.values() if curve), default=0)
        dot = f'<span class="dot" style="background:{colors[run.name]}"></span>'
        shown = [f"{step:.0f}", *(last.get(name, "") for name in names)]
        cells = [f"<td>{dot}{escape(run.name)}</td><td>{escape(run.state)}</td>"]
        cells += [f'<td class="number">{value}</td>' for value in shown]
        settings = ", ".join(f"{name} {value}" for name, value in run.settings.items())
        rows.append(f"<tr>{''.join(cells)}<td>{escape(settings)}</td></tr>")
    return f'<div class="runs"><table>{"".join(rows)}</table></div>'


HOST = "127.0.0.1"


def server_of(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page, which only this machine can reach; port 0 takes a free one."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # which displays do without

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the page, or with its changing parts."""
            paths = {"/": page, "/runs": figures}
            if self.path not in paths:
                self.send_error(404)
                return
            body = paths[self.path](runs_in(folder)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of requests."""

    return ThreadingHTTPServer((HOST, port), Handler)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m burnpy.train.board", description="Show training runs in a browser."
    )
    parser.add_argument("folder", type=Path, help="the folder with the logs that Jsonl wrote")
    parser.add_argument("--port", type=int, default=6007)
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.folder):  # False, too, of a name that is too long
        sys.exit(f"there is no folder {path_shown(options.folder)}; give the one with the logs that Jsonl writes")
    try:
        server = server_of(options.folder, options.port)
    except OSError as error:
        sys.exit(f"port {options.port} cannot be used ({error.strerror}); choose another with --port")
    with server:
        sys.stdout.write(f"the runs in {options.folder} are on http://{HOST}:{server.server_port}/ until Ctrl-C\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
