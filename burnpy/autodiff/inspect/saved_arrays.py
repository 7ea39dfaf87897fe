"""The innermost arrays that nodes save, each counted once, through all views and wrappers."""

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
    """The arrays that one node or leaf keeps alive."""

    node: Node | Leaf
    arrays: list[tuple[Hashable, int]]  #: the key of each array's storage, and its size in bytes
    packed: int  #: how many arrays saved-tensor hooks have packed


def held_by(device: Backend, node: Node | Leaf) -> Held:
    """Return the arrays saved by a node itself, or the value of a leaf."""
    plain = device.discrete
    values = [node.value] if isinstance(node, Leaf) else [x for edge in edges(node) for x in edge.kept]
    sizes: dict[Hashable, int] = {}
    packed = 0

    def see(x: Any) -> None:
        nonlocal packed
        if isinstance(x, Stored):
            packed += 1
        elif isinstance(x, Source):  # for a recipe, its arguments
            _each(see, x.args if x.array is None else [x.array])
        elif isinstance(x, Computed):
            see(x.value)
        elif is_array(x):
            key, size = plain.storage_of(x)
            sizes[key] = size

    _each(see, values)
    return Held(node, list(sizes.items()), packed)


def all_levels(roots: Iterable[Node | Leaf | None]) -> tuple[list[Node], list[Leaf]]:
    """Return all nodes and leaves as `walk` does, including those of inner levels reached through saved values."""
    nodes: dict[Node, None] = {}
    leaves: dict[Leaf, None] = {}
    pending = [root.target for root in roots if root is not None]
    while pending:
        level_nodes, level_leaves = walk(pending)
        pending = []
        values: list[Any] = [leaf.value for leaf in level_leaves if leaf not in leaves]
        values += [x for node in level_nodes if node not in nodes for edge in edges(node) for x in edge.kept]
        nodes.update(dict.fromkeys(level_nodes))
        leaves.update(dict.fromkeys(level_leaves))
        for x in values:
            while isinstance(x, Tracked):
                if x.node is not None and x.node.target not in nodes and x.node.target not in leaves:
                    pending.append(x.node.target)
                x = x.value
    return sorted(nodes, key=attrgetter("seq")), list(leaves)


def _each(f: Callable[[Any], None], values: Iterable[Any]) -> None:
    """Call ``f`` with each innermost value, including members of tuples and lists."""

    def seen(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            _each(f, x)
        else:
            f(x)
        return x

    for x in values:
        mapped(seen, x)
