"""Guards: whether a plan may be used for a call, found in as little time as possible.

`of_arguments` compares the arguments with those of the plan, leaf by leaf: only if they differ, a key is made of them,
by which another plan is looked up. `of_places` compares what the function reads besides its arguments. Both are
functions that are written for one plan.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from operator import is_
from pathlib import PurePath
from re import Pattern
from types import CellType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np

from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.plans.source import Source
from burnpy.tensor.generator import Generator
from burnpy.tensor.tensor_base import TensorBase

ArgumentGuard: TypeAlias = Callable[[Sequence[Any]], "list[Any] | None"]
"""A function of the leaves of a call's arguments: the inputs of the plan, or None if the leaves are of another kind."""
_PLAIN = (int, bool, str, bytes, type(None))
IMMUTABLE = (
    *(int, float, complex, str, bytes, type(None), type(...), range, slice, enum.Enum, np.generic, np.dtype),
    *(date, time, timedelta, tzinfo, Decimal, Fraction, PurePath, Pattern, UUID),
)
"""Classes of values that never change, which are compared by value."""
MISSING = object()
"""The value of a variable or attribute that does not exist."""
_LOOPED = 400
"""The number of places from which on they are compared in a loop, as functions that are so long take long to make."""


class Place(NamedTuple):
    """One thing that a function reads, and what it was while it was recorded."""

    label: str  #: the expression of it in the function's code
    text: str  #: the expression that reads it, with the numbers of objects in braces
    objects: tuple[Any, ...]
    value: Any  #: what it was; of a container, its members
    members: bool = False  #: whether the members of a container are compared

    def now(self) -> Any:
        """Return what it is now."""
        names = {f"x{k}": x for k, x in enumerate(self.objects)}
        try:
            found = eval(self.text.format(*names), names)
        except Exception:
            return MISSING
        return members_of(found) if self.members else found

    def holds(self) -> bool:
        """Return whether it is what it was."""
        now = self.now()
        return same_members(now, self.value) if self.members else same(now, self.value)


def members_of(container: Any) -> Any:
    """Return the members of a container as a tuple, those of a dict after its keys."""
    return (*container, *container.values()) if isinstance(container, Mapping) else tuple(container)


