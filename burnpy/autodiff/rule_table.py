"""The differentiation rules of all operations, read from their declarations; the table is ``RULES``."""

from __future__ import annotations

from typing import NamedTuple

from burnpy.backend.backend import operations
from burnpy.backend.entries import Operation
from burnpy.backend.rules import Matrices, Vjp
from burnpy.backend.schema import Algebra, Traits


class Rule(NamedTuple):
    """The differentiation rule of one operation."""

    operation: Operation
    vjps: tuple[Vjp, ...]  #: one for each float argument
    jvps: tuple[Vjp, ...] | None  #: likewise; None if the operation itself, applied to tangents, is the jvp
    joint: Vjp | None = None  #: replaces both for operations differentiated as a whole
    matrices: Matrices | None = None  #: for products only
    joint_jvp: Vjp | None = None  #: the jvp of an operation differentiated as a whole; without one, its default's
    last_two: Vjp | None = None  #: replaces two vjps where the gradients of both arguments are needed


def rule_of(op: Operation) -> Rule | None:
    """Return the rule that a declaration gives; None for an operation that is differentiated through its default."""
    traits: Traits = op.function.__operation__.traits  # type: ignore[attr-defined]  # set by required or derived
    general = op.algebra is Algebra.GENERAL
    if "joint" in traits:
        _check(op, (general or op.algebra is Algebra.LINEAR) and "vjp" not in traits, (traits["joint"],))
        return Rule(op, (), None, traits["joint"], None, traits.get("joint_jvp"))
    if "vjp" not in traits:
        _check(op, "jvp" not in traits, ())
        return None
    vjps = _as_tuple(traits["vjp"])
    jvps = _as_tuple(traits["jvp"]) if "jvp" in traits else None
    both = op.algebra is Algebra.POINTWISE or traits.get("symmetric", False)
    complete = len(vjps) == len(op.float_arguments) == len(jvps or vjps)
    last_two = traits.get("last_two")
    fits = complete and (jvps is not None) is (general and not both) and (last_two is None or len(vjps) == 3)
    _check(op, fits, vjps + (jvps or ()))
    if len(set(vjps)) < len(vjps):  # the vjp of an edge identifies its argument
        raise TypeError(f"the rule of {op.name} has one function for two arguments; give each its own")
    return Rule(op, vjps, vjps if both else jvps, None, traits.get("matrices"), last_two=last_two)


def _as_tuple(rules: Vjp | tuple[Vjp, ...]) -> tuple[Vjp, ...]:
    return rules if isinstance(rules, tuple) else (rules,)


def _check(op: Operation, fits: bool, functions: tuple[Vjp, ...]) -> None:
    """Raise a TypeError if the rule does not fit the algebra, or a function of it is an operation by mistake."""
    if not fits:
        raise TypeError(f"the rule of {op.name} does not fit its declaration as {op.algebra.value}")
    for function in functions:  # in a class body, a name finds an operation of that name before a helper
        if hasattr(function, "__operation__"):
            raise TypeError(f"the rule of {op.name} names the operation {function.__name__}; expected a function")


RULES = {name: rule for name, op in operations().items() if (rule := rule_of(op)) is not None}
"""The rules, by operation name. Derived operations without a rule are differentiated through their default;
nondifferentiable operations have no rule."""
