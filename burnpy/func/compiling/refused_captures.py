"""The functions and objects that `captured` refuses, as their changes cannot be seen.

A function of the standard library is refused unless it is known to depend on its arguments alone. Those of installed
packages are trusted to.
"""

from __future__ import annotations

import builtins
import contextvars
import ctypes
import io
import logging
import os
import random
import sys
import threading
import weakref
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from mmap import mmap
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType
from typing import Any, NoReturn

import numpy as np

from burnpy.backend.errors import RecordingError, a

OWN = ("burnpy", "burnpy_array", "burnpy_numpy", "burnpy_cupy", "numpy")
_PURE = frozenset((
    *("_abc", "_ast", "_bisect", "_codecs", "_collections", "_collections_abc", "_csv", "_datetime", "_decimal"),
    *("_functools", "_hashlib", "_heapq", "_json", "_operator", "_pickle", "_sre", "_statistics", "_string", "_struct"),
    *("_typing", "_warnings", "abc", "ast", "base64", "binascii", "bisect", "builtins", "calendar", "cmath", "codecs"),
    *("collections", "colorsys", "contextlib", "copy", "copyreg", "csv", "dataclasses", "datetime", "decimal"),
    *("difflib", "enum", "fnmatch", "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "html"),
    *("inspect", "itertools", "json", "keyword", "logging", "math", "numbers", "operator", "pickle", "platform"),
    *("pprint", "random", "re", "reprlib", "statistics", "string", "struct", "textwrap", "token", "traceback", "types"),
    *("typing", "unicodedata", "urllib.parse", "warnings", "zlib"),
))  # fmt: skip
"""Modules of the standard library whose functions depend on their arguments alone."""
_PATHS = frozenset((
    *("basename", "commonpath", "commonprefix", "dirname", "isabs", "join", "normcase", "normpath", "split"),
    *("splitdrive", "splitext", "splitroot"),
))  # fmt: skip
_PURE_IN: dict[str, frozenset[str]] = {
    "_thread": frozenset(("RLock", "allocate_lock")),
    "nt": frozenset(("fspath",)), "ntpath": _PATHS, "os": frozenset(("fsdecode", "fsencode", "fspath")),
    "posix": frozenset(("fspath",)), "posixpath": _PATHS, "sys": frozenset(("exc_info", "getsizeof", "intern")),
    "threading": frozenset(("RLock",)), "uuid": frozenset(("uuid3", "uuid5")),
}  # fmt: skip
"""Functions that depend on their arguments alone, in modules of the standard library where others do not."""
_OUTSIDE: dict[str, frozenset[str]] = {
    "_decimal": frozenset(("getcontext", "localcontext")), "builtins": frozenset(("__import__", "breakpoint", "input")),
    "decimal": frozenset(("getcontext", "localcontext")),
    "inspect": frozenset(("currentframe", "getouterframes", "stack", "trace")),
    "numpy": frozenset((
        *("fromfile", "genfromtxt", "get_printoptions", "getbufsize", "geterr", "geterrcall", "load", "loadtxt"),
        "memmap",
    )),
}  # fmt: skip
"""Functions that read what is outside of the program, in modules where others depend on their arguments alone."""
OF_FILES = (
    *("cwd", "exists", "glob", "home", "is_dir", "is_file", "iterdir", "open", "read_bytes", "read_text", "rglob"),
    "stat",
)
"""Methods of paths that look at files."""
_OF_NAMESPACES = (builtins.eval, builtins.exec, builtins.globals)
_UNSEEDED = (random.Random, random.SystemRandom, np.random.RandomState, np.random.default_rng, np.random.SeedSequence)
"""Functions and classes that draw other random numbers each time if they are called without a seed."""
_REFUSED: dict[Any, str] = {
    (GeneratorType, CoroutineType, AsyncGeneratorType): "which gives other values each time",
    (io.IOBase,): "a file",
    (contextvars.ContextVar, threading.local): "whose value depends on the context or thread",
    (type(os.environ),): "the variables of the environment",
    (weakref.ReferenceType, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet):
        "whose objects may be gone",
    (bytearray, memoryview, array, mmap, ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData):
        "a buffer that can be written to",
}  # fmt: skip
"""Kinds of objects whose changes cannot be seen at little cost, as messages say them."""
_MOST_BYTES = 4096
"""The most bytes of an array that is compared at each call."""
_STATES = ("is_set", "locked")
UNREAD: dict[type, tuple[str, ...]] = {
    logging.Handler: (), logging.Logger: (),
    threading.Thread: ("daemon", "getName", "ident", "is_alive", "name", "native_id"),
    threading.Event: _STATES, threading.Condition: _STATES, type(threading.Lock()): _STATES,
    type(threading.RLock()): _STATES,
}  # fmt: skip
"""Classes of objects that code uses for what they do, and their attributes that other threads change."""


@cache
def origin(module: Any) -> str:
    """Return where a module is from, by its name: "burnpy" (or NumPy), "standard" library, "installed", or "user"."""
    if not isinstance(module, str):  # of a class of Cython
        return "installed"
    root = module.partition(".")[0]
    if root in OWN:
        return "burnpy"
    file = getattr(sys.modules.get(module), "__file__", None)
    if "site-packages" in (file or "") or "dist-packages" in (file or ""):
        return "installed"
    standard = file is None or file.startswith(os.path.dirname(os.__file__))  # no script that has such a name
    return "standard" if standard and root in sys.stdlib_module_names and root != "__main__" else "user"


def is_users(module: Any) -> bool:
    """Return whether a module, by its name, is the user's own and no installed package."""
    return origin(module) == "user"


def is_own(x: Any) -> bool:
    """Return whether a module or class is of burnpy or NumPy."""
    name = getattr(x, "__module__", None) or x.__name__
    return str(name).partition(".")[0] in OWN


def reads_outside(f: Any) -> bool:
    """Return whether a function reads what is outside of the program, such as the time, as far as is known.

    Those of the standard library do unless they are known to depend on their arguments alone.
    """
    module, name = getattr(f, "__module__", None) or "", f.__name__
    root = module.partition(".")[0]
    if name in _OUTSIDE.get(root, ()):
        return True
    pure = module in _PURE or root in _PURE or name in _PURE_IN.get(module, ())
    return origin(module) == "standard" and not pure


def refuse_outside(f: Any, label: str) -> None:
    """Refuse a function that `reads_outside`, or any variable by its name."""
    if f in _OF_NAMESPACES:
        refuse(label, "which may read any variable")
    if reads_outside(f):
        refuse(label, "which reads what is outside of the program")


def refuse_large(x: Any, label: str) -> None:
    """Refuse an array of too many bytes to compare at each call."""
    if x.nbytes > _MOST_BYTES:
        refuse(
            label,
            f"whose {x.nbytes} bytes may change and are too many to compare at each call",
            "pass it as a tensor, or read a tensor that was made of it once",
        )


def refuse_opaque(x: Any, label: str) -> None:
    """Refuse an object without attributes, unless its class is known to have no other state."""
    cls = type(x)
    known = cls in (object, super, type(NotImplemented), memoryview) or hasattr(cls, "__get__")
    if not known and cls.__module__ not in ("typing", "operator", "functools"):
        refuse(label, f"{a(cls.__name__)}, whose changes cannot be seen")


def refuse_unseen(x: Any, label: str, names: frozenset[str]) -> None:
    """Refuse an object if its changes cannot be seen, given the names of the attributes that code reads.

    Raises:
        RecordingError: it is refused.
    """
    cls = type(x)
    for classes, reason in _REFUSED.items():
        if isinstance(x, classes) and not _shows_bytes(x):
            refuse(label, f"{a(cls.__name__)}, {reason}" if cls.__name__ not in reason else reason)
    if isinstance(x, Iterator) and not is_users(cls.__module__):
        refuse(label, f"{a(cls.__name__)}, which gives other values each time")
    for unread, read in UNREAD.items():
        if isinstance(x, unread) and not names.isdisjoint(read):
            refuse(label, f"{a(cls.__name__)}, which other threads change")


def refuse_unseeded(x: Any, label: str, path: Sequence[str]) -> None:
    """Refuse a call without arguments if its function draws other random numbers each time.

    Args:
        x: the variable that the call names first.
        label: the name of the variable.
        path: the names of the attributes that follow.

    Raises:
        RecordingError: it is refused.
    """
    for name in path:
        x = getattr(x, name, None) if isinstance(x, ModuleType) else None
    if any(x is each for each in _UNSEEDED):
        refuse(f"{'.'.join((label, *path))}()", "which draws other random numbers each time", "pass a seed")


def _shows_bytes(x: Any) -> bool:
    return isinstance(x, memoryview) and x.readonly and isinstance(x.obj, bytes)


def refuse(label: str, reason: str, way: str = "pass its value as an argument") -> NoReturn:
    """Raise the error that says what a function reads, why no plan can depend on it, and the way out."""
    raise RecordingError(
        f"a compiled function reads {label}, {reason}, which its replays would not do again; {way}, or say "
        'compiled(f, captured="constant") to keep what the first call finds'
    )
