"""`Dual`, the primitive of `Forward`, and the methods of `Forward`, made from each operation's schema and rule.

A method is a closure over the operation's schema and rule. It computes the values with the inner
backend, and their tangents with the rule's jvps; a result of constants has no tangent, and costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from burnpy.autodiff.graph import Wrapped, mapped
from burnpy.autodiff.rule_table import RULES
from burnpy.backend.backend import Backend
from burnpy.backend.decorators.decorator import complete
from burnpy.backend.entries import Operation, operation
from burnpy.backend.functions import signature
from burnpy.backend.primitives import Float, Value
from burnpy.backend.schema import Algebra


class Dual(Wrapped):
    """The primitive of `Forward`: an inner primitive and its tangent, None for a constant."""

    __slots__ = ("owned", "tangent", "value")

    tangent: Float | None
    owned: bool  #: present and true if the tangent's memory is not shared, so that `accumulate` may reuse it

    def __init__(self, value: Value, tangent: Float | None = None) -> None:
        self.value = value
        self.tangent = tangent

    def mapped(self, f: Callable[[Any], Any]) -> Dual:
        """Apply ``f`` to each innermost array of the value and of the tangent."""
        return Dual(mapped(f, self.value), None if self.tangent is None else mapped(f, self.tangent))


Method: TypeAlias = Callable[..., Any]
Jvp: TypeAlias = Callable[[Any, Float, Sequence[Any], Any], Float]
"""``(inner, tangent, values, out)``: the contribution of one argument's tangent to the tangent of the result ``out``,
from the values of all arguments."""

_new = object.__new__  # saves a tenth of the time of a tiny operation, against a call of `Dual`


def forward_method(name: str) -> Method:
    """Make the method of `Forward` for one operation."""
    op = operation(getattr(Backend, name))
    rule = RULES.get(name)
    linear = op.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL)
    floats = op.float_arguments
    # The Jacobian of an elementwise operation is diagonal, so that its vjps are its jvps.
    jvps = None if rule is None else rule.vjps if rule.jvps is None and op.elementwise else rule.jvps
    if not floats or not any(op.float_results) or op.algebra is Algebra.NONDIFFERENTIABLE:
        method = _constant(op)
    elif any(a.sequence for a in floats):
        method = _sequence(op) if rule else _defaulted(op)
    elif rule and rule.joint_jvp:
        method = _together(op, rule.joint_jvp)
    elif len(op.results) > 1 or (rule.joint if rule else not linear and op.algebra is not Algebra.BILINEAR):
        method = _defaulted(op)
    elif len(floats) == 1 and op.arguments[0].floats:
        method = _unary(op, None if jvps is None else _bound(op, jvps[0]))
    elif len(floats) == 2 and op.arguments[:2] == floats:
        method = _binary(op, _jvp(op, jvps, 0), _jvp(op, jvps, 1), linear)
    else:
        method = _differentiated(op, [_jvp(op, jvps, k) for k in range(len(floats))], linear)
    method.__name__ = name
    method.__qualname__ = f"Forward.{name}"
    method.__doc__ = op.function.__doc__
    method.__wrapped__ = op.function  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


def _constant(op: Operation) -> Method:
    """Make a method whose results have no tangent."""
    name, count, is_float = op.name, len(op.arguments), op.float_results

    def constant(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        out = getattr(self.inner, name)(*map(_value, args))
        return _duals(out, is_float)

    return constant


def _defaulted(op: Operation) -> Method:
    """Make a method without a rule: the inner backend's operation on constants, else the default. The default is made
    of other operations, which compute the tangents."""
    name, count, is_float = op.name, len(op.arguments), op.float_results
    default = op.function

    def defaulted(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        for a in args:
            for x in a if a.__class__ is list else (a,):
                if x.__class__ is Dual and x.tangent is not None:
                    return default(self, *args)
        return _duals(getattr(self.inner, name)(*map(_value, args)), is_float)

    return defaulted


def _together(op: Operation, jvp: Callable[..., tuple[Float, ...]]) -> Method:
    """Make a method whose single jvp computes the tangents of all results."""
    name, count, is_float = op.name, len(op.arguments), op.float_results
    places = {a.name: k for k, a in enumerate(op.arguments)}
    floats = [places[a.name] for a in op.float_arguments]
    getters = [_result_getter(n) or _getter(places, n) for n in list(signature(jvp).parameters)[2:]]

    def together(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        values = list(map(_value, args))
        out = getattr(self.inner, name)(*values)
        duals = _duals(out, is_float)
        tangents = tuple([args[k].tangent for k in floats])
        if all(t is None for t in tangents) or _silent(self):
            return duals
        results = out if len(is_float) > 1 else (out,)
        parts = iter(jvp(self.inner, tangents, *[get(values, results) for get in getters]))
        for dual, carries in zip(duals if len(is_float) > 1 else (duals,), is_float, strict=True):
            if carries:
                dual.tangent = next(parts)
        return duals

    return together


def _result_getter(name: str) -> Callable[[Sequence[Any], Any], Any] | None:
    """Return a function that takes the result ``out``, ``out1`` … from all results; None for another name."""
    if not name.startswith("out") or not (name[3:] or "0").isdigit():
        return None
    place = int(name[3:] or "0")
    return lambda values, results: results[place]


def _sequence(op: Operation) -> Method:
    """Make the method of ``cat``: the tangents are concatenated like the values, with zeros for constants."""
    name, count = op.name, len(op.arguments)

    def sequence(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        xs, *rest = args
        i = self.inner
        out = Dual(getattr(i, name)([x.value for x in xs], *rest))
        if any(x.tangent is not None for x in xs) and not _silent(self):
            tangents = [_zeros(i, x.value) if x.tangent is None else x.tangent for x in xs]
            out.tangent = getattr(i, name)(tangents, *rest)
        return out

    return sequence


def _unary(op: Operation, jvp: Jvp | None) -> Method:
    """Make a method whose first argument is its only float one; without a jvp, the operation takes the tangent too."""
    name, count = op.name, len(op.arguments)
    widens = sum(a.elementwise for a in op.arguments) > 1

    def unary(self: Any, x: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count - 1:
            x, *args = complete(op, (x, *args), keywords)  # type: ignore[assignment]  # a list is unpacked as well
        i = self.inner
        x_ = x.value
        operate = getattr(i, name)
        value = operate(x_, *args)
        out = _new(Dual)
        out.value = value
        tangent = x.tangent
        if tangent is None or ((mode := self.mode()) is not None and mode.silences(self.level)):
            out.tangent = None
            return out
        tangent = operate(tangent, *args) if jvp is None else jvp(i, tangent, (x_, *args), value)
        if widens and tangent.shape != value.shape:
            tangent = i.expand(tangent, value.shape)
        out.tangent = tangent
        return out

    return unary


def _binary(op: Operation, left: Jvp, right: Jvp, linear: bool) -> Method:
    """Make a method whose first two arguments are its only float ones: `_differentiated` without its loops."""
    name, count = op.name, len(op.arguments) - 2
    widens, promotes = op.elementwise, op.elementwise or op.algebra is Algebra.BILINEAR

    def binary(self: Any, x: Any, y: Any, *rest: Any, **keywords: Any) -> Any:
        if keywords or len(rest) != count:
            x, y, *rest = complete(op, (x, y, *rest), keywords)  # type: ignore[assignment]  # a list is unpacked as well
        i = self.inner
        x_, xt = x.value, x.tangent
        if y.__class__ is Dual:
            y_, yt = y.value, y.tangent
            if promotes and x_.dtype is not y_.dtype and x_.dtype != y_.dtype:
                return binary(self, *self.promote(x, y), *rest)
        else:
            y_, yt = y, None
        value = getattr(i, name)(x_, y_, *rest)
        out = _new(Dual)
        out.value = value
        if (xt is None and yt is None) or ((mode := self.mode()) is not None and mode.silences(self.level)):
            out.tangent = None
            return out
        if yt is None:
            tangent = left(i, xt, (x_, y_, *rest), value)
        elif xt is None:
            tangent = right(i, yt, (x_, y_, *rest), value)
        elif linear:
            tangent = getattr(i, name)(xt, yt, *rest)
        else:
            values = (x_, y_, *rest)
            tangent = i.add(left(i, xt, values, value), right(i, yt, values, value))
        if widens and tangent.shape != value.shape:
            tangent = i.expand(tangent, value.shape)
        out.tangent = tangent
        return out

    return binary


def _differentiated(op: Operation, jvps: Sequence[Jvp], linear: bool) -> Method:
    """Make a method whose tangent is the sum of the contributions of all arguments that have one. Of a linear operation
    it is the operation itself, applied to the tangents, where all arguments have one."""
    name, count = op.name, len(op.arguments)
    places = [k for k, a in enumerate(op.arguments) if a.floats]
    promotes = len(places) > 1 and (op.elementwise or op.algebra is Algebra.BILINEAR)
    widens = op.elementwise

    def differentiated(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        values = list(args)
        known = []  # the positions of the arguments with a tangent among the float ones
        dtype = None
        for n, k in enumerate(places):
            x = args[k]
            if x.__class__ is Dual:
                value = values[k] = x.value
                if x.tangent is not None:
                    known.append(n)
                if promotes:
                    if dtype is None:
                        dtype = value.dtype
                    elif value.dtype is not dtype and value.dtype != dtype:
                        return differentiated(self, *_promoted(self, args, places))
        i = self.inner
        operate = getattr(i, name)
        value = operate(*values)
        out = Dual(value)
        if not known or ((mode := self.mode()) is not None and mode.silences(self.level)):
            return out
        tangent: Any = None
        if linear and len(known) == len(places) > 1:
            for k in places:
                values[k] = args[k].tangent
            tangent = operate(*values)
        else:
            for n in known:
                part = jvps[n](i, args[places[n]].tangent, values, value)
                tangent = part if tangent is None else i.add(tangent, part)
        out.tangent = i.expand(tangent, value.shape) if widens and tangent.shape != value.shape else tangent
        return out

    return differentiated


def _jvp(op: Operation, jvps: Sequence[Callable[..., Float]] | None, k: int) -> Jvp:
    """Return the jvp by the k-th float argument, of the rule's or else the operation itself. An operation that is
    linear in its arguments, together or each, is applied to a tangent, with zeros or the values of the other
    arguments."""
    if jvps is not None:
        return _bound(op, jvps[k])
    name, bilinear = op.name, op.algebra is Algebra.BILINEAR
    place = op.arguments.index(op.float_arguments[k])
    if place == 0 and bilinear:
        return lambda i, tangent, values, out: getattr(i, name)(tangent, *values[1:])
    if place == 1 and bilinear:
        return lambda i, tangent, values, out: getattr(i, name)(values[0], tangent, *values[2:])
    others = [] if bilinear else [n for n, a in enumerate(op.arguments) if a.floats and n != place]
    scalar = [a.scalar for a in op.arguments]

    def itself(i: Any, tangent: Float, values: Sequence[Any], out: Any) -> Float:
        args = list(values)
        args[place] = tangent
        for n in others:
            args[n] = 0.0 if scalar[n] else _zeros(i, values[n])
        return getattr(i, name)(*args)

    return itself


def _bound(op: Operation, jvp: Callable[..., Float]) -> Jvp:
    """Return a rule's jvp as a function of all values; it takes those that its parameters name."""
    names = list(signature(jvp).parameters)[2:]
    places = {a.name: k for k, a in enumerate(op.arguments)}
    if not names:
        return lambda i, tangent, values, out: jvp(i, tangent)
    if names == ["out"] and "out" not in places:
        return lambda i, tangent, values, out: jvp(i, tangent, out)
    if len(names) == 1 and names[0] in places:
        place = places[names[0]]
        return lambda i, tangent, values, out: jvp(i, tangent, values[place])
    getters = [_getter(places, name) for name in names]
    return lambda i, tangent, values, out: jvp(i, tangent, *[get(values, out) for get in getters])


