"""The autodiff graph: tracked primitives own nodes; nodes own their parents and the values saved for their vjps.

References run one way, from results to arguments, so that reference counting frees a graph as soon as nothing refers
to its output. A node has at most two edges, stored in its own slots; an operation with more edges uses further nodes.

In the graph, the gradient g of a loss L with respect to a complex z satisfies dL = Re(g · dz), so that rules need no
conjugates. Users see PyTorch's gradient, dL = Re(conj(g) · dz), which is ∂L/∂Re + i ∂L/∂Im: `conjugate` converts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from burnpy.backend.primitives import DType, Float, Inexact, Shape
from burnpy.backend.rules import PartialGrad, Vjp, identity

Meta: TypeAlias = tuple[Shape, DType]

K = TypeVar("K")

next_seq = count().__next__
"""Creation numbers. A node's number is larger than those of its ancestors, so descending order is a valid order for
the backward pass."""


class Wrapped:
    """A primitive that wraps a primitive of another backend, and has its shape and dtype."""

    __slots__ = ()

    value: Any

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape:
            """The shape of the value."""
            ...

        @property
        def dtype(self) -> DType:
            """The dtype of the value."""
            ...

    else:  # each operation reads them several times, and `attrgetter` reads them without a Python call
        shape = property(attrgetter("value.shape"), doc="The shape of the value.")
        dtype = property(attrgetter("value.dtype"), doc="The dtype of the value.")


class Tracked(Wrapped):
    """The primitive of `Autodiff`: a primitive of the inner backend and, if it is tracked, its graph node."""

    __slots__ = ("meta", "node", "value")

    node: Node | Leaf | None
    meta: Meta | None  #: (shape, dtype) if known. Operations pass the pair on, so that ``is`` often compares it

    def measured(self) -> Meta:
        """Return ``meta``, reading it from the value and storing it if it is not known yet."""
        meta = self.meta
        if meta is None:
            meta = self.meta = (self.value.shape, self.value.dtype)
        return meta

    def mapped(self, f: Callable[[Any], Any]) -> Tracked:
        """Return a tracked primitive with the same node and ``f`` applied to each innermost array."""
        out = Tracked()
        out.value = mapped(f, self.value)
        out.node = self.node
        out.meta = self.meta
        return out


class EdgeKind(NamedTuple):
    """The meaning of a vjp in the nodes of one operation, for graph inspection."""

    argument: str | None  #: the argument whose gradient it computes; None for a vjp that computes several
    saved: tuple[str, ...]  #: the names of the saved values, in order; "" for one that is no value of the operation


class Node:
    """The operation that computed one tracked primitive, and its edges. Each operation has its own subclass."""

    __slots__ = ("__weakref__", "alive", "metadata", "parent0", "parent1", "saved0", "saved1", "seq", "vjp0", "vjp1")

    operation: ClassVar[str]
    edge_kinds: ClassVar[Mapping[Vjp, EdgeKind]] = MappingProxyType({})  #: by vjp; empty for a user's operation
    relay: ClassVar[type[Relay]]  #: the class of the further nodes of an operation with more than two edges

    seq: int
    alive: bool  #: present until a pass claims the node: deleting an attribute is atomic, and succeeds only once
    parent0: Node | Leaf | None  #: the parent of the first edge
    vjp0: Vjp  #: the function that computes the parent's gradient
    saved0: Any  #: the values saved for it: one primitive, or a tuple of any values; see `saved_tuple`
    parent1: Node | Leaf | None
    vjp1: Vjp
    saved1: Any
    metadata: dict[str, Any]  #: notes of observers and users; the attribute is absent until the first note

    @property
    def leaf(self) -> Leaf | None:
        """The leaf under which `Gradients` stores this node's gradient; None if its gradient is not retained."""
        return None

    @property
    def target(self) -> Node | Leaf:
        """The node whose gradient is the tensor's gradient: this node, or for a hook's node the node under the hook."""
        return self

    @property
    def beneath(self) -> Node | Leaf:
        """The node under the tensor's hooks, to which `retain_grad` attaches its own; this node if it is not a hook."""
        return self

    def over(self, node: Node) -> Node:
        """Return a node with the same hooks on top of ``node`` instead of `beneath`; ``node`` itself without hooks."""
        return node


class Leaf:
    """The node of a tracked primitive that no operation computed: an end point of the backward pass."""

    __slots__ = ("__weakref__", "buffer", "value")

    def __init__(self, value: Any) -> None:
        self.value = value  #: the inner primitive, so that `Gradients` can return its leaves as tensors
        self.buffer: str | None = None  #: the id of the buffer to update, of an `UpdateNode`'s leaf

    @property
    def leaf(self) -> Leaf:
        """The leaf itself."""
        return self

    @property
    def target(self) -> Leaf:
        """The leaf itself."""
        return self


class Retained(Node):
    """A node that passes its gradient on, both to its parent and to a leaf of its own."""

    __slots__ = ("kept_leaf",)

    operation = "retain_grad"
    kept_leaf: Leaf

    @property
    def leaf(self) -> Leaf:
        """The leaf under which `Gradients` stores the gradient; it outlives the edges, which a backward pass frees."""
        return self.kept_leaf


class Relay(Node):
    """A node that passes its gradient on through two more edges, for operations of more than two arguments."""

    __slots__ = ()

    operation = "relay"


Node.relay = Relay


