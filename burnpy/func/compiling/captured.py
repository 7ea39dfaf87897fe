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
import sys
import types
import weakref
from abc import ABCMeta, get_cache_token
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from operator import attrgetter, methodcaller
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
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
    UNREAD,
    is_own,
    is_users,
    refuse,
    refuse_large,
    refuse_opaque,
    refuse_outside,
    refuse_unseeded,
    refuse_unseen,
)
from burnpy.func.pytree import children_of, is_module
from burnpy.tensor.tensor_base import TensorBase

_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS = (dict, types.MappingProxyType, list, tuple, set, frozenset, deque, *_VIEWS)
_UNSEARCHED = (
    *(TensorBase, Backend, types.GenericAlias, types.UnionType, types.CodeType, MemberDescriptorType),
    *(types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
)
"""Classes of objects that never change."""


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
    search = _Search()
    while True:
        search.value(f, getattr(f, "__name__", "f"))
        for argument in arguments:
            search.argument(argument)
        following = _Search(search.found, search.computes_names, search.misses)
        if following.start == search.start:  # no code was found that reads further attributes
            search.shadows()
            return Captured(search.places, search.generators)
        search = following


class _Search:
    """A search for the places that code reads, given the names of attributes that some code is known to read.

    With ``computes_names``, code may read attributes of all names; with ``misses``, go on where an attribute is
    missing. The search finds code that reads further names: another one with these follows, until none finds more.
    """

    def __init__(self, names: Iterable[str] = (), computes_names: bool = False, misses: bool = False) -> None:
        self.names = frozenset(names)
        self.start = self.names, computes_names, misses
        self.found, self.computes_names, self.misses = set(names), computes_names, misses
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

    def absence(self, label: str, space: Any, names: Iterable[str]) -> None:
        """Note that a dict has none of some names."""
        absent = frozenset(names).difference(space)
        if absent:
            self.places.append(Place(label, "{0}({1})", (space.keys().isdisjoint, absent), True))

    def attributes(self, x: Any, space: Any, label: str) -> None:
        """Note the attributes that an object holds itself: those that code names, or all."""
        if (self.computes_names and not isinstance(x, ModuleType)) or is_read_by_others(type(x)):
            self.members(f"the attributes of {label}", space)
        for name in self.names & space.keys():
            self.entry(f"{label}.{name}", space, name)
        if self.misses:
            self.absence(f"an attribute of {label}", space, self.names)

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
        """Search an object that the function can reach, once."""
        if isinstance(x, Path) or (isinstance(x, type) and issubclass(x, Path)):
            if not self.names.isdisjoint(OF_FILES):
                refuse(label, "a path of a file that it looks at")
            return
        if x is MISSING or isinstance(x, _UNSEARCHED) or id(x) in self._seen:
            return
        if isinstance(x, IMMUTABLE) and not is_users(type(x).__module__):
            return
        self._seen[id(x)] = x
        search = next((search for classes, search in _BY_CLASS if isinstance(x, classes)), _Search.instance)
        search(self, x, label)

    def function(self, f: FunctionType, label: str) -> None:
        """Search a function: its variables from outside, its defaults and attributes."""
        refuse_outside(f, label)
        users = is_users(f.__globals__.get("__name__", ""))
        if users:
            self.places.append(Place(f"the code of {label}()", "{0}.__code__", (f,), f.__code__))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            content = content_of(cell)
            if users or not isinstance(content, weakref.WeakKeyDictionary):  # a cache, as singledispatch has
                text = "{0}.cell_contents" if content is not MISSING else "{1}({0})"
                self.place(name, content, text, cell, content_of)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(f, name):
                self.place(f"the defaults of {label}()", getattr(f, name), f"{{0}}.{name}", f)
        if users:
            self.name_of(f, label)
            self.attributes(f, vars(f), label)
            self.code(f)
        self.value(getattr(f, "__wrapped__", None), label)

    def builtin(self, f: BuiltinFunctionType, label: str) -> None:
        """Search the object of a built-in method."""
        refuse_outside(f, label)
        self.value(f.__self__, label.rpartition(".")[0] or label)

    def method(self, x: Any, label: str) -> None:
        """Search the function and the object of a bound method."""
        self.value(getattr(x, "__func__", None), label)
        self.value(x.__self__, label.rpartition(".")[0] or label)

    def descriptor(self, x: Any, label: str) -> None:
        """Search the functions of a static or class method or a property."""
        for f in functions_of(x):
            self.value(f, label)

    def partial_function(self, x: partial[Any], label: str) -> None:
        """Search a partial function."""
        for name in ("func", "args", "keywords"):
            self.place(f"{label}.{name}", getattr(x, name), f"{{0}}.{name}", x)
        self.object(x, label)

    def getter(self, x: Any, label: str) -> None:
        """Note the names that an `attrgetter` or `methodcaller` looks up."""
        self.found.update(part for name in x.__reduce__()[1] if isinstance(name, str) for part in name.split("."))

    def named_class(self, cls: type, label: str) -> None:
        """Search a class that code names, and so may test for and make objects of."""
        self.abstract(cls)
        self.class_(cls)
        self.constructors(cls)

    def container(self, x: Any, label: str) -> None:
        """Search a container of the standard library, or one that is derived from it."""
        self.members(label, x)
        self.object(x, label)

    def array(self, x: Any, label: str) -> None:
        """Note the elements of an array that may change."""
        if type(x) is np.ndarray and is_locked(x):
            return
        if x.dtype.hasobject:
            self.places.append(Place(f"the shape of {label}", "{0}.shape", (x,), x.shape))
            self.members(label, tuple(x.flat), "tuple({0}.flat)", x)
        else:
            refuse_large(x, label)
            self.places.append(Place(label, "{0}({1})", (bytes_of, x), bytes_of(x)))
        if is_users(type(x).__module__):
            self.object(x, label)

    def instance(self, x: Any, label: str) -> None:
        """Search an object of any other class."""
        if (state := state_of(x, self.names)) is not None:
            self.generators.append(Place(label, "{0}()", (state,), state()))
        elif isinstance(x, ModuleType):
            if is_users(x.__name__):
                self.attributes(x, vars(x), label)
                self.entry(f"{label}.__getattr__", vars(x), "__getattr__")
        elif is_module(x):
            self.layers(x, label)
        elif "__wrapped__" in getattr(x, "__dict__", ()):  # by `functools.wraps` or `functools.cache`
            self.value(vars(x)["__wrapped__"], label)
            if is_users(type(x).__module__) or type(x).__module__ == "functools":
                self.object(x, label)
        else:
            self.object(x, label)

    def layers(self, x: Any, label: str) -> None:
        """Search a `burnpy.nn.Module`, which never changes; the objects in its settings may."""
        for path, part in x.named_modules().items():
            self.class_(type(part))
            for name, member in vars(part).items():
                if name in self.names or self.computes_names:
                    self.value(member, ".".join(filter(None, (label, path, name))))

    def object(self, x: Any, label: str) -> None:
        """Search the attributes of an object."""
        cls = type(x)
        if x is sys.stdout or x is sys.stderr or cls.__module__ == "typing":
            return
        refuse_unseen(x, label, self.names)
        if isinstance(x, logging.Logger) and not self.names.isdisjoint(("getEffectiveLevel", "isEnabledFor", "level")):
            self.place(f"the level of {label}", x.getEffectiveLevel(), "{0}.getEffectiveLevel()", x)
            self.place("the level of logging", x.manager.disable, "{0}.disable", x.manager)
        space = getattr(x, "__dict__", None)
        if isinstance(x, tuple(UNREAD)) or (is_own(cls) and (space is None or cls.__module__.startswith("burnpy"))):
            return
        if isinstance(x, BaseException):
            self.place(f"{label}.args", x.args, "{0}.args", x)
        if is_users(cls.__module__):
            self.object_of_user(x, label)
        elif isinstance(x, types.SimpleNamespace) or cls.__module__ == "argparse":
            self.attributes(x, vars(x), label)
        elif space is not None:
            if not isinstance(x, _CONTAINERS) or space or self.misses:
                self.members(f"the attributes of {label}", space)
        elif not isinstance(x, _CONTAINERS):
            refuse_opaque(x, label)

    def object_of_user(self, x: Any, label: str) -> None:
        """Search an object of a class of the user's: its class, slots and attributes."""
        cls, space = type(x), getattr(x, "__dict__", None)
        self.places.append(Place(f"the class of {label}", "{0}.__class__", (x,), cls))
        known = self.class_(cls)
        for each in cls.__mro__:
            for name in vars(each) if self.computes_names else self.names:
                if isinstance(vars(each).get(name), MemberDescriptorType):
                    slot = partial(slot_of, vars(each)[name], x)
                    self.place(f"{label}.{name}", slot(), "{0}()", slot)
        if space is not None:
            self.places.append(Place(f"the attributes of {label}", "{0}.__dict__", (x,), space))
            self.absence(f"an attribute of {label}", space, known)
            self._held.setdefault(cls, set()).update(self.names & space.keys())
            self.attributes(x, space, label)

    def code(self, f: FunctionType) -> None:
        """Search the variables of a module that code reads or assigns, and note the attributes that it reads."""
        names, space = names_in(f.__code__), f.__globals__
        written = f.__code__.co_filename == "<string>"  # by dataclasses, to compare classes
        self.found |= names.attributes - {"__class__"} if written else names.attributes
        self.computes_names |= names.computed
        self.misses |= names.missing
        builtin_names = [name for name in names.variables if name not in space and hasattr(builtins, name)]
        for name in names.variables:
            if name in builtin_names and name not in names.assigned:
                self.place(name, getattr(builtins, name), "{0}[{1}]", vars(builtins), name)
            else:
                self.entry(name, space, name)
        self.absence("a name of a builtin", space, builtin_names)
        if "type" in names.variables:
            self.found.add("__class__")
        modules = {name: absolute_name(name, space) for name in names.modules}
        for name in filter(is_users, modules.values()):
            self.entry(name, sys.modules, name)
        variables = {**space, **dict(zip(f.__code__.co_freevars, map(content_of, f.__closure__ or ()), strict=True))}
        variables |= {f"import {name}": sys.modules.get(absolute) for name, absolute in modules.items()}
        for root, *path in names.paths:
            self.path(variables.get(root), root.removeprefix("import "), path)
        for root, *path in names.bare:
            refuse_unseeded(variables.get(root), root.removeprefix("import "), path)

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
                if issubclass(x, Path):
                    self.value(x, label)
            elif isinstance(x, (FunctionType, BuiltinFunctionType)):
                refuse_outside(x, label)
            elif isinstance(holder, ModuleType) and not isinstance(x, ModuleType) and not is_own(holder):
                self.entry(label, vars(holder), name)

    def abstract(self, cls: type) -> None:
        """Note the classes that are registered with abstract ones, if code may test for a class that is one."""
        if getattr(cls, "_is_runtime_protocol", False):  # `isinstance` looks for its members, by name
            names = [*(n for n, x in vars(cls).items() if functions_of(x)), *vars(cls).get("__annotations__", ())]
            self.found.update(getattr(cls, "__protocol_attrs__", names))  # since Python 3.12
            self.misses = True
        if isinstance(cls, ABCMeta) and not self._tests_classes:
            self._tests_classes = True
            label = "the classes registered with abstract ones"
            self.places.append(Place(label, "{0}()", (get_cache_token,), get_cache_token()))

    def name_of(self, x: Any, label: str) -> None:
        """Note the name of a function or class, if code reads it."""
        for name in self.names & NAMING:
            self.place(f"{label}.{name}", getattr(x, name), f"{{0}}.{name}", x)

    def class_(self, cls: type) -> frozenset[str]:
        """Search a class and its bases; return the names of the attributes that code reads and that it has."""
        if cls in self._classes:
            return self._classes[cls]
        self._classes[cls] = frozenset()  # for classes that refer to each other
        if type(cls) is not type and is_users(type(cls).__module__):
            self.class_(type(cls))
        if "__subclasses__" in self.names and is_users(cls.__module__):
            self.members(f"the subclasses of {cls.__name__}", cls.__subclasses__(), "{0}.__subclasses__()", cls)
        installed = any(base is not object and not is_users(base.__module__) for base in cls.__mro__)
        for base in cls.__mro__:
            if is_users(base.__module__):
                self.own_attributes(base, installed)
        known = frozenset(name for base in cls.__mro__ for name in self.names & vars(base).keys())
        if is_users(cls.__module__):
            self._held.setdefault(type(cls), set()).update(known)
            self.name_of(cls, cls.__name__)
            self.places.append(Place(f"the bases of {cls.__name__}", "{0}.__mro__", (cls,), cls.__mro__))
        self._classes[cls] = known
        return known

    def own_attributes(self, cls: type, installed: bool) -> None:
        """Search the attributes of a class that code names, and the methods that Python calls by itself.

        With ``installed``, it has a base class of an installed package, whose code may call any method.
        """
        space = vars(cls)
        if self.computes_names:
            self.places.append(Place(f"the attributes of {cls.__name__}", "{0}", (space,), members_of(space), True))
        passed = ANNOTATING if "__class__" in self.names else ANNOTATING | MAKING
        for name, member in [*space.items()]:
            label = f"{cls.__name__}.{name}"
            if name in self.names:
                self.place(label, member, "{0}[{1}]", space, name)
            elif name not in passed and (installed or name[:2] == "__"):
                functions = functions_of(member)
                if functions and name not in MAKING:
                    self.places.append(Place(label, "{0}[{1}]", (space, name), member))
                for f in functions:
                    self.value(f, label)

    def constructors(self, cls: type) -> None:
        """Search the methods that make objects of a class, which code may call."""
        self._made.add(cls)
        for base in cls.__mro__:
            if is_users(base.__module__):
                for name in MAKING & vars(base).keys():
                    self.place(f"{base.__name__}.{name}", vars(base)[name], "{0}[{1}]", vars(base), name)

    def shadows(self) -> None:
        """Note the names that classes lack, and that would hide what look-ups find in other classes or in objects."""
        for cls in self._classes:
            for k, base in enumerate(cls.__mro__ if is_users(cls.__module__) else ()):
                if is_users(base.__module__):
                    later = {name for above in cls.__mro__[k + 1 :] for name in self.names & vars(above).keys()}
                    hidden = self.names if self.misses else later | self._held.get(cls, set())
                    hidden = hidden | WITH_DEFAULTS | (MAKING if cls in self._made else frozenset())
                    self.absence(f"an attribute of {base.__name__}", vars(base), hidden)


_BY_CLASS: tuple[tuple[Any, Callable[[_Search, Any, str], None]], ...] = (
    (FunctionType, _Search.function),
    (BuiltinFunctionType, _Search.builtin),
    ((staticmethod, classmethod, property, cached_property), _Search.descriptor),
    ((types.MethodType, types.MethodWrapperType), _Search.method),
    (partial, _Search.partial_function),
    ((attrgetter, methodcaller), _Search.getter),
    (type, _Search.named_class),
    (_CONTAINERS, _Search.container),
    (np.ndarray, _Search.array),
)
"""The search of an object, by its class; `_Search.instance` searches all others."""
