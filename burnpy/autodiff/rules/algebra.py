"""Rules by algebra: how the derivative of an operation is written down, and how both modes follow from that.

A *vjp* ``(inner, grad, names…)`` takes the gradient of the result to that of one argument; a *jvp* takes a tangent
of one argument to its part of the result's tangent. The parameter names after the first two say what must be kept: an
argument by its name, the result as ``out``, an argument's shape as ``x_shape`` and dtype as ``x_dtype``. Rules compute
with operations of the inner backend alone, so that they are differentiable themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.entries import Operation, operation
from burnpy.backend.schema import Algebra

Vjp: TypeAlias = Callable[..., Any]


class Matrices(NamedTuple):
    """What is simpler of a product where both are matrices of one dtype, so that nothing broadcasts or promotes."""

    vjps: tuple[Vjp, Vjp]
    dims: tuple[int, int]  #: which dimension of the first and of the second are the result's


class Rule(NamedTuple):
    """What is known of one operation."""

    operation: Operation
    vjps: tuple[Vjp, ...]  #: one for each float argument
    jvps: tuple[Vjp, ...] | None  #: likewise; None where the operation itself, applied to tangents, is the jvp
    joint: Vjp | None = None  #: in place of both, for what has several results: see `joint`
    matrices: Matrices | None = None  #: of a product alone


RULES: dict[str, Rule] = {}
"""The table: the rule of every operation that has one. Derived operations without one are differentiated as their
default is; nondifferentiable operations have none."""


def pointwise(function: Callable[..., Any], *vjps: Vjp) -> None:
    """A pointwise operation: the derivative by each argument, times ``grad``, serves both modes."""
    _enter(function, Algebra.POINTWISE, vjps, vjps)


def linear(function: Callable[..., Any], *transposes: Vjp) -> None:
    """An operation linear in its float arguments together: give the transpose by each."""
    _enter(function, Algebra.LINEAR, transposes, None)


def structural(function: Callable[..., Any], *transposes: Vjp) -> None:
    """A linear operation that only moves elements."""
    _enter(function, Algebra.STRUCTURAL, transposes, None)


def bilinear(function: Callable[..., Any], left: Vjp, right: Vjp, *, matrices: Matrices | None = None) -> None:
    """An operation linear in each of two arguments: give both transposes; of a product, those of matrices besides."""
    _enter(function, Algebra.BILINEAR, (left, right), None, matrices)


def symmetric(function: Callable[..., Any], vjp: Vjp) -> None:
    """An operation whose Jacobian is symmetric, so that one vjp serves both modes."""
    _enter(function, Algebra.GENERAL, (vjp,), (vjp,))


def general(function: Callable[..., Any], *, vjps: tuple[Vjp, ...], jvps: tuple[Vjp, ...]) -> None:
    """Any other operation: both modes written out."""
    _enter(function, Algebra.GENERAL, vjps, jvps)


def joint(function: Callable[..., Any], vjp: Vjp) -> None:
    """An operation of which the gradients of all arguments are computed together; of one result or of several.

    Args:
        function: the operation. Forward mode goes through its default.
        vjp: ``(inner, grads, needs, names…)``: given the gradients of the float results (None for what nothing
            depends on) and which of the float arguments need one, the gradients of those, None for others. What it
            keeps it names as any vjp does; the results are ``out``, ``out1``, ``out2`` ….
    """
    op = operation(function)
    if op.algebra is not Algebra.GENERAL or op.name in RULES:
        raise TypeError(f"the rule of {op.name} does not fit its declaration as {op.algebra.value}")
    RULES[op.name] = Rule(op, (), None, vjp)


def _enter(
    function: Callable[..., Any],
    algebra: Algebra,
    vjps: tuple[Vjp, ...],
    jvps: tuple[Vjp, ...] | None,
    matrices: Matrices | None = None,
) -> None:
    op = operation(function)
    if op.algebra is not algebra or len(vjps) != len(op.float_arguments) or op.name in RULES:
        raise TypeError(f"the rule of {op.name} does not fit its declaration as {op.algebra.value}")
    RULES[op.name] = Rule(op, vjps, jvps, None, matrices)
