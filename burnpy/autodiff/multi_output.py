"""Nodes of operations with any number of results and arguments, whose gradients one vjp call computes together.

Each result's node passes its gradient into one slot of a joint node; the joint node calls the vjp; a relay passes each
argument its gradient. A single result needs no joint node, and a single argument no relay::

    out 0 ┐                    ┌ argument 0
    out 1 ┼ joint (the call) ─ relay ┼ argument 1
    out 2 ┘                    └ argument 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.autodiff.graph import Leaf, Node, Relay, Tracked, link, new_node, untracked
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad


class Opaque(Node):
    """A node of an operation whose derivative the user wrote. Each such operation has its own subclass."""

    __slots__ = ()


def node_kind(name: str) -> type[Opaque]:
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
    alone = len(parents) == 1
    below = parents[0] if alone else new_node(Relay, [(parent, pick, (k,)) for k, parent in enumerate(parents)])
    outs = [untracked(value) for value in values]
    mode = device.mode()
    if len(outs) == 1:
        node = outs[0].node = link(kind, below, called_with_one, (vjp, alone, *kept))
        if mode is not None:
            mode.record(device, node, values[0])
        return outs
    center = link(kind, below, called, (vjp, alone, *kept))
    if mode is not None:
        mode.record(device, center)
    for k, out in enumerate(outs):
        node = out.node = link(kind, center, placed, (put, len(outs), k))
        if mode is not None:
            mode.record(device, node, values[k])
    return outs


def called(inner: Any, grads: Sequence[Any], vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """The vjp of a joint node: returns the gradients of all parents, or the gradient alone if there is one parent."""
    parts = vjp(inner, grads, *kept)
    return parts[0] if alone else parts


def called_with_one(inner: Any, grad: Float, vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """The vjp of an operation with a single result: `called` with one gradient."""
    return called(inner, (grad,), vjp, alone, *kept)


def placed(inner: Any, grad: Float, add: Callable[..., list[Any]], count: int, k: int) -> PartialGrad:
    """The vjp of the k-th of several results: puts its gradient into slot k of the joint node's."""
    return PartialGrad(add, count, k, grad)


def put(inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """Return the list of gradients of a joint node's results so far, with the k-th filled in."""
    grads = [None] * count if total is None else total
    grads[k] = grad
    return grads


def pick(inner: Any, parts: Sequence[Float], k: int) -> Float:
    """The vjp of a relay's edge: selects the gradient of the k-th parent."""
    return parts[k]
