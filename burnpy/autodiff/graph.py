"""The graph: tracked primitives own nodes, nodes own their parents and what their rules kept.

References run one way, from results to arguments, so that reference counting frees a graph the moment that nothing
holds its end. A node has at most two edges, kept in its own slots; what needs more is made of further nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, TypeAlias

from burnpy.backend.primitives import DType, Float, Shape

Vjp: TypeAlias = Callable[..., Any]
"""``(inner, grad, *kept) -> gradient``: how a gradient goes from a result to one argument."""
Meta: TypeAlias = tuple[Shape, DType]

next_seq = count().__next__
"""Creation numbers. A node's is above all of its ancestors', so descending order is an order for the backward pass."""


class Tracked:
    """The primitive of `Autodiff`: a primitive of the inner backend and, where it is tracked, its node."""

    __slots__ = ("meta", "node", "value")

    value: Any
    node: Node | Leaf | None
    meta: Meta | None  #: (shape, dtype), carried from operation to operation where known; compared with ``is`` first

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.value.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.value.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's

    def measured(self) -> Meta:
        """The meta, read off the value where it was not carried along."""
        found = self.meta
        if found is None:
            found = self.meta = (self.value.shape, self.value.dtype)
        return found

    def mapped(self, f: Callable[[Any], Any]) -> Tracked:
        """The same node with another value: ``f`` of each innermost array."""
        out = Tracked()
        out.value = mapped(f, self.value)
        out.node = self.node
        out.meta = self.meta
        return out


class Node:
    """What made one tracked primitive. There is a subclass for each operation, which names it."""

    __slots__ = ("__weakref__", "alive", "metadata", "parent0", "parent1", "saved0", "saved1", "seq", "vjp0", "vjp1")

    operation: ClassVar[str]

    seq: int
    alive: bool  #: present until a pass claims the node: deleting an attribute is atomic, and succeeds only once
    parent0: Node | Leaf | None  #: the parent of the first edge,
    vjp0: Vjp  #: how its gradient is made,
    saved0: Any  #: and what was kept for that: one primitive, or a tuple of whatever it is; see `kept_of`
    parent1: Node | Leaf | None
    vjp1: Vjp
    saved1: Any
    metadata: dict[str, Any]  #: what observers and users noted of it; not there until someone does

    @property
    def leaf(self) -> Leaf | None:
        """Under which leaf `Gradients` has this node's gradient; None for what is neither leaf nor retained."""
        return None

    @property
    def target(self) -> Node | Leaf:
        """The node whose gradient is the tensor's; another than this where this shows a tensor through hooks."""
        return self

    @property
    def beneath(self) -> Node | Leaf:
        """The node that is asked in this one's place to retain the gradient: what hooks hand it on to."""
        return self

    def over(self, node: Node) -> Node:
        """A node like this one, on ``node`` instead of on what is `beneath` this one."""
        return node


class Leaf:
    """The node of a tracked primitive that no operation made: where a backward pass ends."""

    __slots__ = ("__weakref__", "buffer", "value")

    def __init__(self, value: Any) -> None:
        self.value = value  #: the inner primitive, by which `Gradients` can show its leaves
        self.buffer: str | None = None  #: of which buffer this takes updates: see `burnpy.autodiff.buffer_updates`

    @property
    def leaf(self) -> Leaf:
        """The leaf itself."""
        return self

    @property
    def target(self) -> Leaf:
        """The leaf itself."""
        return self


class Retained(Node):
    """A node that hands its gradient on, and to a leaf of its own besides."""

    __slots__ = ("kept_leaf",)

    operation = "retain_grad"
    kept_leaf: Leaf

    @property
    def leaf(self) -> Leaf:
        """The leaf under which the gradient is kept; it outlives the edges, which a backward pass frees."""
        return self.kept_leaf


class Relay(Node):
    """A node that hands its gradient on through two edges more, for operations of more than two arguments."""

    __slots__ = ()

    operation = "relay"


def kept_of(k: Any) -> tuple[Any, ...]:
    """What was kept for an edge, as the arguments that its vjp takes.

    One primitive, the most frequent case, is kept as it is: a tuple around each would be a tenth of what a tiny
    operation costs, of time and of objects for the garbage collector to visit.
    """
    return k if k.__class__ is tuple else (k,)


class PartialGrad:
    """A part of a gradient that goes into one place of it: ``add(inner, total, *arguments)`` makes the new total of the
    old one, or of None, and may reuse the old one's memory. So n slices of a vector cost n, not n²."""

    __slots__ = ("add", "arguments")

    def __init__(self, add: Callable[..., Any], *arguments: Any) -> None:
        self.add = add
        self.arguments = arguments


def absent(inner: Any, total: Float, shape: Shape, dtype: DType) -> Float:
    """The ``add`` of a part that is not there, as where a backward() of the user's returns None: zeros, for whoever
    needs an array. The engine adds nothing, so that what no other part reaches has no gradient."""
    return inner.full(shape, 0.0, dtype) if total is None else total


def identity(inner: Any, grad: Float) -> Float:
    """The vjp of whatever passes its gradient on unchanged."""
    return grad


def mapped(f: Callable[[Any], Any], x: Any) -> Any:
    """A primitive with ``f`` of each innermost array in its place; ``f`` of what is no decorator's primitive."""
    return x.mapped(f) if hasattr(x, "mapped") else f(x)


def is_array(x: Any) -> bool:
    """Whether something that a node keeps is a primitive, and not a shape, a number, a key or a dtype."""
    return hasattr(x, "shape") and hasattr(x, "dtype")


def untracked(value: Any) -> Tracked:
    """An untracked primitive of `Autodiff` around an inner primitive."""
    out = Tracked()
    out.value = value
    out.node = None
    out.meta = None
    return out


def new_node(kind: type[Node], edges: list[tuple[Node | Leaf, Vjp, tuple[Any, ...]]]) -> Node:
    """A node of class ``kind`` with any number of edges (parent, vjp, kept), at least one."""
    node = kind()
    node.parent0, node.vjp0, node.saved0 = edges[0]
    if len(edges) == 2:
        node.parent1, node.vjp1, node.saved1 = edges[1]
    elif len(edges) > 2:
        # Balanced halves, built without recursion: relays of two until two edges are left besides the first.
        rest: list[Any] = edges[1:]
        while len(rest) > 1:
            rest = [
                (new_node(Relay, rest[k : k + 2]), identity, ()) if k + 1 < len(rest) else rest[k]
                for k in range(0, len(rest), 2)
            ]
        node.parent1, node.vjp1, node.saved1 = rest[0]
    else:
        node.parent1 = None
    node.seq = next_seq()
    node.alive = True
    return node
