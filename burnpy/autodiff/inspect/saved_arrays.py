"""What nodes hold: the innermost arrays, each once, whatever views and wrappers are around it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from burnpy.autodiff.graph import Leaf, Node, Tracked, is_array, mapped
from burnpy.autodiff.inspect.nodes import edges, walk
from burnpy.autodiff.rematerialize.recipes import Computed, Source
from burnpy.autodiff.saved_tensors.slots import Stored
from burnpy.backend.backend import Backend


class Held(NamedTuple):
    """What one node, or leaf, keeps."""

    node: Node | Leaf
    arrays: list[tuple[Hashable, int]]  #: what holds each array, and its bytes (`Backend.memory`)
    packed: int  #: how many arrays saved-tensor hooks have put elsewhere


def held_by(device: Backend, node: Node | Leaf) -> Held:
    """What a node keeps itself, or the value of a leaf."""
    plain = device.discrete
    values = [node.value] if isinstance(node, Leaf) else [x for edge in edges(node) for x in edge.kept]
    found: dict[Hashable, int] = {}
    packed = 0

    def see(x: Any) -> None:
        nonlocal packed
        if isinstance(x, Stored):
            packed += 1
        elif isinstance(x, Source):  # of a recipe, what it is made of
            _each(see, x.args if x.array is None else [x.array])
        elif isinstance(x, Computed):
            see(x.value)
        elif is_array(x):
            key, size = plain.storage_of(x)
            found[key] = size

    _each(see, values)
    return Held(node, list(found.items()), packed)


def all_levels(roots: Iterable[Node | Leaf | None]) -> tuple[list[Node], list[Leaf]]:
    """As `walk`, and the nodes and leaves of inner levels as well, of which what is kept is tracked."""
    nodes: dict[Node, None] = {}
    leaves: dict[Leaf, None] = {}
    pending = [root.target for root in roots if root is not None]
    while pending:
        found_nodes, found_leaves = walk(pending)
        pending = []
        kept: list[Any] = [leaf.value for leaf in found_leaves if leaf not in leaves]
        kept += [x for node in found_nodes if node not in nodes for edge in edges(node) for x in edge.kept]
        nodes.update(dict.fromkeys(found_nodes))
        leaves.update(dict.fromkeys(found_leaves))
        for x in kept:
            while isinstance(x, Tracked):
                if x.node is not None and x.node.target not in nodes and x.node.target not in leaves:
                    pending.append(x.node.target)
                x = x.value
    return sorted(nodes, key=attrgetter("seq")), list(leaves)


def _each(f: Callable[[Any], None], values: Iterable[Any]) -> None:
    """``f`` of each innermost value, members of tuples included."""

    def seen(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            _each(f, x)
        else:
            f(x)
        return x

    for x in values:
        mapped(seen, x)
