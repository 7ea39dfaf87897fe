"""The names of values in the nodes of an ONNX graph, and in the graphs inside of those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
