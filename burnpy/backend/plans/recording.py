"""`Recording`: the operations of a computation in order, with the shapes and dtypes of their values, but no values.

`burnpy.backend.decorators.recorded.Recorded` makes one. Everything that looks at a computation as a whole reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.primitives import DType, Shape

if TYPE_CHECKING:
    from burnpy.backend.call_origin import Stack


class Ref:
    """A value of a recording: a number that stands for it in the arguments and results of nodes."""

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, number: int, shape: Shape, dtype: DType) -> None:
        self.number, self.shape, self.dtype = number, shape, dtype

    def __repr__(self) -> str:
        return f"%{self.number}"


class DefaultGenerator:
    """An argument of a node that stands for the default random generator of a device in the thread that replays."""

    __slots__ = ("find",)

    def __init__(self, find: Callable[[], np.random.Generator]) -> None:
        self.find = find


class Node:
    """One call of a method of the device.

    Arguments and results are primitives as `Ref`, other values as they are, in lists and tuples.
    """

    __slots__ = ("args", "effect", "line", "name", "results")

    def __init__(self, name: str, args: tuple[Any, ...], results: Any, effect: bool, line: Stack) -> None:
        self.name = name  #: the method, in most cases an operation of the schema
        self.args = args  #: all its arguments, in order
        self.results = results  #: what it returns
        self.effect = effect  #: whether it does more than return a value, as drawing random numbers does
        self.line = line  #: the user's line that called it

    def __repr__(self) -> str:
        return f"{self.results} = {self.name}{self.args}"

    @property
    def draws(self) -> bool:
        """True if it draws random numbers, in a loop or branch as well."""
        return any(
            x.__class__ is DefaultGenerator
            or (x.__class__ is Ref and x.dtype == np.dtype(object))
            or getattr(x, "draws", False)
            for x in self.args
        )


class Recording:
    """The nodes of a computation, its inputs, constants and outputs.

    Args:
        whole: the recording whose values these are, if it is a part; new values have numbers of their own.
    """

    def __init__(self, whole: Recording | None = None) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Ref] = []  #: primitives, and generators whose shape is ()
        self.constants: dict[int, Any] = {}  #: the primitives that come from outside, by the number of the value
        self.outputs: list[Ref] = []
        self.transposed = set[int]()  #: the inputs and constants that are matrices whose columns lie together
        self.closed = False  #: whether it is complete
        self._count: int = 0 if whole is None else whole._count

    def new(self, shape: Shape, dtype: DType) -> Ref:
        """Return a new value."""
        self._count += 1
        return Ref(self._count - 1, tuple(shape), dtype)

    def given(self, value: Any) -> Ref:
        """Return a new value that stands for a primitive from outside."""
        ref = self.new(value.shape, value.dtype)
        if len(ref.shape) == 2 and getattr(value, "flags", None) is not None:
            flags = value.flags
            if flags.f_contiguous and not flags.c_contiguous:
                self.transposed.add(ref.number)
        return ref

    def generator(self) -> Ref:
        """Return a random generator as a further input."""
        ref = self.new((), np.dtype(object))
        self.inputs.append(ref)
        return ref


def same_call(one: Node, two: Node) -> bool:
    """Return whether two nodes of a recording call the same with values of the same shapes and dtypes."""
    shapes = [[(ref.shape, ref.dtype) for ref in refs_in(node.args)] for node in (one, two)]
    if one.name != two.name or shapes[0] != shapes[1] or len(one.args) != len(two.args):
        return False
    pairs = zip(one.args, two.args, strict=True)
    return all(
        x.alike(y) if hasattr(x, "alike") else x is y or x == y for x, y in pairs if not refs_in(x) and not refs_in(y)
    )


def alike(one: Node, two: Node, first: Recording, second: Recording) -> bool:
    """Return whether nodes of two recordings are the same call, with equal constants."""
    return one.name == two.name and _alike(one.args, two.args, first, second)


def _alike(x: Any, y: Any, first: Recording, second: Recording) -> bool:
    if x.__class__ is not y.__class__:
        return False
    if x.__class__ is Ref:
        constant, other = first.constants.get(x.number), second.constants.get(y.number)
        if constant is None or other is None:
            return bool(x.number == y.number and constant is other)
        return np.array_equal(np.asarray(constant), np.asarray(other), equal_nan=x.dtype.kind == "f")
    if x.__class__ is tuple or x.__class__ is list:
        return len(x) == len(y) and all(_alike(a, b, first, second) for a, b in zip(x, y, strict=True))
    if hasattr(x, "alike"):  # a loop or a branch
        return bool(x.alike(y))
    if isinstance(x, (int, str, slice, np.dtype)):
        return bool(x == y)
    return not isinstance(x, float) or x == y or (x != x and y != y)


def refs_in(tree: Any) -> list[Ref]:
    """Return the values among arguments or results, members of lists and tuples included.

    >>> x = Ref(0, (), np.dtype("float32"))
    >>> refs_in((x, [1, x], "sum"))
    [%0, %0]
    """
    if tree.__class__ is Ref:
        return [tree]
    found: list[Ref] = []
    if tree.__class__ is tuple or tree.__class__ is list:
        for member in tree:
            if member.__class__ is Ref:
                found.append(member)
            elif member.__class__ is tuple or member.__class__ is list:
                found += refs_in(member)
    return found


def mapped(tree: Any, f: Callable[[Ref], Any]) -> Any:
    """Return arguments or results with ``f`` applied to each value."""
    if tree.__class__ is Ref:
        return f(tree)
    if tree.__class__ is tuple:
        return tuple([mapped(member, f) for member in tree])
    if tree.__class__ is list:
        return [mapped(member, f) for member in tree]
    return tree
