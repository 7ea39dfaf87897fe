"""Nodes of operations with any number of results and arguments, whose gradients one vjp call computes together.

Each result's node passes its gradient into one slot of a joint node; the joint node calls the vjp; a relay passes each
argument its gradient. A single result needs no joint node, and a single argument no relay::

    out 0 ┐                          ┌ argument 0
    out 1 ┼ joint (the call) ─ relay ┼ argument 1
    out 2 ┘                          └ argument 2

User-defined derivatives and rules with a joint vjp are recorded so, and so are fused formulas. The gradient of a
formula is a formula too, what `Autodiff` computes for its operations by their rules: it is computed in one pass over
the memory as well, and is differentiated in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from burnpy.autodiff.graph import Leaf, Node, Relay, Tracked, next_seq, node_class, untracked
from burnpy.autodiff.recording import new_level
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Float
from burnpy.backend.rules import FACTOR_VJPS, Factors, PartialGrad, identity


class Opaque(Node):
    """A node of an operation whose derivative the user wrote. Each such operation has its own subclass."""

    __slots__ = ()


def opaque_class(name: str) -> type[Opaque]:
    """Create the node class of a user's operation."""
    return type(name, (Opaque,), {"__slots__": (), "operation": name})


def record_outputs(
    device: Any,
    kind: type[Node],
    values: Sequence[Float],
    parents: Sequence[Node | Leaf],
    vjp: Callable[..., tuple[Float, ...]],
    kept: tuple[Any, ...],
) -> list[Tracked]:
    """Record ``values`` as results of one operation and return them as tracked primitives.

    Args:
        device: the `Autodiff` that records them.
        kind: the class of the nodes of the results, and of the joint one.
        values: inner primitives, at least one.
        parents: the nodes of the tracked arguments, at least one.
        vjp: ``(inner, grads, *kept)``: takes a gradient or None for each result, returns a gradient for each parent.
        kept: the saved values, passed to the vjp; inner primitives must be direct members of the tuple.
    """
    mode = device.mode()
    center: Any = kind()
    if len(parents) == 1:
        center.parent0, alone = parents[0], True
    else:
        center.parent0, alone = relayed(parents), False
    center.parent1 = None
    center.seq = next_seq()
    center.alive = True
    if len(values) == 1:
        center.vjp0, center.saved0 = single_result_vjp, (vjp, alone, *kept)
        out = untracked(values[0])
        out.node = center
        if mode is not None:
            mode.record(device, center, values[0])
        return [out]
    center.vjp0, center.saved0 = joint_vjp, (vjp, alone, *kept)
    if mode is not None:
        mode.record(device, center)
    outs, count = [], len(values)
    for k, value in enumerate(values):
        out = Tracked()
        out.value, out.meta = value, None
        node = out.node = kind()
        node.parent0, node.vjp0, node.saved0 = center, result_vjp, (put_gradient, count, k)
        node.parent1 = None
        node.seq = next_seq()
        node.alive = True
        if mode is not None:
            mode.record(device, node, value)
        outs.append(out)
    return outs


def relayed(
    parents: Sequence[Node | Leaf], kind: type[Relay] = Relay, vjps: tuple[Callable[..., Any], ...] | None = None
) -> Node:
    """Return a relay that passes each of several parents its gradient: a chain of relays with two edges each.

    Args:
        parents: the nodes of the arguments.
        kind: the class of the relays.
        vjps: for two parents, the vjps of their edges, if these do more than select one of several gradients.
    """
    if vjps is not None:
        both: Any = kind()
        (both.parent0, both.parent1), (both.vjp0, both.vjp1) = parents, vjps
        both.saved0 = both.saved1 = ()
        both.seq = next_seq()
        both.alive = True
        return both  # type: ignore[no-any-return]  # a relay
    k = len(parents) - 1
    below: Any = parents[k]
    vjp: Callable[..., Any] = pick_gradient
    saved: tuple[int, ...] = (k,)
    while k:
        k -= 1
        relay: Any = kind()
        relay.parent0, relay.vjp0, relay.saved0 = parents[k], pick_gradient, (k,)
        relay.parent1, relay.vjp1, relay.saved1 = below, vjp, saved
        relay.seq = next_seq()
        relay.alive = True
        below, vjp, saved = relay, identity, ()
    return below  # type: ignore[no-any-return]  # a relay, as there are two parents at least


