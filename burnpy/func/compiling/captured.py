"""`captured`: what a function reads besides its arguments, so that a plan is used only while all of it is unchanged.

A recording runs the Python code of a function once, and what the code reads from outside becomes part of the plan. The
rule: every look-up that code reachable from the function can make, of a name in that code, is a `Place`. For a variable
it is its value. For an attribute it is what the look-up finds and where: in the object, at a position of its class's
MRO, or nowhere. Values that never change are compared by value, containers of the standard library by their members,
tensors, modules and functions by identity, and other objects by the attributes that the code names; by all of them if
the code computes names. What cannot be compared in this way, such as an iterator, is refused.

Functions of installed packages are trusted to depend on their arguments alone.
"""

from __future__ import annotations

import builtins
import logging
import operator
import sys
import weakref
from abc import ABCMeta, get_cache_token
from collections import deque
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.errors import a
from burnpy.func.compiling.names_read import (
    ANNOTATING,
    IMMUTABLE,
    MAKING,
    MISSING,
    NAMING,
    WITH_DEFAULTS,
    Captured,
    Place,
    absolute_name,
    bytes_of,
    content_of,
    functions_of,
    is_locked,
    is_read_by_others,
    members_of,
    names_in,
    slot_of,
    state_of,
)
from burnpy.func.compiling.refused_captures import (
    OF_FILES,
    OF_NAMESPACES,
    UNREAD,
    UNSEEDED,
    is_own,
    is_users,
    reads_outside,
    refuse,
    refuse_unseen,
)
from burnpy.func.pytree import children_of, is_module
from burnpy.tensor.tensor_base import TensorBase

_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS = (dict, MappingProxyType, list, tuple, set, frozenset, deque, *_VIEWS)
_MOST_BYTES = 4096
"""The most bytes of an array that is compared at each call."""


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
    search = _Search(set(), False, False)
    while True:
        search.value(f, getattr(f, "__name__", "f"))
        for argument in arguments:
            search.argument(argument)
        found = _Search(search.found, search.anything, search.missing)
        if found.key == search.key:  # no code was found that reads further attributes
            search.lacking()
            return Captured(search.places, search.generators)
        search = found


