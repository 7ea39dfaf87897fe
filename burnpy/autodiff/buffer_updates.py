"""Updates that travel with gradients: a node beside the way of the gradient, which hands a vector to a leaf of its own.

The vector does not depend on the gradient. Its leaf is marked with the id of what it is for, and `Gradients` keeps it
apart from the gradients, under that id.
"""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.graph import Leaf, Node, Tracked, identity, new_node, untracked
from burnpy.backend.primitives import Float


class BufferUpdate(Node):
    """The node that a gradient passes unchanged, and that sends an update on its way."""

    __slots__ = ()

    operation = "buffer_update"


def carrying(device: Any, x: Tracked, buffer: str, update: Float) -> Tracked:
    """x, such that a pass which comes to it has ``update``, a primitive of the inner device, for ``buffer``.

    What is not tracked becomes so: it has something to say. Where nothing is recorded it is x itself.
    """
    mode = device.mode()
    if mode is not None and mode.silences(device.level):
        return x
    leaf = Leaf(update)
    leaf.buffer = buffer
    to_leaf = (leaf, given, (update,))
    node = new_node(BufferUpdate, [to_leaf] if x.node is None else [(x.node, identity, ()), to_leaf])
    if mode is not None:
        mode.record(device, node)
    out = untracked(x.value)
    out.node = node
    out.meta = x.meta
    return out


def given(inner: Any, grad: Float, update: Float) -> Float:
    """The vjp of an update: itself, whatever the gradient is."""
    return update
