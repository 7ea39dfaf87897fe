"""Decorators that create tensor methods from templates: methods that differ only in the operation share one function.

A template mentions ``OPERATION`` in place of the operation's name. `specialised` copies its code with that name
replaced, and also ``blank`` if the result is a bool tensor: this adds no stack frame and no look-up by a variable
name, and tracebacks show the template. The decorated declaration provides the signature with the parameter names, the
types and the documentation. Its keyword-only parameters are keyword-only to type checkers alone: CPython calls
functions that have such parameters by a slower path, which takes 50 ns more.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from burnpy.backend.dtypes import dtype_of
from burnpy.tensor.base import blank, blank_bool, owned
from burnpy.tensor.call_errors import refuse
from burnpy.tensor.dims import ALL, dims_of, need_bool
from burnpy.tensor.operands import explain, operands

F = TypeVar("F", bound=Callable[..., Any])

ONE = 1
"""The default of an option, compared by identity: CPython has a single object 1."""


def specialised(template: Any, declaration: F, result: Callable[[], Any] = blank, operation: str | None = None) -> F:
    """Return a copy of ``template`` for an operation, with the signature and docstring of ``declaration``.

    The operation is by default the one that has the name of ``declaration``.
    """
    name = declaration.__name__
    operation = operation or name
    names = {"OPERATION": operation, "_OPERATION_with": f"_{operation}_with", "blank": result.__name__}
    code = template.__code__
    count = code.co_argcount
    code = code.replace(
        co_varnames=declaration.__code__.co_varnames[:count] + code.co_varnames[count:],
        co_names=tuple(names.get(n, n) for n in code.co_names),
        co_consts=tuple(operation if c == "OPERATION" else c for c in code.co_consts),
        co_name=name,
        co_qualname=declaration.__qualname__,
    )
    defaults = (*(declaration.__defaults__ or ()), *(declaration.__kwdefaults__ or {}).values())
    method: Any = FunctionType(code, template.__globals__, name, defaults or None)
    method.__doc__ = declaration.__doc__
    method.__qualname__ = declaration.__qualname__
    method.__module__ = declaration.__module__
    method.__annotations__ = declaration.__annotations__
    return owned(method)  # type: ignore[no-any-return]  # has the declaration's signature


def unary(declaration: F) -> F:
    """Create a method without arguments that calls the backend's operation of the same name."""
    return specialised(_unary, declaration)


def binary(declaration: F) -> F:
    """Create a method of one operand, a tensor of the same kind or a number, with a result of the same kind."""
    return specialised(_binary, declaration)


def optional(declaration: F) -> F:
    """Create a `binary` method ``f`` with a keyword option; it calls ``_f_with(other, option)`` unless None or 1."""
    return specialised(_optional, declaration)


def operator(operation: str) -> Callable[[F], F]:
    """Create a `binary` method for a Python operator, if the method with the operation's name has an option."""
    return lambda declaration: specialised(_binary, declaration, operation=operation)


def comparison(declaration: F) -> F:
    """Create a method of one operand, a tensor of the same kind or a number, with a bool result."""
    return specialised(_binary, declaration, blank_bool)


def predicate(declaration: F) -> F:
    """Create a method without arguments, with a bool result."""
    return specialised(_unary, declaration, blank_bool)


def reduction(declaration: F) -> F:
    """Create a method of ``(dim, keepdim)`` with a result of the same kind; dim is an int, several, or None for all."""
    return specialised(_reduction, declaration)


def accumulation(declaration: F) -> F:
    """Create a `reduction` that also takes the ``dtype`` to compute in."""
    return specialised(_accumulation, declaration)


def _unary(self: Any) -> Any:
    out = blank()
    out._device = self._device
    out._primitive = self._backend.OPERATION(self._primitive)
    return out


def _binary(self: Any, other: Any) -> Any:
    device = self._device
    if other.__class__ is self.__class__ and other._device is device:
        value = other._primitive
    elif other.__class__ in self.numbers:
        value = other
    else:
        self, value = operands(self, other, "OPERATION")
        device = self._device
    try:
        primitive = self._backend.OPERATION(self._primitive, value)
    except Exception as error:
        explain(error, "OPERATION", self, other)
        raise
    out = blank()
    out._device = device
    out._primitive = primitive
    return out


def _optional(self: Any, other: Any, option: Any) -> Any:
    if option is not None and option is not ONE:
        return self._OPERATION_with(other, option)
    device = self._device
    if other.__class__ is self.__class__ and other._device is device:
        value = other._primitive
    elif other.__class__ in self.numbers:
        value = other
    else:
        self, value = operands(self, other, "OPERATION")
        device = self._device
    try:
        primitive = self._backend.OPERATION(self._primitive, value)
    except Exception as error:
        explain(error, "OPERATION", self, other)
        raise
    out = blank()
    out._device = device
    out._primitive = primitive
    return out


def _reduction(self: Any, dim: Any, keepdim: Any, **unknown: Any) -> Any:
    if unknown:
        refuse(self, "OPERATION", unknown)
    primitive = self._primitive
    ndim = len(primitive.shape)
    if keepdim is not False:
        need_bool(keepdim, "OPERATION")
    out = blank()
    out._device = self._device
    dims = ALL[ndim] if dim is None else dims_of(dim, ndim, "OPERATION")
    out._primitive = self._backend.OPERATION(primitive, dims, keepdim)
    return out


def _accumulation(self: Any, dim: Any, keepdim: Any, dtype: Any, **unknown: Any) -> Any:
    if unknown:
        refuse(self, "OPERATION", unknown)
    primitive = self._primitive
    if dtype is not None:
        wide = dtype_of(dtype, self.kind)
        total = self._like(self._backend.cast(primitive, wide)).OPERATION(dim, keepdim)
        return self._like(self._backend.cast(total._primitive, wide))
    ndim = len(primitive.shape)
    if keepdim is not False:
        need_bool(keepdim, "OPERATION")
    out = blank()
    out._device = self._device
    dims = ALL[ndim] if dim is None else dims_of(dim, ndim, "OPERATION")
    out._primitive = self._backend.OPERATION(primitive, dims, keepdim)
    return out
