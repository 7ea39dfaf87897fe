"""Decorators that create tensor methods from templates: methods that differ only in the operation are copies of one.

A template, such as `_unary`, has ``OPERATION`` in place of the operation's name, which `burnpy.backend.functions`
replaces. The decorated declaration, whose body is ``...``, provides the parameter names, types and documentation::

    @unary
    def exp(self) -> Self:
        ...  # with a docstring

A method that calls a shared function with the operation's name would take 4 to 9 % longer: a sum of 8×8 numbers 2.92 µs
instead of 2.78, a softmax 3.44 instead of 3.30 (NumPy, Python 3.11). For the same reason:

- Parameters that a declaration makes keyword-only are so for type checkers and `inspect` alone: CPython takes 50 ns
  more for a call of a function that has such parameters.
- Elementwise methods take PyTorch's ``out`` and ``inplace`` only to say what to write instead, as a default costs a
  hundredth of a tiny operation. ``**unknown``, with which reductions explain any argument, would cost a twelfth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.functions import copy_function
from burnpy.tensor.call_errors import need_flag, refuse, refuse_option
from burnpy.tensor.dim_checks import ALL, dim_of, dims_of, scalar_dim
from burnpy.tensor.operand_checks import explain, explain_memory, operands
from burnpy.tensor.tensor_base import blank, owned
from burnpy.typevars import F

S = TypeVar("S")
"""The Python numbers that can be combined with a kind: float (and so int) for floats, int for ints, bool for bools."""

REQUIRED = object()
"""The default of a parameter that has none, in methods that collect unknown arguments."""


def unary(declaration: F) -> F:
    """Create a method without arguments that calls the backend's operation of the same name."""
    return _method(_unary, declaration)


def predicate(declaration: F) -> F:
    """Create a `unary` method with a bool result."""
    return _method(_unary, declaration, "blank_bool")


def binary(declaration: F) -> F:
    """Create a method of one operand, a tensor of the same kind or a number, with a result of the same kind. If the
    declaration has a keyword option, the method calls ``_f_with(other, option)`` if the option is not None."""
    return _method(_binary, declaration)


def comparison(declaration: F) -> F:
    """Create a `binary` method with a bool result."""
    return _method(_binary, declaration, "blank_bool")


def reduction(declaration: F) -> F:
    """Create a method of ``(dim, keepdim)`` with a result of the same kind; dim is an int, several, or None for all."""
    return _method(_reduction, declaration)


def accumulation(declaration: F) -> F:
    """Create a `reduction` that also takes the ``dtype`` to compute in."""
    return _method(_accumulation, declaration)


def along_dim(declaration: F) -> F:
    """Create a method of one dimension, with a result of the same shape; a 0-d tensor is a vector of one element."""
    return _method(_along_dim, declaration)


def from_template(template: Any) -> Callable[[F], F]:
    """Create a method from a template of its own, which may have parameters that the declaration does not have."""
    return lambda declaration: _method(template, declaration)


def _method(template: Any, declaration: F, result: str = "blank") -> F:
    """Return a copy of ``template`` for the operation that has the declaration's name."""
    name, code = declaration.__name__, declaration.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    words = dict(zip(template.__code__.co_varnames, own, strict=False))  # the template's parameters get these names
    words |= {"OPERATION": name, "blank": result}
    method = copy_function(template, declaration.__qualname__, words)
    method.__doc__, method.__module__ = declaration.__doc__, declaration.__module__
    method.__annotations__ = declaration.__annotations__
    method.__wrapped__ = declaration  # for its signature
    return owned(method)  # type: ignore[no-any-return]  # has the declaration's signature


def _unary(self: Any, inplace: Any = None, out: Any = None) -> Any:
    if inplace is not None or out is not None:
        refuse_option(self, "OPERATION", inplace=inplace, out=out)
    result = blank()
    result._device = self._device
    try:
        result._primitive = self._backend.OPERATION(self._primitive)
    except MemoryError as error:
        explain_memory(error, "OPERATION", self)
        raise
    return result


def _binary(self: Any, other: Any, out: Any = None) -> Any:
    if out is not None:
        return _with_option(self, "OPERATION", other, out)
    device = self._device
    if other.__class__ is self.__class__ and other._device is device:  # the most frequent case first
        value = other._primitive
    elif other.__class__ in self.numbers:
        value = other
    elif (reflected := getattr(other.__class__, "_reflected", None)) is not None:  # ``x.grad`` without its call
        return reflected(other, "OPERATION", self)
    else:
        own = self.__class__
        self, value = operands(self, other, "OPERATION")
        if self.__class__ is not own:  # a number made the tensor complex
            return self.OPERATION(other)
        device = self._device
    try:
        primitive = self._backend.OPERATION(self._primitive, value)
    except Exception as error:  # the array library may raise any class
        explain(error, "OPERATION", self, other)
        raise
    result = blank()
    result._device = device
    result._primitive = primitive
    return result


def _with_option(x: Any, operation: str, other: Any, option: Any) -> Any:
    """Return the result of a binary method called with a keyword option; without one, the option was ``out``."""
    method = getattr(x, f"_{operation}_with", None)
    if method is None:
        refuse_option(x, operation, out=option)
    return method(other, option)


def _reduction(self: Any, dim: Any = None, keepdim: Any = False, **unknown: Any) -> Any:
    if unknown:
        refuse(self, "OPERATION", unknown)
    primitive = self._primitive
    ndim = len(primitive.shape)
    if keepdim is not False:
        keepdim = need_flag(keepdim, "keepdim", "OPERATION")
    result = blank()
    result._device = self._device
    dims = ALL[ndim] if dim is None else dims_of(dim, ndim, "OPERATION")
    try:
        result._primitive = self._backend.OPERATION(primitive, dims, keepdim)
    except MemoryError as error:
        explain_memory(error, "OPERATION", self)
        raise
    return result


def _accumulation(self: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None, **unknown: Any) -> Any:
    if unknown:
        refuse(self, "OPERATION", unknown)
    primitive = self._primitive
    if dtype is not None:
        wide = dtype_of(dtype, self.kind)
        total = self._like(self._backend.cast(primitive, wide)).OPERATION(dim, keepdim)
        return self._like(self._backend.cast(total._primitive, wide))
    ndim = len(primitive.shape)
    if keepdim is not False:
        keepdim = need_flag(keepdim, "keepdim", "OPERATION")
    result = blank()
    result._device = self._device
    dims = ALL[ndim] if dim is None else dims_of(dim, ndim, "OPERATION")
    try:
        result._primitive = self._backend.OPERATION(primitive, dims, keepdim)
    except MemoryError as error:
        explain_memory(error, "OPERATION", self)
        raise
    return result


def _along_dim(self: Any, dim: Any = REQUIRED, *more: Any, **unknown: Any) -> Any:
    if more or unknown or dim is REQUIRED:
        refuse(self, "OPERATION", unknown, *(() if dim is REQUIRED else (dim, *more)))
    primitive = self._primitive
    ndim = len(primitive.shape)
    result = blank()
    result._device = self._device
    try:
        if ndim:
            result._primitive = self._backend.OPERATION(primitive, dim_of(dim, ndim, "OPERATION"))
        else:
            scalar_dim(dim, "OPERATION")
            result._primitive = self._backend.reshape(
                self._backend.OPERATION(self._backend.reshape(primitive, (1,)), 0), ()
            )
    except MemoryError as error:
        explain_memory(error, "OPERATION", self)
        raise
    return result
