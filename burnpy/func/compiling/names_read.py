"""Places that code reads: the names that it looks up, and whether their values are what they were.

`names_in` finds names in code: of variables, of attributes, and paths of both, as in ``os.environ``. `of_places` writes
a function that compares the places of one plan, in as little time as possible.
"""

from __future__ import annotations

import dis
import enum
import random
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.util import resolve_name
from operator import is_
from pathlib import PurePath
from re import Pattern
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from burnpy.backend.plans.source import Source
from burnpy.func.compiling.refused_captures import is_users

_COMPUTING = frozenset((
    *("__dict__", "__getattribute__", "__slots__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "dir"),
    *("dumps", "eval", "exec", "fields", "format", "format_map", "getmembers", "globals", "locals", "methodcaller"),
    "vars",
))  # fmt: skip
"""Names whose use may read attributes that the code does not name."""
_NO_ATTRIBUTES = ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_CONST")
_BY_NAME = ("getattr", "hasattr")


class Names(NamedTuple):
    """The names in code, with those of the functions inside of it."""

    variables: frozenset[str]  #: the variables of the module that it reads or assigns
    assigned: frozenset[str]  #: those that it assigns
    attributes: frozenset[str]  #: the attributes that it reads or assigns, and texts that may be names of some
    modules: frozenset[str]  #: the modules that it imports, relative ones with their dots
    paths: frozenset[tuple[str, ...]]  #: a variable or "import module", and the attributes that follow it
    bare: frozenset[tuple[str, ...]]  #: the paths that it calls without arguments
    computed: bool  #: whether it may read attributes whose names it computes, as ``vars(x)`` does
    missing: bool  #: whether it may go on where an attribute is missing


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> Names:
    """Return the names in code.

    >>> names_in((lambda x: x * settings.scale).__code__).paths
    frozenset({('settings', 'scale')})
    """
    found, computed = _look_ups(code)
    names = set(code.co_names)
    found["attributes"].update(_texts(code.co_consts))
    computed |= not names.isdisjoint(_COMPUTING)
    missing = bool(code.co_exceptiontable) or not names.isdisjoint((*_BY_NAME, "suppress"))
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            other = names_in(inside)
            for field in found:
                found[field] |= getattr(other, field)
            computed, missing = computed or other.computed, missing or other.missing
    return Names(**{field: frozenset(values) for field, values in found.items()}, computed=computed, missing=missing)


def _look_ups(code: CodeType) -> tuple[dict[str, set[Any]], bool]:
    """Return what the instructions of code look up, by the fields of `Names`, and whether they compute names.

    ``path`` is how the object on top of the stack was reached, where that is known: from a variable or an import, by
    attributes.
    """
    found: dict[str, set[Any]] = {field: set() for field in Names._fields[:6]}
    computed = False
    imported: dict[Any, tuple[Any, ...]] = {}  # the paths of objects imported into local variables
    path: tuple[Any, ...] = ()
    source: tuple[Any, ...] = ()  # the path of the module that an import takes names from
    listed = False  # whether that import lists names
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE", "PUSH_NULL")]
    for k, step in enumerate(steps):
        operation, name = step.opname, step.argval
        match operation:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_FROM_DICT_OR_GLOBALS":
                found["variables"].add(name)
                path = (name,)
                computed |= name in _BY_NAME and not _is_constant(steps[k + 1 :])
            case "STORE_GLOBAL" | "DELETE_GLOBAL":
                found["variables"].add(name)
                found["assigned"].add(name)
            case "IMPORT_NAME":
                dots, parts = "." * steps[k - 2].argval, name.split(".")
                modules = [dots + ".".join(parts[: n + 1]) for n in range(len(parts))]
                found["modules"].update(modules)
                listed = steps[k - 1].argval is not None  # else `import a.b` gives `a`, and `as c` takes `b` from it
                path = source = (f"import {modules[-1 if listed else 0]}",)
            case "IMPORT_FROM":
                path = (*source, name)
                source = source if listed else path
                found["paths"].add(path)
            case _ if operation.startswith(("STORE_FAST", "STORE_DEREF")) and isinstance(name, str):
                if path and path[0].startswith("import "):
                    imported[name] = path
                path = ()
            case _ if operation.startswith(("LOAD_FAST", "LOAD_DEREF")):
                last = name[-1] if isinstance(name, tuple) else name
                path = imported.get(last, (last,))
            case _ if operation.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                path = (*path, name) if path else ()
                if path:
                    found["paths"].add(path)
            case _:
                computed |= operation == "MATCH_CLASS"
                if operation in ("PRECALL", "CALL") and step.arg == 0 and path:
                    found["bare"].add(path)
                path = ()
        if isinstance(name, str) and name in code.co_names and operation not in _NO_ATTRIBUTES:
            found["attributes"].add(name)
    return found, computed


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    """Yield the constants that may be names of attributes."""
    for constant in constants:
        if isinstance(constant, str):
            if constant.isidentifier():
                yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _texts(constant)


def _is_constant(steps: list[dis.Instruction]) -> bool:
    """Return whether the second argument of a call is a text, if the first one is a variable or its attributes."""
    k = 0
    while k < len(steps) and steps[k].opname.startswith(
        ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME") if k == 0 else "LOAD_ATTR"
    ):
        k += 1
    return 0 < k < len(steps) and steps[k].opname == "LOAD_CONST" and isinstance(steps[k].argval, str)


def absolute_name(module: str, space: Mapping[str, Any]) -> str:
    """Return the name of a module that code imports, given the variables of the module that the code is in."""
    if not module.startswith("."):
        return module
    try:
        return resolve_name(module, space.get("__package__") or "")
    except ImportError:  # the import fails, too
        return module


def is_read_by_others(cls: type) -> bool:
    """Return whether a class inherits Python code of an installed package, which may read any attribute."""
    plain = ("builtins", "abc", "collections.abc", "typing", "types", "argparse")
    return any(not is_users(each.__module__) and each.__module__ not in plain for each in cls.__mro__)


def functions_of(member: Any) -> list[Any]:
    """Return the functions in a member of a class: of a method, a property or another descriptor."""
    if isinstance(member, (staticmethod, classmethod)):
        return [member.__func__]
    if isinstance(member, property):
        return [f for f in (member.fget, member.fset) if f is not None]
    if isinstance(member, cached_property):
        return [member.func]
    return [member] if isinstance(member, FunctionType) or hasattr(member, "__wrapped__") else []


MAKING = frozenset(("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__del__"))
"""Methods that Python calls where an object or class is made or freed."""
WITH_DEFAULTS = frozenset((
    *("__bool__", "__call__", "__contains__", "__eq__", "__format__", "__ge__", "__getattr__", "__getattribute__"),
    *("__gt__", "__hash__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__repr__", "__setattr__", "__str__"),
))  # fmt: skip
"""Methods that Python calls where a class has them, and does without otherwise."""
ANNOTATING = frozenset(("__annotate__", "__annotate_func__", "__annotations_cache__"))
"""Attributes that hold or compute the annotations of a class, from Python 3.14 on, for code that reads them."""
NAMING = frozenset(("__doc__", "__module__", "__name__", "__qualname__"))
IMMUTABLE = (
    *(int, float, complex, str, bytes, type(None), type(...), range, slice, enum.Enum, np.generic, np.dtype),
    *(date, time, timedelta, tzinfo, Decimal, Fraction, PurePath, Pattern, UUID),
)
"""Classes of values that never change, which are compared by value."""
MISSING = object()
"""The value of a variable or attribute that does not exist."""
_LOOPED = 400
"""The least number of places for which they are compared in a loop, as functions that are so long take long to make."""


class Place(NamedTuple):
    """One thing that a function reads, and what it was while it was recorded."""

    label: str  #: the expression of it in the function's code
    text: str  #: the expression that reads it, with the numbers of objects in braces
    objects: tuple[Any, ...]
    value: Any  #: what it was; of a container, its members
    members: bool = False  #: whether the members of a container are compared

    def now(self) -> Any:
        """Return its present value."""
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


def state_of(x: Any, names: Container[str]) -> Callable[[], str] | None:
    """Return a function that returns the state of a random generator, or of a module's shared generator."""
    if x is np and "random" in names:
        x = np.random
    if x is random or x is np.random:
        x = random._inst if x is random else np.random.mtrand._rand
    if isinstance(x, random.SystemRandom):
        return None
    if isinstance(x, random.Random):
        return lambda: str(x.getstate())
    if isinstance(x, np.random.BitGenerator):
        return lambda: str(x.state)
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


class Captured:
    """The places outside of a function's arguments that it reads, with their values at the time.

    Args:
        places: the places.
        generators: the random generators of Python and NumPy that it may draw from, with their states.
    """

    def __init__(self, places: Iterable[Place] = (), generators: Iterable[Place] = ()) -> None:
        self.places, self._generators = tuple(places), tuple(generators)
        self._holds: Callable[[], bool] | None = None

    def holds(self) -> bool:
        """Return whether all places are what they were."""
        if self._holds is None:
            self._holds = of_places(self.places)
        return self._holds()

    def drawn(self) -> str | None:
        """Return the expression of a generator that was drawn from meanwhile; None if there is none."""
        return next((place.label for place in self._generators if not place.holds()), None)

    def changed(self) -> tuple[str, str] | None:
        """Return the expression of the first place that has another value, and the change as text; None if none has."""
        for place in self.places:
            if not place.holds():
                if place.members or place.value is True:
                    return place.label, "has other elements now"
                return place.label, f"was {_shown(place.value)} and is {_shown(place.now())} now"
        return None


def _shown(value: Any) -> str:
    if value is MISSING:
        return "missing"
    return f"{value!r:.60}" if isinstance(value, IMMUTABLE) else f"another {type(value).__name__}"
