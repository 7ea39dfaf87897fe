"""Graphs of operators: nodes, names and constants."""

from __future__ import annotations

from collections.abc import Iterator
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
