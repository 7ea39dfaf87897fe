"""`Forward[B]`: a backend that carries a tangent beside each value: forward mode, out of the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Generic, TypeVar, final

from burnpy.autodiff.rules import RULES, Rule
from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.primitives import DType, Float, Shape, Value
from burnpy.backend.schema import Algebra, Operation, declarations, operation

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Dual:
    """The primitive of `Forward`: an inner primitive and its tangent, None for a constant."""

    __slots__ = ("tangent", "value")

    def __init__(self, value: Value, tangent: Float | None = None) -> None:
        self.value = value
        self.tangent = tangent

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.value.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.value.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's


@final
class Forward(Subscriptable, Backend, Generic[I]):
    """A backend that differentiates along one direction while the inner backend ``I`` computes.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> device = Forward(NumPy())
    >>> x, t = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> y = device.mul(*2 * [device.dual(x._primitive, t._primitive)])
    >>> y.tangent.tolist()
    [2.0, 0.0]
    """

    def __init__(self, inner: I | type[I]) -> None:
        self.inner: I = device_of(inner)
        self.discrete: Backend = self.inner.discrete

    @classmethod
    def canonical(cls, inner: Any) -> tuple[Any, ...]:
        """By the inner device, however it was named."""
        return (device_of(inner),)

    @property
    def name(self) -> str:
        """``Forward[NumPy]``."""
        return f"Forward[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Forward, (self.inner,)

    def synchronize(self) -> None:
        """Wait for the inner device."""
        self.inner.synchronize()

    def lift(self, value: Value) -> Dual:
        """An inner float primitive as a constant of this backend."""
        return Dual(value)

    def lower(self, x: Dual) -> Value:
        """The inner primitive, without the tangent."""
        return x.value

    def dual(self, value: Float, tangent: Float) -> Dual:
        """A primitive with a tangent of the same shape and dtype."""
        return Dual(value, tangent)


class Pushed:
    """A method of `Forward`, made from the schema at its first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        method = pushed(operation(getattr(Backend, self.name)))
        setattr(owner, self.name, method)
        return method if instance is None else method.__get__(instance, owner)


def pushed(op: Operation) -> Callable[..., Any]:
    """The method of `Forward` for one operation."""
    rule = RULES.get(op.name)

    def method(self: Forward[Any], *args: Any, **kwargs: Any) -> Any:
        arguments = bound(op, args, kwargs)
        constant = not any(isinstance(d, Dual) and d.tangent is not None for d in _floats(op, arguments))
        if rule is None and not constant and op.algebra is not Algebra.NONDIFFERENTIABLE:
            return op.function(self, *arguments.values())
        values = {a.name: _lowered(arguments[a.name]) if a.floats else arguments[a.name] for a in op.arguments}
        out = getattr(self.inner, op.name)(*values.values())
        if rule is not None and not constant:
            return Dual(out, _tangent(self.inner, rule, arguments, values, out))
        if len(op.results) == 1:
            return Dual(out) if op.float_results[0] else out
        return tuple(Dual(o) if is_float else o for o, is_float in zip(out, op.float_results, strict=True))

    method.__name__, method.__doc__ = op.name, op.function.__doc__
    return method


def bound(op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the operation's order."""
    given = dict(zip((a.name for a in op.arguments), args, strict=False)) | kwargs
    return {a.name: given.get(a.name, a.default) for a in op.arguments}


def _floats(op: Operation, arguments: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for a in op.float_arguments:
        found += arguments[a.name] if a.sequence else [arguments[a.name]]
    return found


def _lowered(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [member.value for member in x]
    return x.value if isinstance(x, Dual) else x


def _tangent(i: Any, rule: Rule, arguments: dict[str, Any], values: dict[str, Any], out: Float) -> Float:
    """The tangent of a result: what each argument's push gives, together."""
    op = rule.operation
    if rule.pushes is None and op.algebra is not Algebra.BILINEAR:
        return getattr(i, op.name)(*(_tangents(i, arguments[a.name]) if a.floats else values[a.name] for a in op.arguments))
    if op.elementwise and len(op.float_arguments) == 2 and isinstance(arguments[op.float_arguments[1].name], Dual):
        one, two = (a.name for a in op.float_arguments)
        values[one], values[two] = i.promote(values[one], values[two])
    parts = []
    for k, a in enumerate(op.float_arguments):
        tangent = arguments[a.name].tangent if isinstance(arguments[a.name], Dual) else None
        if tangent is None:
            continue
        if rule.pushes is None:
            part = getattr(i, op.name)(*(tangent if b is a else values[b.name] for b in op.arguments))
        else:
            kept = (_kept(name, values, out) for name in list(signature(rule.pushes[k]).parameters)[2:])
            if op.elementwise and tangent.dtype != out.dtype:
                tangent = i.cast(tangent, out.dtype)
            part = rule.pushes[k](i, tangent, *kept)
        parts.append(part if part.shape == out.shape else i.expand(part, out.shape))
    return _sum(i, parts)


def _tangents(i: Any, x: Any) -> Any:
    """The tangents of what a linear operation takes: zeros for constants, 0 for numbers."""
    if isinstance(x, Sequence):
        return [_tangents(i, member) for member in x]
    if not isinstance(x, Dual):
        return 0.0
    return i.full(x.shape, 0.0, x.dtype) if x.tangent is None else x.tangent


def _kept(name: str, values: dict[str, Any], out: Float) -> Any:
    if name == "out":
        return out
    if name in values:
        return values[name]
    base, _, attribute = name.rpartition("_")
    return getattr(values[base], attribute)


def _sum(i: Any, parts: list[Float]) -> Float:
    total = parts[0]
    for part in parts[1:]:
        total = i.add(total, part)
    return total


for _name in declarations(Backend):
    setattr(Forward, _name, Pushed(_name))
