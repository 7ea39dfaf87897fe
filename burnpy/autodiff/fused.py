"""Recording a fused formula as one operation, whose gradient is a formula too.

The gradient of a formula is what `Autodiff` computes for its operations by their rules. It is computed in one pass over
the memory as well, and is differentiated in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from burnpy.autodiff.current import new_level
from burnpy.autodiff.graph import Tracked, node_class, untracked
from burnpy.autodiff.multi_output import record_outputs
from burnpy.backend.operations.lists import Formula
from burnpy.backend.primitives import Float

_Fused = node_class("fused", {})


def record_fused(
    device: Any, formula: Formula, xs: Sequence[Tracked], numbers: tuple[float, ...]
) -> tuple[Tracked, ...]:
    """Compute a formula on the inner device of an `Autodiff`, and record it if an argument is tracked."""
    values = [x.value for x in xs]
    outs = device.computing.fused(formula, values, numbers)
    parents = [x.node for x in xs if x.node is not None]
    mode = device.mode()
    if not parents or (mode is not None and mode.silences(device.level)):
        return tuple([untracked(out) for out in outs])
    needs = tuple([x.node is not None for x in xs])
    return tuple(
        record_outputs(device, _Fused, outs, parents, _vjp, (device.__class__, formula, needs, numbers, *values))
    )


def _vjp(
    inner: Any,
    grads: Sequence[Any],
    kind: Any,
    formula: Formula,
    needs: tuple[bool, ...],
    numbers: tuple[float, ...],
    *xs: Float,
) -> tuple[Float, ...]:
    used = tuple([grad is not None for grad in grads])
    gradient = _gradient(kind, formula, needs, used)
    parts: tuple[Float, ...] = inner.fused(gradient, [*[grad for grad in grads if grad is not None], *xs], numbers)
    return parts


@lru_cache(256)
def _gradient(kind: Any, formula: Formula, needs: tuple[bool, ...], used: tuple[bool, ...]) -> Formula:
    """Return the formula of the gradients of a formula, which is the same function for the same arguments.

    Args:
        kind: `Autodiff`, by which it is differentiated.
        formula: the formula.
        needs: for each of its primitives, whether the gradient by it is needed.
        used: for each of its results, whether it has a gradient.

    Returns:
        A function of a backend, the gradients of the results that have one, and the arguments of the formula.
    """
    count = sum(used)

    def gradient(b: Any, *args: Any) -> tuple[Float, ...]:
        grads, xs, numbers = args[:count], args[count : count + len(needs)], args[count + len(needs) :]
        level: Any = new_level(kind, b)
        leaves = [level.lift(x) for x in xs]
        leaves = [level.require_grad(x) if needed else x for x, needed in zip(leaves, needs, strict=True)]
        outs = [out for out, has_grad in zip(formula(level, *leaves, *numbers), used, strict=True) if has_grad]
        found = level.gradients(zip(outs, grads, strict=True), retain_graph=False)
        leaves = [x for x in leaves if x.node is not None]
        return tuple([found[x.node] if x.node in found else _zeros(b, x.value) for x in leaves])

    gradient.__name__ = f"{getattr(formula, '__name__', 'formula')}_backward"
    return gradient


def _zeros(b: Any, x: Float) -> Float:
    """Zeros, also where x is not finite."""
    return b.where(b.eq(x, x), b.full((), 0.0, x.dtype), 0.0)
