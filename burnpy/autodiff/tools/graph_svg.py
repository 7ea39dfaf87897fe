"""Layout of diagrams: boxes in layers, arrows downward, with few crossings.

After Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures, 1981: layers by the
longest path, points where long arrows pass through a layer, order by the mean of the neighbours, then positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.autodiff.tools.drawing import Names, arrows, fill_of, picture

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

HEIGHT = 14.0
"""The height of a line of text."""
PAD = 6.0
_ACROSS, _DOWN, _LETTER = 18.0, 34.0, 6.1
_SWEEPS = 8

_HEAD = (
    "<style>text{font:11px sans-serif;text-anchor:middle}</style>"
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>'
)

Point = tuple[float, float]


def to_svg(tensors: Tensor[Any] | Sequence[Tensor[Any]], *, names: Names | None = None, limit: int = 200) -> str:
    """Draw the graph as an SVG picture, without any further dependency.

    Arguments and errors as of `to_dot`. ``pathlib.Path("graph.svg").write_text(to_svg(loss))`` writes a file.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    >>> to_svg(x.exp()).startswith("<svg")
    True
    """
    boxes = picture(tensors, names, limit, "to_svg")
    layout = laid_out([[text for text in box.lines if text] for box in boxes], arrows(boxes))
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        _HEAD,
    ]
    for points in layout.routes:
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x0, y0), (x1, y1) in pairwise(points):
            middle = (y0 + y1) / 2
            path += f"C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}"
        parts.append(f'<path d="{path}" fill="none" stroke="#667" marker-end="url(#head)"/>')
    for box, (x, y, across, down) in zip(boxes, layout.places, strict=True):
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{across:.0f}" height="{down:.0f}" '
            f'rx="{8 if box.kind == "leaf" else 3}" fill="{fill_of(box)}" stroke="#99a"/>'
        )
        for k, text in enumerate(t for t in box.lines if t):
            weight = ' font-weight="bold"' if k == 0 else ""
            baseline = y + PAD + (k + 0.75) * HEIGHT
            parts.append(f'<text x="{x + across / 2:.0f}" y="{baseline:.0f}"{weight}>{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"])


class GraphLayout(NamedTuple):
    """The positions of all boxes and arrows."""

    width: float
    height: float
    places: list[tuple[float, float, float, float]]  #: (left, top, width, height) of each box
    routes: list[list[Point]]  #: the points that each arrow passes through


def laid_out(texts: Sequence[Sequence[str]], arrows: Sequence[tuple[int, int]]) -> GraphLayout:
    """Lay out boxes with the given lines of text; every arrow (from, to) goes to a box with a larger number."""
    count = len(texts)
    widths = [max((len(t) for t in lines), default=0) * _LETTER + 2 * PAD for lines in texts]
    heights = [len(lines) * HEIGHT + 2 * PAD for lines in texts]
    layer = _layers(count, arrows)
    below: list[list[int]] = [[] for _ in range(count)]
    chains = []
    for a, b in arrows:
        chain = [a]
        for between in range(layer[a] + 1, layer[b]):
            layer.append(between)
            widths.append(4.0)
            below.append([])
            chain.append(len(layer) - 1)
        chain.append(b)
        for k, v in pairwise(chain):
            below[k].append(v)
        chains.append(chain)
    above: list[list[int]] = [[] for _ in below]
    for k, members in enumerate(below):
        for v in members:
            above[v].append(k)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for k, n in enumerate(layer):
        rows[n].append(k)
    x = _across(rows, above, below, widths)
    tops: list[float] = []
    y = PAD
    row_heights = [max((heights[k] for k in row if k < count), default=0.0) for row in rows]
    for height in row_heights:
        tops.append(y)
        y += height + _DOWN
    left = min((x[k] - widths[k] / 2 for k in range(len(x))), default=0.0) - PAD
    right = max((x[k] + widths[k] / 2 for k in range(len(x))), default=0.0) + PAD
    places = [(x[k] - widths[k] / 2 - left, tops[layer[k]], widths[k], heights[k]) for k in range(count)]
    routes: list[list[Point]] = []
    for way in chains:
        a, b = way[0], way[-1]
        passed = [(x[k] - left, tops[layer[k]] + row_heights[layer[k]] / 2) for k in way[1:-1]]
        routes.append([(x[a] - left, tops[layer[a]] + heights[a]), *passed, (x[b] - left, tops[layer[b]])])
    return GraphLayout(right - left, y - _DOWN + PAD, places, routes)


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: below all boxes with an arrow to it, or just above its first target if none has."""
    layer = [0] * count
    targets = {b for _, b in arrows}
    for a, b in sorted(arrows, key=lambda arrow: arrow[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    first: dict[int, int] = {}
    for a, b in arrows:
        first[a] = min(first.get(a, layer[b]), layer[b])
    return [first[k] - 1 if k not in targets and k in first else n for k, n in enumerate(layer)]


def _across(
    rows: list[list[int]], above: list[list[int]], below: list[list[int]], widths: Sequence[float]
) -> list[float]:
    """Return the x coordinate of each box's centre: rows are ordered and moved toward their neighbours, alternately
    those above and those below."""
    x = [0.0] * len(widths)
    for row in rows:
        _spread(row, x, [float(k) for k in range(len(row))], widths)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        neighbours = above if downward else below
        for row in rows if downward else reversed(rows):
            preferred = {k: _mean([x[v] for v in neighbours[k]], x[k]) for k in row}
            row.sort(key=lambda k: preferred[k])
            _spread(row, x, [preferred[k] for k in row], widths)
    return x


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(row: list[int], x: list[float], preferred: list[float], widths: Sequence[float]) -> None:
    """Place the boxes of a row in order, each as near to its preferred position as possible without overlaps.

    Boxes that would overlap form a group, placed to minimize the sum of the squared distances.
    """
    groups: list[tuple[float, int, float]] = []  # the sum of (preferred - offset), the number of boxes, the width
    for k, position in zip(row, preferred, strict=True):
        width = widths[k] + _ACROSS
        total, members, size = position - width / 2, 1, width
        while groups and groups[-1][0] / groups[-1][1] + groups[-1][2] > total / members:
            before, number, taken = groups.pop()
            total, members, size = before + total - members * taken, number + members, taken + size
        groups.append((total, members, size))
    index = 0
    for total, members, _ in groups:
        at = total / members
        for k in row[index : index + members]:
            width = widths[k] + _ACROSS
            x[k] = at + width / 2
            at += width
        index += members
