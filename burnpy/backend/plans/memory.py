"""Memory of a plan: `Sharing` finds the values that share memory, `Arena` assigns places in one block, `Storage` makes
arrays there, and `Results` chooses memory for each result: a place there, new memory, or memory that nothing needs any
longer.

Places are assigned once it is known how long each value is needed: the largest first, each to the lowest gap that is
free for as long. So small values that are needed for long, such as gradients of biases, split no large gap.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from burnpy.backend.plans.executor import Executor, Joined
from burnpy.backend.plans.recording import Node, Ref, operations, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Shape

ALIGNMENT = 64
_BY_SIZE = 512
"""The number of places, the largest ones, that are assigned by size; the time for it grows with its square."""
_start = attrgetter("start")


class Sharing:
    """The values that may share memory, in groups: a view belongs to the group of its source.

    Args:
        nodes: the nodes, in the order in which they run.
        outputs: the outputs.
        fused: the ids of the nodes that are parts of programs, whose results are new memory.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Ref], fused: Container[int] = ()) -> None:
        self._root: dict[int, int] = {}
        self.last: dict[int, int] = {}
        """For each group, the position of the last node that uses it; len(nodes) for an output."""
        self.overwritten: set[int] = set()
        """The positions of the nodes that may overwrite the argument that they consume, as nothing uses it later."""
        self.own: dict[int, int] = {}
        """For each value, the position of the last node that uses the value itself, and no view of it."""
        for position, node in enumerate(nodes):
            shared = {} if id(node) in fused else _shared(node)
            for number, source in shared.items():
                self._root[number] = self.root(source)
            for ref in refs_in((node.args, node.results)):
                self.last[self.root(ref)] = self.own[ref.number] = position
        for ref in outputs:
            self.last[self.root(ref)] = self.own[ref.number] = len(nodes)
        made: dict[int, int] = {}  # for each group that a node made, the last use of its values so far
        for position, node in enumerate(nodes):
            consumed = None if id(node) in fused else _consumed(node)
            if consumed is not None and made.get(self.root(consumed), len(nodes)) <= position:
                self.overwritten.add(position)
            fresh = id(node) in fused or not _shared(node)
            for ref in refs_in(node.results):
                root = self.root(ref)
                if fresh or root in made:
                    made[root] = max(made.get(root, 0), self.own[ref.number])

    def root(self, ref: Ref) -> int:
        """Return the number of the value in whose memory a value may be."""
        return self._root.get(ref.number, ref.number)


RETURNED = frozenset(("sum_to", "foreach_clamp", "foreach_cast", "bounded", "bounded_and_counted", "bounded_from_end"))
"""The methods that are no views and may return their first argument, or members of it, unchanged."""


def _shared(node: Node) -> dict[int, Ref]:
    """Return, by the number of a result, the argument whose memory it may share."""
    op = operations().get(node.name)
    name = None if op is None else op.view or next(iter(op.consumes), None)
    if node.name in RETURNED:
        source: Any = node.args[0]
    elif op is not None and name:
        source = node.args[[a.name for a in op.arguments].index(name)]
    else:
        return {}
    results = refs_in(node.results)
    sources = refs_in(source)
    return {ref.number: sources[min(k, len(sources) - 1)] for k, ref in enumerate(results)} if sources else {}


def _consumed(node: Node) -> Ref | None:
    """Return the argument that a node may overwrite."""
    op = operations().get(node.name)
    if op is None or not op.consumes:
        return None
    source = node.args[[a.name for a in op.arguments].index(op.consumes[0])]
    return source if source.__class__ is Ref else None


class Place:
    """A part of the block, for the time from one event to another."""

    __slots__ = ("begin", "end", "size", "start")

    def __init__(self, size: int, begin: int) -> None:
        self.size, self.begin = size, begin
        self.end: float = math.inf
        self.start = 0  #: the first byte, once the places are assigned

    def meets(self, other: Place) -> bool:
        """Return whether both are needed at some time."""
        return self.begin < other.end and other.begin < self.end


