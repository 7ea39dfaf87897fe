"""Methods from templates: the methods that differ by one name only are one function, specialised for each.

A template mentions ``OPERATION`` where the operation's name belongs. `specialised` copies its code with that name
replaced: no extra frame, no look-up of a name held in a variable, and a traceback shows the template. So it does with
``blank``, where the result is a bool tensor. The decorated declaration gives the signature, the names of its parameters
included, the types and the documentation. What it declares keyword-only is so to type checkers alone: a
function that has such parameters CPython calls by a slower way, of 50 ns more.
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
"""As the default of an option: Python has one object of it."""


def specialised(template: Any, declaration: F, result: Callable[[], Any] = blank, operation: str | None = None) -> F:
    """A copy of ``template`` for an operation, by default the one that ``declaration`` is named after, with its
    signature and docs."""
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
    """A method of no arguments that calls the backend's operation of its own name."""
    return specialised(_unary, declaration)


def binary(declaration: F) -> F:
    """A method of one operand, a tensor of the same kind and device or a number, with a result of the same kind."""
    return specialised(_binary, declaration)


def optional(declaration: F) -> F:
    """A `binary` method ``f`` with an option, by keyword: ``_f_with(other, option)`` where that is not None or 1."""
    return specialised(_optional, declaration)


def operator(operation: str) -> Callable[[F], F]:
    """A `binary` method under the name of Python's operator, where the method of the operation's name has options."""
    return lambda declaration: specialised(_binary, declaration, operation=operation)


def comparison(declaration: F) -> F:
    """A method of one operand, a tensor of the same kind and device or a number, with a bool result."""
    return specialised(_binary, declaration, blank_bool)


def predicate(declaration: F) -> F:
    """A method of no arguments with a bool result."""
    return specialised(_unary, declaration, blank_bool)


def reduction(declaration: F) -> F:
    """A method of ``(dim, keepdim)`` with a result of the same kind; dim is an int, several, or None for all."""
    return specialised(_reduction, declaration)


def accumulation(declaration: F) -> F:
    """A `reduction` that takes a ``dtype`` to compute in, too."""
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
