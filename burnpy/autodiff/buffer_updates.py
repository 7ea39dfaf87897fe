"""Buffer updates that travel with gradients, such as running statistics: a node that passes the gradient on unchanged
and adds a vector to a leaf of its own.

The vector does not depend on the gradient. Its leaf carries the id of the buffer that it updates, and `Gradients`
stores it under that id, separately from the gradients.
"""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.graph import Leaf, Node, Tracked, new_node, untracked
from burnpy.backend.primitives import Float
from burnpy.backend.rules import identity


class BufferUpdate(Node):
    """A node that passes its gradient on unchanged and sends an update to a leaf."""

    __slots__ = ()

    operation = "buffer_update"


def carrying(device: Any, x: Tracked, buffer: str, update: Float) -> Tracked:
    """Return x such that a backward pass that reaches it delivers ``update`` for ``buffer``.

    ``update`` is a primitive of the inner device. The result is tracked even if x is not, so that the update is
    delivered. If recording is off, x itself is returned.
    """
    mode = device.mode()
    if mode is not None and mode.silences(device.level):
        return x
    leaf = Leaf(update)
    leaf.buffer = buffer
    to_leaf = (leaf, constant_vjp, (update,))
    node = new_node(BufferUpdate, [to_leaf] if x.node is None else [(x.node, identity, ()), to_leaf])
    if mode is not None:
        mode.record(device, node)
    out = untracked(x.value)
    out.node = node
    out.meta = x.meta
    return out


def constant_vjp(inner: Any, grad: Float, update: Float) -> Float:
    """The vjp of an update: the update, whatever the gradient is."""
    return update
