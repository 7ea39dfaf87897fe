"""Tensors that a function to export reads from outside: from cells, globals, defaults, and objects that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from burnpy.func.compiling.compilation import Compiled
from burnpy.func.pytree import flatten
from burnpy.nn.module import Module
from burnpy.tensor.tensor_base import TensorBase


def captured(function: Any) -> dict[str, Any]:
    """Return the trees of tensors that a function and its helpers read from outside, by name.

    >>> weight = Tensor[NumPy].ones((2,))
    >>> def scaled(x):
    ...     return x * weight
    >>> captured(lambda x: scaled(x))
    {'scaled.weight': Tensor([1., 1.], shape=(2,), dtype=float32, device=NumPy)}
    """
    return dict(_captured(function, "", set()))


def rebuilt(function: Any, trees: Mapping[str, Any]) -> Any:
    """Return a function that reads other trees than those of `captured`."""
    return _rebuilt(function, "", trees)


_DEEPEST = 4
"""The number of objects inside of each other in which tensors are found."""
_PACKAGES = ("builtins", "burnpy", "numpy", "typing")
"""The packages in whose objects no tensors of a model are."""


def _captured(holder: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(holder) in seen or prefix.count(".") > _DEEPEST:
        return
    seen.add(id(holder))
    for name, value in _inside(holder).items():
        value = uncompiled(value)
        if _has_tensors(value):
            yield f"{prefix}{name}", value
        else:
            yield from _captured(value, f"{prefix}{name}.", seen)


def uncompiled(function: Any) -> Any:
    """Return the function or module that a compiled function calls; others as they are."""
    return uncompiled(function._f) if isinstance(function, Compiled) else function


def _inside(holder: Any) -> dict[str, Any]:
    """Return the values that a function reads from cells, globals and defaults, or those that an object holds."""
    if isinstance(holder, FunctionType):
        pairs = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True)
        cells = {name: cell.cell_contents for name, cell in pairs if _is_filled(cell)}
        known = {name: holder.__globals__[name] for name in _names(holder.__code__) if name in holder.__globals__}
        return {**known, **cells, **_defaults(holder), **(holder.__kwdefaults__ or {})}
    if isinstance(holder, MethodType):
        return {**_inside(holder.__func__), "self": holder.__self__}
    if isinstance(holder, partial):
        return {"func": holder.func, **{f"args_{k}": x for k, x in enumerate(holder.args)}, **holder.keywords}
    if isinstance(holder, (ModuleType, type)) or type(holder).__module__.partition(".")[0] in _PACKAGES:
        return {}
    return dict(getattr(holder, "__dict__", {}))


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Return the defaults of the parameters that a call may give by position."""
    code, values = function.__code__, function.__defaults__ or ()
    return dict(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _has_tensors(value: Any) -> bool:
    if isinstance(value, (TensorBase, Module)):
        return True
    return isinstance(value, (tuple, list, dict)) and any(isinstance(leaf, TensorBase) for leaf in flatten(value)[0])


def _rebuilt(holder: Any, prefix: str, trees: Mapping[str, Any]) -> Any:
    if not any(name.startswith(prefix) for name in trees):
        return holder
    holder = uncompiled(holder)
    inside = _inside(holder)
    new = {
        name: trees[f"{prefix}{name}"] if f"{prefix}{name}" in trees else _rebuilt(value, f"{prefix}{name}.", trees)
        for name, value in inside.items()
        if value is not holder
    }
    if isinstance(holder, FunctionType):
        return _function(holder, new)
    if isinstance(holder, MethodType):
        return MethodType(_rebuilt(holder.__func__, prefix, trees), new["self"])
    if isinstance(holder, partial):
        args = [new[f"args_{k}"] for k in range(len(holder.args))]
        return partial(new["func"], *args, **{name: new[name] for name in holder.keywords})
    made = copy(holder)
    vars(made).update(new)
    return made


def _function(function: Any, new: Mapping[str, Any]) -> Any:
    """Return a function of Python with other values in its cells, globals and defaults."""
    pairs = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = tuple([CellType(new[name]) if name in new else cell for name, cell in pairs])
    space = {**function.__globals__, **{name: new[name] for name in _names(function.__code__) if name in new}}
    defaults = tuple([new[name] for name in _defaults(function)]) or None
    made = FunctionType(function.__code__, space, function.__name__, defaults, cells)
    made.__kwdefaults__ = {name: new[name] for name in function.__kwdefaults__ or {}} or None
    return made
