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


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a graph in order, with its inputs, outputs and constants."""

    name: str
    nodes: tuple[GraphNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any] = field(repr=False)  #: tensors on the host

    def all_nodes(self) -> Iterator[GraphNode]:
        """Yield all nodes, those of nested graphs too."""
        for node in self.nodes:
            yield node
            for value in node.attributes.values():
                if isinstance(value, Graph):
                    yield from value.all_nodes()