def joined(parents: Sequence[Node | Leaf | None], needs: Sequence[bool]) -> Node | Leaf:
    """Return the parent of a joint node: its only tracked argument's node, or a relay to several."""
    nodes: Any = parents if False not in needs else [node for node in parents if node is not None]
    return nodes[0] if len(nodes) == 1 else relayed(nodes)


def of_first_result(vjp: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a joint vjp for the first of ``count`` results; of a single tracked argument it returns the gradient."""
    others = (None,) * (count - 1)

    def first_vjp(inner: Any, grad: Float, needs: tuple[bool, ...], *saved: Any) -> Any:
        parts = vjp(inner, (grad, *others), needs, *saved)
        return parts if len(parts) > 1 else pick_gradient(inner, parts, 0)

    return first_vjp


def joint_vjp(inner: Any, grads: Sequence[Any], vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """Return the gradients of all parents of a joint node, or the gradient alone if there is one parent."""
    parts = vjp(inner, grads, *kept)
    return pick_gradient(inner, parts, 0) if alone else parts


def single_result_vjp(inner: Any, grad: Float, vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """Return a vjp as `joint_vjp` does, for an operation with a single result."""
    return joint_vjp(inner, (grad,), vjp, alone, *kept)


def result_vjp(inner: Any, grad: Float, add: Callable[..., list[Any]], count: int, k: int) -> PartialGrad:
    """Put the gradient of the k-th of several results into slot k of the joint node's."""
    return PartialGrad(add, count, k, grad)


def put_gradient(inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """Return the list of gradients of a joint node's results so far, with the k-th filled in."""
    grads = [None] * count if total is None else total
    grads[k] = grad
    return grads


def pick_gradient(inner: Any, parts: Sequence[Any], k: int) -> Any:
    """Select the gradient of the k-th parent, and compute it if it is left as `Factors`: the vjp of a relay's edge."""
    part = parts[k]
    return inner.matmul_tn(*part) if part.__class__ is Factors else part


FACTOR_VJPS.add(pick_gradient)


def hand_on(inner: Any, grad: Float, kept: Float) -> list[Any]:
    """Pass the arguments of a vjp to the relay that calls it: the vjp of the edge to that relay."""
    return [grad, kept]


def first_of_two(vjp: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """Return the vjp of a relay's first edge, which computes both gradients and leaves the second one to the other
    edge, unless it is None."""

    def first_vjp(inner: Any, handed: list[Any]) -> Any:
        grad, kept = handed
        first, second = vjp(inner, grad, kept)
        if second is not None:
            handed[0], handed[1] = None, second
        return first

    return first_vjp


def second_of_two(alone: Callable[..., Any]) -> Callable[..., Any]:
    """Return the vjp of a relay's second edge, which computes its gradient ``alone`` if the first one did not."""

    def second_vjp(inner: Any, handed: list[Any]) -> Any:
        return handed[1] if handed[0] is None else alone(inner, handed[0])

    return second_vjp


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
        record_outputs(device, _Fused, outs, parents, _fused_vjp, (device.__class__, formula, needs, numbers, *values))
    )


def _fused_vjp(
    inner: Any,
    grads: Sequence[Any],
    kind: Any,
    formula: Formula,
    needs: tuple[bool, ...],
    numbers: tuple[float, ...],
    *xs: Float,
) -> tuple[Float, ...]:
    used = tuple([grad is not None for grad in grads])
    gradient = _fused_gradient(kind, formula, needs, used)
    parts: tuple[Float, ...] = inner.fused(gradient, [*[grad for grad in grads if grad is not None], *xs], numbers)
    return parts


@lru_cache(256)
def _fused_gradient(kind: Any, formula: Formula, needs: tuple[bool, ...], used: tuple[bool, ...]) -> Formula:
    """Return the formula of the gradients of a formula, which is the same function for the same arguments. ``needs``
    says of each primitive whether its gradient is needed, and ``used`` of each result whether it has a gradient. The
    formula is a function of a backend, the gradients of the results that have one, and the arguments."""
    count = sum(used)

    def gradient(b: Any, *args: Any) -> tuple[Float, ...]:
        grads, xs, numbers = args[:count], args[count : count + len(needs)], args[count + len(needs) :]
        level: Any = new_level(kind, b, "backward")
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