def _getter(places: Mapping[str, int], name: str) -> Callable[[Sequence[Any], Any], Any]:
    """Return a function that selects the values that a jvp's parameters name, from the arguments and the result."""
    if name in places:
        place = places[name]
        return lambda values, out: values[place]
    if name == "out":
        return lambda values, out: out
    argument, what = name.rsplit("_", 1)
    place = places[argument]
    return lambda values, out: getattr(values[place], what)


def _promoted(device: Any, args: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Cast the float primitives among the arguments to their common dtype."""
    promoted = list(args)
    duals = [k for k in places if args[k].__class__ is Dual]
    for k, x in zip(duals, device.promote(*[args[k] for k in duals]), strict=True):
        promoted[k] = x
    return promoted


def _silent(device: Any) -> bool:
    mode = device.mode()
    return mode is not None and mode.silences(device.level)


def _zeros(i: Any, x: Float) -> Float:
    return i.full(x.shape, 0.0, x.dtype)


def _value(x: Any) -> Any:
    if x.__class__ is Dual:
        return x.value
    return [_value(member) for member in x] if x.__class__ is list else x


def _duals(out: Any, is_float: tuple[bool, ...]) -> Any:
    """Wrap the float results of an operation, or the members of lists of them, as constants."""
    if len(is_float) == 1:
        (wrap,) = is_float
        return _dual(out) if wrap else out
    return tuple([_dual(x) if wrap else x for x, wrap in zip(out, is_float, strict=True)])


def _dual(x: Any) -> Any:
    return [Dual(member) for member in x] if x.__class__ is list else Dual(x)
