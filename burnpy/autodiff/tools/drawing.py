"""Drawings of a graph: `to_dot`, `to_mermaid` and `to_svg`, the boxes and arrows that they draw, and notebooks' HTML.

`to_svg` lays out boxes in layers and arrows downward, with few crossings, after Sugiyama, Tagawa and Toda, Methods for
Visual Understanding of Hierarchical System Structures, 1981: layers by the longest path, points where long arrows pass
through a layer, order by the mean of the neighbours, then positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from burnpy.autodiff.graph import Leaf, Meta, Node, Retained, is_array
from burnpy.autodiff.recording import stack_of
from burnpy.autodiff.tools.backward import float_tensors
from burnpy.autodiff.tools.graph_views import all_saved, is_freed, metas, parents, walk
from burnpy.autodiff.tools.memory_report import held_by
from burnpy.autodiff.tools.saved_tensors import Stored
from burnpy.backend import html
from burnpy.backend.call_origin import lines_of
from burnpy.backend.device_memory import scaled
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor_base import TensorBase

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

Names = Mapping[str, "Tensor[Any]"]


@explained
def to_dot(tensors: Tensor[Any] | Sequence[Tensor[Any]], *, names: Names | None = None, limit: int = 200) -> str:
    r"""Draw the graph of one or several tensors in Graphviz's dot language, from the leaves down.

    Each operation shows the shape and dtype of its result, the values it saves for the backward pass with their size in
    bytes, and, if recorded inside of `burnpy.autodiff.track_lines`, its line.

    Args:
        tensors: the results at the end of the graph.
        names: names for leaves and other tensors.
        limit: how many operations are drawn at most, the newest; a note says how many are omitted.

    Raises:
        NotTrackedError: a tensor is on a plain backend.
        ArgumentError: the limit is not positive.

    >>> x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    >>> print(to_dot(x.exp(), names={"x": x}))
    digraph {
      node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11]
      n0 [label="x\n(2,) float32", fillcolor="#dff2dd"]
      n1 [label="exp\n(2,) float32\nkeeps out: 8 B", fillcolor="#f9dcc4"]
      n0 -> n1
    }
    """
    boxes = picture(tensors, names, limit, "to_dot")
    lines = ['  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11]']
    for k, box in enumerate(boxes):
        label = "\\n".join(_quoted(text) for text in box.lines if text)
        lines.append(f'  n{k} [label="{label}", fillcolor="{fill_of(box)}"]')
    lines += [f"  n{a} -> n{b}" for a, b in arrows(boxes)]
    return "\n".join(["digraph {", *lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@explained
def to_mermaid(tensors: Tensor[Any] | Sequence[Tensor[Any]], *, names: Names | None = None, limit: int = 200) -> str:
    """Draw the graph as a Mermaid flowchart, which GitHub and many editors show; arguments and errors are `to_dot`'s.

    >>> x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    >>> print(to_mermaid(x.exp(), names={"x": x}))
    flowchart TD
      n0(["x<br>(2,) float32"])
      n1["exp<br>(2,) float32<br>keeps out: 8 B"]
      n0 --> n1
      style n0 fill:#dff2dd,color:#000
      style n1 fill:#f9dcc4,color:#000
    """
    boxes = picture(tensors, names, limit, "to_mermaid")
    lines = ["flowchart TD"]
    for k, box in enumerate(boxes):
        label = "<br>".join(_entities(text) for text in box.lines if text)
        lines.append(f'  n{k}(["{label}"])' if box.kind == "leaf" else f'  n{k}["{label}"]')
    lines += [f"  n{a} --> n{b}" for a, b in arrows(boxes)]
    lines += [f"  style n{k} fill:{fill_of(box)},color:#000" for k, box in enumerate(boxes)]
    return "\n".join(lines)


def _entities(text: str) -> str:
    """Escape characters as Mermaid entities, which are those of HTML with # in place of &."""
    for character in '#"<>[]':
        text = text.replace(character, f"\0{ord(character)};")
    return text.replace("\0", "#")


_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#889"/></marker></defs>'
    '<g font-family="sans-serif" font-size="11" text-anchor="middle">'
)


@explained
def to_svg(tensors: Tensor[Any] | Sequence[Tensor[Any]], *, names: Names | None = None, limit: int = 200) -> str:
    """Draw the graph as an SVG picture, without any further dependency.

    Arguments and errors are those of `to_dot`. ``pathlib.Path("graph.svg").write_text(to_svg(loss))`` writes a file.

    >>> x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    >>> to_svg(x.exp()).startswith("<svg")
    True
    """
    return svg_of(picture(tensors, names, limit, "to_svg"))


