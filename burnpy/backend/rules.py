"""Helpers of differentiation rules, which stand on the declarations of operations as ``vjp=``, ``jvp=`` and others.

A *vjp* ``(inner, grad, names…)`` maps the gradient of the result to the gradient of one argument; a *jvp* maps a
tangent of one argument to its contribution to the result's tangent. The parameter names after the first two say which
values are saved: an argument by its name, the result as ``out``, an argument's shape as ``x_shape`` and dtype as
``x_dtype``. Rules compute with operations of the inner backend only, so that they are differentiable themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.primitives import Float

Vjp: TypeAlias = Callable[..., Any]


class Matrices(NamedTuple):
    """Simpler vjps of a product, for two matrices of one dtype, where nothing broadcasts or promotes."""

    vjps: tuple[Vjp, Vjp]
    dims: tuple[int, int]  #: the dimension of the first, and the dimension of the second, that the result has


class PartialGrad:
    """A contribution to one region of a gradient: ``add(inner, total, *arguments)`` returns the new total.

    ``total`` is the sum so far, or None; ``add`` may reuse its memory. So n slices of a vector cost n, not n².
    """

    __slots__ = ("add", "arguments")

    def __init__(self, add: Callable[..., Any], *arguments: Any) -> None:
        self.add = add
        self.arguments = arguments


def identity(inner: Any, grad: Float) -> Float:
    """Return the vjp of the identity: the gradient, unchanged."""
    return grad


def precise(rule: Vjp) -> Vjp:
    """Return a vjp or jvp whose own products are in float32 on a device that rounds operands of products (`Mixed`)."""

    @wraps(rule)
    def precise_rule(i: Any, *args: Any) -> Any:
        return rule(i.full_precision, *args)

    return precise_rule
