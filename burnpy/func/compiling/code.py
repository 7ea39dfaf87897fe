"""Code that a function reaches: the names that it looks up, as `names_in` says, and whose it is.

A name is a variable of a module or an attribute; paths are of both, as in ``os.environ``.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_ANYTHING = frozenset((
    *("__dict__", "__getattribute__", "__slots__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "dir"),
    *("dumps", "eval", "exec", "fields", "format", "format_map", "getmembers", "globals", "locals", "methodcaller"),
    "vars",
))  # fmt: skip
"""Names whose use may read attributes that the code does not name."""
_NO_ATTRIBUTES = ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_CONST")
OWN = ("burnpy", "burnpy_array", "burnpy_numpy", "burnpy_cupy", "numpy")
_OUTSIDE = {
    "time": None, "secrets": None, "posix": None, "nt": None, "_io": {"open", "open_code"}, "io": {"open"},
    "os": {"getenv", "getenvb", "walk", "popen"}, "genericpath": None, "uuid": {"uuid1", "uuid4"},
    "builtins": {"input"}, "numpy": {"fromfile", "genfromtxt", "load", "loadtxt", "memmap"},
}  # fmt: skip
"""Functions that read what is outside of the program, by module; None for all that it has."""
_BY_NAME = ("getattr", "hasattr")


class Names(NamedTuple):
    """The names in code, with those of the functions inside of it."""

    variables: frozenset[str]  #: the variables of the module that it reads or assigns
    assigned: frozenset[str]  #: those that it assigns
    attributes: frozenset[str]  #: the attributes that it reads or assigns, and texts that may be names of some
    modules: frozenset[str]  #: the modules that it imports
    paths: frozenset[tuple[str, ...]]  #: a variable or module, and the attributes that follow it, as in ``os.environ``
    anything: bool  #: whether it may read attributes of other names, as ``vars(x)`` does
    missing: bool  #: whether it may go on where an attribute is missing


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> Names:
    """Return the names in code.

    >>> names_in((lambda x: x * settings.scale).__code__).paths
    frozenset({('settings', 'scale')})
    """
    found: dict[str, set[Any]] = {name: set() for name in Names._fields[:5]}
    names = set(code.co_names)
    local: dict[Any, str] = {}  # the modules that local variables are
    path: tuple[Any, ...] = ()
    module = ""
    anything = False
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE", "PUSH_NULL")]
    for k, step in enumerate(steps):
        operation, name = step.opname, step.argval
        if operation in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            found["variables"].add(name)
            path = (name,)
            anything |= name in _BY_NAME and not _is_constant(steps[k + 1 :])
        elif operation in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            found["variables"].add(name)
            found["assigned"].add(name)
        elif operation == "IMPORT_NAME":
            found["modules"].add(name)
            module, path = name, (name,)
        elif operation == "IMPORT_FROM":
            found["paths"].add((module, name))
        elif operation.startswith(("STORE_FAST", "STORE_DEREF")) and isinstance(name, str):
            if path and path[0] in found["modules"]:
                local[name] = ".".join(path)
            path = ()
        elif operation.startswith(("LOAD_FAST", "LOAD_DEREF")):
            last = name[-1] if isinstance(name, tuple) else name
            path = (local.get(last, last),)
        elif operation.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            path = (*path, name) if path else ()
            if path:
                found["paths"].add(path)
        else:
            anything |= operation == "MATCH_CLASS"
            path = ()
        if isinstance(name, str) and name in names and operation not in _NO_ATTRIBUTES:
            found["attributes"].add(name)
    found["attributes"].update(_texts(code.co_consts))
    missing = bool(code.co_exceptiontable) or not names.isdisjoint((*_BY_NAME, "suppress"))
    anything |= not names.isdisjoint(_ANYTHING)
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            other = names_in(inside)
            for field in found:
                found[field] |= getattr(other, field)
            anything, missing = anything or other.anything, missing or other.missing
    return Names(**{field: frozenset(values) for field, values in found.items()}, anything=anything, missing=missing)


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


@cache
def is_users(module: str) -> bool:
    """Return whether a module, by its name, is the user's own and no installed package."""
    root = module.partition(".")[0]
    if root in OWN or (root in sys.stdlib_module_names and root != "__main__"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file


def is_own(x: Any) -> bool:
    """Return whether a module or class is of burnpy or NumPy."""
    name = getattr(x, "__module__", None) or x.__name__
    return str(name).partition(".")[0] in OWN


def is_read_by_others(cls: type) -> bool:
    """Return whether a class inherits Python code of an installed package, which may read any attribute."""
    plain = ("builtins", "abc", "collections.abc", "typing", "enum", "types", "argparse")
    return any(not is_users(each.__module__) and each.__module__ not in plain for each in cls.__mro__)


def reads_outside(f: Any) -> bool:
    """Return whether a function reads what is outside of the program, such as the time."""
    names = _OUTSIDE.get(getattr(f, "__module__", None) or "", ())
    return f.__name__ != "fspath" if names is None else f.__name__ in names


def functions_of(member: Any) -> list[Any]:
    """Return the functions in a member of a class: of a method, a property or another descriptor."""
    if isinstance(member, (staticmethod, classmethod)):
        return [member.__func__]
    if isinstance(member, property):
        return [f for f in (member.fget, member.fset) if f is not None]
    if isinstance(member, cached_property):
        return [member.func]
    return [member] if isinstance(member, FunctionType) or hasattr(member, "__wrapped__") else []