def svg_of(boxes: Sequence[Box]) -> str:
    """Return boxes and their arrows as an SVG picture; it sets no style of the page that it is put into."""
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
        parts.append(f'<path d="{path}" fill="none" stroke="#889" marker-end="url(#head)"/>')
    for box, (x, y, across, down) in zip(boxes, layout.places, strict=True):
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{across:.0f}" height="{down:.0f}" '
            f'rx="{8 if box.kind == "leaf" else 3}" fill="{fill_of(box)}" stroke="#99a"/>'
        )
        for k, text in enumerate(t for t in box.lines if t):
            weight = ' font-weight="bold"' if k == 0 else ""
            baseline = y + PAD + (k + 0.75) * HEIGHT
            parts.append(f'<text x="{x + across / 2:.0f}" y="{baseline:.0f}"{weight}>{escape(text)}</text>')
    return "\n".join([*parts, "</g></svg>"])


MOST_DRAWN = 300
"""The number of operations up to which notebooks show a graph as a picture."""


def html_of(device: Any, end: Node | Leaf, meta: Meta | None) -> str:
    """Return the graph that ends in a node as HTML: a picture, or a table of the operations if there are too many."""
    nodes, leaves = walk([end])
    if len(nodes) <= MOST_DRAWN:
        return html.block(svg_of(boxes_of(device, {end: meta}, {}, MOST_DRAWN)))
    counts = Counter(node.operation for node in nodes).most_common()
    head = html.headline(f"{len(nodes):,} operations", f"leaves: {len(leaves):,}", device)
    return html.block(head, html.table(["operation", "nodes"], [(name, f"{count:,}") for name, count in counts]))


_FILLS = {"operation": "#eef2f7", "leaf": "#dff2dd", "note": "#fff3cd"}
_ROOT = "#f9dcc4"


def fill_of(box: Box) -> str:
    """Return the fill colour of a box."""
    return _ROOT if box.is_root and box.kind != "note" else _FILLS[box.kind]


@dataclass
class Box:
    """A box of a diagram: an operation, a leaf, or a note about omitted parts."""

    kind: Literal["operation", "leaf", "note"]
    lines: list[str]  #: lines of text, the name first
    is_root: bool = False
    above: list[int] = field(default_factory=list)  #: the numbers of the boxes whose results are its arguments


def picture(tensors: Any, names: Names | None, limit: int, function: str) -> list[Box]:
    """Return the boxes of the graph of one or several tensors; each comes after the boxes of its arguments.

    Args:
        tensors: the results at the end of the graph.
        names: names for tensors, usually leaves.
        limit: how many operations are drawn at most, the newest.
        function: the name of the calling function, for error messages.
    """
    roots: list[Tensor[Any]] = float_tensors(function, "tensors", tensors)
    if limit < 1:
        raise ArgumentError(f"{function}() got limit={limit}; expected an int of at least 1")
    ends = {x._primitive.node.target: (x.shape, x.dtype) for x in roots if x._primitive.node is not None}
    boxes = boxes_of(roots[0].device, ends, _called({} if names is None else names, function), limit)
    if not boxes:
        shape = f"{roots[0].shape} {roots[0].dtype}"
        boxes.append(Box("note", ["no graph: the tensor is not tracked", shape], True))
    return boxes


def boxes_of(device: Any, ends: Mapping[Any, Meta | None], called: Mapping[Any, str], limit: int) -> list[Box]:
    """Return the boxes of the graph that ends in some nodes, given with the shape and dtype of their results.

    Args:
        device: the `Autodiff` that recorded the graph.
        ends: the nodes.
        called: the names of nodes that have one.
        limit: see `picture`.
    """
    nodes, leaves = walk(ends)
    known = metas(device, ends.items(), nodes)
    drawn = nodes[-limit:]
    boxes: list[Box] = []
    number: dict[Any, int] = {}
    needed = {parent for node in drawn for parent in parents(node) if isinstance(parent, Leaf)}
    ending = [leaf for leaf in leaves if leaf in needed or leaf in ends]
    if len(drawn) < len(nodes) or len(ending) > limit:
        boxes.append(Box("note", _left_out(len(nodes) - len(drawn), len(leaves) - min(len(ending), limit), limit)))
    for leaf in ending[:limit]:
        number[leaf] = len(boxes)
        boxes.append(Box("leaf", [called.get(leaf, "leaf"), _meta_shown(known.get(leaf))], leaf in ends))
    for node in drawn:
        above = [number.get(parent, 0) for parent in parents(node)]
        if isinstance(node, Retained) and above and boxes[above[0]].kind == "operation":
            number[node] = above[0]  # not drawn as an operation: a mark on the one whose gradient is retained
            boxes[above[0]].lines.append("gradient kept" + _with_name(called.get(node)))
            boxes[above[0]].is_root |= node in ends
            continue
        number[node] = len(boxes)
        boxes.append(Box("operation", _described(device, node, known.get(node), called.get(node)), node in ends, above))
    return boxes


