"""Calls of user code, and the messages for its mistakes: its signature, its results, derivatives that it loses.

Results computed from values that user code reads are constants for second derivatives. This module detects the reads;
`burnpy.autodiff.tools.function` makes the error. Reading values of detached tensors is fine, since detach()
declares them constant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from inspect import Parameter
from numbers import Number
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, DeviceError
from burnpy.backend.functions import signature
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.host_data import watching
from burnpy.tensor.levels import is_followed, open_levels, values_beneath, working_on
from burnpy.tensor.tensor_base import TensorBase

if TYPE_CHECKING:
    from burnpy.autodiff.tools.function_calls import Context


def call_user_code(who: str, expected: str, function: Callable[..., Any], device: Any, *args: Any) -> Any:
    """Call ``function(*args)`` with tensors of ``device``.

    Args:
        who: the function, for messages, such as ``Exp.backward()``.
        expected: the arguments that it must take, in words.
        function: the user's function.
        device: the device of its arguments; None if that is the innermost open level.
        *args: the arguments.
    """
    try:
        if device is None or not open_levels.get():
            return function(*args)
        with working_on(device):
            return function(*args)
    except TypeError as error:
        refuse_signature(who, expected, function, args)
        if isinstance(error, DeviceError):
            refuse_attributes(error, *args)
        raise


def refuse_signature(who: str, expected: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise an error that explains the expected signature if a function cannot be called with ``args``."""
    try:
        own_signature = signature(function)
    except (TypeError, ValueError):  # a builtin without a signature: its own error message is used
        return
    try:
        own_signature.bind(*args)
    except TypeError as error:
        names = ", ".join(
            str(p.replace(annotation=Parameter.empty, default=Parameter.empty))
            for p in own_signature.parameters.values()
        )
        raise ArgumentError(
            f"{who} takes ({names}) and was called with {len(args)} argument{'' if len(args) == 1 else 's'} ({error}); "
            f"let it take {expected}"
        ) from None


def refuse_attributes(error: DeviceError, ctx: Any = None, *args: object) -> None:
    """Raise an error that names a tensor of the level of forward(), kept as an attribute of ``ctx``."""
    for name, value in getattr(ctx, "__dict__", {}).items():
        if isinstance(value, TensorBase) and value.kind in INEXACT:
            raise DeviceError(
                f"{str(error).partition(';')[0]}; ctx.{name} stays on the device of forward(): keep tensors with "
                "ctx.save_for_backward(), and read ctx.saved_tensors"
            ) from None


def positional(
    operation: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], skip: int
) -> tuple[Any, ...]:
    """Return all arguments of a call by position; omitted ones before a keyword argument get their default."""
    if not kwargs:
        return args
    try:
        bound = signature(function).bind(*(None,) * skip, *args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{operation}() was called with arguments that it does not take: {error}") from None
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"{operation}() takes keyword-only arguments: {', '.join(bound.kwargs)}; gradients are returned by "
            "position, so make all arguments positional"
        )
    return bound.args[skip:]


def tensors_in(tree: object) -> Iterator[TensorBase[Any]]:
    """Yield the tensors in nested tuples, lists and mappings, in order."""
    if isinstance(tree, TensorBase):
        yield tree
    elif isinstance(tree, (tuple, list, Mapping)):
        for member in tree.values() if isinstance(tree, Mapping) else tree:
            yield from tensors_in(member)


def map_members(kind: type[Any], f: Callable[[Any], Any], tree: Any) -> Any:
    """Apply ``f`` to the members of a type in nested tuples, lists and dicts; return containers of the same types."""
    if isinstance(tree, kind):
        return f(tree)
    if isinstance(tree, tuple):
        make: Any = getattr(type(tree), "_make", type(tree))  # a named tuple has its members as arguments
        return make([map_members(kind, f, member) for member in tree])
    if isinstance(tree, (list, dict)):
        changed: Any = copy(tree)
        for key, member in enumerate(tree) if isinstance(tree, list) else tree.items():
            changed[key] = map_members(kind, f, member)
        return changed
    return tree


