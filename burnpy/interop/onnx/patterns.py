"""Nodes that are one operation of burnpy together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from burnpy.interop.onnx.graph import Graph, GraphNode
from burnpy.interop.onnx.operators.table import Bound


def joined(graph: Graph, arrays: Mapping[str, Any]) -> tuple[GraphNode, ...]:
    """Return the nodes of a graph, where a product with a matrix and the bias after it are one node.

    Args:
        graph: the graph.
        arrays: its parameters.
    """
    uses = Counter([name for node in graph.all_nodes() for name in node.inputs] + list(graph.outputs))
    products = {
        node.outputs[0]: node
        for node in graph.nodes
        if node.kind == "MatMul"
        and len(node.inputs) == 2
        and _ndim(arrays, node.inputs[1]) == 2
        and uses[node.outputs[0]] == 1
    }
    sums = {
        node.outputs[0]: _linear(node, products, arrays)
        for node in graph.nodes
        if node.kind == "Add" and len(node.inputs) == 2
    }
    gone = {made.name for made in sums.values() if made is not None}
    kept = [node for node in graph.nodes if not (node.kind == "MatMul" and node.outputs[0] in gone)]
    return tuple([sums.get(node.outputs[0]) or node for node in kept])


def _linear(add: GraphNode, products: Mapping[str, GraphNode], arrays: Mapping[str, Any]) -> GraphNode | None:
    """Return the node for a product with a bias; None where the sum is another one."""
    for product, bias in (add.inputs, add.inputs[::-1]):
        found = products.get(product)
        if found is not None and _ndim(arrays, bias) == 1 and arrays[bias].shape[0] == arrays[found.inputs[1]].shape[1]:
            return GraphNode("Linear", product, (*found.inputs, bias), add.outputs, {}, Bound("Linear", {}))
    return None


def _ndim(arrays: Mapping[str, Any], name: str) -> int | None:
    return arrays[name].ndim if name in arrays else None
