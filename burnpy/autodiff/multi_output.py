"""Operations that user code computes, as nodes: any number of results and arguments, one call in reverse.

Each result's node hands its gradient to one place of a joint node's; the joint node makes the call; a relay hands each
argument its part. A single result needs no joint node, and a single argument no relay::

    out 0 ┐                    ┌ argument 0
    out 1 ┼ joint (the call) ─ relay ┼ argument 1
    out 2 ┘                    └ argument 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.autodiff.graph import Leaf, Node, PartialGrad, Relay, Tracked, new_node, untracked
from burnpy.backend.primitives import Float


class Opaque(Node):
    """A node of an operation whose derivative the user wrote; there is a subclass for each, which names it."""

    __slots__ = ()


def node_kind(name: str) -> type[Opaque]:
    """The class of the nodes of a user's operation."""
    return type(name, (Opaque,), {"__slots__": (), "operation": name})


def record_outputs(
    device: Any,
    kind: type[Node],
    values: Sequence[Float],
    parents: Sequence[Node | Leaf],
    vjp: Callable[..., tuple[Float, ...]],
    kept: tuple[Any, ...],
) -> list[Tracked]:
    """Tracked primitives of ``values``, results of one operation on what ``parents`` made.

    Args:
        device: the `Autodiff` that records them.
        kind: the class of the nodes of the results, and of the joint one.
        values: inner primitives, at least one.
        parents: the nodes of the tracked arguments, at least one.
        vjp: ``(inner, grads, *kept)``, with a gradient or None for each result, gives one for each parent.
        kept: what it is given besides; primitives of the inner backend stand in it openly.
    """
    alone = len(parents) == 1
    below = parents[0] if alone else new_node(Relay, [(parent, pick, (k,)) for k, parent in enumerate(parents)])
    outs = [untracked(value) for value in values]
    mode = device.mode()
    if len(outs) == 1:
        node = outs[0].node = new_node(kind, [(below, called_with_one, (vjp, alone, *kept))])
        if mode is not None:
            mode.record(device, node, values[0])
        return outs
    center = new_node(kind, [(below, called, (vjp, alone, *kept))])
    if mode is not None:
        mode.record(device, center)
    for k, out in enumerate(outs):
        node = out.node = new_node(kind, [(center, placed, (put, len(outs), k))])
        if mode is not None:
            mode.record(device, node, values[k])
    return outs


def called(inner: Any, grads: Sequence[Any], vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """The vjp of a joint node: the parts of all parents, or the one part of the one parent."""
    parts = vjp(inner, grads, *kept)
    return parts[0] if alone else parts


def called_with_one(inner: Any, grad: Float, vjp: Callable[..., tuple[Float, ...]], alone: bool, *kept: Any) -> Any:
    """The same for the node of a single result."""
    return called(inner, (grad,), vjp, alone, *kept)


def placed(inner: Any, grad: Float, add: Callable[..., list[Any]], count: int, k: int) -> PartialGrad:
    """The vjp of the k-th of several results."""
    return PartialGrad(add, count, k, grad)


def put(inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """The gradients of a joint node's results so far, with that of the k-th entered."""
    grads = [None] * count if total is None else total
    grads[k] = grad
    return grads


def pick(inner: Any, parts: Sequence[Float], k: int) -> Float:
    """The part of one parent."""
    return parts[k]
