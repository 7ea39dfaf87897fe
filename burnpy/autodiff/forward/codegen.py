"""Generation of the methods of `Forward`, one for each operation, from the operation's schema and rule.

Like those of `Autodiff`, they are generated as source text and compiled at their first use, so that the values that
jvps need and the places where tangents must be broadcast are determined once. `source` returns the generated text::

    >>> print(source("exp"))
    def exp(self, x):
        x_, xt = x.value, x.tangent
        value = self.inner.exp(x_)
        dual = new(Dual)
        dual.value = value
        if xt is None or ((mode := self.mode()) is not None and mode.silences(self.level)):
            dual.tangent = None
            return dual
        i = self.inner
        dual.tangent = jvp0(i, xt, value)
        return dual
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from burnpy.autodiff.graph import mapped
from burnpy.autodiff.rules import RULES, Rule
from burnpy.backend.backend import Backend
from burnpy.backend.entries import EMPTY, Argument, Operation, operation
from burnpy.backend.primitives import DType, Float, Shape, Value
from burnpy.backend.schema import Algebra


class Dual:
    """The primitive of `Forward`: an inner primitive and its tangent, None for a constant."""

    __slots__ = ("owned", "tangent", "value")

    value: Value
    tangent: Float | None
    owned: bool  #: present and true if the tangent's memory is not shared, so that `accumulate` may reuse it

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

    def mapped(self, f: Callable[[Any], Any]) -> Dual:
        """Apply ``f`` to each innermost array of the value and of the tangent."""
        return Dual(mapped(f, self.value), None if self.tangent is None else mapped(f, self.tangent))


def compiled(name: str) -> Callable[..., Any]:
    """Generate and compile the method of `Forward` for one operation."""
    op = operation(getattr(Backend, name))
    names: dict[str, Any] = {"Dual": Dual, "new": object.__new__, "default": op.function}
    names |= {f"default_{a.name}": a.default for a in op.arguments if a.default is not EMPTY}
    names |= {f"jvp{k}": jvp for k, jvp in enumerate(jvps(op, RULES.get(name)) or ())}
    exec(compile(source(name), f"<Forward.{name}>", "exec"), names)
    method: Callable[..., Any] = names[name]
    method.__doc__ = op.function.__doc__
    method.__qualname__ = f"Forward.{name}"
    method.__module__ = __name__
    return method


def jvps(op: Operation, rule: Rule | None) -> tuple[Callable[..., Any], ...] | None:
    """Return the jvps of an operation, one per float argument; None if the operation itself is applied to tangents.

    The Jacobian of an elementwise operation is diagonal, so that its vjps are its jvps.
    """
    if rule is None or op.algebra is Algebra.BILINEAR:
        return None
    return rule.vjps if rule.jvps is None and op.elementwise else rule.jvps


def source(name: str) -> str:
    """Return the source text of the method for one operation."""
    op = operation(getattr(Backend, name))
    rule = RULES.get(name)
    parameters = [a.name if a.default is EMPTY else f"{a.name}=default_{a.name}" for a in op.arguments]
    itself = rule is None and op.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL, Algebra.BILINEAR)
    if not op.float_arguments or not any(op.float_results) or op.algebra is Algebra.NONDIFFERENTIABLE:
        body = _constant(op)
    elif any(a.sequence for a in op.float_arguments):
        body = _sequence_default(op) if rule is None else _sequence(op)
    elif (rule is None and not itself) or len(op.results) > 1 or (rule is not None and rule.joint is not None):
        body = _defaulted(op)
    else:
        body = _with_jvps(op, jvps(op, rule))
    return "\n".join([f"def {name}({', '.join(['self', *parameters])}):", *("    " + line for line in body)])


_SILENT = "((mode := self.mode()) is not None and mode.silences(self.level))"
_DUAL = ["dual = new(Dual)", "dual.value = value"]


def _call(op: Operation, values: dict[str, str] | None = None, on: str = "self.inner") -> str:
    """Generate a call of the operation on device ``on``, with the values of its float arguments or with ``values``."""
    arguments = {a.name: f"{a.name}_" if a.floats else a.name for a in op.arguments} | (values or {})
    return f"{on}.{op.name}({', '.join(arguments.values())})"


def _read(a: Argument) -> str:
    """Generate the reading of value and tangent of a float argument, which may be a number."""
    names, both = f"{a.name}_, {a.name}t", f"{a.name}.value, {a.name}.tangent"
    return (
        f"{names} = ({both}) if {a.name}.__class__ is Dual else ({a.name}, None)" if a.scalar else f"{names} = {both}"
    )


def _constant(op: Operation) -> list[str]:
    """Generate a body whose results have no tangent."""
    call = _call(op, {a.name: _constant_value(a) for a in op.float_arguments})
    if len(op.results) > 1:
        return _constant_results(op, call)
    return [f"return {_dual(op, call)}" if any(op.float_results) else f"return {call}"]


def _constant_value(a: Argument) -> str:
    """Generate the value of a float argument, which may be a number, or of each member of a list."""
    if a.sequence:
        return f"[x.value for x in {a.name}]"
    return f"({a.name}.value if {a.name}.__class__ is Dual else {a.name})" if a.scalar else f"{a.name}.value"


def _dual(op: Operation, result: str) -> str:
    """Generate the wrapping of a result, or of each member of a list, as a constant."""
    return f"[Dual(x) for x in {result}]" if op.lists else f"Dual({result})"


def _constant_results(op: Operation, call: str) -> list[str]:
    """Generate the return of several results without a tangent."""
    results = [(f"results[{k}]", is_float) for k, is_float in enumerate(op.float_results)]
    wraps = [_dual(op, result) if is_float else result for result, is_float in results]
    return [f"results = {call}", f"return {', '.join(wraps)}"]


def _defaulted(op: Operation) -> list[str]:
    """Generate a body without a rule: the inner backend's operation on constants, else the default.

    The default is made of other operations, which compute the tangents.
    """
    lines = [_read(a) for a in op.float_arguments]
    lines.append(f"if {' and '.join(f'{a.name}t is None' for a in op.float_arguments)}:")
    if len(op.results) == 1:
        lines.append(f"    return Dual({_call(op)})")
    else:
        lines += ["    " + line for line in _constant_results(op, _call(op))]
    return [*lines, f"return default(self, {', '.join(a.name for a in op.arguments)})"]


def _with_jvps(op: Operation, sides: tuple[Callable[..., Any], ...] | None) -> list[str]:
    """Generate a body that computes the tangent: the sum of the contributions of all arguments with a tangent."""
    floats = op.float_arguments
    lines = [_read(a) for a in floats]
    if len(floats) == 2 and (op.elementwise or op.algebra is Algebra.BILINEAR):
        lines += _promotion(op)
    lines += [
        f"value = {_call(op)}",
        *_DUAL,
        f"if {' and '.join(f'{a.name}t is None' for a in floats)} or {_SILENT}:",
        "    dual.tangent = None",
        "    return dual",
        "i = self.inner",
    ]
    parts = [_part(op, sides, k) for k in range(len(floats))]
    if len(floats) == 1:
        return [*lines, f"dual.tangent = {parts[0]}", "return dual"]
    lines += _sum(op, sides, parts)
    if op.elementwise or op.name == "where":  # only these broadcast to a shape that no argument may have
        lines.append("dual.tangent = tangent if tangent.shape == value.shape else i.expand(tangent, value.shape)")
    else:
        lines.append("dual.tangent = tangent")
    return [*lines, "return dual"]


def _promotion(op: Operation) -> list[str]:
    """Generate the promotion of values and tangents to a common dtype."""
    left, right = (a.name for a in op.float_arguments)
    scalar = f"{right}.__class__ is Dual and " if op.float_arguments[1].scalar else ""
    return [
        f"if {scalar}{left}_.dtype is not {right}_.dtype and {left}_.dtype != {right}_.dtype:",
        f"    return self.{op.name}(*self.promote({left}, {right}))",
    ]


def _part(op: Operation, sides: tuple[Callable[..., Any], ...] | None, k: int) -> str:
    """Generate the contribution of the k-th float argument's tangent."""
    own = op.float_arguments[k]
    if sides is not None:
        needed = "".join(f", {_needed(op, name)}" for name in list(signature(sides[k]).parameters)[2:])
        return f"jvp{k}(i, {own.name}t{needed})"
    if op.algebra is Algebra.BILINEAR:
        return _call(op, {own.name: f"{own.name}t"}, "i")
    zeros = {
        a.name: "0.0" if a.scalar else f"i.full({a.name}_.shape, 0.0, {a.name}_.dtype)"
        for a in op.float_arguments
        if a is not own
    }
    return _call(op, {own.name: f"{own.name}t"} | zeros, "i")


