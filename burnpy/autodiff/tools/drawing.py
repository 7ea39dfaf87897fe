"""Drawings of a graph as text, `to_dot` and `to_mermaid`, and the boxes and arrows that these and `to_svg` draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from burnpy.autodiff.graph import Leaf, Meta, Node, Retained, is_array, stack_of
from burnpy.autodiff.tools.backward import float_tensors
from burnpy.autodiff.tools.graph_views import all_saved, is_freed, metas, parents, walk
from burnpy.autodiff.tools.memory_report import held_by
from burnpy.autodiff.tools.saved_tensors import Stored
from burnpy.backend.call_origin import lines_of
from burnpy.backend.device_memory import scaled
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.tensor.tensor_base import TensorBase

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

Names = Mapping[str, "Tensor[Any]"]


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

    Raises:
        NotTrackedError: a tensor is on a plain backend.
        KindError: an argument is no float tensor.
        ArgumentError: the limit is not positive.
    """
    roots: list[Tensor[Any]] = float_tensors(function, "tensors", tensors)
    if limit < 1:
        raise ArgumentError(f"{function}() got limit={limit}; expected an int of at least 1")
    device = roots[0].device
    ends = {x._primitive.node.target: (x.shape, x.dtype) for x in roots if x._primitive.node is not None}
    nodes, leaves = walk(ends)
    known = metas(device, ends.items(), nodes)
    called = _called(names or {}, function)
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
    if not boxes:
        shape = f"{roots[0].shape} {roots[0].dtype}"
        boxes.append(Box("note", ["no graph: the tensor is not tracked", shape], True))
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
