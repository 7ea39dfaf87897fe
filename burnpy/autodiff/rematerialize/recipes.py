"""Arrays that can be computed again: what `Balanced` keeps in their place, and when that is worth it.

Each result has a `Source`: the array, or the *recipe* to make it (an operation and the sources of its arguments). Until
a node wants to keep the array, a source holds nothing, so that no tensor lives longer for it. Then it is decided, once:
the recipe is kept if everything that it is made of is still there, if less memory is held with it than without, and if
it is cheap enough; else the array is. A network that adds a bias, applies GELU and multiplies by a matrix holds the
sum alone, and computes GELU again from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import ref

from burnpy.backend.primitives import DType, Shape

CHEAP = 56
"""An array that takes at most so many operations (`burnpy.autodiff.rematerialize.costs`) for each byte saved, with what
must be recomputed for it, is always recomputed: what GELU takes for each byte of a float32 result, and a little more. A
matrix product with an inner dimension of 112 costs as much."""
SHARE = 16
"""Of what is dearer, one part in so many is computed again."""
LARGEST = 32
"""Of so many operations a recipe may be made."""


@final
class Source:
    """Where an array comes from.

    The array of a recipe is remembered weakly, and strongly while a backward pass that computed it will want it again.
    """

    __slots__ = (
        *("apply", "args", "array", "cached", "cost", "dear", "dtype", "left", "nbytes", "parts", "pinned", "seen"),
        *("settled", "shape", "size", "uses", "view", "work"),
    )

    apply: Callable[..., Any] | None  #: the operation of a recipe; None where there is only the array
    args: tuple[Any, ...]  #: its arguments, of floats the sources,
    parts: Sequence[Source]  #: and those alone
    array: Any  #: the array, where the graph holds it
    seen: Callable[[], Any]  #: the array as long as it is alive
    cost: int  #: of the operation
    work: int  #: the cost of all that led to the array, on the longest way
    size: int  #: the number of operations
    dear: bool  #: whether this recipe is one of the share of dearer ones; for others it is as if it were an array
    view: bool  #: whether the operation only makes a view
    settled: bool  #: whether it is decided that this stays a recipe
    pinned: bool  #: whether the graph holds the array
    uses: int  #: how many nodes, and recipes that nodes keep, want the array in a backward pass,
    left: int  #: and how many of them still do in this one

    def __init__(
        self,
        array: Any,
        nbytes: int,
        work: int,
        apply: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        parts: Sequence[Source] = (),
        cost: int = 0,
        view: bool = False,
    ) -> None:
        self.shape: Shape = array.shape
        self.dtype: DType = array.dtype
        self.nbytes, self.work, self.cost, self.view = nbytes, work, cost, view
        self.apply, self.args, self.parts = apply, args, parts
        self.array = self.cached = None
        self.size = self.uses = self.left = 0
        self.dear = self.settled = self.pinned = False
        try:
            self.seen = ref(array)
        except TypeError:  # a NumPy scalar
            self.array, self.seen = array, _nothing
            self.hold()
        else:
            if apply is not None:
                size = 1
                for part in parts:
                    size += part.size
                self.size = size

    @classmethod
    def holding(cls, array: Any) -> Source:
        """The source of an array that is there."""
        made = cls(array, math.prod(array.shape) * array.dtype.itemsize, 0)
        made.array, made.pinned = array, True
        return made

    def small(self) -> bool:
        """Whether the recipe, if it is one, is not too large."""
        return self.size <= LARGEST or self._counted() <= LARGEST

    def _counted(self) -> int:
        """The size, counted anew: some of what this is made of may have been kept since."""
        found: set[Source] = {self}
        waiting: list[Source] = [self]
        while waiting and len(found) <= LARGEST:
            for part in waiting.pop().parts:
                if part.apply is not None and not part.dear and part not in found:
                    found.add(part)
                    waiting.append(part)
        self.size = len(found)
        return self.size

    def settle(self) -> None:
        """Decide what to keep, for a node that wants this array, and count it."""
        if self.apply is not None and not self.settled:
            base = self
            while base.view and base.apply is not None and not base.settled:  # whose memory this array is, as a rule
                (base,) = base.parts
            if not base._decided() and (base.apply is None or not base._worthwhile()):
                base.hold()
                if not base._decided():
                    self.hold()
        self._want()

    def hold(self) -> None:
        """Hold the array, if it is still there, and no recipe."""
        array = self.seen() if self.array is None else self.array
        if array is not None:
            self.array = array  # before what tells that it is there
            self.apply, self.args, self.parts, self.size, self.pinned = None, (), (), 0, True

    def _decided(self) -> bool:
        return self.settled or (self.apply is None and (self.array is not None or self.seen() is not None))

    def _worthwhile(self) -> bool:
        """Whether to keep the recipe."""
        cost = 0
        held: dict[int, int] = {}
        found: set[Source] = {self}
        waiting: list[Source] = [self]
        while waiting:
            source = waiting.pop()
            cost += source.cost
            for part in source.parts:
                if part.apply is not None:
                    if part not in found and not part.dear:
                        found.add(part)
                        waiting.append(part)
                elif not part.pinned:
                    array = part.seen() if part.array is None else part.array
                    if array is None:
                        return False
                    held[id(array)] = part.nbytes
            for a in source.args:
                if a.__class__ is not Source and hasattr(a, "dtype") and hasattr(a, "shape"):  # of ints or truth values
                    held[id(a)] = math.prod(a.shape) * a.dtype.itemsize
        saved = self.nbytes - sum(held.values())
        if saved <= 0:
            return False
        self.size = len(found)
        if cost > CHEAP * saved:
            distance = SHARE * cost
            if self.work // distance == max(self.work - cost, 0) // distance:
                return False
            self.dear, self.size = True, 0
        return True

    def _want(self) -> None:
        """Count a use, and let the first one hold what is needed for it."""
        waiting: list[Source] = [self]
        while waiting:
            source = waiting.pop()
            source.uses += 1
            source.left += 1
            if source.apply is None:
                source.hold()
            elif not source.settled:
                source.settled = True
                waiting += source.parts

    def peek(self) -> Any:
        """The array, without counting it as used."""
        found = self._at_hand()
        return self._computed(False) if found is None else found

    def read(self) -> Any:
        """The array, for one of those who want it."""
        if self.apply is None:
            return self.array
        found = self._at_hand()
        computed = found is None
        if computed:
            found = self._computed(True)
        self._use(found, computed)
        return found

    def _at_hand(self) -> Any:
        found = self.array
        if found is None:
            found = self.cached
            if found is None:
                found = self.seen()
        return found

    def _use(self, array: Any, computed: bool) -> None:
        """Count down, and hold what was computed as long as others will want it in this pass."""
        self.left -= 1
        if self.left <= 0:
            self.left, self.cached = self.uses, None  # for the next pass, if there is one
        elif computed:
            self.cached = array

    def _computed(self, counting: bool) -> Any:
        """The array, computed, and what it is made of before it, as far as that is not at hand."""
        made: dict[Source, tuple[Any, bool]] = {}
        waiting: list[Source] = [self]
        while waiting:
            source = waiting[-1]
            args, parts = source.args, source.parts  # before what tells that they are of no use any more
            apply = source.apply
            if source in made or (source is not self and source._at_hand() is not None):
                waiting.pop()
                continue
            if apply is None:
                made[waiting.pop()] = source.array, False
                continue
            lacking = []
            for part in parts:
                if part not in made:
                    array = part._at_hand()
                    if array is None:
                        lacking.append(part)
                    else:
                        made[part] = array, False
            if lacking:
                waiting += lacking
                continue
            waiting.pop()
            array = apply(*[[_array(m, made) for m in a] if a.__class__ is list else _array(a, made) for a in args])
            made[source] = array, True
            if counting:
                for part in parts:
                    if part.apply is not None:
                        part._use(*made[part])
                for part in parts:
                    made.pop(part, None)
        return made[self][0]


class Computed:
    """The primitive of a balanced device: an array of the inner backend, and its source once there is one."""

    __slots__ = ("held", "source", "value", "work")

    source: Source | None
    value: Any
    work: int  #: the cost of all that led to the array, on the longest way
    held: bool  #: whether the graph holds the array, where there is no source

    def __init__(self, value: Any, source: Source | None = None, work: int = 0) -> None:
        self.value, self.source, self.work, self.held = value, source, work, False

    @classmethod
    def holding(cls, array: Any) -> Computed:
        """One that has its array, and no recipe."""
        return cls(array)

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.value.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the array."""
        return self.value.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's

    def peek(self) -> Any:
        """The array."""
        return self.value

    def kept(self) -> Any:
        """What a node keeps in place of this: the array itself, or its source."""
        source = self.source
        if source is None:
            self.held = True
            return self.value
        if source.apply is not None:
            source.settle()
        elif not source.pinned:
            source.hold()
        return source if source.array is None else source.array

    def origin(self) -> Source:
        """The source, made now if there is none."""
        found = self.source
        if found is None:
            value = self.value
            found = self.source = Source(value, math.prod(value.shape) * value.dtype.itemsize, self.work)
            if self.held:
                found.hold()
        return found


def _array(a: Any, made: dict[Source, tuple[Any, bool]]) -> Any:
    return made[a][0] if a.__class__ is Source else a


def _nothing() -> None:
    """In place of a weak reference."""
