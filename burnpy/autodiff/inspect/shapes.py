"""Shapes and dtypes of the results of nodes, which nodes do not store.

A vjp must return a gradient of its argument's shape, so the shape of a node's result and its saved values determine
the shapes of its parents. Starting from a tensor, whose shape is known, they are inferred down to the leaves, at no
cost to recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burnpy.autodiff.graph import Leaf, Meta, Node, Relay, Retained, identity, is_array
from burnpy.autodiff.inspect.nodes import Edge, argument_of, edges, operation_of, rule_of, saved
from burnpy.autodiff.rules import RULES
from burnpy.backend.primitives import Shape

_KEEPING = frozenset(
    ("softmax", "log_softmax", "cumsum", "flip", "tril", "triu", "cast", "index_put", "scatter", "slice_scatter")
)
"""Operations that are not elementwise but whose first argument has the result's shape."""


def metas(roots: Iterable[tuple[Node | Leaf, Meta | None]], nodes: list[Node]) -> dict[Any, Meta | None]:
    """Return the shape and dtype of the results of ``nodes`` (oldest first) and their parents; None if not known."""
    result: dict[Any, Meta | None] = dict(roots)
    for node in reversed(nodes):
        own = result[node] = result.get(node) or own_meta(node)
        for edge, meta in parents_with_metas(node, own):
            if result.get(edge.parent) is None:
                result[edge.parent] = meta
    return result


def parents_with_metas(node: Node, meta: Meta | None) -> list[tuple[Edge, Meta | None]]:
    """Return the edges to a node's parents, each with the parent's shape and dtype; ``meta`` is the node's own."""
    return [(edge, meta_of(node, edge, meta)) for edge in edges(node) if edge.parent.__class__ is not Relay]


def own_meta(node: Node) -> Meta | None:
    """Return the shape and dtype of a node's result as far as its saved values determine them, else None."""
    for edge in edges(node):
        kept = saved(node, edge)
        out: Any = kept.get("out")
        if is_array(out):
            return out.shape, out.dtype
        x: Any = kept.get("x")
        rule = RULES.get(node.operation)
        if is_array(x) and rule is not None and rule.operation.elementwise and len(rule.vjps) == 1:
            return x.shape, x.dtype
    return None


def meta_of(node: Node, edge: Edge, meta: Meta | None) -> Meta | None:
    """Return the shape and dtype of an edge's parent, or None; ``meta`` is that of the node."""
    parent = edge.parent
    if isinstance(parent, Leaf):
        return parent.value.shape, parent.value.dtype
    if node.__class__ is Retained:
        return meta
    operation = operation_of(node, edge.vjp)
    kept = saved(node, edge)
    argument = argument_of(node, edge.vjp)
    own: Any = kept.get(argument) if argument is not None else None
    if is_array(own):
        return own.shape, own.dtype
    name = "x" if argument == "xs" else argument or "argument"
    shape: Shape | None = kept.get(f"{name}_shape")
    if shape is None and meta is not None:
        shape = _inferred(operation, argument, edge, kept, meta[0])
    if shape is None or meta is None:
        return None
    return shape, kept.get(f"{argument}_dtype", meta[1])


def _factor(dims: tuple[int, int], argument: str | None, kept: dict[str, Any], shape: Shape) -> Shape | None:
    """Return the shape of one factor of a matrix product, from the other factor, which is saved, and the result."""
    k = ("x", "y").index(argument) if argument in ("x", "y") else None
    if k is None:
        return None
    other, own, its = kept["yx"[k]].shape, dims[k], dims[1 - k]
    inner = other[1 - its]
    return (shape[k], inner) if own == 0 else (inner, shape[k])


def _inferred(operation: str, argument: str | None, edge: Edge, kept: dict[str, Any], shape: Shape) -> Shape | None:
    """Return the shape of an argument that is not saved, inferred from the result's shape, or None."""
    if operation == "permute":
        return tuple(shape[kept["dims"].index(d)] for d in range(len(shape)))
    if operation == "mT":
        return (*shape[:-2], shape[-1], shape[-2])
    rule = RULES.get(operation)
    if rule is None:
        return None
    if rule.matrices is not None:
        return _factor(rule.matrices.dims, argument, kept, shape)
    if argument == "src":
        index = kept["index"].shape
        return (*shape[: kept["dim"]], *index, *shape[kept["dim"] + 1 :]) if operation == "index_add" else index
    if rule.operation.elementwise or operation in _KEEPING or rule_of(edge.vjp) is identity:
        return shape
    return None
