"""Plots of the results: ratios with their spread, and time per node over the length of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread
from benchmarks.report import Line, Section


def draw(sections: Sequence[Section], path: Path) -> Path | None:
    """Write a PNG file and return its path; return None if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    rated = [(s, line) for s in sections for line in s.lines if line.ratio and (line.budget or "gradients" in s.title)]
    figure = Figure(figsize=(16, max(6.0, 0.19 * len(rated))), layout="constrained")
    bars, curves = figure.subplots(1, 2, width_ratios=(3, 2))
    for place, (_, line) in enumerate(rated):
        assert line.ratio is not None
        color = {"yes": "tab:green", "NO": "tab:red"}.get(line.met, "tab:gray")
        below, above = line.ratio.middle - line.ratio.low, line.ratio.high - line.ratio.middle
        bars.barh(place, line.ratio.middle, xerr=[[below], [above]], color=color, height=0.7, capsize=2)
        if line.budget is not None:
            bars.plot([line.budget] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
    bars.set_yticks(range(len(rated)), [f"{s.title}: {line.work}" for s, line in rated], fontsize=7)
    bars.invert_yaxis()
    bars.margins(y=0.005)
    bars.axvline(1.0, color="gray", linewidth=0.8)
    bars.set_xlabel("ratio: median, lowest and highest; black: the budget")
    drawn = [line for section in sections for line in section.lines if line.curve]
    for name in dict.fromkeys(line.curve[0] for line in drawn if line.curve):
        hue: Any = None
        for peer, style in (("burnpy", "-"), ("torch", "--")):
            points = _points(drawn, name, peer)
            if points:
                label = name if style == "-" else None
                (shown,) = curves.plot(*zip(*points, strict=True), style, marker=".", color=hue, label=label)
                hue = shown.get_color()
    if drawn:
        curves.set_xscale("log")
        curves.set_ylim(bottom=0)
        curves.set_xlabel("nodes")
        curves.set_ylabel("µs per node, forward, gradients and freeing; dashed: torch")
        if curves.get_legend_handles_labels()[0]:
            curves.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _points(lines: Sequence[Line], name: str, peer: str) -> list[tuple[int, float]]:
    """Return the length and median of each chain with a name."""
    points = []
    for line in lines:
        cell = line.cells.get(peer)
        if line.curve and line.curve[0] == name and isinstance(cell, Spread):
            points.append((line.curve[1], cell.middle))
    return points
