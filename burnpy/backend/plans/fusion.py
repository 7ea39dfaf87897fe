"""`Grouping`: which nodes of a recording are fused: units, each a single node or a `Group` that becomes one program.

A node joins the group of one of its arguments if their domains agree, and if no other unit has to run between them.
That is known from the *depth* of units: a unit's depth is more than those of the units whose results it uses. A group
may become deeper as long as it stays less deep than the units that use its results. So a node costs the same in long
recordings as in short ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from burnpy.backend.dtypes import kind_of
from burnpy.backend.plans.executor import INDEXED
from burnpy.backend.plans.program_steps import (
    Role,
    Step,
    column_splits,
    columns_of_whole,
    over_rows,
    placement,
    role_of,
    rounding_of,
    step_of,
    step_of_ints,
    summed,
    traceable,
)
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.programs import Extent

MOST_NODES = 160
"""The number of nodes of a group at most: LLVM's time grows faster than the program."""
MOST_ARRAYS = 24
"""The number of arrays that a group reads at most."""
_VIEWS = ("expand", "detach")


class Group:
    """Nodes that are computed together, element by element or row by row."""

    __slots__ = ("consumers", "depth", "domain", "inputs", "last", "made", "nodes", "roles", "splits", "summed")

    def __init__(self, domain: tuple[int, ...], splits: frozenset[int]) -> None:
        self.domain = domain  #: the shape of its full values
        self.splits = splits  #: the numbers of leading dims that may be the rows
        self.nodes: list[Node] = []
        self.made: set[int] = set()  #: the values that it computes
        self.roles: dict[int, Role] = {}  #: how each value that it reads or computes lies in it
        self.summed: set[int] = set()  #: those that are known after its last row only
        self.inputs: set[int] = set()
        self.depth = 0
        self.consumers: dict[int, Unit] = {}  #: the units that use its results, by id
        self.last = 0

    @property
    def split(self) -> int:
        """The number of leading dims that are the rows; 0 if all are columns."""
        return min(self.splits)

    def takes(self, roles: Mapping[int, Role]) -> bool:
        """Return whether values can lie in the group in these roles: whether none has another role there.

        On square shapes a value for each row has the shape of one for each column, so shapes alone do not tell. Every
        way into a group asks this.
        """
        known = self.roles
        return all(known.get(number, role) == role for number, role in roles.items())

    def role_of(self, shape: tuple[int, ...], extent: Extent, repeated: bool = False) -> Role:
        """Return the role of a value; one element is a number, but for those of a group that has no others."""
        return Role(Extent.FULL) if shape and math.prod(self.domain) == 1 else role_of(shape, extent, repeated)

    @property
    def whole(self) -> bool:
        """True if it sums whole arrays, and nothing else, so that any divisor of their size may be the columns."""
        return bool(self.summed) and len(self.domain) in self.splits

    @property
    def sizes(self) -> tuple[int, int]:
        """The rows and columns of the program."""
        rows, columns = math.prod(self.domain[: self.split]), math.prod(self.domain[self.split :])
        if self.whole:
            columns = columns_of_whole(rows * columns)
            rows = math.prod(self.domain) // columns
        return rows, columns


class Single:
    """A unit of one node, which the device computes as an operation."""

    __slots__ = ("consumers", "depth", "last", "node")

    def __init__(self, node: Node, last: int) -> None:
        self.node, self.last, self.depth = node, last, 0
        self.consumers: dict[int, Unit] = {}


Unit: TypeAlias = Group | Single


