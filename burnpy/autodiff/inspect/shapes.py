"""Shapes and dtypes of the results of nodes, which nodes do not store.

A vjp must return a gradient of its argument's shape, so the shape of a node's result and its saved values determine
the shapes of its parents. Starting from a tensor, whose shape is known, they are inferred down to the leaves, at no
cost to recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from burnpy.autodiff.graph import Leaf, Meta, Node, Relay, Retained, is_array
from burnpy.autodiff.inspect.nodes import Edge, edges, saved
from burnpy.autodiff.rules import RULES, Rule
from burnpy.backend.backend import Backend
from burnpy.backend.rules import PartialGrad
from burnpy.backend.schema import Algebra


def metas(device: Any, roots: Iterable[tuple[Node | Leaf, Meta | None]], nodes: list[Node]) -> dict[Any, Meta | None]:
    """Return the shape and dtype of the results of ``nodes`` (oldest first) and their parents; None if not known.

    ``device`` is the `Autodiff` that recorded them.
    """
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
