"""The methods of `Batched`, made from each operation's schema and batching rule.

A call whose primitives are all shared is one of the inner backend. Else the rule says how the inner backend computes
the results of all examples at once: see `burnpy.backend.rules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from burnpy.autodiff.graph import mapped
from burnpy.backend.backend import Backend
from burnpy.backend.decorators.decorator import complete
from burnpy.backend.entries import Operation, operation
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType, Shape, Value
from burnpy.backend.rules import BATCH_SLICE, DRAWN, SHIFTED, BatchRule, Folded, fold, unfold


class BatchedValue:
    """An inner primitive and whether its first dimension is the batch; if not, all examples share it."""

    __slots__ = ("batched", "device", "dtype", "shape", "value")

    value: Value
    batched: bool
    device: Any  #: the `Batched` device that it belongs to
    shape: Shape  #: the shape for one example
    dtype: DType

    def __init__(self, device: Any, value: Value, batched: bool) -> None:
        self.device = device
        self.value = value
        self.batched = batched
        self.shape = value.shape[1:] if batched else value.shape
        self.dtype = value.dtype

    def mapped(self, f: Callable[[Any], Any]) -> BatchedValue:
        """Apply ``f`` to each innermost array of the value; shape and dtype stay, even if ``f`` returns no array."""
        out: BatchedValue = object.__new__(BatchedValue)
        out.device, out.batched, out.shape, out.dtype = self.device, self.batched, self.shape, self.dtype
        out.value = mapped(f, self.value)
        return out


Method: TypeAlias = Callable[..., Any]

SHIFTS: dict[str, Callable[[Any, Any], Any]] = {
    "Dim": lambda b, dim: dim + 1,
    "Dims": lambda b, dims: tuple([dim + 1 for dim in dims]),
    "Shape": lambda b, shape: (b.size, *shape),
    "Key": lambda b, key: (BATCH_SLICE, *key),
}
"""For each annotation of a plain argument that dimensions are part of, how the argument skips the batch dimension."""


def batch_method(name: str) -> Method:
    """Make the method of `Batched` for one operation."""
    op = operation(getattr(Backend, name))
    method = _method_of(op, op.batch)
    method.__name__ = name
    method.__qualname__ = f"Batched.{name}"
    method.__doc__ = op.function.__doc__
    method.__wrapped__ = op.function  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


def _method_of(op: Operation, rule: BatchRule | None) -> Method:
    if rule == SHIFTED:
        return _shifted(op)
    if rule == DRAWN:
        return _drawn(op)
    if isinstance(rule, Folded):
        return _folded(op, rule)
    if callable(rule):
        return _unless_shared(op, lambda self, i, values: rule(self, *values))
    if not any(a.kind for a in op.arguments):
        return _created(op)
    if op.elementwise:
        return _elementwise(op)
    if op.required:
        raise TypeError(f"the declaration of {op.name} has no batching rule, as batch=SHIFTED would be one")
    return _unless_shared(op, lambda self, i, values: op.function(self, *values))


def _created(op: Operation) -> Method:
    """Make a method whose result all examples share."""
    name, count = op.name, len(op.arguments)

    def created(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        out = getattr(_device_for(self, args), name)(*args)
        return BatchedValue(self, out, False)

    return created


def _device_for(b: Any, args: Sequence[Any]) -> Any:
    """Return the inner device that creates a primitive: by the dtype among the arguments, or by a given array."""
    for a in args:
        if isinstance(a, (np.ndarray, np.dtype)):
            dtype: Any = a.dtype if isinstance(a, np.ndarray) else a
            return b.inner.discrete if dtype.kind in "iub" else b.inner
    return b.inner


def _drawn(op: Operation) -> Method:
    """Make a method that draws random numbers for each example, or for all, as the device says."""
    name = op.name
    shapes = [k for k, a in enumerate(op.arguments) if a.role == "Shape"]
    parameters = [k for k, a in enumerate(op.arguments) if a.kind is not None]
    lift = _lifter(op)

    def drawn(self: Any, *args: Any, **keywords: Any) -> Any:
        values = list(complete(op, args, keywords))
        batched = lift(self, values)
        i = self.inner if op.float_results[0] else self.inner.discrete
        draw = getattr(i, name)
        if self.randomness == "error":
            raise ArgumentError(
                'vmap() got a function that draws random numbers; say randomness="different" to draw them for each '
                'example, or randomness="same" to draw them once for all'
            )
        if parameters and (batched or self.randomness == "different"):
            return self.batched(draw(*_drawn_together(self, op, values)))
        if self.randomness == "same":
            return self.shared_draw(lambda: draw(*map(_value, values)))
        if shapes:
            (k,) = shapes
            return self.batched(draw(*values[:k], (self.size, *values[k]), *values[k + 1 :]))
        draws = [i.reshape(x, (1, *x.shape)) for x in (draw(*values) for _ in range(max(self.size, 1)))]
        return self.batched(i.slice(i.cat(draws, 0), (slice(0, self.size, 1),)))

    return drawn


def _drawn_together(b: Any, op: Operation, args: Sequence[Any]) -> list[Any]:
    """Return the arguments of the inner operation that draws for all examples, with parameters for each."""
    same = b.randomness == "same"
    if same and b.draws is not None:
        raise ArgumentError(
            "vmap() cannot draw the same random numbers in each chunk for parameters that differ between examples; "
            'leave chunk_size out, or say randomness="different"'
        )
    inner: list[Any] = []
    for x, argument in zip(args, op.arguments, strict=True):
        if argument.kind is not None:
            inner.append(b.spread(x))
        elif argument.role == "Dims":  # ``alike``
            inner.append(((0,) if same else ()) + tuple([dim + 1 for dim in x]))
        else:
            inner.append(x)
    return inner


def _lifter(op: Operation) -> Callable[[Any, list[Any]], bool]:
    """Return a function that lifts the primitives among all arguments, in place, and returns whether one is batched."""
    places = [(k, a.sequence) for k, a in enumerate(op.arguments) if a.kind is not None]

    def lift(self: Any, args: list[Any]) -> bool:
        batched = False
        for k, sequence in places:
            x = args[k]
            if sequence:
                args[k] = members = [self.own(member) for member in x]
                batched = batched or any(member.batched for member in members)
            elif x.__class__ is BatchedValue and x.device is self:
                batched = batched or x.batched
            elif hasattr(x, "dtype") and hasattr(x, "shape"):
                args[k] = own = self.own(x)
                batched = batched or own.batched
        return batched

    return lift


def _chooser(op: Operation) -> Callable[[Any, Sequence[Any]], Any]:
    """Return a function that chooses the inner device of a call by its float arguments, which may hold ints."""
    places = [k for k, a in enumerate(op.arguments) if a.floats]
    if not places:
        floats = any(op.float_results)
        return lambda self, args: self.inner if floats else self.inner.discrete

    def choose(self: Any, args: Sequence[Any]) -> Any:
        for k in places:
            x = args[k]
            if x.__class__ is list:
                if not x:
                    continue
                x = x[0]
            if x.__class__ is BatchedValue:
                return self.inner.discrete if x.dtype.kind in "iub" else self.inner
        return self.inner

    return choose


def _value(x: Any) -> Any:
    if x.__class__ is BatchedValue:
        return x.value
    return [_value(member) for member in x] if x.__class__ is list else x


def _wrapped(self: Any, out: Any, batched: bool) -> Any:
    """Wrap the results of an operation of the inner device."""
    if out.__class__ is tuple:
        return tuple([_wrapped(self, x, batched) for x in out])
    if out.__class__ is list:
        return [BatchedValue(self, x, batched) for x in out]
    return None if out is None else BatchedValue(self, out, batched)


def _elementwise(op: Operation) -> Method:
    """Make a method whose arguments broadcast: those of fewer dimensions get ones after the batch dimension."""
    name, count = op.name, len(op.arguments)
    lift, choose = _lifter(op), _chooser(op)
    primitives = [k for k, a in enumerate(op.arguments) if a.kind is not None]
    promoting = [k for k in primitives if op.arguments[k].kind != "Bool"]

    if primitives == [0]:

        def unary(self: Any, x: Any, *args: Any, **keywords: Any) -> Any:
            if keywords or len(args) != count - 1:
                x, *args = complete(op, (x, *args), keywords)  # type: ignore[assignment]  # a list is unpacked as well
            x = self.own(x)
            out = getattr(choose(self, (x,)), name)(x.value, *args)
            return BatchedValue(self, out, x.batched)

        return unary

    def elementwise(self: Any, *args: Any, **keywords: Any) -> Any:
        values = list(complete(op, args, keywords) if keywords or len(args) != count else args)
        batched = lift(self, values)
        i = choose(self, values)
        if not batched:
            return BatchedValue(self, getattr(i, name)(*map(_value, values)), False)
        _promote(self, values, promoting)
        ndim = 0
        for k in primitives:
            x = values[k]
            if x.__class__ is BatchedValue and len(x.shape) > ndim:
                ndim = len(x.shape)
        for k in primitives:
            x = values[k]
            if x.__class__ is BatchedValue:
                values[k] = x.value if not x.batched or len(x.shape) == ndim else self.aligned(x, ndim)
        return BatchedValue(self, getattr(i, name)(*values), True)

    return elementwise


def _promote(self: Any, args: list[Any], places: Sequence[int]) -> None:
    """Cast primitives of different dtypes to their common one, in place: by the shapes for one example. 0-d primitives
    do not promote others, and with a batch dimension they would not be 0-d."""
    dtype = None
    for k in places:
        x = args[k]
        if x.__class__ is BatchedValue:
            if dtype is None:
                dtype = x.dtype
            elif x.dtype is not dtype and x.dtype != dtype:
                places = [k for k in places if args[k].__class__ is BatchedValue]
                for place, cast in zip(places, self.promote(*[args[k] for k in places]), strict=True):
                    args[place] = cast
                return


def _unless_shared(op: Operation, together: Callable[[Any, Any, list[Any]], Any]) -> Method:
    """Make a method that calls the inner backend if all primitives are shared, and else ``together``. ``together`` is a
    function of the device, the inner device of the call, and all arguments with primitives lifted."""
    name, count = op.name, len(op.arguments)
    lift, choose = _lifter(op), _chooser(op)

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        values = list(complete(op, args, keywords) if keywords or len(args) != count else args)
        batched = lift(self, values)
        i = choose(self, values)
        return together(self, i, values) if batched else _wrapped(self, getattr(i, name)(*map(_value, values)), False)

    return method


def _shifted(op: Operation) -> Method:
    """Make a method that gives all primitives the batch dimension, and shifts dims, shapes and keys past it."""
    name, count = op.name, len(op.arguments)
    primitives = [k for k, a in enumerate(op.arguments) if a.kind is not None]
    shifts = [(k, SHIFTS[a.role]) for k, a in enumerate(op.arguments) if a.role in SHIFTS]

    if primitives == [0] and not op.arguments[0].sequence:
        choose = _chooser(op)

        def shifted_unary(self: Any, *args: Any, **keywords: Any) -> Any:
            x, *rest = complete(op, args, keywords) if keywords or len(args) != count else args
            x = self.own(x)
            operate = getattr(choose(self, (x,)), name)
            if x.batched:
                for k, shift in shifts:
                    rest[k - 1] = shift(self, rest[k - 1])
            return _wrapped(self, operate(x.value, *rest), x.batched)

        return shifted_unary

    def shifted(self: Any, i: Any, values: list[Any]) -> Any:
        for k in primitives:
            x = values[k]
            if x.__class__ is BatchedValue:
                values[k] = x.value if x.batched else self.spread(x)
            elif x.__class__ is list:
                values[k] = [self.spread(member) for member in x]
        for k, shift in shifts:
            values[k] = shift(self, values[k])
        return _wrapped(self, getattr(i, name)(*values), True)

    return _unless_shared(op, shifted)


def _folded(op: Operation, rule: Folded) -> Method:
    """Make a method that folds the batch into the first dimension, as `Folded` says."""
    places = {a.name: k for k, a in enumerate(op.arguments)}
    shapes = [places[n] for n in rule.folded if op.arguments[places[n]].kind is None]
    primitives = [places[n] for n in rule.folded if op.arguments[places[n]].kind is not None]
    shared = [places[n] for n in rule.shared]
    name, default, is_float = op.name, op.function, op.float_results

    def folded(self: Any, i: Any, values: list[Any]) -> Any:
        for k in shared:
            if values[k].__class__ is BatchedValue and values[k].batched:
                return default(self, *values)
        rows = values[primitives[0]].shape[0]
        inner = [fold(self, x) if k in primitives and x is not None else _value(x) for k, x in enumerate(values)]
        for k in shapes:
            inner[k] = (self.size * values[k][0], *values[k][1:])
        out = getattr(i, name)(*inner)
        results = out if out.__class__ is tuple else (out,)
        unfolded = [
            unfold(self, i if floats else self.inner.discrete, x, rows)
            for x, floats in zip(results, is_float, strict=True)
        ]
        return tuple(unfolded) if out.__class__ is tuple else unfolded[0]

    return _unless_shared(op, folded)
