"""The page of the board: HTML that loads nothing from other places."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from burnpy.train.board.runs import Run
from burnpy.train.board.svg import COLORS, chart, matrix

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #111; background: #fff; }
h1 { font-size: 18px; } h2 { font-size: 14px; margin: 0 0 4px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); gap: 20px; }
.card { border: 1px solid #ddd; border-radius: 6px; padding: 10px; }
table { border-collapse: collapse; margin-bottom: 20px; }
.runs { overflow-x: auto; } td, th { padding: 3px 16px 3px 0; text-align: left; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin-right: 6px; }
svg { display: block; width: 100%; } svg.matrix { width: auto; max-width: 100%; }
polyline { fill: none; stroke-width: 1.6; } .grid { stroke: #eee; }
text { font: 10px system-ui, sans-serif; fill: #555; } .y { text-anchor: end; dominant-baseline: middle; }
.x { text-anchor: middle; } .cell { text-anchor: middle; dominant-baseline: central; } .light { fill: #fff; }
rect { fill: #2563eb; stroke: #ddd; } .note { margin: 4px 0 0; font-size: 12px; color: #777; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #111; } .card { border-color: #333; } .grid { stroke: #333; }
  text { fill: #aaa; } .light { fill: #fff; } rect { stroke: #333; }
}
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


def page(runs: Sequence[Run]) -> str:
    """Return the whole page, which asks for `figures` again every two seconds."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>burnpy</title>'
        f"<style>{_STYLE}</style></head><body><h1>Training runs</h1><main>{figures(runs)}</main>"
        f"<script>{_SCRIPT}</script></body></html>"
    )


def figures(runs: Sequence[Run]) -> str:
    """Return what changes on the page: a table of the runs, a chart for each value, and confusion matrices.

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


def _table(runs: Sequence[Run], colors: dict[str, str]) -> str:
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
