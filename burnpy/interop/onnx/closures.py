"""The tensors and modules that an exported function reads from outside: they become inputs of its recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

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


def _captured(function: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, MethodType):
        if _has_tensors(function.__self__):
            yield f"{prefix}self", function.__self__
        return
    for name, value in _outside(function).items():
        if isinstance(value, (FunctionType, MethodType)):
            yield from _captured(value, f"{prefix}{name}.", seen)
        elif _has_tensors(value):
            yield f"{prefix}{name}", value


def _outside(function: Any) -> dict[str, Any]:
    """Return the values that a function of Python reads from cells and globals, by name."""
    if not isinstance(function, FunctionType):
        return {}
    filled = [
        (name, cell) for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    ]
    cells = {name: cell.cell_contents for name, cell in filled if _is_filled(cell)}
    known = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    return {**known, **cells}


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


def _rebuilt(function: Any, prefix: str, trees: Mapping[str, Any]) -> Any:
    if not any(name.startswith(prefix) for name in trees):
        return function
    if isinstance(function, MethodType):
        return MethodType(function.__func__, trees.get(f"{prefix}self", function.__self__))
    new: dict[str, Any] = {}
    for name, value in _outside(function).items():
        if f"{prefix}{name}" in trees:
            new[name] = trees[f"{prefix}{name}"]
        elif isinstance(value, (FunctionType, MethodType)) and value is not function:
            new[name] = _rebuilt(value, f"{prefix}{name}.", trees)
    names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = tuple([CellType(new[name]) if name in new else cell for name, cell in names])
    made = FunctionType(
        function.__code__, {**function.__globals__, **new}, function.__name__, function.__defaults__, cells
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
