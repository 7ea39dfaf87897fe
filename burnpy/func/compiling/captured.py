"""`Captured`: what a function reads besides its arguments, so that a plan is used only while all of it is unchanged.

A recording runs the Python code of a function once, and what the code reads from outside becomes part of the plan:
variables of enclosing functions and modules, contents of lists and dicts, attributes of objects, and the same for every
function that it calls. `captured` finds these places by the names in the code, and `Captured.holds` compares their
values with those of the recording.

Code of installed packages is not searched: of their objects, attributes that are numbers, text or functions are
compared, and everything else by identity, as are tensors, modules and other immutable values. Attributes that are
read by `getattr` with a computed name are not found.
"""

from __future__ import annotations

import dis
import enum
import random
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache, cached_property, lru_cache, partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.func.pytree import children_of
from burnpy.tensor.tensor_base import TensorBase

_VALUES = (int, float, complex, str, bytes, type(None), enum.Enum, np.generic, np.dtype)
_SEQUENCES = (list, tuple, set, frozenset, deque)
_OWN = ("burnpy", "burnpy_array", "burnpy_numpy", "burnpy_cupy", "numpy")
_MISSING = object()


class _Place(NamedTuple):
    """One place that the function reads, and its value during the recording."""

    label: str  #: the expression of it in the function's code
    find: Callable[[], Any]
    value: Any
    contents: bool  #: whether the value is a tuple of the contents of a container


class Captured:
    """The places outside of a function's arguments that it reads, with their values.

    Args:
        places: the places.
        generators: the random generators of Python and NumPy that it may draw from, with their states.
    """

    def __init__(self, places: Iterable[_Place] = (), generators: Iterable[_Place] = ()) -> None:
        self._places, self._generators = tuple(places), tuple(generators)

    def holds(self) -> bool:
        """Return whether all places have the values that they had."""
        for _, find, value, contents in self._places:
            now = find()
            if now is not value and not (_same_contents(now, value) if contents else _same(now, value)):
                return False
        return True

    def drawn(self) -> str | None:
        """Return the expression of a generator that was drawn from meanwhile; None if there is none."""
        return next((label for label, find, value, _ in self._generators if find() != value), None)

    def changed(self) -> tuple[str, str] | None:
        """Return the expression of the first place that has another value, and the change as text; None if none has."""
        for label, find, value, contents in self._places:
            now = find()
            if now is value or (_same_contents(now, value) if contents else _same(now, value)):
                continue
            if contents:
                return label, "has other elements now"
            return label, f"was {_shown(value)} and is {_shown(now)} now"
        return None


def captured(f: Any, arguments: Iterable[Any] = ()) -> Captured:
    """Return what a function reads besides its arguments.

    Args:
        f: the function, or another callable object.
        arguments: its arguments, whose classes have methods that it may call.

    >>> def scaling(factors):
    ...     return lambda x: x * factors[0]
    >>> factors = [2.0]
    >>> state = captured(scaling(factors))
    >>> state.holds()
    True
    >>> factors[0] = 3.0
    >>> state.holds(), state.changed()
    (False, ('factors', 'has other elements now'))
    """
    names: set[str] = set()
    while True:
        search = _Search(frozenset(names), names)
        search.value(f, getattr(f, "__name__", "f"))
        for argument in arguments:
            search.argument(argument)
        if len(names) == len(search.names):  # no code was found that reads further attributes
            return Captured(search.places, search.generators)


