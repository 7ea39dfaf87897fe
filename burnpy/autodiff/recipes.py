"""Recipes for recomputing arrays, which `Balanced` saves in place of arrays where that is worth it.

Each result has an `ArraySource`: the array, or the *recipe* to compute it (an operation and the sources of its
arguments). Until a node saves the array, a source refers to its arrays only weakly, so that no tensor lives longer
because of it. When a node saves it, the decision is made, once: the recipe is saved if all of its arguments still
exist, if that keeps less memory alive than the array, and if it is cheap enough; else the array is saved. A network
that adds a bias, applies GELU and multiplies by a matrix saves only the sum, and recomputes GELU from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import ref

from burnpy.autodiff.graph import Wrapped
from burnpy.backend.primitives import DType, Shape

CHEAP = 56
"""The largest cost per saved byte, in FLOPs (`burnpy.autodiff.balanced`) and including everything that must be
recomputed for it, at which an array is always recomputed: the cost of GELU per byte of a float32 result, and a little
more. A matrix product with an inner dimension of 112 costs as much."""
SHARE = 16
"""The inverse of the fraction of the work of more expensive recipes that is recomputed."""
LARGEST = 32
"""The largest number of operations in a recipe."""


@final
class ArraySource:
    """The origin of an array: the array itself, or a recipe to compute it.

    A recipe refers to its array weakly, and strongly while the backward pass that recomputed it will need it again.
    """

    __slots__ = (
        *(
            "apply",
            "args",
            "array",
            "cached",
            "cost",
            "expensive",
            "dtype",
            "left",
            "nbytes",
            "parts",
            "pinned",
            "seen",
        ),
        *("settled", "shape", "size", "uses", "view", "work"),
    )

    apply: Callable[..., Any] | None  #: the operation of a recipe; None if there is only the array
    args: tuple[Any, ...]  #: its arguments, with sources for floats,
    parts: Sequence[ArraySource]  #: and these sources alone
    array: Any  #: the array, if the graph keeps it alive
    seen: Callable[[], Any]  #: a weak reference to the array
    cost: int  #: the cost of the operation
    work: int  #: the cost of all operations that led to the array, on the longest path
    size: int  #: the number of operations in the recipe
    expensive: bool  #: whether this is one of the recomputed expensive recipes; other recipes treat it as an array
    view: bool  #: whether the operation only returns a view
    settled: bool  #: whether it is decided that this stays a recipe
    pinned: bool  #: whether the graph keeps the array alive
    uses: int  #: how many nodes, and recipes saved by nodes, need the array in a backward pass,
    left: int  #: and how many of them still need it in the current pass

    def __init__(
        self,
        array: Any,
        nbytes: int,
        work: int,
        apply: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        parts: Sequence[ArraySource] = (),
        cost: int = 0,
        view: bool = False,
    ) -> None:
        self.shape: Shape = array.shape
        self.dtype: DType = array.dtype
        self.nbytes, self.work, self.cost, self.view = nbytes, work, cost, view
        self.apply, self.args, self.parts = apply, args, parts
        self.array = self.cached = None
        self.size = self.uses = self.left = 0
        self.expensive = self.settled = self.pinned = False
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
    def holding(cls, array: Any) -> ArraySource:
        """Create the source of an array that is kept alive."""
        source = cls(array, math.prod(array.shape) * array.dtype.itemsize, 0)
        source.array, source.pinned = array, True
        return source

    def small(self) -> bool:
        """Return whether the recipe has at most ``LARGEST`` operations; true for an array."""
        return self.size <= LARGEST or self._counted() <= LARGEST

    def _counted(self) -> int:
        """Count the operations again, since arguments may have become saved arrays in the meantime."""
        recipes: set[ArraySource] = {self}
        pending: list[ArraySource] = [self]
        while pending and len(recipes) <= LARGEST:
            for part in pending.pop().parts:
                if part.apply is not None and not part.expensive and part not in recipes:
                    recipes.add(part)
                    pending.append(part)
        self.size = len(recipes)
        return self.size

    def settle(self) -> None:
        """Decide whether to save the array or the recipe, for a node that saves this array, and count the use."""
        if self.apply is not None and not self.settled:
            base = self
            while base.view and base.apply is not None and not base.settled:
                (base,) = base.parts  # the source whose memory the view usually shares
            if not base._decided() and (base.apply is None or not base._worthwhile()):
                base.hold()
                if not base._decided():
                    self.hold()
        self._want()

    def hold(self) -> None:
        """Keep the array alive, if it still exists, and drop the recipe."""
        array = self.seen() if self.array is None else self.array
        if array is not None:
            self.array = array  # set first: other threads take apply being None as a sign that the array is set
            self.apply, self.args, self.parts, self.size, self.pinned = None, (), (), 0, True

    def _decided(self) -> bool:
        return self.settled or (self.apply is None and (self.array is not None or self.seen() is not None))

    def _worthwhile(self) -> bool:
        """Return whether to save the recipe instead of the array."""
        cost = 0
        extra: dict[int, int] = {}  # bytes of arrays that only the recipe keeps alive, by id
        recipes: set[ArraySource] = {self}
        pending: list[ArraySource] = [self]
        while pending:
            source = pending.pop()
            cost += source.cost
            for part in source.parts:
                if part.apply is not None:
                    if part not in recipes and not part.expensive:
                        recipes.add(part)
                        pending.append(part)
                elif not part.pinned:
                    array = part.seen() if part.array is None else part.array
                    if array is None:
                        return False
                    extra[id(array)] = part.nbytes
            for a in source.args:
                if a.__class__ is not ArraySource and hasattr(a, "dtype") and hasattr(a, "shape"):
                    # an int or bool array
                    extra[id(a)] = math.prod(a.shape) * a.dtype.itemsize
        saved = self.nbytes - sum(extra.values())
        if saved <= 0:
            return False
        self.size = len(recipes)
        if cost > CHEAP * saved:
            distance = SHARE * cost
            if self.work // distance == max(self.work - cost, 0) // distance:
                return False
            self.expensive, self.size = True, 0
        return True

    def _want(self) -> None:
        """Count a use; the first one keeps the arrays alive that it needs."""
        pending: list[ArraySource] = [self]
        while pending:
            source = pending.pop()
            source.uses += 1
            source.left += 1
            if source.apply is None:
                source.hold()
            elif not source.settled:
                source.settled = True
                pending += source.parts

    def peek(self) -> Any:
        """Return the array without counting it as a use."""
        array = self._at_hand()
        return self._computed(False) if array is None else array

    def read(self) -> Any:
        """Return the array and count it as one of its uses in this pass."""
        if self.apply is None:
            return self.array
        array = self._at_hand()
        computed = array is None
        if computed:
            array = self._computed(True)
        self._use(array, computed)
        return array

    def _at_hand(self) -> Any:
        array = self.array
        if array is None:
            array = self.cached
            if array is None:
                array = self.seen()
        return array

    def _use(self, array: Any, computed: bool) -> None:
        """Count down the uses, and cache a recomputed array as long as this pass needs it again."""
        self.left -= 1
        if self.left <= 0:
            self.left, self.cached = self.uses, None  # for the next pass, if there is one
        elif computed:
            self.cached = array

    def _computed(self, counting: bool) -> Any:
        """Recompute the array, after those of its arguments that do not exist any more."""
        done: dict[ArraySource, tuple[Any, bool]] = {}  # by source, the array, and whether it was recomputed here
        pending: list[ArraySource] = [self]
        while pending:
            source = pending[-1]
            args, parts = source.args, source.parts  # read before apply: hold() in another thread clears apply first
            apply = source.apply
            if source in done or (source is not self and source._at_hand() is not None):
                pending.pop()
                continue
            if apply is None:
                done[pending.pop()] = source.array, False
                continue
            missing = []
            for part in parts:
                if part not in done:
                    array = part._at_hand()
                    if array is None:
                        missing.append(part)
                    else:
                        done[part] = array, False
            if missing:
                pending += missing
                continue
            pending.pop()
            array = apply(*[[_array(m, done) for m in a] if a.__class__ is list else _array(a, done) for a in args])
            done[source] = array, True
            if counting:
                for part in parts:
                    if part.apply is not None:
                        part._use(*done[part])
                for part in parts:
                    done.pop(part, None)
        return done[self][0]


class Computed(Wrapped):
    """The primitive of a balanced device: an array of the inner backend, and its source once that is needed."""

    __slots__ = ("held", "source", "value", "work")

    source: ArraySource | None
    work: int  #: the cost of all operations that led to the array, on the longest path
    held: bool  #: whether the graph keeps the array alive, if there is no source

    def __init__(self, value: Any, source: ArraySource | None = None, work: int = 0) -> None:
        self.value, self.source, self.work, self.held = value, source, work, False

    @classmethod
    def holding(cls, array: Any) -> Computed:
        """Create a primitive with an array and no recipe."""
        return cls(array)

    def peek(self) -> Any:
        """Return the array."""
        return self.value

    def kept(self) -> Any:
        """Return the value that a node saves in place of this primitive: the array itself, or its source."""
        source = self.source
        if source is None:
            self.held = True
            return self.value
        if source.apply is not None:
            source.settle()
        elif not source.pinned:
            source.hold()
        return source if source.array is None else source.array

    def origin(self) -> ArraySource:
        """Return the source, created at first use."""
        source = self.source
        if source is None:
            value = self.value
            source = self.source = ArraySource(value, math.prod(value.shape) * value.dtype.itemsize, self.work)
            if self.held:
                source.hold()
        return source


def _array(a: Any, done: dict[ArraySource, tuple[Any, bool]]) -> Any:
    return done[a][0] if a.__class__ is ArraySource else a


def _nothing() -> None:
    """Return None: in place of a weak reference, for objects that cannot have one."""
