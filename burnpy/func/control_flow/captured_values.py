"""Copies of functions that read other values of the tensors that they close over."""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache, partial
from operator import is_
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from burnpy.func.compiling.places import names_in
from burnpy.func.pytree import children_of, flatten
from burnpy.tensor.tensor_base import TensorBase


def with_captured(f: Any, change: Callable[[Any], Any]) -> Any:
    """Return a function that reads ``change(x)`` in place of each tensor x that ``f`` closes over.

    These tensors are found in variables of enclosing functions, default arguments, arguments of partials and the
    objects of methods, in trees there, and so in the functions that these variables hold; and in variables of modules,
    if they are tensors or models. A variable that code assigns stays as it is.

    >>> x = Tensor[NumPy].from_data(3.0)
    >>> with_captured(lambda y: x + y, lambda x: x * 10.0)(1.0).item()
    31.0
    """
    return _Copies(change).of(f)


class _Copies:
    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, tuple[Any, Any]] = {}  # by id: an object, which this keeps alive, and its copy

    def of(self, x: Any) -> Any:
        """Return the copy of an object; the object itself if it has no tensors that change."""
        if id(x) not in self._known:
            self._known[id(x)] = (x, x)
            self._known[id(x)] = (x, self._made(x))
        return self._known[id(x)][1]

    def _made(self, x: Any) -> Any:
        if isinstance(x, TensorBase):
            return self._change(x)
        if isinstance(x, FunctionType):
            return self._function(x)
        if isinstance(x, MethodType):
            return MethodType(self.of(x.__func__), self.of(x.__self__))
        if type(x) is partial:
            return partial(self.of(x.func), *self.of(x.args), **self.of(x.keywords))
        if children_of(x) is None:
            return x
        leaves, structure = flatten(x, whole=True)
        copies = [self.of(leaf) for leaf in leaves]
        return x if all(map(is_, copies, leaves)) else structure.unflatten(copies)

    def _function(self, f: FunctionType) -> FunctionType:
        space = self._variables(f)
        if not (f.__closure__ or f.__defaults__ or f.__kwdefaults__) and space is f.__globals__:
            return f
        code, cells = f.__code__, f.__closure__ or ()
        assigned = _assigned(code)
        closure = [cell if name in assigned else CellType() for name, cell in zip(code.co_freevars, cells, strict=True)]
        copy = FunctionType(code, space, f.__name__, self.of(f.__defaults__), tuple(closure))
        copy.__kwdefaults__, copy.__qualname__ = self.of(f.__kwdefaults__), f.__qualname__
        vars(copy).update(vars(f))
        self._known[id(f)] = (f, copy)  # for a function that calls itself
        for new, cell in zip(closure, cells, strict=True):
            if new is not cell:
                try:
                    new.cell_contents = self.of(cell.cell_contents)
                except ValueError:  # a variable that has no value yet
                    continue
        return copy

    def _variables(self, f: FunctionType) -> dict[str, Any]:
        """Return the variables of a function's module, which are another dict if any of them changes."""
        names, space = names_in(f.__code__), f.__globals__
        changed: dict[str, Any] = {}
        for name in names.variables - names.assigned:
            x = space.get(name)
            if isinstance(x, TensorBase) or hasattr(type(x), "named_modules"):
                copy = self.of(x)
                if copy is not x:
                    changed[name] = copy
        return {**space, **changed} if changed else space


@lru_cache(maxsize=4096)
def _assigned(code: CodeType) -> frozenset[str]:
    """Return the variables of enclosing functions that code assigns or deletes."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inside = [_assigned(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(names).union(*inside)