class _Search:
    """A search for the places that code reads.

    Args:
        names: the names of attributes that code is known to read.
        found: gets further such names.
    """

    def __init__(self, names: frozenset[str], found: set[str]) -> None:
        self.names, self.found = names, found
        self.places: list[_Place] = []
        self.generators: list[_Place] = []
        self._classes: set[type] = set()
        self._seen: dict[int, Any] = {}  # the objects by id, which keeps them alive

    def place(self, label: str, find: Callable[[], Any]) -> None:
        """Note a place, and search its value."""
        value = find()
        self.places.append(_Place(label, find, value, False))
        self.value(value, label)

    def contents(self, label: str, find: Callable[[], Any]) -> None:
        """Note the contents of a container, and search them."""
        values = find()
        self.places.append(_Place(label, find, values, True))
        for k, value in enumerate(values):
            self.value(value, f"{label}[{k}]")

    def argument(self, x: Any) -> None:
        """Search the classes of an argument, whose tensors and settings the keys of plans compare."""
        children = children_of(x)
        if children is None or hasattr(type(x), "named_modules"):
            self.value(x, type(x).__name__)
            return
        self.class_(type(x))
        for child in children:
            self.argument(child)

    def value(self, x: Any, label: str) -> None:
        """Search an object that the function can reach."""
        if isinstance(x, (*_VALUES, TensorBase, Backend, GenericAlias)) or x is _MISSING or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, FunctionType):
            self.function(x, label)
        elif isinstance(x, (MethodType, BuiltinMethodType)):
            self.value(getattr(x, "__func__", None), label)
            self.value(x.__self__, label)
        elif isinstance(x, partial):
            for part in (x.func, x.args, x.keywords):
                self.value(part, label)
        elif isinstance(x, type):
            self.class_(x)
        elif isinstance(x, (dict, MappingProxyType)):
            self.contents(label, lambda: (*x, *x.values()))
        elif isinstance(x, _SEQUENCES):
            self.contents(label, lambda: tuple(x))
        elif isinstance(x, np.ndarray):
            if _is_read_only(x):
                self.places.append(_Place(label, lambda: _is_read_only(x), True, False))
            else:
                before = x.tobytes()
                self.contents(label, lambda: (x.dtype, x.shape, _bytes_of(x, before)))
        elif (state := _state_of(x, self.names)) is not None:
            self.generators.append(_Place(label, state, state(), False))
        elif isinstance(x, ModuleType):
            if _is_users(x.__name__):
                self.attributes(x, vars(x), label)
        elif hasattr(type(x), "named_modules"):
            self.network(x, label)
        elif "__wrapped__" in getattr(x, "__dict__", ()):  # by `functools.wraps` or `functools.cache`
            self.value(x.__wrapped__, label)
        else:
            self.object(x, label)

    def function(self, f: FunctionType, label: str) -> None:
        """Search a function: its variables from outside, its defaults and attributes."""
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            self.place(name, partial(_content, cell))
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self.value(default, f"a default of {label}()")
        if _is_users(f.__globals__.get("__name__", "")):
            self.attributes(f, vars(f), label)
            self.code(f.__code__, f.__globals__)
        self.value(getattr(f, "__wrapped__", None), label)

    def code(self, code: CodeType, space: dict[str, Any]) -> None:
        """Search the variables of a module that code reads or assigns, and note the attributes that it reads."""
        names = _names_in(code)
        self.found |= names.attributes
        for name in names.variables:
            if name in space or name in names.assigned:
                self.place(name, partial(space.get, name, _MISSING))
        for name in names.modules:
            self.value(sys.modules.get(name), name)

    def class_(self, cls: type) -> None:
        """Search the methods of a class, and those of its attributes that code reads."""
        for each in cls.__mro__:
            if each in self._classes or not _is_users(each.__module__):
                continue
            self._classes.add(each)
            for name, member in [*vars(each).items()]:
                methods = _functions_of(member)
                for method in methods:
                    self.value(method, f"{each.__name__}.{name}")
            self.attributes(each, vars(each), each.__name__)

    def attributes(self, x: Any, members: Mapping[str, Any], label: str) -> None:
        """Note those attributes of an object that code reads, but for methods and other descriptors."""
        for name in self.names & members.keys():
            if not hasattr(type(members[name]), "__get__") or isinstance(x, ModuleType) or name in vars(x):
                self.place(f"{label}.{name}", partial(getattr, x, name, _MISSING))

    def object(self, x: Any, label: str) -> None:
        """Search an object of any other class."""
        cls, own = type(x), getattr(x, "__dict__", {})
        if _is_users(cls.__module__):
            self.class_(cls)
            members: dict[str, Any] = {}
            for each in reversed(cls.__mro__):
                slots = {name for name, member in vars(each).items() if isinstance(member, MemberDescriptorType)}
                members |= {name: None if name in slots else member for name, member in vars(each).items()}
            self.attributes(x, members | own, label)
        elif not _is_frozen(cls):
            for name, member in [*own.items()]:
                if isinstance(member, (*_VALUES, FunctionType, MethodType)) or name in self.names:
                    self.place(f"{label}.{name}", partial(getattr, x, name, _MISSING))

    def network(self, x: Any, label: str) -> None:
        """Search a `burnpy.nn.Module`, which never changes; the objects in its settings may."""
        for path, part in x.named_modules().items():
            self.class_(type(part))
            for name, member in vars(part).items():
                if name in self.names and not isinstance(member, (*_VALUES, *_SEQUENCES)):
                    self.value(member, ".".join(filter(None, (label, path, name))))