def probable_cause(returned: object) -> str:
    """Return the end of an error message that explains why a returned object has no derivative; "" if unknown.

    >>> probable_cause(None)
    '; a function without a return statement returns None'
    >>> probable_cause("text")
    ''
    """
    cause = _cause(returned)
    return f"; {cause}" if cause else ""


def _cause(returned: object) -> str:
    if returned is None:
        return "a function without a return statement returns None"
    if isinstance(returned, TensorBase):
        return "only float tensors have derivatives"
    if isinstance(returned, Number):  # NumPy's too
        return "return the tensor itself, without .item() or float()"
    if isinstance(getattr(returned, "value", None), TensorBase):
        return "a parameter holds a tensor: give its .value"
    if hasattr(returned, "__array__"):
        return "compute with tensors, without to_numpy()"
    if isinstance(returned, GeneratorType):
        return "a function with yield in it returns a generator: write return, or collect the tensors in a list"
    if isinstance(returned, Awaitable):
        return "an async function returns a coroutine: leave out async"
    if callable(returned):
        return "return the function's result, as in f(x)"
    return ""


class RuleReads:
    """Records the first method by which a rule read values of a tracked tensor. Inactive on a plain device."""

    def __init__(self, device: Any) -> None:
        self.method: str | None = None
        self.block = watching(self) if device.differentiates else nullcontext()

    def __call__(self, x: TensorBase[Any], method: str) -> None:
        """Record that ``method`` read the values of ``x``."""
        if self.method is None and x.kind in INEXACT and is_differentiated(x):
            self.method = method

    def message(self, who: str) -> str:
        """Return the error message for a derivative of the results of ``who``."""
        return (
            f"{who} took values out of a tracked tensor by {self.method} and cannot be differentiated; "
            "compute with operations on tensors alone, or mark constants with x.detach()"
        )


class ForwardReads:
    """The first method by which forward() read values of a float tensor, and the attributes of ctx at that time."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.method: str | None = None
        self.before: dict[str, Any] = {}

    def __call__(self, x: TensorBase[Any], method: str) -> None:
        """Record that ``method`` read the values of ``x``."""
        if self.method is None and x.kind in INEXACT:
            self.method, self.before = method, dict(self.ctx.__dict__)

    def lost(self, known: Sequence[object], others: Sequence[Any]) -> str | None:
        """Describe what forward() did that loses derivatives, as the rest of a sentence; None if it did nothing so.

        Args:
            known: the arguments and results, through whose tensors derivatives flow.
            others: the other saved tensors.
        """
        for name, value in self.ctx.__dict__.items():
            if isinstance(value, TensorBase) and any(value is x for x in known):
                return (
                    f"kept ctx.{name}, which second derivatives cannot go through; keep arguments and results with "
                    "ctx.save_for_backward()"
                )
            if self.method is None or (name in self.before and self.before[name] is value):
                continue
            if holds_floats(value, known):
                return self._left(f"kept ctx.{name}")
        if self.method is not None and any(holds_floats(x, known) for x in others):
            return self._left("saved a tensor that is neither an argument nor a result")
        return None

    def _left(self, did: str) -> str:
        return (
            f"took values out of its tensors by {self.method} and {did}, which second derivatives cannot go through; "
            "let backward() compute with the gradients and with arguments and results kept by ctx.save_for_backward(), "
            "or decorate it with once_differentiable, and pass constants to apply()"
        )


def is_differentiated(x: TensorBase[Any]) -> bool:
    """Return whether a tensor is tracked or has a tangent on any level of its device."""
    return any(map(is_followed, values_beneath(x)))


def holds_floats(value: Any, known: Sequence[object]) -> bool:
    """Return whether a value that forward() set on ctx may contain floats through which derivatives would flow."""
    if any(value is x for x in known):
        return False
    if isinstance(value, (tuple, list, set)):
        return any(holds_floats(member, known) for member in value)
    if isinstance(value, dict):
        return any(holds_floats(member, known) for member in value.values())
    if isinstance(value, TensorBase):
        return value.kind in INEXACT
    dtype = getattr(value, "dtype", None)  # an array, or a NumPy scalar
    return isinstance(value, (float, complex)) if dtype is None else dtype.kind in "fcV"
