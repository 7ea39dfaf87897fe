"""`memory_report`: the memory that a graph keeps alive, by operation and by line."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.autodiff.graph import Leaf, Node, Tracked, is_array, mapped
from burnpy.autodiff.recipes import ArraySource, Computed
from burnpy.autodiff.recording import stack_of
from burnpy.autodiff.tools.backward import float_tensors
from burnpy.autodiff.tools.graph_views import edges, walk
from burnpy.autodiff.tools.saved_tensors import Stored
from burnpy.backend.backend import Backend
from burnpy.backend.call_origin import Line, lines_of
from burnpy.backend.device_memory import scaled, table
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """The memory kept alive by the nodes of one operation and line, without arrays that an earlier row counts."""

    operation: str  #: "leaf" for the values of leaves, which exist without the graph too
    line: Line | None  #: where it was recorded, inside of `burnpy.autodiff.track_lines`
    nodes: int
    arrays: int
    bytes: int
    packed: int = 0  #: arrays that saved-tensor hooks have packed, whose bytes are not counted


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The memory that a graph keeps alive.

    Each array is counted once, for the leaf whose value it is, else for the oldest operation that saves it; a view
    counts as all of the memory that it is a view of.
    """

    rows: tuple[MemoryRow, ...]
    """By operation and line, the largest first; leaves last."""

    @property
    def total(self) -> int:
        """The bytes of all arrays, those of leaves included."""
        return sum(row.bytes for row in self.rows)

    @property
    def leaves(self) -> int:
        """The bytes of the leaves' values, which the graph shares with the leaf tensors."""
        return sum(row.bytes for row in self.rows if row.operation == "leaf")

    @property
    def saved(self) -> int:
        """The bytes saved for the backward pass only."""
        return self.total - self.leaves

    def by_operation(self) -> tuple[MemoryRow, ...]:
        """Return the rows summed by operation."""
        return _summed([(row.operation, None, row) for row in self.rows])

    def by_line(self) -> tuple[MemoryRow, ...]:
        """Return the rows summed by line, without leaves."""
        return _summed([("", row.line, row) for row in self.rows if row.operation != "leaf"])

    def __str__(self) -> str:
        rows = [
            [
                *(row.operation, str(row.line or ""), (row.line.code if row.line else "")[:60], str(row.nodes)),
                f"{row.arrays}{f' + {row.packed} packed' if row.packed else ''}",
                scaled(row.bytes, "B", 1024),
            ]
            for row in self.rows
        ]
        nodes, arrays = (str(sum(getattr(row, name) for row in self.rows)) for name in ("nodes", "arrays"))
        rows.append(["total", "", "", nodes, arrays, scaled(self.total, "B", 1024)])
        columns = [0, *([1, 2] if any(row.line for row in self.rows) else []), 3, 4, 5]
        headers = ["operation", "line", "code", "nodes", "arrays", "bytes"]
        return table([headers[c] for c in columns], [[row[c] for c in columns] for row in rows], left=len(columns) - 3)


@explained
def memory_report(tensors: Tensor[Any] | Sequence[Tensor[Any]]) -> MemoryReport:
    """Report the memory that the graph of one or several tensors keeps alive until a backward pass frees it.

    Arrays are identified by their memory: an array that several operations save is counted once, and the values of
    leaves are listed separately. Graphs of inner levels, which this one keeps alive, are counted too. Nodes recorded
    inside of `burnpy.autodiff.track_lines` are listed with their lines.

    Args:
        tensors: one or several tensors of one device, tracked or not.

    Raises:
        NotTrackedError: a tensor is on a plain backend.
        KindError: an argument is not a float tensor.

    >>> x = Tensor[Autodiff[NumPy]].ones((100, 100)).require_grad()
    >>> y = (x.exp() * x).sum()
    >>> print(memory_report(y))
    operation  nodes  arrays      bytes
    ─────────  ─────  ──────  ─────────
    exp            1       1  39.06 KiB
    mul            1       0        0 B
    sum            1       0        0 B
    leaf           1       1  39.06 KiB
    total          4       2  78.12 KiB
    """
    members = float_tensors("memory_report", "tensors", tensors)
    device = members[0].device
    nodes, leaves = all_levels([x._primitive.node for x in members])
    seen: set[Any] = set()
    rows: list[tuple[str, Line | None, MemoryRow]] = []
    everything: list[Node | Leaf] = [*leaves, *nodes]
    for node in everything:
        held = held_by(device, node)
        new = {key: size for key, size in held.arrays if key not in seen}
        seen.update(new)
        stack = stack_of(node)
        line = lines_of(stack[-1:])[0] if stack else None
        name = "leaf" if isinstance(node, Leaf) else node.operation
        rows.append((name, line, MemoryRow(name, line, 1, len(new), sum(new.values()), held.packed)))
    return MemoryReport(_summed(rows))


def _summed(rows: list[tuple[str, Line | None, MemoryRow]]) -> tuple[MemoryRow, ...]:
    """Merge the rows of the same name and line; the largest come first and leaves last."""
    sums: dict[tuple[str, Line | None], list[int]] = {}
    for name, line, row in rows:
        total = sums.setdefault((name, line), [0, 0, 0, 0])
        for k, part in enumerate((row.nodes, row.arrays, row.bytes, row.packed)):
            total[k] += part
    merged = [MemoryRow(name, line, *total) for (name, line), total in sums.items()]
    return tuple(sorted(merged, key=lambda row: (row.operation == "leaf", -row.bytes)))


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
        elif isinstance(x, ArraySource):  # for a recipe, its arguments
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