class _Names(NamedTuple):
    """The names in code, with those of the functions inside of it."""

    variables: frozenset[str]  #: the variables of the module that it reads or assigns
    assigned: frozenset[str]  #: those that it assigns
    attributes: frozenset[str]  #: the attributes that it reads or assigns
    modules: frozenset[str]  #: the modules that it imports


@lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> _Names:
    found: dict[str, set[str]] = {"variables": set(), "assigned": set(), "attributes": set(), "modules": set()}
    for step in dis.get_instructions(code):
        operation, name = step.opname, step.argval
        if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            found["variables"].add(name)
        elif operation in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            found["variables"].add(name)
            found["assigned"].add(name)
        elif operation == "IMPORT_NAME":
            found["modules"].add(name)
        elif operation.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "STORE_ATTR", "IMPORT_FROM")):
            found["attributes"].add(name)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for kind, names in _names_in(constant)._asdict().items():
                found[kind] |= names
    return _Names(**{kind: frozenset(names) for kind, names in found.items()})


@cache
def _is_users(module: str) -> bool:
    """Return whether a module, by its name, is the user's own and no installed package."""
    root = module.partition(".")[0]
    if root in _OWN or root in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file


def _functions_of(member: Any) -> list[Any]:
    """Return the functions in a member of a class: of a method, a property or another descriptor."""
    if isinstance(member, FunctionType) or hasattr(member, "__wrapped__"):
        return [member]
    if isinstance(member, (staticmethod, classmethod)):
        return [member.__func__]
    if isinstance(member, property):
        return [f for f in (member.fget, member.fset) if f is not None]
    return [member.func] if isinstance(member, cached_property) else []


def _state_of(x: Any, names: Container[str]) -> Callable[[], str] | None:
    """Return a function that returns the state of a random generator, or of the one that a module shares."""
    if x is np and "random" in names:
        x = np.random
    if x is random or x is np.random:
        x = random._inst if x is random else np.random.mtrand._rand
    if isinstance(x, random.Random):
        return lambda: str(x.getstate())
    if isinstance(x, np.random.Generator):
        return lambda: str(x.bit_generator.state)
    return (lambda: str(x.get_state())) if isinstance(x, np.random.RandomState) else None


def _is_read_only(x: Any) -> bool:
    """Return whether an array, and the arrays whose memory it is a part of, are read-only."""
    while isinstance(x, np.ndarray):
        if x.flags.writeable:
            return False
        x = x.base
    return not isinstance(x, (bytearray, memoryview)) or (isinstance(x, memoryview) and x.readonly)


def _is_frozen(cls: type) -> bool:
    """Return whether a class is a frozen dataclass."""
    return bool(getattr(getattr(cls, "__dataclass_params__", None), "frozen", False))


def _bytes_of(x: Any, before: bytes) -> bytes:
    """Return the elements of an array as bytes: ``before`` itself if they are the same, without a copy of them."""
    plain = x.flags.c_contiguous and not x.dtype.hasobject
    if plain and x.nbytes == len(before) and before.startswith(x.reshape(-1).view(np.uint8)):
        return before
    return x.tobytes()  # type: ignore[no-any-return]  # of NumPy


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _same(now: Any, before: Any) -> bool:
    """Return whether two values make no difference to code: equal numbers or texts of one type."""
    if type(now) is not type(before):
        return False
    if isinstance(now, float):
        return bool(now.hex() == before.hex())  # 0.0 is not -0.0, and nan is nan
    if isinstance(now, tuple):
        return _same_contents(now, before)
    return isinstance(now, _VALUES) and bool(now == before)


def _same_contents(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and all(a is b or _same(a, b) for a, b in zip(now, before, strict=True))


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    return f"{value!r:.60}" if isinstance(value, _VALUES) else f"another {type(value).__name__}"
