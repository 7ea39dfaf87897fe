"""Arrays that can be computed again: what `Balanced` keeps in their place, and when that holds less.

Each result of a cheap operation has a `Source`, which is a *recipe* (the operation and its arguments' sources) until
somebody decides to keep the array itself. The decision falls when a node wants to keep the result. A recipe costs what
it needs and nobody else holds; if that is less than the array, the recipe is kept, else the array: a network that adds
a bias, applies GELU and multiplies by a matrix holds the sum alone, and computes GELU again from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import ref

from burnpy.backend.primitives import DType, Shape

LARGEST = 16
"""Of so many operations a recipe may be made, so that nothing recurses deeply; a larger one is an array."""


class Source:
    """Where an array comes from: the array itself, or the recipe to make it.

    The array of a recipe is remembered weakly, and strongly while a backward pass that computed it will want it again.
    """

    __slots__ = (
        "apply",
        "args",
        "array",
        "cached",
        "dtype",
        "left",
        "nbytes",
        "pinned",
        "seen",
        "settled",
        "shape",
        "size",
        "uses",
        "view",
    )

    apply: Callable[..., Any] | None  #: the operation of a recipe; None where ``array`` is there
    args: tuple[Any, ...]
    array: Any
    cached: Any
    seen: Callable[[], Any]  #: the array as long as it is alive
    size: int  #: the number of operations
    view: bool  #: whether the operation only makes a view
    settled: bool  #: whether it is decided that this stays a recipe
    pinned: bool  #: whether the graph holds the array
    uses: int  #: how many nodes, and recipes that nodes keep, want the array in a backward pass,
    left: int  #: and how many of them still do in this one

    def __init__(self, array: Any) -> None:
        self.array, self.apply, self.args = array, None, ()
        self.shape: Shape = array.shape
        self.dtype: DType = array.dtype
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.cached, self.seen = None, _nothing
        self.size = self.uses = self.left = 0
        self.view = self.settled = self.pinned = False

    @classmethod
    def holding(cls, array: Any) -> Source:
        """The source of an array that is there."""
        return cls(array)

    @classmethod
    def recipe(cls, array: Any, apply: Callable[..., Any], args: tuple[Any, ...], view: bool) -> Source | None:
        """How an array was computed; None where the recipe would be too large."""
        size = 1
        for a in args:
            for member in a if a.__class__ is list else (a,):
                if member.__class__ is Source:
                    size += member.size
        if size > LARGEST:
            return None
        made = cls(array)
        made.array, made.apply, made.args, made.size, made.view = None, apply, args, size, view
        try:
            made.seen = ref(array)
        except TypeError:  # a NumPy scalar
            made.array, made.apply, made.args, made.size = array, None, (), 0
        return made

    def settle(self) -> None:
        """Decide what to keep, for a node that wants this array."""
        if self.apply is not None and not self.settled:
            array = self.seen()
            if self.view:
                for source in self._sources():
                    source.settle()
            elif array is not None and self._cost() >= self.nbytes:
                self.array = array  # before what tells that it is there
                self.apply, self.args, self.size = None, (), 0
        self._want()

    def _want(self) -> None:
        """Count a use, and let the first one hold what is needed for it."""
        self.uses += 1
        self.left += 1
        if self.apply is None:
            self.pinned = True
        elif self.uses == 1:
            self.settled = True
            for source in self._sources():
                source._want()

    def _sources(self) -> list[Source]:
        found: list[Source] = []
        for a in self.args:
            found += [m for m in (a if a.__class__ is list else (a,)) if m.__class__ is Source]
        return found

    def _cost(self) -> int:
        """The bytes that the recipe would hold and that nothing holds yet."""
        counted: dict[int, int] = {}
        waiting: list[Any] = [self]
        while waiting:
            source = waiting.pop()
            for a in source.args:
                for member in a if a.__class__ is list else (a,):
                    if member.__class__ is not Source:
                        if hasattr(member, "dtype") and hasattr(member, "shape"):  # ints and bools, such as a mask
                            counted[id(member)] = math.prod(member.shape) * member.dtype.itemsize
                    elif member.apply is None:
                        counted[id(member)] = 0 if member.pinned else member.nbytes
                    elif not member.settled:
                        waiting.append(member)
        return sum(counted.values())

    def peek(self) -> Any:
        """The array, without counting it as used."""
        for found in (self.array, self.cached, self.seen()):
            if found is not None:
                return found
        return self._computed()

    def read(self) -> Any:
        """The array, for one of those who want it."""
        if self.apply is None:
            return self.array
        found = self.cached
        computed = found is None and (found := self.seen()) is None
        if computed:
            found = self._computed()
        self.left -= 1
        if self.left <= 0:
            self.left, self.cached = self.uses, None  # for the next pass, if there is one
        elif computed:
            self.cached = found
        return found

    def _computed(self) -> Any:
        args = self.args  # before what tells that they are of no use any more
        apply = self.apply
        if apply is None:
            return self.array
        return apply(*[[_read(m) for m in a] if a.__class__ is list else _read(a) for a in args])


class Computed:
    """The primitive of a balanced device: an array of the inner backend, and its source once there is one."""

    __slots__ = ("source", "value")

    source: Source | None
    value: Any

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value, self.source = value, source

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

    def kept(self) -> Source:
        """What a node keeps in place of this."""
        origin = self.origin()
        origin.settle()
        return origin

    def origin(self) -> Source:
        """The source, made now if there is none."""
        found = self.source
        if found is None:
            found = self.source = Source(self.value)
        return found


def _read(a: Any) -> Any:
    return a.read() if a.__class__ is Source else a


def _nothing() -> None:
    """In place of a weak reference."""