class Arena:
    """The places in a block of memory, which are allocated and freed in the order in which values are computed."""

    def __init__(self) -> None:
        self.size = 0  #: the bytes of the block, once the places are assigned
        self.total = 0  #: the bytes that all values would need without sharing
        self._places: list[Place] = []
        self._events = 0

    def take(self, shape: Shape, dtype: DType) -> Place:
        """Return a place, which no other value has until it is given back."""
        size = max(ALIGNMENT, -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
        self._events += 1
        place = Place(size, self._events)
        self._places.append(place)
        self.total += size
        return place

    def free(self, place: Place) -> None:
        """Give back a place whose value is needed no longer."""
        self._events += 1
        place.end = self._events

    def assign(self) -> None:
        """Assign all places: the largest by size, and the others above them in the order of allocation."""
        ranked = sorted(self._places, key=lambda place: -place.size)
        large: list[Place] = []
        for place in ranked[:_BY_SIZE]:
            self._assign(place, [other for other in large if other.meets(place)], 0)
            insort(large, place, key=_start)
        floor, alive = self.size, list[Place]()
        for place in sorted(ranked[_BY_SIZE:], key=attrgetter("begin")):
            alive = [other for other in alive if other.meets(place)]
            self._assign(place, alive, floor)
            insort(alive, place, key=_start)

    def _assign(self, place: Place, others: Sequence[Place], start: int) -> None:
        """Assign a place to the lowest gap between others, which are in order, from a byte on."""
        for other in others:
            if other.start - start >= place.size:
                break
            start = max(start, other.start + other.size)
        place.start = start
        self.size = max(self.size, start + place.size)


class Storage:
    """The arrays by name, and how they are made for each instance of the plan.

    Args:
        executor: what makes them; None if the plan has none.
    """

    def __init__(self, executor: Executor | None) -> None:
        self.arena = Arena()
        self.models: dict[str, Any] = {}  #: arrays as those of an instance will be, but all in the same memory
        self._room: tuple[int, Any] | None = None  # its size, and the memory of the models
        self._executor = executor
        self._recipes: list[tuple[str, Place, Shape, DType]] = []
        self._views: list[tuple[str, Callable[..., Any], str, tuple[Any, ...]]] = []  # name, function, array, arguments
        self._joined: list[tuple[str, Joined]] = []

    @property
    def executor(self) -> Executor:
        """The executor, which makes the arrays."""
        assert self._executor is not None
        return self._executor

    @property
    def names(self) -> list[str]:
        """The names of all that an instance has of its own."""
        return [*self.models, *[name for name, _ in self._joined]]

    def array(self, name: str, place: Place, shape: Shape, dtype: DType) -> None:
        """Add an array, at a place of the arena."""
        self._recipes.append((name, place, shape, dtype))
        if self._room is None or place.size > self._room[0]:
            self._room = place.size, self.executor.memory(place.size)
        self.models[name] = self.executor.array(self._room[1], 0, shape, dtype)

    def scratch(self, shape: Shape, dtype: DType, scratch: list[Place]) -> str:
        """Return the name of memory that only one unit uses, and add its place to a list."""
        place = self.arena.take(shape, dtype)
        scratch.append(place)
        name = f"s{len(self._recipes)}"
        self.array(name, place, shape, dtype)
        return name

    def view(self, name: str | None, method: Callable[..., Any], array: str, args: tuple[Any, ...], model: Any) -> str:
        """Add a view, which a function makes of an array, and return its name."""
        own = name or f"p{len(self._views)}"
        self._views.append((own, method, array, args))
        self.models[own] = model
        return own

    def join(self, joined: Joined) -> str:
        """Add joined calls, and return the name of the function that makes them."""
        name = f"q{len(self._joined)}"
        self._joined.append((name, joined))
        return name

    @property
    def only(self) -> Joined | None:
        """The joined calls, if there are no others."""
        return self._joined[0][1] if len(self._joined) == 1 else None

    def complete(self) -> None:
        """Assign the places in memory. All arrays are known, and the models no longer needed."""
        self.arena.assign()
        self.models, self._room = dict.fromkeys(self.models), None

    def instance(self, objects: Mapping[str, Any]) -> dict[str, Any]:
        """Return all, in new memory; ``objects`` are others that joined calls may use."""
        made = self.arrays()
        functions = {name: joined.bind({**objects, **made}) for name, joined in self._joined}
        return made | functions

    def arrays(self) -> dict[str, Any]:
        """Return the arrays and their views, in new memory."""
        made: dict[str, Any] = {}
        if self._recipes:
            memory = self.executor.memory(self.arena.size)
            for name, place, shape, dtype in self._recipes:
                made[name] = self.executor.array(memory, place.start, shape, dtype)
            for name, method, array, args in self._views:
                made[name] = method(made[array], *args)
        return made


class Results:
    """The places of results, in the order in which they are written.

    Args:
        source: the replay.
        storage: the memory of the plan.
        sharing: the values that share memory, and their last uses.
        count: the number of nodes, which is the last use of outputs.
        inputs: the inputs.
        donated: the positions of those whose memory outputs may take.
    """

    def __init__(
        self,
        source: Source,
        storage: Storage,
        sharing: Sharing,
        count: int,
        inputs: Sequence[Ref],
        donated: Collection[int],
    ) -> None:
        self._source, self._storage, self._sharing, self._count = source, storage, sharing, count
        self.kept: dict[int, str] = {}  #: the names of values in the plan's memory
        self.donated = [inputs[k] for k in sorted(donated)]  #: those that nothing overwrites yet
        self._positions = {ref.number: k for k, ref in enumerate(inputs) if k in donated}
        self._places: dict[int, Place] = {}  # of values
        self._ends: dict[int, list[Place]] = {}  # the places that are free after a node, by its position
        self._scratch: list[Place] = []  # the places that are free after the unit

    def new(self, ref: Ref, position: int, stop: int, operands: Sequence[Ref] = ()) -> str:
        """Return the name of memory for a result: the plan's, or new memory for a result that outlives the replay.

        Args:
            ref: the result.
            position: the position of the unit.
            stop: the position after it.
            operands: the operands of the unit that the result may overwrite.
        """
        executor, last = self._storage.executor, self._sharing.last[self._sharing.root(ref)]
        name = f"v{ref.number}"
        if last >= self._count:
            shape, dtype = self._source.bind(ref.shape), self._source.bind(ref.dtype)
            new = f"{self._source.bind(executor.empty, 'f')}({shape}, {dtype})"
            given = self.overwritable(ref, position, stop, operands)
            choice = "" if given is None else f"v{given.number} if {self.free(given)} else "
            self._source.prepare(f"{name} = {choice}{new}")
            return name
        place = self._overwritten(ref, stop, operands)
        if place is None:
            place = self._storage.arena.take(ref.shape, ref.dtype)
        self._ends.setdefault(max(last, stop - 1), []).append(place)
        self._places[ref.number] = place
        self._storage.array(name, place, ref.shape, ref.dtype)
        self.kept[ref.number] = name
        return name

    def scratch(self, shape: Shape, dtype: DType) -> str:
        """Return the name of memory that the unit alone uses."""
        return self._storage.scratch(shape, dtype, self._scratch)

    def end(self, position: int, stop: int) -> None:
        """Free the places that are not needed after a unit, given its positions."""
        for place in self._scratch:
            self._storage.arena.free(place)
        self._scratch.clear()
        for at in range(position, stop):
            for place in self._ends.pop(at, ()):
                self._storage.arena.free(place)

    def overwritable(self, ref: Ref, position: int, stop: int, operands: Sequence[Ref]) -> Ref | None:
        """Return a donated input of a value's shape and dtype that nothing needs, see `new` for the arguments.

        It is no longer one of those that nothing overwrites yet.
        """
        for given in sorted(self.donated, key=lambda given: given not in operands):
            last = self._sharing.last.get(self._sharing.root(given), -1)
            fits = given.shape == ref.shape and given.dtype == ref.dtype
            if fits and last < (stop if given in operands else position):
                self.donated.remove(given)
                return given
        return None

    def owned(self, states: Sequence[Ref], position: int) -> str:
        """Return the expression that tells whether a node may overwrite all of these, as donated inputs."""
        if not states or any(
            ref not in self.donated or self._sharing.last[self._sharing.root(ref)] != position for ref in states
        ):
            return "False"
        for ref in states:
            self.donated.remove(ref)
        return " and ".join(map(self.free, states))

    def free(self, given: Ref) -> str:
        """Return the expression that tells whether the replay may overwrite a donated input."""
        return f"{self._positions[given.number]} in free"

    def _overwritten(self, ref: Ref, stop: int, operands: Sequence[Ref]) -> Place | None:
        """Return the place of an operand of a result's shape and dtype that nothing needs after the unit, if any."""
        for given in operands:
            place, root = self._places.get(given.number), self._sharing.root(given)
            fits = given.shape == ref.shape and given.dtype == ref.dtype and given.number == root
            if place is not None and fits and self._sharing.last[root] < stop:
                del self._places[given.number]
                self._ends[self._sharing.last[root]].remove(place)
                return place
        return None