def same(now: Any, before: Any) -> bool:
    """Return whether two values make no difference to code: the same object, or equal values that never change."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, float):
        return bool(now.hex() == before.hex())  # 0.0 is not -0.0, and nan is nan
    if type(now) is tuple:
        return same_members(now, before)
    return isinstance(now, IMMUTABLE) and bool(now == before)


def same_members(now: Any, before: Any) -> bool:
    """Return whether two tuples have members that make no difference to code."""
    return now is not MISSING and len(now) == len(before) and all(map(same, now, before))


def of_places(places: Collection[Place]) -> Callable[[], bool]:
    """Return a function that returns whether all places are what they were."""
    if len(places) > _LOOPED:
        return lambda: all(place.holds() for place in places)
    source = Source()
    for place in places:
        now = place.text.format(*[source.bind(x) for x in place.objects])
        if not place.members:
            value, x = source.bind(place.value), place.value
            if x is not None and x is not MISSING and isinstance(x, (*IMMUTABLE, tuple)):
                source.write(f"if (x := {now}) is not {value} and not {source.bind(same)}(x, {value}): return False")
            else:
                source.write(f"if {now} is not {value}: return False")
            continue
        before, alike = place.value, source.bind(is_)
        mapping = isinstance(place.objects[0], Mapping)
        count = len(before) // (1 + mapping)
        tests = [f"len({now}) != {count}"]
        if mapping:
            tests.append(f"not all(map({alike}, {now}.values(), {source.bind(before[count:])}))")
            before = before[:count]
        tests.append(f"not all(map({alike}, {now}, {source.bind(before)}))")
        equal = f"{source.bind(same_members)}({source.bind(members_of)}({now}), {source.bind(place.value)})"
        source.write(f"if ({' or '.join(tests)}) and not {equal}: return False")
    made: Callable[[], bool] = source.definition([], "True", "holds", [])({})

    def holds() -> bool:
        try:
            return made()
        except Exception:  # a variable that was deleted, or an object without its attribute
            return False

    return holds


def of_arguments(leaves: Sequence[Any], inputs: Sequence[int], device: Any) -> ArgumentGuard | None:
    """Return the guard of a plan; None if a leaf is on a device of several levels.

    Args:
        leaves: the leaves that the plan was made for.
        inputs: the numbers of those that are inputs of the plan.
        device: the device that computes, which makes primitives of numbers.
    """
    source = Source()
    values: dict[int, str] = {}
    for k, leaf in enumerate(leaves):
        name = f"x{k}"
        cls = source.bind(leaf.__class__)
        if isinstance(leaf, TensorBase):
            value = _tensor(source, name, cls, leaf)
            if value is None:
                return None
            values[k] = value
        elif leaf.__class__ is float or leaf.__class__ is Generator:
            _refuse(source, f"{name}.__class__ is not {cls}")
            values[k] = f"{source.bind(device.host_number)}({name})" if leaf.__class__ is float else f"{name}._numpy"
        elif isinstance(leaf, _PLAIN):
            _refuse(source, f"{name}.__class__ is not {cls} or {name} != {source.bind(leaf)}")
        else:
            _refuse(source, f"{name} is not {source.bind(leaf)}")
    names = "".join(f"x{k}, " for k in range(len(leaves)))
    source.lines.insert(0, f"({names}) = leaves")
    result = f"[{', '.join(values[k] for k in inputs)}]"
    made: ArgumentGuard = source.definition(["leaves"], result, "guard", [])({})
    return made


def _tensor(source: Source, name: str, cls: str, leaf: TensorBase[Any]) -> str | None:
    """Write the comparisons of a tensor, and return the expression of its primitive; None if there is no fast way."""
    device: Any = leaf._device
    _refuse(source, f"{name}.__class__ is not {cls} or {name}._device is not {source.bind(device)}")
    primitive, array = f"p{name}", leaf._primitive
    source.write(f"{primitive} = {name}._primitive")
    if leaf.kind == "float" and device.differentiates:
        if device.__class__ is not Autodiff or device.computing is not device.inner or device.inner.differentiates:
            return None
        _refuse(source, f"({primitive}.node is not None) is not {array.node is not None}")
        primitive, array = f"a{name}", array.value
        source.write(f"{primitive} = p{name}.value")
    shape, dtype = source.bind(tuple(array.shape)), source.bind(array.dtype)
    _refuse(source, f"{primitive}.shape != {shape} or {primitive}.dtype is not {dtype}")
    return primitive


def _refuse(source: Source, condition: str) -> None:
    source.write(f"if {condition}: return None")


def state_of(x: Any, names: Container[str]) -> Callable[[], str] | None:
    """Return a function that returns the state of a random generator, or of the one that a module shares."""
    if x is np and "random" in names:
        x = np.random
    if x is random or x is np.random:
        x = random._inst if x is random else np.random.mtrand._rand
    if isinstance(x, random.SystemRandom):
        return None
    if isinstance(x, random.Random):
        return lambda: str(x.getstate())
    if isinstance(x, np.random.Generator):
        return lambda: str(x.bit_generator.state)
    return (lambda: str(x.get_state())) if isinstance(x, np.random.RandomState) else None


def is_locked(x: Any) -> bool:
    """Return whether nobody can write to an array: it shows bytes, or a view that cannot be opened."""
    while isinstance(x, np.ndarray):
        if x.flags.writeable or x.flags.owndata:
            return False
        x = x.base
    return isinstance(x, bytes) or (isinstance(x, memoryview) and x.readonly)


def bytes_of(x: Any) -> bytes:
    """Return the shape, dtype and elements of an array as bytes."""
    return f"{x.shape}{x.dtype}".encode() + x.tobytes()  # type: ignore[no-any-return]  # of NumPy


def content_of(cell: CellType) -> Any:
    """Return the value of a variable of an enclosing function; `MISSING` if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def slot_of(member: Any, x: Any) -> Any:
    """Return the value of a slot of an object."""
    try:
        return member.__get__(x)
    except AttributeError:
        return MISSING
