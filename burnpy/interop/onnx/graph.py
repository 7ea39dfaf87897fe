"""Graphs of nodes: their names and constants, and nodes that are one operation of burnpy together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnpy.interop.onnx.operators.table import Bound


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One node."""

    kind: str
    name: str
    inputs: tuple[str, ...]  #: names of values; empty for an absent input
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  #: by the parameters of the operator; graphs are `Graph`
    call: Bound | None  #: the operator as a function of its inputs; None if it has graphs

    @property
    def graphs(self) -> list[Graph]:
        """The graphs of its attributes."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def shown(self) -> str:
        """The node in an error message."""
        return f"{self.kind} ({self.name or ', '.join(self.outputs)})"


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a graph in order, with its inputs, outputs and constants."""

    name: str
    nodes: tuple[GraphNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict, repr=False)  #: tensors on the host, also of inner graphs
    declared: tuple[
        tuple[Any, tuple[int, ...]] | None, ...
    ] = ()  #: dtypes and shapes of outputs, where the file has them

    def all_nodes(self) -> Iterator[GraphNode]:
        """Yield all nodes, those of nested graphs too."""
        for node in self.nodes:
            yield node
            for graph in node.graphs:
                yield from graph.all_nodes()


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


def _graphs(node: Any) -> Iterator[Any]:
    """Yield the graphs inside of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g


def names_read(node: Any) -> list[str]:
    """Return the names that a node reads, and those that the nodes of its graphs read."""
    inside = [name for graph in _graphs(node) for each in graph.node for name in names_read(each)]
    return [*node.input, *inside]


def rename(node: Any, old: str, new: str) -> None:
    """Change the name of a value in a node and in its graphs."""
    for names in (node.input, node.output):
        for k, name in enumerate(names):
            if name == old:
                names[k] = new
    for graph in _graphs(node):
        for each in graph.node:
            rename(each, old, new)
