"""Charts of curves and confusion matrices as inline SVG, for the board and for notebooks.

Colors and fonts are attributes, so that a chart needs no style sheet; text and grid have the color of the page's text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

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

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{escape(title)}" {_TEXT}>',
    ]
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
