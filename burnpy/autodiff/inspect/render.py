"""Drawings of graphs as text: `to_dot`, `to_mermaid`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.inspect.diagram import Box, Names, arrows, picture

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

_FILLS = {"operation": "#eef2f7", "leaf": "#dff2dd", "note": "#fff3cd"}
_ROOT = "#f9dcc4"


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

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
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


def to_mermaid(tensors: Tensor[Any] | Sequence[Tensor[Any]], *, names: Names | None = None, limit: int = 200) -> str:
    """Draw the graph as a Mermaid flowchart, which GitHub and many editors show; arguments and errors as of `to_dot`.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
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


def fill_of(box: Box) -> str:
    """Return the fill colour of a box."""
    return _ROOT if box.is_root and box.kind != "note" else _FILLS[box.kind]
