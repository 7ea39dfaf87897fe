"""Views of nodes and edges for inspection: relays count as part of the operation that they were recorded with, and a
hooked tensor as the tensor itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from burnpy.autodiff.engine import _call_watcher
from burnpy.autodiff.graph import Leaf, Node, Relay, Retained, Vjp, is_array, kept_of
from burnpy.autodiff.rules import RULES
from burnpy.backend.source_lines import Stack

STACK = "stack"
"""The metadata key under which `track_lines` and `detect_anomaly` store the user's lines that recorded a node."""


class Edge(NamedTuple):
    """One edge of a node, or of one of its relays."""

    parent: Node | Leaf
    vjp: Vjp
    kept: tuple[Any, ...]


def edges(node: Any) -> list[Edge]:
    """Return the edges of a node and of its relays, in the order of the arguments; none for a freed node."""
    collected: list[Edge] = []
    stack = [node]
    while stack:
        part: Any = stack.pop()
        if part.__class__ is Edge:
            collected.append(part)
            part = part.parent
            if part.__class__ is not Relay:
                continue
        own = [Edge(p.target, s, k) for p, s, k in _slots(part) if p is not None]
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
    return [edge.parent for edge in edges(node) if edge.parent.__class__ is not Relay]


def is_freed(node: Any) -> bool:
    """Whether a backward pass consumed the node."""
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


def rule_of(vjp: Any) -> Any:
    """Return the vjp as written in its rule, without the wrappers of watchers, savers and broadcasting."""
    while True:
        if isinstance(vjp, partial):
            vjp = next(a for a in reversed(vjp.args) if callable(a) and not isinstance(a, (Node, Leaf)))
        elif hasattr(vjp, "unbroadcasts"):
            vjp = vjp.unbroadcasts
        else:
            return vjp


def unwatched(vjp: Any) -> Any:
    """Return the vjp as stored in the node, without the wrappers of watchers."""
    while isinstance(vjp, partial) and vjp.func is _call_watcher:
        vjp = vjp.args[-1]
    return vjp


def is_unbroadcast(vjp: Any) -> bool:
    """Whether the adjoint of broadcasting wraps the rule's vjp, so that the argument's shape is saved first."""
    while isinstance(vjp, partial):
        vjp = next(a for a in reversed(vjp.args) if callable(a) and not isinstance(a, (Node, Leaf)))
    return hasattr(vjp, "unbroadcasts")


def argument_of(node: Node, vjp: Any) -> str | None:
    """Return the name of the argument whose gradient a vjp of a node computes; None if it is not known."""
    rule = RULES.get(operation_of(node, vjp))
    if rule is None:
        return None
    names = [a.name for a in rule.operation.float_arguments]
    if hasattr(node, "vjp1") and len(names) == 2:  # both arguments are tracked: the first edge is the first argument's
        stored = unwatched(vjp)
        if (node.vjp0 is stored) != (node.vjp1 is stored):
            return names[0] if node.vjp0 is stored else names[1]
    rule_vjp = rule_of(vjp)
    candidates = [*zip(names, rule.vjps, strict=False)]
    if rule.matrices is not None:
        candidates += zip(names, rule.matrices.vjps, strict=True)
    matches = [name for name, side in candidates if side is rule_vjp]
    return matches[0] if len(matches) == 1 else None


def operation_of(node: Node, vjp: Any) -> str:
    """Return the name of the operation that a vjp belongs to; for a relay's vjp it is looked up in the rules."""
    if node.__class__ is not Relay:
        return node.operation
    rule_vjp = rule_of(vjp)
    # Operations with two vjps never record relays, but may share a vjp with operations that do.
    matches = [name for name, rule in RULES.items() if rule_vjp in rule.vjps and len(rule.vjps) != 2]
    return matches[0] if len(matches) == 1 else node.operation


def saved(node: Node, edge: Edge) -> dict[str, Any]:
    """Return the saved values of an edge, by the names of the vjp's parameters."""
    code = getattr(rule_of(edge.vjp), "__code__", None)
    kept = edge.kept
    values: dict[str, Any] = {}
    if is_unbroadcast(edge.vjp):
        values[f"{argument_of(node, edge.vjp) or 'argument'}_shape"] = kept[0]
        kept = kept[1:]
    names = code.co_varnames[2 : code.co_argcount] if code is not None else ()
    if operation_of(node, edge.vjp) not in RULES or len(names) != len(kept):  # a user's own operation
        kept = tuple(x for x in kept if is_array(x) or hasattr(x, "restored"))
        names = tuple(f"saved_{k}" for k in range(len(kept)))
    return {**values, **dict(zip(names, kept, strict=True))}


def all_saved(node: Node) -> dict[str, Any]:
    """Return the saved values of all edges of a node, by name; a name used for two different values is numbered."""
    values: dict[str, Any] = {}
    for edge in edges(node):
        for name, value in saved(node, edge).items():
            label, k = name, 0
            while label in values and values[label] is not value and not _equal(values[label], value):
                k += 1
                label = f"{name}_{k}"
            values[label] = value
    return values


def _equal(a: Any, b: Any) -> bool:
    return not is_array(a) and not is_array(b) and type(a) is type(b) and bool(a == b)


def stack_of(node: Any) -> Stack:
    """Return the user's lines that recorded a node; empty if they were not tracked."""
    metadata: dict[str, Any] = getattr(node, "metadata", {})
    stack: Stack = metadata.get(STACK, ())
    return stack


def note(node: Any) -> dict[str, Any]:
    """Return the metadata dictionary of a node, created at first use."""
    try:
        metadata: dict[str, Any] = node.metadata
    except AttributeError:
        metadata = node.metadata = {}
    return metadata
