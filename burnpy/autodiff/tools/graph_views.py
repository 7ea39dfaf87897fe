"""Views of nodes and edges for inspection: relays count as part of the operation that they were recorded with, and a
hooked tensor as the tensor itself.

A vjp must return a gradient of its argument's shape, so the shape of a node's result and its saved values determine
the shapes of its parents. Starting from a tensor, whose shape is known, they are inferred down to the leaves, at no
cost to recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from burnpy.autodiff.graph import EdgeKind, Leaf, Meta, Node, Relay, Retained, is_array, saved_tuple
from burnpy.autodiff.rule_table import RULES, Rule
from burnpy.backend.backend import Backend
from burnpy.backend.rules import PartialGrad, Vjp
from burnpy.backend.schema import Algebra


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
        (node.parent0, node.vjp0, saved_tuple(node.saved0)),
        *([(node.parent1, node.vjp1, saved_tuple(node.saved1))] if has_second else []),
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
    """Return the recorded vjp without the interceptors and savers around it, which are partial functions."""
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


def metas(device: Any, roots: Iterable[tuple[Node | Leaf, Meta | None]], nodes: list[Node]) -> dict[Any, Meta | None]:
    """Return the shape and dtype of the results of ``nodes`` (oldest first) and their parents; None if not known.
    ``device`` is the `Autodiff` that recorded them."""
    result: dict[Any, Meta | None] = dict(roots)
    for node in reversed(nodes):
        own = result[node] = result.get(node) or own_meta(node)
        for edge, meta in parents_with_metas(device, node, own):
            if result.get(edge.parent) is None:
                result[edge.parent] = meta
    return result


def parents_with_metas(device: Any, node: Node, meta: Meta | None) -> list[tuple[Edge, Meta | None]]:
    """Return the edges to a node's parents, each with the parent's shape and dtype; ``meta`` is the node's own."""
    return [(edge, meta_of(device, node, edge, meta)) for edge in edges(node) if not isinstance(edge.parent, Relay)]


def own_meta(node: Node) -> Meta | None:
    """Return the shape and dtype of a node's result as far as its saved values determine them, else None."""
    rule = RULES.get(node.operation)
    for edge in edges(node):
        kept = saved(edge)
        out: Any = kept.get("out")
        if is_array(out):
            return out.shape, out.dtype
        if rule is not None and len(rule.vjps) == 1 and edge.kind is not None:
            x: Any = kept.get(edge.kind.argument or "")
            if is_array(x) and _has_shape_of(rule, edge.kind.argument):
                return x.shape, x.dtype
    return None


def meta_of(device: Any, node: Node, edge: Edge, meta: Meta | None) -> Meta | None:
    """Return the shape and dtype of an edge's parent, or None; ``meta`` has the node's shape and dtype."""
    if isinstance(edge.parent, Leaf):
        return edge.parent.value.shape, edge.parent.value.dtype
    if node.__class__ is Retained:
        return meta
    rule = RULES.get(node.operation)
    if rule is None or edge.kind is None or edge.kind.argument is None:
        return None
    argument, kept = edge.kind.argument, saved(edge)
    own: Any = kept.get(argument)
    if is_array(own):
        return own.shape, own.dtype
    if meta is None:
        return None
    shape = kept.get("x_shape" if argument == "xs" else f"{argument}_shape")
    dtype = kept.get(f"{argument}_dtype", meta[1])
    if shape is None and _has_shape_of(rule, argument):
        shape = meta[0]
    if shape is None and rule.matrices is not None:
        shape = _factor(rule.matrices.dims, argument, kept, meta[0])
    return _pulled_back(device.inner, rule, edge, meta) if shape is None else (shape, dtype)


def _has_shape_of(rule: Rule, argument: str | None) -> bool:
    """Return whether the result has the shape of an argument, where no adjoint of broadcasting was recorded."""
    op = rule.operation
    return op.elementwise or op.like == argument


def _factor(dims: tuple[int, int], argument: str, kept: dict[str, Any], shape: Any) -> Any:
    """Return the shape of one factor of a matrix product, from the other factor, which is saved, and the result."""
    k = ("x", "y").index(argument)
    other, own, its = kept["yx"[k]].shape, dims[k], dims[1 - k]
    inner = other[1 - its]
    return (shape[k], inner) if own == 0 else (inner, shape[k])


def _pulled_back(inner: Backend, rule: Rule, edge: Edge, meta: Meta) -> Meta | None:
    """Return the shape and dtype of a linear operation's vjp of zeros; the operation saved no float array."""
    if rule.operation.algebra not in (Algebra.LINEAR, Algebra.STRUCTURAL) or isinstance(edge.vjp, partial):
        return None
    zeros = inner.expand(inner.full((), 0.0, meta[1]), meta[0])  # a view: the vjp of a view needs no memory either
    part = edge.vjp(inner, zeros, *edge.kept)
    return None if isinstance(part, PartialGrad) else (part.shape, part.dtype)