class Grouping:
    """The state of grouping the nodes of one recording.

    Args:
        nodes: the nodes.
        numbers: the constants that are one number.
        rounds: whether groups round their values to 16 bits.
        ints: whether groups compute with quantized numbers.
    """

    def __init__(
        self, nodes: Sequence[Node], numbers: Mapping[int, float], rounds: bool = False, ints: bool = False
    ) -> None:
        self.units: dict[int, Unit] = {}  #: by id
        self.producer: dict[int, Unit] = {}  #: the unit that computes a value
        self.expanded: dict[int, Ref] = {}  #: for a value that is an expanded or detached one, that one
        self.constants: dict[int, Any] = dict(numbers)  #: the numbers of values that are one number
        self._position = {id(node): k for k, node in enumerate(nodes)}
        self._further = [step for step, given in ((rounding_of, rounds), (step_of_ints, ints)) if given]
        self._effect: Single | None = None  # the last one with an effect
        self._gone: list[Group] = []  # kept, as units are known by their ids
        for position, node in enumerate(nodes):
            self._place(position, node)

    def source(self, ref: Ref) -> Ref:
        """Return the value that a value is an expanded view of, or the value itself."""
        while ref.number in self.expanded:
            ref = self.expanded[ref.number]
        return ref

    def _place(self, position: int, node: Node) -> None:
        """Add a node to a group, or as a unit of its own."""
        if node.name == "full" and node.results.__class__ is Ref:
            self.constants[node.results.number] = node.args[1]
        step = step_of(node) or next((step for find in self._further if (step := find(node))), None)
        if step is not None and not self._fused(position, node, step):
            step = None
        if step is None:
            if node.name in _VIEWS:
                self.expanded[node.results.number] = node.args[0]
            unit = Single(node, position)
            self.units[id(unit)] = unit
            sources = [self.producer.get(ref.number) for ref in refs_in(node.args)]
            if node.effect:  # effects keep their order, as if each used the one before it
                sources.append(self._effect)
                self._effect = unit
            self._connect(unit, node, sources)

    def arguments(self, node: Node) -> list[Ref]:
        """Return the values that a node of a group uses; those before an expansion, unless it sums them."""
        return [self.source(ref) for ref in refs_in(node.args)]

    def _fused(self, position: int, node: Node, step: Step) -> bool:
        refs = self.arguments(node)
        candidates: list[Group] = []
        for ref in refs:
            unit = self.producer.get(ref.number)
            if isinstance(unit, Group) and unit not in candidates and ref.number not in unit.summed:
                candidates.append(unit)
        for group in sorted(candidates, key=lambda g: -g.depth):
            found = self._fit(group, node, step, refs)
            if found is not None and self._joins(group, refs):
                self._add(position, group, node, *found, refs)
                for other in candidates:
                    if other is not group:
                        self._merge(group, other)
                return True
        if not step.shape or 0 in step.shape or not step.splits:  # a kernel of an empty array writes no sum
            return False
        if step.kind == "rounding" and not self._finishes(refs[0]):
            return False
        group = Group(step.shape, step.splits)
        found = self._fit(group, node, step, refs)
        if found is None:
            return False
        self.units[id(group)] = group
        self._add(position, group, node, *found, refs)
        return True

    def _finishes(self, ref: Ref) -> bool:
        """Return whether a group of one value may be computed with the operation that makes it, see `finished`."""
        unit = self.producer.get(ref.number)
        while isinstance(unit, Single) and unit.node.name == "reshape":
            unit = self.producer.get(unit.node.args[0].number)
        return isinstance(unit, Single) and unit.node.name in INDEXED

    def _fit(self, group: Group, node: Node, step: Step, refs: list[Ref]) -> _Fit | None:
        """Return the splits that are left if a node joins a group, and the roles of its arguments and results."""
        if len(group.nodes) >= MOST_NODES or len(group.inputs | {r.number for r in refs}) > MOST_ARRAYS:
            return None
        result, *others = refs_in(node.results)
        if step.kind == "elementwise" and result.shape != group.domain:
            found = _in_columns(group, node, step, refs)
        elif step.shape != group.domain:
            found = _sum_of_columns(group, node, step, refs)
        else:
            found = _in_domain(group, node, step, refs)
        if found is None or not found[0] or not group.takes(found[1]):
            return None
        splits, roles = found
        if step.kind == "elementwise" and not traceable(node, [roles[ref.number].extent for ref in refs]):
            return None
        column = step.kind == "reduction" or result.shape != group.domain
        roles[result.number] = group.role_of(result.shape, Extent.COLUMN if column else Extent.FULL)
        roles |= {ref.number: group.role_of(ref.shape, Extent.COLUMN) for ref in others}
        return splits, roles

    def _joins(self, group: Group, refs: list[Ref]) -> bool:
        """Return whether a node can run with a group: whether no unit has to run after the group and before it."""
        deepest = 0
        for ref in refs:
            unit = self.producer.get(ref.number)
            if unit is group:
                if ref.number in group.summed:
                    return False
            elif unit is not None:
                deepest = max(deepest, unit.depth + 1)
        return deepest <= group.depth or self._deepened(group, deepest)

    def _deepened(self, group: Group, depth: int) -> bool:
        """Make a group deeper, if it stays less deep than the units that use its results; return whether it does."""
        if any(unit.depth <= depth for unit in group.consumers.values() if unit is not group):
            return False
        group.depth = max(group.depth, depth)
        return True

    def _add(
        self,
        position: int,
        group: Group,
        node: Node,
        splits: frozenset[int],
        roles: Mapping[int, Role],
        refs: list[Ref],
    ) -> None:
        group.nodes.append(node)
        group.splits, group.last = splits, position
        group.roles.update(roles)
        group.made.update(ref.number for ref in refs_in(node.results))
        group.inputs.update(ref.number for ref in refs if ref.number not in group.made)
        group.summed.update(ref.number for ref in summed(node, group.domain, group.split))
        self._connect(group, node, [self.producer.get(ref.number) for ref in refs])

    def _connect(self, unit: Unit, node: Node, sources: list[Unit | None]) -> None:
        """Note that a unit uses results of others, and that it computes a node's results."""
        for source in sources:
            if source is not None and source is not unit:
                source.consumers[id(unit)] = unit
                unit.depth = max(unit.depth, source.depth + 1)
        for ref in refs_in(node.results):
            self.producer[ref.number] = unit

    def _merge(self, group: Group, other: Group) -> None:
        """Move the nodes of another group of the same domain into a group, if no unit has to run between them."""
        splits = group.splits & other.splits
        if other.domain != group.domain or not splits or not group.takes(other.roles):
            return
        if len(group.nodes) + len(other.nodes) > MOST_NODES or len(group.inputs | other.inputs) > MOST_ARRAYS:
            return
        if group.summed & other.inputs or other.summed & group.inputs:
            return
        if any(over_rows(n, min(splits)) != (n.results.number in g.summed) for g in (group, other) for n in g.nodes
               if n.name in ("sum", "mean", "sum_to", "amax") and n.args[0].shape == g.domain):  # fmt: skip
            return
        depth = max(group.depth, other.depth)
        for one, two in ((group, other), (other, group)):
            if any(u.depth <= depth for u in one.consumers.values() if u is not two and u is not one):
                return
        # Numbers of values tell no order: passes over recordings number the values that they add after all others.
        group.nodes = sorted([*group.nodes, *other.nodes], key=lambda node: self._position[id(node)])
        group.splits, group.depth, group.last = splits, depth, max(group.last, other.last)
        group.made |= other.made
        group.roles |= other.roles
        group.summed |= other.summed
        group.inputs = (group.inputs | other.inputs) - group.made
        group.consumers |= other.consumers
        for gone in (group, other):
            group.consumers.pop(id(gone), None)
        for number in other.made:
            self.producer[number] = group
        for node in other.nodes:
            for ref in self.arguments(node):
                source = self.producer.get(ref.number)
                if source is not None and source is not group:
                    source.consumers.pop(id(other), None)
                    source.consumers[id(group)] = group
        self._gone.append(other)
        del self.units[id(other)]

    def ordered(self) -> list[Unit]:
        """Return the units in an order in which each follows those whose results it uses, near the recorded one.

        Ints and numbers that depend on inputs alone come first, such as counts of updates and checks of indices. Many
        are computed by calls of operations, which would divide the launches of kernels and products.
        """
        after, waiting = self._dependencies()
        early = self._early(after)
        ready = [(key not in early, unit.last, key, unit) for key, unit in self.units.items() if not waiting[key]]
        heapify(ready)
        order: list[Unit] = []
        while ready:
            unit = heappop(ready)[-1]
            order.append(unit)
            for later in after.get(id(unit), ()):
                waiting[id(later)] -= 1
                if not waiting[id(later)]:
                    heappush(ready, (id(later) not in early, later.last, id(later), later))
        assert len(order) == len(self.units)  # no unit waits for itself
        return order

    def _dependencies(self) -> tuple[dict[int, list[Unit]], dict[int, int]]:
        """Return the units that use each unit's results, and the number of units that each one waits for, by id.

        A unit with an effect waits for the one before it.
        """
        after: dict[int, list[Unit]] = {}
        waiting: dict[int, int] = {}
        effect: Unit | None = None
        for unit in sorted(self.units.values(), key=lambda u: u.last):
            before = {
                id(source): source
                for node in (unit.nodes if isinstance(unit, Group) else [unit.node])
                for ref in (self.arguments(node) if isinstance(unit, Group) else refs_in(node.args))
                if (source := self.producer.get(ref.number)) is not None and source is not unit
            }
            if isinstance(unit, Single) and unit.node.effect:
                if effect is not None:
                    before[id(effect)] = effect
                effect = unit
            waiting[id(unit)] = len(before)
            for source in before.values():
                after.setdefault(id(source), []).append(unit)
        return after, waiting

    def _early(self, after: Mapping[int, list[Unit]]) -> set[int]:
        """Return the ids of the units of ints and numbers that depend on no other units."""
        early = {id(unit) for unit in self.units.values() if isinstance(unit, Single) and _counts(unit.node)}
        late = [key for key in self.units if key not in early]
        while late:
            late = [id(unit) for key in late for unit in after.get(key, ()) if id(unit) in early]
            early.difference_update(late)
        return early


