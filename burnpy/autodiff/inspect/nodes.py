"""Nodes and their edges as a user thinks of them: relays belong to the operation that was recorded with them, and a
tensor seen through hooks is the tensor."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from burnpy.autodiff.engine import _handed
from burnpy.autodiff.graph import Leaf, Node, Relay, Retained, Vjp, is_array, kept_of
from burnpy.autodiff.rules import RULES
from burnpy.backend.source_lines import Stack

STACK = "stack"
"""Under which name `track_lines` and `detect_anomaly` note a node's user lines in its metadata."""


class Edge(NamedTuple):
    """One edge of a node, or of one of its relays."""

    parent: Node | Leaf
    vjp: Vjp
    kept: tuple[Any, ...]


def edges(node: Any) -> list[Edge]:
    """The edges of a node and of its relays, in the order of the arguments. Of a freed node, none."""
    found: list[Edge] = []
    stack = [node]
    while stack:
        part: Any = stack.pop()
        if part.__class__ is Edge:
            found.append(part)
            part = part.parent
            if part.__class__ is not Relay:
                continue
        own = [Edge(p.target, s, k) for p, s, k in _slots(part) if p is not None]
        if part.__class__ is Retained:
            own = [edge for edge in own if edge.parent is not part.kept_leaf]
        stack += reversed(own)
    return found


def _slots(node: Any) -> list[tuple[Any, Any, Any]]:
    two = node.parent1 is not None
    return [
        (node.parent0, node.vjp0, kept_of(node.saved0)),
        *([(node.parent1, node.vjp1, kept_of(node.saved1))] if two else []),
    ]


def parents(node: Node) -> list[Node | Leaf]:
    """The nodes of the tracked arguments."""
    return [edge.parent for edge in edges(node) if edge.parent.__class__ is not Relay]


def is_freed(node: Any) -> bool:
    """Whether a backward pass consumed the node."""
    return not isinstance(node, Leaf) and not hasattr(node, "alive")


def walk(roots: Iterable[Node | Leaf | None]) -> tuple[list[Node], list[Leaf]]:
    """All nodes that the roots depend on, relays left out, oldest first, and all leaves. Nothing recurses."""
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
    """The vjp as its rule wrote it, beneath what watchers, savers and broadcasting put around it."""
    while True:
        if isinstance(vjp, partial):
            vjp = next(a for a in reversed(vjp.args) if callable(a) and not isinstance(a, (Node, Leaf)))
        elif hasattr(vjp, "unbroadcasts"):
            vjp = vjp.unbroadcasts
        else:
            return vjp


def unwatched(vjp: Any) -> Any:
    """The vjp as the node has it, beneath what watchers put around it."""
    while isinstance(vjp, partial) and vjp.func is _handed:
        vjp = vjp.args[-1]
    return vjp


def is_unbroadcast(vjp: Any) -> bool:
    """Whether broadcasting's adjoint is around the rule, so that the argument's shape is kept first."""
    while isinstance(vjp, partial):
        vjp = next(a for a in reversed(vjp.args) if callable(a) and not isinstance(a, (Node, Leaf)))
    return hasattr(vjp, "unbroadcasts")


def argument_of(node: Node, vjp: Any) -> str | None:
    """The name of the argument whose gradient a vjp of a node gives; None where that cannot be told."""
    rule = RULES.get(operation_of(node, vjp))
    if rule is None:
        return None
    names = [a.name for a in rule.operation.float_arguments]
    if hasattr(node, "vjp1") and len(names) == 2:  # both arguments are tracked: the first edge is the first's
        given = unwatched(vjp)
        if (node.vjp0 is given) != (node.vjp1 is given):
            return names[0] if node.vjp0 is given else names[1]
    written = rule_of(vjp)
    written_for = [*zip(names, rule.vjps, strict=False)]
    if rule.matrices is not None:
        written_for += zip(names, rule.matrices.vjps, strict=True)
    fitting = [name for name, side in written_for if side is written]
    return fitting[0] if len(fitting) == 1 else None


def operation_of(node: Node, vjp: Any) -> str:
    """The operation that a vjp belongs to; for the vjp of a relay found in the table of rules, if it is there."""
    if node.__class__ is not Relay:
        return node.operation
    written = rule_of(vjp)
    # Of two vjps none is a relay's; operations that have another number may share theirs with those.
    found = [name for name, rule in RULES.items() if written in rule.vjps and len(rule.vjps) != 2]
    return found[0] if len(found) == 1 else node.operation


def saved(node: Node, edge: Edge) -> dict[str, Any]:
    """What an edge keeps, by the names of the vjp's parameters."""
    written = rule_of(edge.vjp)
    code = getattr(written, "__code__", None)
    kept = edge.kept
    found: dict[str, Any] = {}
    if is_unbroadcast(edge.vjp):
        found[f"{argument_of(node, edge.vjp) or 'argument'}_shape"] = kept[0]
        kept = kept[1:]
    names = code.co_varnames[2 : code.co_argcount] if code is not None else ()
    if operation_of(node, edge.vjp) not in RULES or len(names) != len(kept):  # an operation of the user's
        kept = tuple(x for x in kept if is_array(x) or hasattr(x, "restored"))
        names = tuple(f"saved_{k}" for k in range(len(kept)))
    return {**found, **dict(zip(names, kept, strict=True))}


def all_saved(node: Node) -> dict[str, Any]:
    """What a node keeps, for all of its edges; a name that two of them use for two things is numbered."""
    found: dict[str, Any] = {}
    for edge in edges(node):
        for name, value in saved(node, edge).items():
            label, k = name, 0
            while label in found and found[label] is not value and not _equal(found[label], value):
                k += 1
                label = f"{name}_{k}"
            found[label] = value
    return found


def _equal(a: Any, b: Any) -> bool:
    return not is_array(a) and not is_array(b) and type(a) is type(b) and bool(a == b)


def stack_of(node: Any) -> Stack:
    """The user's lines that recorded a node, if anyone noted them."""
    metadata: dict[str, Any] = getattr(node, "metadata", {})
    found: Stack = metadata.get(STACK, ())
    return found


def note(node: Any) -> dict[str, Any]:
    """The metadata of a node, made at first use."""
    try:
        found: dict[str, Any] = node.metadata
    except AttributeError:
        found = node.metadata = {}
    return found
