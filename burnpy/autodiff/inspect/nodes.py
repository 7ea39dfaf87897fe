"""Views of nodes and edges for inspection: relays count as part of the operation that they were recorded with, and a
hooked tensor as the tensor itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from burnpy.autodiff.graph import EdgeKind, Leaf, Node, Relay, Retained, is_array, kept_of
from burnpy.backend.rules import Vjp


class Edge(NamedTuple):
    """One edge of a node, or of one of its relays."""

    parent: Node | Leaf
    vjp: Vjp
    kept: tuple[Any, ...]
    kind: EdgeKind | None  #: None in nodes of a user's own operation


def edges(node: Any) -> list[Edge]:
    """Return the edges of a node and of its relays, in the order of the arguments; none for a freed node."""
    collected: list[Edge] = []
    stack = [node]
    while stack:
        part: Any = stack.pop()
        if part.__class__ is Edge:
            collected.append(part)
            if not isinstance(part.parent, Relay):
                continue
            part = part.parent
        own = [Edge(p.target, vjp, kept, edge_kind(part, vjp)) for p, vjp, kept in _slots(part) if p is not None]
        if part.__class__ is Retained:
            own = [edge for edge in own if edge.parent is not part.kept_leaf]
        stack += reversed(own)
    return collected


def _slots(node: Any) -> list[tuple[Any, Any, Any]]:
    has_second = node.parent1 is not None
    return [
        (node.parent0, node.vjp0, kept_of(node.saved0)),
        *([(node.parent1, node.vjp1, kept_of(node.saved1))] if has_second else []),
    ]


def parents(node: Node) -> list[Node | Leaf]:
    """Return the nodes of the tracked arguments of a node's operation."""
    return [edge.parent for edge in edges(node) if not isinstance(edge.parent, Relay)]


def is_freed(node: Any) -> bool:
    """Return whether a backward pass consumed the node."""
    return not isinstance(node, Leaf) and not hasattr(node, "alive")


def walk(roots: Iterable[Node | Leaf | None]) -> tuple[list[Node], list[Leaf]]:
    """Return all nodes that the roots depend on, oldest first and without relays, and all leaves. Not recursive."""
    seen: set[Any] = {root.target for root in roots if root is not None}
    stack = list(seen)
    nodes: list[Node] = []
    leaves: list[Leaf] = []
    while stack:
        node = stack.pop()
        if node.__class__ is Leaf:
            leaves.append(node)
            continue
        nodes.append(node)
        for parent in parents(node):
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    nodes.sort(key=attrgetter("seq"))
    return nodes, leaves


def unwrapped(vjp: Any) -> Any:
    """Return the vjp that was recorded, without those of watchers and savers, which are partial functions of it."""
    while isinstance(vjp, partial):
        vjp = vjp.args[-1]
    return vjp


def edge_kind(node: Node, vjp: Any) -> EdgeKind | None:
    """Return the meaning of a vjp of a node; None if the node's operation is a user's own."""
    return node.edge_kinds.get(unwrapped(vjp))


def saved(edge: Edge) -> dict[str, Any]:
    """Return the saved values of an edge by name; of a user's own operation, which gives no names, the arrays."""
    if edge.kind is None:
        arrays = [x for x in edge.kept if is_array(x) or hasattr(x, "restored")]
        return {f"saved_{k}": x for k, x in enumerate(arrays)}
    return {name: x for name, x in zip(edge.kind.saved, edge.kept, strict=True) if name}


def all_saved(node: Node) -> dict[str, Any]:
    """Return the saved values of all edges of a node, by name; a name used for two different values is numbered."""
    values: dict[str, Any] = {}
    for edge in edges(node):
        for name, value in saved(edge).items():
            label, k = name, 0
            while label in values and values[label] is not value and not _equal(values[label], value):
                k += 1
                label = f"{name}_{k}"
            values[label] = value
    return values


def _equal(a: Any, b: Any) -> bool:
    return not is_array(a) and not is_array(b) and type(a) is type(b) and bool(a == b)
