"""The part of generated source that records a node: its edges to the tracked arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from burnpy.autodiff.codegen.expressions import saved_by
from burnpy.backend.entries import Operation

if TYPE_CHECKING:
    from burnpy.autodiff.rules import Rule
    from burnpy.backend.rules import Matrices


Edge: TypeAlias = Callable[[int, str], list[str]]
"""``(slot, parent) -> lines``: generates the assignment of one edge to a slot of a node."""

SILENT = "((mode := self.mode()) is not None and mode.silences(self.level))"
"""The condition under which a mode such as `no_grad` turns recording off; it also sets ``mode``."""
_SHOW = ["if mode is not None:", "    mode.record(self, node, value)"]
_CLOSE = ["node.alive = True", "node.seq = next_seq()", *_SHOW, "out.node = node", "return out"]


def edge(vjp: str, saved: str) -> Edge:
    """Generate an edge of a vjp and its saved values."""
    return lambda k, parent: [f"node.parent{k} = {parent}", f"node.vjp{k} = {vjp}", f"node.saved{k} = {saved}"]


def fitted_edge(op: Operation, rule: Rule, k: int) -> Edge:
    """Generate the edge of the k-th argument, which undoes broadcasting if its shape is not the result's, ``shape``."""
    meta = f"{op.float_arguments[k].name}_meta[0]"
    own, fitted = (saved_by(op, rule.vjps[k], fit) for fit in (None, meta))
    return lambda slot, parent: [
        f"node.parent{slot} = {parent}",
        f"if shape == {meta}:",
        f"    node.vjp{slot} = vjp{k}",
        f"    node.saved{slot} = {own}",
        "else:",
        f"    node.vjp{slot} = unbroadcast{k}",
        f"    node.saved{slot} = {fitted}",
    ]


def edges_of(op: Operation, rule: Rule | Matrices, prefix: str = "") -> tuple[Edge, Edge]:
    """Generate the two edges of a rule."""
    first, second = (edge(f"{prefix}vjp{k}", saved_by(op, vjp)) for k, vjp in enumerate(rule.vjps))
    return first, second


def one_edge(argument: str, edge: Edge, indent: str) -> list[str]:
    """Generate the recording of a node where only one float argument can be tracked."""
    lines = [
        f"parent = {argument}.node",
        f"if parent is None or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        *edge(0, "parent"),
        "node.parent1 = None",
        *_CLOSE,
    ]
    return [indent + line for line in lines]


def two_edges(left: str, right: str, edges: tuple[Edge, Edge], indent: str) -> list[str]:
    """Generate the recording of a node with two arguments: edges for tracked parents only."""
    lines = [
        f"parent = {left}.node",
        f"other = {right}.node",
        f"if parent is None and other is None or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = Kind()",
        "if parent is None:",
        *("    " + line for line in edges[1](0, "other")),
        "    node.parent1 = None",
        "else:",
        *("    " + line for line in edges[0](0, "parent")),
        "    if other is None:",
        "        node.parent1 = None",
        "    else:",
        *("        " + line for line in edges[1](1, "other")),
        *_CLOSE,
    ]
    return [indent + line for line in lines]


def edge_list() -> list[str]:
    """Generate the recording of a node with a list of edges."""
    return [
        f"if not edges or {SILENT}:",
        "    out.node = None",
        "    return out",
        "node = new_node(Kind, edges)",
        *_SHOW,
        "out.node = node",
        "return out",
    ]
