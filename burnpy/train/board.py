"""A page of runs from their logs, as HTML with inline SVG: ``python -m burnpy.train.board runs/ [--port 6007]``.

It loads nothing from other places, and only this machine can reach it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from burnpy.backend.errors import path_shown
from burnpy.train.displays.charts import COLORS, chart, matrix


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