def _needed(op: Operation, name: str) -> str:
    """Return the expression of a value that a jvp needs, from the name of its parameter."""
    floats = {a.name for a in op.float_arguments}
    base = name.removesuffix("_shape").removesuffix("_dtype")
    if name == "out":
        return "value"
    if name in floats:
        return f"{name}_"
    return f"{base}_.{name.removeprefix(base + '_')}" if base in floats and base != name else name


def _sum(op: Operation, sides: tuple[Callable[..., Any], ...] | None, parts: list[str]) -> list[str]:
    """Generate the sum of the contributions; a linear operation is applied to two tangents at once."""
    names = [a.name for a in op.float_arguments]
    linear = op.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL)
    if len(parts) == 2:
        both = _call(op, {n: f"{n}t" for n in names}, "i") if linear else f"i.add({parts[0]}, {parts[1]})"
        return [
            f"if {names[1]}t is None:",
            f"    tangent = {parts[0]}",
            f"elif {names[0]}t is None:",
            f"    tangent = {parts[1]}",
            "else:",
            f"    tangent = {both}",
        ]
    lines = ["tangent = None"]
    for name, part in zip(names, parts, strict=True):
        lines += [
            f"if {name}t is not None:",
            f"    part = {part}",
            "    tangent = part if tangent is None else i.add(tangent, part)",
        ]
    return lines


def _sequence(op: Operation) -> list[str]:
    """Generate the body of ``cat``: the tangents are concatenated like the values, with zeros for constants."""
    return [
        f"value = {_call(op, {'xs': '[x.value for x in xs]'})}",
        *_DUAL,
        f"if all([x.tangent is None for x in xs]) or {_SILENT}:",
        "    dual.tangent = None",
        "    return dual",
        "i = self.inner",
        "tangents = [i.full(x.value.shape, 0.0, x.value.dtype) if x.tangent is None else x.tangent for x in xs]",
        f"dual.tangent = {_call(op, {'xs': 'tangents'}, 'i')}",
        "return dual",
    ]


def _sequence_default(op: Operation) -> list[str]:
    """Generate a body without a rule whose float argument is a sequence, in which ints and bools may be too."""
    (xs,) = [a.name for a in op.arguments if a.sequence]
    values = {xs: f"[x.value if x.__class__ is Dual else x for x in {xs}]"}
    return [
        f"if all([x.__class__ is not Dual or x.tangent is None for x in {xs}]):",
        f"    return {_dual(op, _call(op, values))}",
        f"return default(self, {', '.join(a.name for a in op.arguments)})",
    ]
