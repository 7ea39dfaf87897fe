"""`Results`: where the results of a plan lie: in its own memory while something needs them, else in new memory.

A result may overwrite what nothing needs any longer: an operand in the plan's memory, or a donated input.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burnpy.backend.plans.graph import Sharing
from burnpy.backend.plans.memory import Place
from burnpy.backend.plans.recording import Ref
from burnpy.backend.plans.source import Source
from burnpy.backend.plans.storage import Storage
from burnpy.backend.primitives import DType, Shape


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
        """Return the name of memory for a result: the plan's, or new memory for what outlives the replay.

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