class UpdateNode(Node):
    """A node that passes its gradient on unchanged, and an update of a buffer, such as running statistics, to a leaf.

    The update does not depend on the gradient. Its leaf carries the id of the buffer, and `Gradients` stores it under
    that id, separately from the gradients.
    """

    __slots__ = ()

    operation = "buffer_update"


def node_class(name: str, kinds: Mapping[Vjp, EdgeKind]) -> type[Node]:
    """Create the node class of an operation and the class of its relays."""
    attributes = {"__slots__": (), "operation": name, "edge_kinds": kinds}
    relay = type(name, (Relay,), attributes)
    return type(name, (Node,), attributes | {"relay": relay})


def with_relays(node: Any) -> Sequence[Any]:
    """Return a node and its relays."""
    if not isinstance(node.parent0, Relay) and not isinstance(node.parent1, Relay):
        return (node,)
    parts = [node]
    for part in parts:
        parts += [parent for parent in (part.parent0, part.parent1) if isinstance(parent, Relay)]
    return parts


def saved_tuple(saved: Any) -> tuple[Any, ...]:
    """Return the saved values of an edge as a tuple: the arguments that its vjp takes after the gradient. A single
    primitive, the most frequent case, is saved without a tuple, which would take a tenth of a tiny operation's time,
    and be one more object for the garbage collector."""
    return saved if saved.__class__ is tuple else (saved,)


def absent(inner: Any, total: Float, shape: Shape, dtype: DType) -> Float:
    """Return the total, or zeros if there is none: the ``add`` of a `PartialGrad` that stands for no contribution. A
    user's backward() that returns None gives one. The engine skips it, so that a leaf without any other contribution
    has no gradient."""
    return inner.full(shape, 0.0, dtype) if total is None else total


def mapped(f: Callable[[Any], Any], x: Any) -> Any:
    """Apply ``f`` to each innermost array of a primitive; a primitive of a plain backend is such an array itself."""
    return x.mapped(f) if hasattr(x, "mapped") else f(x)


def is_array(x: Any) -> bool:
    """Return whether a saved value is a primitive, rather than a shape, a number, an index or a dtype."""
    return hasattr(x, "shape") and hasattr(x, "dtype")


def untracked(value: Any) -> Tracked:
    """Wrap an inner primitive as an untracked primitive of `Autodiff`."""
    out = Tracked()
    out.value = value
    out.node = None
    out.meta = None
    return out


def leaf_of(value: Any) -> Tracked:
    """Wrap an inner primitive as a leaf of `Autodiff`."""
    out = untracked(value)
    out.node = Leaf(value)
    return out


def leaf_on(device: Any, value: Any) -> Tracked:
    """Wrap a primitive of the inner device of an `Autodiff` as a leaf on every level of it."""
    one_level = device.computing is device.inner and not device.inner.differentiates
    return leaf_of(value) if one_level else device.require_grad(device.lift(value))


def new_node(kind: type[Node], edges: list[tuple[Node | Leaf, Vjp, tuple[Any, ...]]]) -> Node:
    """Create a node of class ``kind`` with any number of edges (parent, vjp, saved values), at least one."""
    node = kind()
    node.parent0, node.vjp0, node.saved0 = edges[0]
    if len(edges) == 2:
        node.parent1, node.vjp1, node.saved1 = edges[1]
    elif len(edges) > 2:
        # A node has two slots for edges. The first edge keeps its slot; relays, in a balanced tree, take the others:
        # pair the edges until one is left.
        rest: list[Any] = edges[1:]
        while len(rest) > 1:
            rest = [
                (new_node(kind.relay, rest[k : k + 2]), identity, ()) if k + 1 < len(rest) else rest[k]
                for k in range(0, len(rest), 2)
            ]
        node.parent1, node.vjp1, node.saved1 = rest[0]
    else:
        node.parent1 = None
    node.seq = next_seq()
    node.alive = True
    return node


def carrying(device: Any, x: Tracked, buffer: str, update: Float) -> Tracked:
    """Return x such that a backward pass that reaches it delivers ``update`` for ``buffer``. ``update`` is a primitive
    of the inner device. The result is tracked even if x is not, so that the update is delivered. If recording is off, x
    itself is returned."""
    mode = device.mode()
    if mode is not None and mode.silences(device.level):
        return x
    leaf = Leaf(update)
    leaf.buffer = buffer
    to_leaf = (leaf, constant_vjp, (update,))
    node = new_node(UpdateNode, [to_leaf] if x.node is None else [(x.node, identity, ()), to_leaf])
    if mode is not None:
        mode.record(device, node)
    out = untracked(x.value)
    out.node = node
    out.meta = x.meta
    return out


def constant_vjp(inner: Any, grad: Float, update: Float) -> Float:
    """Return the update, whatever the gradient is: the vjp of an update's edge."""
    return update


def conjugate(b: Any, x: Inexact) -> Inexact:
    """Return the conjugate of a complex primitive; floats and None unchanged."""
    return b.conj(x) if x is not None and x.dtype.kind == "c" else x


def from_user(b: Any, parts: Iterable[Inexact | PartialGrad | None]) -> tuple[Any, ...]:
    """Convert gradients that user code returned to the engine's convention, without conjugates."""
    return tuple([part if isinstance(part, PartialGrad) else conjugate(b, part) for part in parts])


def conjugated(b: Any, gradients: dict[K, Inexact]) -> dict[K, Inexact]:
    """Return the gradients, those of complex numbers conjugated."""
    for x in gradients.values():
        if x.dtype.kind == "c":
            return {key: conjugate(b, grad) for key, grad in gradients.items()}
    return gradients
