"""Declaration of differentiation rules by algebra: reverse and forward mode from one description of the derivative.

A *vjp* ``(inner, grad, names…)`` maps the gradient of the result to the gradient of one argument; a *jvp* maps a
tangent of one argument to its contribution to the result's tangent. The parameter names after the first two say which
values are saved: an argument by its name, the result as ``out``, an argument's shape as ``x_shape`` and dtype as
``x_dtype``. Rules compute with operations of the inner backend only, so that they are differentiable themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.entries import Operation, operation
from burnpy.backend.schema import Algebra

Vjp: TypeAlias = Callable[..., Any]


class Matrices(NamedTuple):
    """Simpler vjps of a product, for two matrices of one dtype, where nothing broadcasts or promotes."""

    vjps: tuple[Vjp, Vjp]
    dims: tuple[int, int]  #: the dimension of the first, and that of the second, which the result has


class Rule(NamedTuple):
    """The differentiation rule of one operation."""

    operation: Operation
    vjps: tuple[Vjp, ...]  #: one for each float argument
    jvps: tuple[Vjp, ...] | None  #: likewise; None if the operation itself, applied to tangents, is the jvp
    joint: Vjp | None = None  #: replaces both for operations differentiated as a whole: see `joint`
    matrices: Matrices | None = None  #: for products only
    joint_jvp: Vjp | None = None  #: the jvp of an operation differentiated as a whole; without one, its default's


RULES: dict[str, Rule] = {}
"""The rules, by operation name. Derived operations without a rule are differentiated through their default;
nondifferentiable operations have no rule."""


def pointwise(function: Callable[..., Any], *vjps: Vjp) -> None:
    """Declare the rule of a pointwise operation: for each argument the derivative times ``grad``, for both modes."""
    _add_rule(function, Algebra.POINTWISE, vjps, vjps)


def linear(function: Callable[..., Any], *transposes: Vjp) -> None:
    """Declare the rule of an operation jointly linear in its float arguments: the transpose for each argument."""
    _add_rule(function, Algebra.LINEAR, transposes, None)


def structural(function: Callable[..., Any], *transposes: Vjp) -> None:
    """Declare the rule of a linear operation that only moves elements: the transpose for each argument."""
    _add_rule(function, Algebra.STRUCTURAL, transposes, None)


def bilinear(function: Callable[..., Any], left: Vjp, right: Vjp, *, matrices: Matrices | None = None) -> None:
    """Declare the rule of an operation linear in each of two arguments: both transposes.

    For a product, ``matrices`` adds the simpler vjps for two matrices.
    """
    _add_rule(function, Algebra.BILINEAR, (left, right), None, matrices)


def symmetric(function: Callable[..., Any], vjp: Vjp) -> None:
    """Declare the rule of an operation whose Jacobian is symmetric, so that one vjp serves both modes."""
    _add_rule(function, Algebra.GENERAL, (vjp,), (vjp,))


def general(function: Callable[..., Any], *, vjps: tuple[Vjp, ...], jvps: tuple[Vjp, ...]) -> None:
    """Declare the rule of any other operation: vjps and jvps, one of each per float argument."""
    _add_rule(function, Algebra.GENERAL, vjps, jvps)


def joint(function: Callable[..., Any], vjp: Vjp, jvp: Vjp | None = None) -> None:
    """Declare the rule of an operation whose arguments' gradients are computed together, from one or several results.

    Args:
        function: the operation.
        vjp: ``(inner, grads, needs, names…)``: takes the gradients of the float results (None for an unused result)
            and a flag for each float argument that says whether its gradient is needed; returns the gradients of
            these, None for the others. Its other parameters name the saved values, as for any vjp; the results are
            ``out``, ``out1``, ``out2`` ….
        jvp: ``(inner, tangents, names…)``: takes the tangents of the float arguments (None for a constant, not for
            all) and returns the tangents of the float results, as a tuple; its names are those of a vjp. Without it,
            forward mode goes through the default.
    """
    op = operation(function)
    if op.algebra is not Algebra.GENERAL or op.name in RULES:
        raise TypeError(f"the rule of {op.name} does not fit its declaration as {op.algebra.value}")
    RULES[op.name] = Rule(op, (), None, vjp, joint_jvp=jvp)


def precise(rule: Vjp) -> Vjp:
    """Return a vjp or jvp whose own products are in float32 on a device that rounds operands of products (`Mixed`)."""

    @wraps(rule)
    def precise_rule(i: Any, *args: Any) -> Any:
        return rule(i.full_precision, *args)

    return precise_rule


def _add_rule(
    function: Callable[..., Any],
    algebra: Algebra,
    vjps: tuple[Vjp, ...],
    jvps: tuple[Vjp, ...] | None,
    matrices: Matrices | None = None,
) -> None:
    op = operation(function)
    if op.algebra is not algebra or len(vjps) != len(op.float_arguments) or op.name in RULES:
        raise TypeError(f"the rule of {op.name} does not fit its declaration as {op.algebra.value}")
    if len(set(vjps)) < len(vjps):  # the vjp of an edge shows whose gradient it computes
        raise TypeError(f"the rule of {op.name} has one function for two arguments; give each its own")
    RULES[op.name] = Rule(op, vjps, jvps, None, matrices)