_Fit: TypeAlias = tuple[frozenset[int], dict[int, Role]]
"""The splits that a group has once a node is in it, and the roles of the node's arguments."""


def _in_domain(group: Group, node: Node, step: Step, refs: Sequence[Ref]) -> _Fit | None:
    """Return how a node fits that computes with the full values of a group, or by row."""
    splits = group.splits & step.splits
    roles = {}
    for ref in refs:
        place = placement(ref.shape, group.domain)
        if place is None or (ref.dtype.kind != "f" and place.extent is Extent.SCALAR):
            return None
        if place.repeated and ref.dtype.kind == "b":
            return None
        splits &= place.splits
        roles[ref.number] = group.role_of(ref.shape, place.extent, place.repeated)
    if step.kind == "reduction":
        in_rows = frozenset(k for k in splits if not over_rows(node, k))
        if node.name == "mean" and not in_rows:  # programs have sums over rows, not means
            return None
        splits = in_rows or splits
    return splits, roles


def _in_columns(group: Group, node: Node, step: Step, refs: Sequence[Ref]) -> _Fit | None:
    """Return how a node fits that computes a value for each row of such values."""
    if math.prod(step.shape) == 1 or any(
        ref.dtype.kind == "b" if math.prod(ref.shape) == 1 else ref.shape != step.shape for ref in refs
    ):
        return None
    roles = {ref.number: role_of(ref.shape, Extent.COLUMN) for ref in refs}
    return group.splits & column_splits(step.shape, group.domain), roles


def _sum_of_columns(group: Group, node: Node, step: Step, refs: Sequence[Ref]) -> _Fit | None:
    """Return how the sum of all values fits that a group computes for each row."""
    if step.kind != "reduction" or node.name not in ("sum", "mean") or refs[0].number not in group.made:
        return None
    if refs[0].shape != step.shape:  # it sums an expanded value, whose elements count several times
        return None
    if any(n != 1 and k not in step.dims for k, n in enumerate(refs[0].shape)):
        return None
    return group.splits, {refs[0].number: role_of(refs[0].shape, Extent.COLUMN)}


def _counts(node: Node) -> bool:
    """Return whether a node computes ints, bools, or numbers by arithmetic in Python."""
    return node.name == "on_host" or all(kind_of(ref.dtype) != "float" for ref in refs_in(node.results))