class _Search:
    """A search for the places that code reads: attributes of known names, or with ``anything`` of all names.

    With ``missing`` it goes on where an attribute is missing.
    """

    def __init__(self, names: set[str], anything: bool, missing: bool) -> None:
        self.names, self.key = frozenset(names), (frozenset(names), anything, missing)
        self.found, self.anything, self.missing = set(names), anything, missing
        self.places: list[Place] = []
        self.generators: list[Place] = []
        self._classes: dict[type, frozenset[str]] = {}  # the names that each class has
        self._held: dict[type, set[str]] = {}  # the names that objects of each class have themselves
        self._made: set[type] = set()  # the classes whose objects code may make
        self._tests_classes = False
        self._seen: dict[int, Any] = {}  # the objects by id, which keeps them alive

    def place(self, label: str, value: Any, text: str, *objects: Any) -> None:
        """Note a place, and search its value."""
        self.places.append(Place(label, text, objects, value))
        self.value(value, label)

    def members(self, label: str, container: Any, text: str = "{0}", *objects: Any) -> None:
        """Note the members of a container, and search them."""
        members = members_of(container)
        self.places.append(Place(label, text, objects or (container,), members, True))
        for k, member in enumerate(members):
            self.value(member, f"{label}[{k}]")

    def entry(self, label: str, space: Any, name: str) -> None:
        """Note the variable of a name in a dict."""
        if name in space:
            self.place(label, space[name], "{0}[{1}]", space, name)
        else:
            self.place(label, MISSING, "{0}({1}, {2})", space.get, name, MISSING)

    def lacks(self, label: str, space: Any, names: Iterable[str]) -> None:
        """Note that a dict has none of some names."""
        absent = frozenset(names).difference(space)
        if absent:
            self.places.append(Place(label, "{0}({1})", (space.keys().isdisjoint, absent), True))

    def argument(self, x: Any) -> None:
        """Search the classes of an argument, whose tensors and settings the keys of plans compare."""
        children = children_of(x)
        if children is None or is_module(x):
            self.value(x, a(type(x).__name__))
            return
        self.class_(type(x))
        for child in children:
            self.argument(child)

    def value(self, x: Any, label: str) -> None:
        """Search an object that the function can reach."""
        if isinstance(x, Path) or (isinstance(x, type) and issubclass(x, Path)):
            if not self.names.isdisjoint(OF_FILES):
                refuse(label, "a path of a file that it looks at")
            return
        if x is MISSING or isinstance(x, (TensorBase, Backend, GenericAlias, UnionType, CodeType)):
            return
        if isinstance(x, IMMUTABLE) and not is_users(type(x).__module__):
            return
        if id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, FunctionType):
            self.function(x, label)
        elif isinstance(x, BuiltinFunctionType):
            if x in OF_NAMESPACES:
                refuse(label, "which may read any variable")
            if reads_outside(x):
                refuse(label, "which reads what is outside of the program")
            self.value(x.__self__, label.rpartition(".")[0] or label)
        elif isinstance(x, (staticmethod, classmethod, property, cached_property)):
            for method in functions_of(x):
                self.value(method, label)
        elif isinstance(x, (MethodType, MethodWrapperType)):
            self.value(getattr(x, "__func__", None), label)
            self.value(x.__self__, label.rpartition(".")[0] or label)
        elif isinstance(x, partial):
            self.place(f"{label}.func", x.func, "{0}.func", x)
            self.place(f"{label}.args", x.args, "{0}.args", x)
            self.place(f"{label}.keywords", x.keywords, "{0}.keywords", x)
            self.object(x, label)
        elif isinstance(x, (operator.attrgetter, operator.methodcaller)):
            self.found.update(part for name in x.__reduce__()[1] if isinstance(name, str) for part in name.split("."))
        elif isinstance(x, type):
            self.abstract(x)
            self.class_(x)
            self.making(x)
        elif isinstance(x, MemberDescriptorType | GetSetDescriptorType | WrapperDescriptorType | MethodDescriptorType):
            return
        elif isinstance(x, _CONTAINERS):
            self.members(label, x)
            self.object(x, label)
        elif isinstance(x, np.ndarray):
            self.array(x, label)
            if is_users(type(x).__module__):
                self.object(x, label)
        elif (state := state_of(x, self.names)) is not None:
            self.generators.append(Place(label, "{0}()", (state,), state()))
        elif isinstance(x, ModuleType):
            if is_users(x.__name__):
                self.attributes(x, vars(x), label)
                self.entry(f"{label}.__getattr__", vars(x), "__getattr__")
        elif is_module(x):
            self.network(x, label)
        elif "__wrapped__" in getattr(x, "__dict__", ()):  # by `functools.wraps` or `functools.cache`
            self.value(vars(x)["__wrapped__"], label)
            if is_users(type(x).__module__) or type(x).__module__ == "functools":
                self.object(x, label)
        else:
            self.object(x, label)

    def array(self, x: Any, label: str) -> None:
        """Note the elements of an array that may change."""
        if type(x) is np.ndarray and is_locked(x):
            return
        if x.dtype.hasobject:
            self.places.append(Place(f"the shape of {label}", "{0}.shape", (x,), x.shape))
            self.members(label, tuple(x.flat), "tuple({0}.flat)", x)
            return
        if x.nbytes > _MOST_BYTES:
            refuse(
                label,
                f"whose {x.nbytes} bytes may change and are too many to compare at each call",
                "pass it as a tensor, or read a tensor that was made of it once",
            )
        self.places.append(Place(label, "{0}({1})", (bytes_of, x), bytes_of(x)))

    def function(self, f: FunctionType, label: str) -> None:
        """Search a function: its variables from outside, its defaults and attributes."""
        if reads_outside(f):
            refuse(label, "which reads what is outside of the program")
        users = is_users(f.__globals__.get("__name__", ""))
        if users:
            self.places.append(Place(f"the code of {label}()", "{0}.__code__", (f,), f.__code__))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            content = content_of(cell)
            if users or not isinstance(content, weakref.WeakKeyDictionary):  # a cache, as singledispatch has
                text = "{0}.cell_contents" if content is not MISSING else "{1}({0})"
                self.place(name, content, text, cell, content_of)
        if f.__defaults__:
            self.place(f"the defaults of {label}()", f.__defaults__, "{0}.__defaults__", f)
        if f.__kwdefaults__:
            self.place(f"the defaults of {label}()", f.__kwdefaults__, "{0}.__kwdefaults__", f)
        if users:
            self.named(f, label)
            self.attributes(f, vars(f), label)
            self.code(f)
        self.value(getattr(f, "__wrapped__", None), label)

    def named(self, x: Any, label: str) -> None:
        """Note the name of a function or class, if code reads it."""
        for name in self.names & NAMING:
            self.place(f"{label}.{name}", getattr(x, name), f"{{0}}.{name}", x)

    def code(self, f: FunctionType) -> None:
        """Search the variables of a module that code reads or assigns, and note the attributes that it reads."""
        names, space = names_in(f.__code__), f.__globals__
        written = f.__code__.co_filename == "<string>"  # by dataclasses, to compare classes
        self.found |= names.attributes - {"__class__"} if written else names.attributes
        self.anything, self.missing = self.anything or names.anything, self.missing or names.missing
        for name in names.variables:
            if name in space or name in names.assigned or not hasattr(builtins, name):
                self.entry(name, space, name)
            else:
                self.place(name, getattr(builtins, name), "{0}[{1}]", vars(builtins), name)
        hidden = [name for name in names.variables if name not in space and hasattr(builtins, name)]
        self.lacks("a name of a builtin", space, hidden)
        if "type" in names.variables:
            self.found.add("__class__")
        for name in {absolute_name(name, space) for name in names.modules}:
            if is_users(name):
                self.entry(name, sys.modules, name)
        variables = {**space, **dict(zip(f.__code__.co_freevars, map(content_of, f.__closure__ or ()), strict=True))}
        variables |= {f"import {name}": sys.modules.get(absolute_name(name, space)) for name in names.modules}
        for root, *path in names.paths:
            self.path(variables.get(root), root.removeprefix("import "), path)
        for root, *path in names.bare:
            x = variables.get(root)
            for name in path:
                x = getattr(x, name, None) if isinstance(x, ModuleType) else None
            if any(x is each for each in UNSEEDED):
                label = ".".join((root.removeprefix("import "), *path))
                refuse(f"{label}()", "which draws other random numbers each time", "pass a seed")

    def path(self, x: Any, label: str, names: Iterable[str]) -> None:
        """Search what attributes of installed modules give, and of their classes."""
        for name in names:
            if not (isinstance(x, ModuleType) and not is_users(x.__name__)) and type(x) is not type:
                return
            if isinstance(x, type) and name in ("now", "today", "utcnow") and x.__module__ == "datetime":
                refuse(f"{label}.{name}", "which reads what is outside of the program")
            label, holder, x = f"{label}.{name}", x, getattr(x, name, MISSING)
            if isinstance(x, type):
                self.abstract(x)
            if isinstance(x, type) and issubclass(x, Path):
                self.value(x, label)
            elif isinstance(x, (FunctionType, BuiltinFunctionType)):
                if reads_outside(x):
                    refuse(label, "which reads what is outside of the program")
            elif isinstance(holder, ModuleType) and not isinstance(x, (type, ModuleType)) and not is_own(holder):
                self.entry(label, vars(holder), name)

    def abstract(self, cls: type) -> None:
        """Note the classes that are registered with abstract ones, if code may test for a class that is one."""
        if getattr(cls, "_is_runtime_protocol", False):  # `isinstance` looks for its members, by name
            names = [*(n for n, x in vars(cls).items() if functions_of(x)), *vars(cls).get("__annotations__", ())]
            self.found.update(getattr(cls, "__protocol_attrs__", names))  # since Python 3.12
            self.missing = True
        if isinstance(cls, ABCMeta) and not self._tests_classes:
            self._tests_classes = True
            label = "the classes registered with abstract ones"
            self.places.append(Place(label, "{0}()", (get_cache_token,), get_cache_token()))

    def class_(self, cls: type) -> frozenset[str]:
        """Search a class; return the names of the attributes that code reads and that it has.

        The methods whose names code has are searched, and those that Python calls by itself.
        """
        if cls in self._classes:
            return self._classes[cls]
        self._classes[cls] = frozenset()
        if type(cls) is not type and is_users(type(cls).__module__):
            self.class_(type(cls))
        if "__subclasses__" in self.names and is_users(cls.__module__):
            self.members(f"the subclasses of {cls.__name__}", cls.__subclasses__(), "{0}.__subclasses__()", cls)
        known: set[str] = set()
        called = any(each is not object and not is_users(each.__module__) for each in cls.__mro__)  # by that one's code
        for each in cls.__mro__:
            if not is_users(each.__module__):
                known |= self.names & vars(each).keys()
                continue
            space = vars(each)
            if self.anything:
                self.places.append(
                    Place(f"the attributes of {each.__name__}", "{0}", (space,), members_of(space), True)
                )
            passed = ANNOTATING if "__class__" in self.names else ANNOTATING | MAKING
            own = [name for name in space if called or name in self.names or name[:2] == "__"]
            own = [name for name in own if name not in passed or name in self.names]
            for name in own:
                if name in self.names or (name not in MAKING and functions_of(space[name])):
                    self.places.append(Place(f"{each.__name__}.{name}", "{0}[{1}]", (space, name), space[name]))
                for member in functions_of(space[name]) if name not in self.names else [space[name]]:
                    self.value(member, f"{each.__name__}.{name}")
            known.update(own)
        known &= self.names
        if is_users(cls.__module__):
            self._held.setdefault(type(cls), set()).update(known)
            self.named(cls, cls.__name__)
            self.places.append(Place(f"the bases of {cls.__name__}", "{0}.__mro__", (cls,), cls.__mro__))
        self._classes[cls] = frozenset(known)
        return self._classes[cls]

    def making(self, cls: type) -> None:
        """Search what makes objects of a class, which code may call."""
        self._made.add(cls)
        for each in cls.__mro__:
            if is_users(each.__module__):
                for name in MAKING & vars(each).keys():
                    self.place(f"{each.__name__}.{name}", vars(each)[name], "{0}[{1}]", vars(each), name)

    def lacking(self) -> None:
        """Note the names that classes lack, and that would hide what look-ups find in other classes or in objects."""
        for cls in self._classes:
            if not is_users(cls.__module__):
                continue
            for k, each in enumerate(cls.__mro__):
                if is_users(each.__module__):
                    later = {name for above in cls.__mro__[k + 1 :] for name in self.names & vars(above).keys()}
                    hidden = self.names if self.missing else later | self._held.get(cls, set())
                    hidden = hidden | WITH_DEFAULTS | (MAKING if cls in self._made else frozenset())
                    self.lacks(f"an attribute of {each.__name__}", vars(each), hidden)

    def attributes(self, x: Any, space: Any, label: str) -> None:
        """Note the attributes that an object holds itself: those that code names, or all."""
        if (self.anything and not isinstance(x, ModuleType)) or is_read_by_others(type(x)):
            self.members(f"the attributes of {label}", space)
        for name in self.names & space.keys():
            self.entry(f"{label}.{name}", space, name)
        if self.missing:
            self.lacks(f"an attribute of {label}", space, self.names)

    def object(self, x: Any, label: str) -> None:
        """Search an object of any other class."""
        cls = type(x)
        if x is sys.stdout or x is sys.stderr or cls.__module__ == "typing":
            return
        refuse_unseen(x, label, self.names)
        if isinstance(x, logging.Logger) and not self.names.isdisjoint(("getEffectiveLevel", "isEnabledFor", "level")):
            self.place(f"the level of {label}", x.getEffectiveLevel(), "{0}.getEffectiveLevel()", x)
            self.place("the level of logging", x.manager.disable, "{0}.disable", x.manager)
        users, space = is_users(cls.__module__), getattr(x, "__dict__", None)
        if isinstance(x, tuple(UNREAD)) or (is_own(cls) and (space is None or cls.__module__.startswith("burnpy"))):
            return
        if isinstance(x, BaseException):
            self.place(f"{label}.args", x.args, "{0}.args", x)
        if users:
            self.places.append(Place(f"the class of {label}", "{0}.__class__", (x,), cls))
            known = self.class_(cls)
            for each in cls.__mro__:
                for name in self.names if not self.anything else vars(each):
                    if isinstance(vars(each).get(name), MemberDescriptorType):
                        slot = partial(slot_of, vars(each)[name], x)
                        self.place(f"{label}.{name}", slot(), "{0}()", slot)
            if space is not None:
                self.places.append(Place(f"the attributes of {label}", "{0}.__dict__", (x,), space))
                self.lacks(f"an attribute of {label}", space, known)
                self._held.setdefault(cls, set()).update(self.names & space.keys())
                self.attributes(x, space, label)
        elif isinstance(x, SimpleNamespace) or cls.__module__ == "argparse":
            self.attributes(x, vars(x), label)
        elif space is not None:
            if not isinstance(x, _CONTAINERS) or space or self.missing:
                self.members(f"the attributes of {label}", space)
        elif (
            not isinstance(x, _CONTAINERS)
            and not hasattr(cls, "__get__")
            and cls.__module__ not in ("typing", "operator", "functools")
            and cls not in (object, super, type(NotImplemented), memoryview)
        ):
            refuse(label, f"{a(cls.__name__)}, whose changes cannot be seen")

    def network(self, x: Any, label: str) -> None:
        """Search a `burnpy.nn.Module`, which never changes; the objects in its settings may."""
        for path, part in x.named_modules().items():
            self.class_(type(part))
            for name, member in vars(part).items():
                if name in self.names or self.anything:
                    self.value(member, ".".join(filter(None, (label, path, name))))
