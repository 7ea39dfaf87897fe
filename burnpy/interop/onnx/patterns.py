"""Nodes that are one operation of burnpy together: a product with a bias, and attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from burnpy.interop.onnx.graph import Graph, GraphNode
from burnpy.interop.onnx.operators.table import Bound


def joined(graph: Graph, arrays: Mapping[str, Any]) -> tuple[GraphNode, ...]:
    """Return the nodes of a graph, with one node for each pattern.

    Args:
        graph: the graph.
        arrays: its parameters.
    """
    found = _Patterns(graph, arrays)
    replaced = {node.outputs[0]: made for node in graph.nodes if (made := found.attention(node) or found.linear(node))}
    kept = [node for node in graph.nodes if node.outputs[0] not in found.inner]
    return tuple([replaced.get(node.outputs[0], node) for node in kept])


class _Patterns:
    """The patterns of a graph. ``inner`` gets the results of nodes that are part of one."""

    def __init__(self, graph: Graph, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self.inner: set[str] = set()
        self._uses = Counter([name for node in graph.all_nodes() for name in node.inputs] + list(graph.outputs))
        self._made = {name: node for node in graph.nodes for name in node.outputs}

    def _only(self, name: str, kind: str, inputs: int) -> GraphNode | None:
        """Return the node that makes a value; None if it is of another kind, or the value is used elsewhere too."""
        node = self._made.get(name)
        right = node is not None and node.kind == kind and len(node.inputs) == inputs and self._uses[name] == 1
        return node if right else None

    def linear(self, node: GraphNode) -> GraphNode | None:
        """Return the node for ``x @ weight + bias``, with a matrix and a vector of the parameters."""
        if node.kind != "Add" or len(node.inputs) != 2:
            return None
        for name, bias in (node.inputs, node.inputs[::-1]):
            product = self._only(name, "MatMul", 2)
            if product is None or self._ndim(product.inputs[1]) != 2 or self._ndim(bias) != 1:
                continue
            if self.arrays[bias].shape[0] == self.arrays[product.inputs[1]].shape[1]:
                self.inner.add(name)
                return GraphNode("Linear", node.name, (*product.inputs, bias), node.outputs, {}, Bound("Linear", {}))
        return None

    def attention(self, node: GraphNode) -> GraphNode | None:
        """Return the node for ``softmax(q @ k + mask) @ v``, with or without a mask."""
        weights = self._only(node.inputs[0], "Softmax", 1) if node.kind == "MatMul" else None
        if weights is None or weights.attributes.get("axis", -1) != -1 or weights.attributes["opset"] < 13:
            return None
        scores, mask = self._only(weights.inputs[0], "MatMul", 2), list[str]()
        inner = [node.inputs[0], weights.inputs[0]]
        if scores is None:
            added = self._only(weights.inputs[0], "Add", 2)
            for name, other in () if added is None else (added.inputs, added.inputs[::-1]):
                scores = self._only(name, "MatMul", 2)
                if scores is not None:
                    inner.append(name)
                    mask = [other]
                    break
        if scores is None:
            return None
        self.inner.update(inner)
        return GraphNode(
            "Attend", node.name, (*scores.inputs, node.inputs[1], *mask), node.outputs, {}, Bound("Attend", {})
        )

    def _ndim(self, name: str) -> int | None:
        return self.arrays[name].ndim if name in self.arrays else None