def _left_out(operations: int, leaves: int, limit: int) -> list[str]:
    counts = ((operations, "older operation"), (leaves, "leave" if leaves > 1 else "leaf"))
    hidden = " and ".join(f"{n} {noun}{'s' * (n > 1)}" for n, noun in counts if n)
    return [f"{hidden} not drawn", f"limit={limit}"]


def _called(names: Names, function: str) -> dict[Any, str]:
    for name, x in names.items():
        if not isinstance(x, TensorBase):
            raise KindError(f"{function}(names=…) takes tensors by name, and {name!r} is {x!r:.80}")
    nodes = ((name, getattr(x._primitive, "node", None)) for name, x in names.items())
    return {node.target: name for name, node in nodes if node is not None}


def _described(device: Any, node: Node, meta: Meta | None, name: str | None) -> list[str]:
    lines = [node.operation + _with_name(name)]
    if meta is not None:
        lines.append(_meta_shown(meta))
    if is_freed(node):
        lines.append("freed")
    kept = [label for label, value in all_saved(node).items() if is_array(value) or isinstance(value, Stored)]
    if kept:
        held = held_by(device, node)
        size = scaled(sum(size for _, size in held.arrays), "B", 1024)
        lines.append(f"keeps {', '.join(kept)}: {size}{' and packed arrays' if held.packed else ''}")
    stack = stack_of(node)
    if stack:
        line = lines_of(stack[-1:])[0]
        lines.append(f"{line} {line.code[:40]}".rstrip())
    return lines


def _with_name(name: str | None) -> str:
    return f" → {name}" if name else ""


def _meta_shown(meta: Meta | None) -> str:
    return "" if meta is None else f"{meta[0]} {meta[1]}"


def arrows(boxes: Sequence[Box]) -> list[tuple[int, int]]:
    """Return the arrows as pairs of box numbers (from, to), one for each argument."""
    return [(above, k) for k, box in enumerate(boxes) for above in box.above]


HEIGHT = 14.0
"""The height of a line of text."""
PAD = 6.0
_ACROSS, _DOWN, _LETTER = 18.0, 34.0, 6.1
_SWEEPS = 8
Point = tuple[float, float]


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
    chains = _chains(layer, arrows)
    widths += [4.0] * (len(layer) - count)
    rows = _grouped(max(layer, default=-1) + 1, [(n, k) for k, n in enumerate(layer)])
    links = list(chain.from_iterable(map(pairwise, chains)))
    below = _grouped(len(layer), links)
    above = _grouped(len(layer), sorted((v, k) for k, v in links))
    x = _across(rows, above, below, widths)
    row_heights = [max((heights[k] for k in row if k < count), default=0.0) for row in rows]
    *tops, y = accumulate(row_heights, lambda top, height: top + height + _DOWN, initial=PAD)
    left = min((x[k] - widths[k] / 2 for k in range(len(x))), default=0.0) - PAD
    right = max((x[k] + widths[k] / 2 for k in range(len(x))), default=0.0) + PAD
    places = [(x[k] - widths[k] / 2 - left, tops[layer[k]], widths[k], heights[k]) for k in range(count)]
    routes: list[list[Point]] = []
    for way in chains:
        a, b = way[0], way[-1]
        passed = [(x[k] - left, tops[layer[k]] + row_heights[layer[k]] / 2) for k in way[1:-1]]
        routes.append([(x[a] - left, tops[layer[a]] + heights[a]), *passed, (x[b] - left, tops[layer[b]])])
    return GraphLayout(right - left, y - _DOWN + PAD, places, routes)


def _grouped(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return, for each number below ``count``, the numbers that pairs have after it."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for k, member in pairs:
        groups[k].append(member)
    return groups


def _chains(layer: list[int], arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the ends of each arrow, with a point in each layer between, which is added to the layers."""
    chains = []
    for a, b in arrows:
        between = range(layer[a] + 1, layer[b])
        chains.append([a, *range(len(layer), len(layer) + len(between)), b])
        layer.extend(between)
    return chains


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
    """Place the boxes of a row in order, each as near to its preferred position as possible without overlaps. Boxes
    that would overlap form a group, placed to minimize the sum of the squared distances."""
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
