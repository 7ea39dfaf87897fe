"""`GradFn`, a view of the operation that computed a tensor, like PyTorch's ``grad_fn``, and views of nodes and edges.

In views, relays count as part of the operation that they were recorded with, and a hooked tensor as the tensor itself.

A vjp must return a gradient of its argument's shape, so the shape of a node's result and its saved values determine
the shapes of its parents. Starting from a tensor, whose shape is known, they are inferred down to the leaves, at no
cost to recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from burnpy.autodiff.graph import EdgeKind, Leaf, Meta, Node, Relay, Retained, is_array, mapped, saved_tuple, untracked
from burnpy.autodiff.recording import note, stack_of
from burnpy.autodiff.rule_table import RULES, Rule
from burnpy.autodiff.tools.saved_tensors import Stored, array_of
from burnpy.backend.backend import Backend
from burnpy.backend.call_origin import Line, lines_of
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import GraphError, NotTrackedError
from burnpy.backend.rules import PartialGrad, Vjp
from burnpy.backend.schema import Algebra
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.tensor import Tensor


class Edge(NamedTuple):
    """One edge of a node, or of one of its relays."""

    parent: Node | Leaf
    vjp: Vjp
    kept: tuple[Any, ...]
    kind: EdgeKind | None  #: None in nodes of a user's own operation


def edges(node: Any) -> list[Edge]:
    """Return the edges of a node and of its relays, in the order of the arguments; none for a freed node."""
    collected: list[Edge] = []
    stack = [node]
    while stack:
        part: Any = stack.pop()
        if part.__class__ is Edge:
            collected.append(part)
            if not isinstance(part.parent, Relay):
                continue
            part = part.parent
        own = [Edge(p.target, vjp, kept, edge_kind(part, vjp)) for p, vjp, kept in _slots(part) if p is not None]
        if part.__class__ is Retained:
            own = [edge for edge in own if edge.parent is not part.kept_leaf]
        stack += reversed(own)
    return collected


def _slots(node: Any) -> list[tuple[Any, Any, Any]]:
    has_second = node.parent1 is not None
    return [
        (node.parent0, node.vjp0, saved_tuple(node.saved0)),
        *([(node.parent1, node.vjp1, saved_tuple(node.saved1))] if has_second else []),
    ]


def parents(node: Node) -> list[Node | Leaf]:
    """Return the nodes of the tracked arguments of a node's operation."""
    return [edge.parent for edge in edges(node) if not isinstance(edge.parent, Relay)]


def is_freed(node: Any) -> bool:
    """Return whether a backward pass consumed the node."""
    return not isinstance(node, Leaf) and not hasattr(node, "alive")


def walk(roots: Iterable[Node | Leaf | None]) -> tuple[list[Node], list[Leaf]]:
    """Return all nodes that the roots depend on, oldest first and without relays, and all leaves. Not recursive."""
    seen: set[Any] = {root.target for root in roots if root is not None}
    stack = list(seen)
    nodes: list[Node] = []
    leaves: list[Leaf] = []
    while stack:
        node = stack.pop()
        if node.__class__ is Leaf:
            leaves.append(node)
            continue
        nodes.append(node)
        for parent in parents(node):
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    nodes.sort(key=attrgetter("seq"))
    return nodes, leaves


def unwrapped(vjp: Any) -> Any:
    """Return the recorded vjp without the interceptors and savers around it, which are partial functions."""
    while isinstance(vjp, partial):
        vjp = vjp.args[-1]
    return vjp


def edge_kind(node: Node, vjp: Any) -> EdgeKind | None:
    """Return the meaning of a vjp of a node; None if the node's operation is a user's own."""
    return node.edge_kinds.get(unwrapped(vjp))


def saved(edge: Edge) -> dict[str, Any]:
    """Return the saved values of an edge by name; of a user's own operation, which gives no names, the arrays."""
    if edge.kind is None:
        arrays = [x for x in edge.kept if is_array(x) or hasattr(x, "restored")]
        return {f"saved_{k}": x for k, x in enumerate(arrays)}
    return {name: x for name, x in zip(edge.kind.saved, edge.kept, strict=True) if name}


def all_saved(node: Node) -> dict[str, Any]:
    """Return the saved values of all edges of a node, by name; a name used for two different values is numbered."""
    values: dict[str, Any] = {}
    for edge in edges(node):
        for name, value in saved(edge).items():
            label, k = name, 0
            while label in values and values[label] is not value and not _equal(values[label], value):
                k += 1
                label = f"{name}_{k}"
            values[label] = value
    return values


def _equal(a: Any, b: Any) -> bool:
    return not is_array(a) and not is_array(b) and type(a) is type(b) and bool(a == b)


def metas(device: Any, roots: Iterable[tuple[Node | Leaf, Meta | None]], nodes: list[Node]) -> dict[Any, Meta | None]:
    """Return the shape and dtype of the results of ``nodes`` (oldest first) and their parents; None if not known.
    ``device`` is the `Autodiff` that recorded them."""
    result: dict[Any, Meta | None] = dict(roots)
    for node in reversed(nodes):
        own = result[node] = result.get(node) or own_meta(node)
        for edge, meta in parents_with_metas(device, node, own):
            if result.get(edge.parent) is None:
                result[edge.parent] = meta
    return result


def parents_with_metas(device: Any, node: Node, meta: Meta | None) -> list[tuple[Edge, Meta | None]]:
    """Return the edges to a node's parents, each with the parent's shape and dtype; ``meta`` is the node's own."""
    return [(edge, meta_of(device, node, edge, meta)) for edge in edges(node) if not isinstance(edge.parent, Relay)]


def own_meta(node: Node) -> Meta | None:
    """Return the shape and dtype of a node's result as far as its saved values determine them, else None."""
    rule = RULES.get(node.operation)
    for edge in edges(node):
        kept = saved(edge)
        out: Any = kept.get("out")
        if is_array(out):
            return out.shape, out.dtype
        if rule is not None and len(rule.vjps) == 1 and edge.kind is not None:
            x: Any = kept.get(edge.kind.argument or "")
            if is_array(x) and _has_shape_of(rule, edge.kind.argument):
                return x.shape, x.dtype
    return None


def meta_of(device: Any, node: Node, edge: Edge, meta: Meta | None) -> Meta | None:
    """Return the shape and dtype of an edge's parent, or None; ``meta`` has the node's shape and dtype."""
    if isinstance(edge.parent, Leaf):
        return edge.parent.value.shape, edge.parent.value.dtype
    if node.__class__ is Retained:
        return meta
    rule = RULES.get(node.operation)
    if rule is None or edge.kind is None or edge.kind.argument is None:
        return None
    argument, kept = edge.kind.argument, saved(edge)
    own: Any = kept.get(argument)
    if is_array(own):
        return own.shape, own.dtype
    if meta is None:
        return None
    shape = kept.get("x_shape" if argument == "xs" else f"{argument}_shape")
    dtype = kept.get(f"{argument}_dtype", meta[1])
    if shape is None and _has_shape_of(rule, argument):
        shape = meta[0]
    if shape is None and rule.matrices is not None:
        shape = _factor(rule.matrices.dims, argument, kept, meta[0])
    return _pulled_back(device.inner, rule, edge, meta) if shape is None else (shape, dtype)


def _has_shape_of(rule: Rule, argument: str | None) -> bool:
    """Return whether the result has the shape of an argument, where no adjoint of broadcasting was recorded."""
    op = rule.operation
    return op.elementwise or op.like == argument


def _factor(dims: tuple[int, int], argument: str, kept: dict[str, Any], shape: Any) -> Any:
    """Return the shape of one factor of a matrix product, from the other factor, which is saved, and the result."""
    k = ("x", "y").index(argument)
    other, own, its = kept["yx"[k]].shape, dims[k], dims[1 - k]
    inner = other[1 - its]
    return (shape[k], inner) if own == 0 else (inner, shape[k])


def _pulled_back(inner: Backend, rule: Rule, edge: Edge, meta: Meta) -> Meta | None:
    """Return the shape and dtype of a linear operation's vjp of zeros; the operation saved no float array."""
    if rule.operation.algebra not in (Algebra.LINEAR, Algebra.STRUCTURAL) or isinstance(edge.vjp, partial):
        return None
    zeros = inner.expand(inner.full((), 0.0, meta[1]), meta[0])  # a view: the vjp of a view needs no memory either
    part = edge.vjp(inner, zeros, *edge.kept)
    return None if isinstance(part, PartialGrad) else (part.shape, part.dtype)


@final
class GradFn:
    """The operation that computed a tracked tensor, or a leaf at the end of a graph.

    ``x.grad_fn`` returns it, and its `next_functions` the operations before it. As in PyTorch it keeps these and their
    saved tensors alive until a backward pass frees them; tensors do not refer to it. Two views are equal if they show
    the same node.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> y = (x * x).sum()
    >>> y.grad_fn
    GradFn(sum, shape=(), dtype=float32)
    >>> y.grad_fn.next_functions[0].next_functions
    (GradFn(leaf, shape=(2,), dtype=float32), GradFn(leaf, shape=(2,), dtype=float32))
    >>> y.grad_fn.next_functions[0].saved["y"].tolist()
    [1.0, 2.0]
    """

    __slots__ = ("_device", "_meta", "_operation", "name")

    name: str
    """The name of the operation or `Function`; "leaf" for a leaf, "retain_grad" for a retained gradient."""

    def __init__(self, device: Any, node: Node | Leaf, meta: Meta | None) -> None:
        """Create the node, as ``x.grad_fn`` does. ``meta``: shape and dtype of the operation's result, if known."""
        self._device = device
        self._operation = node
        self._meta = own_meta(node) if meta is None and isinstance(node, Node) else meta
        self.name = "leaf" if isinstance(node, Leaf) else node.operation

    @property
    def shape(self) -> Shape | None:
        """The shape of the operation's result; None if it is not known, as for a `Function`'s argument."""
        return None if self._meta is None else self._meta[0]

    @property
    def dtype(self) -> DType | None:
        """The dtype of the operation's result; None if it is not known."""
        return None if self._meta is None else self._meta[1]

    @property
    def is_leaf(self) -> bool:
        """True if this is a leaf: a tensor that ``require_grad()`` returned."""
        return self.name == "leaf"

    @property
    def is_freed(self) -> bool:
        """True if a backward pass has consumed the operation and freed its saved tensors."""
        return is_freed(self._operation)

    @property
    def next_functions(self) -> tuple[GradFn, ...]:
        """The operations that computed the tracked arguments, in their order; empty for a leaf.

        Raises:
            GraphError: a backward pass has freed the operation.
        """
        node = self._unfreed("next_functions")
        if isinstance(node, Leaf):
            return ()
        parents = parents_with_metas(self._device, node, self._meta)
        return tuple(GradFn(self._device, edge.parent, meta) for edge, meta in parents)

    @property
    def saved(self) -> Mapping[str, Any]:
        """The values saved for the backward pass, by the names of the operation's arguments; "out" is its result.

        Arrays are returned as tensors on the inner device; shapes, dims and numbers unchanged. Arrays packed by
        saved-tensor hooks are not unpacked: the object that stores them is returned.

        Raises:
            GraphError: a backward pass has freed the operation.
        """
        node = self._unfreed("saved")
        return MappingProxyType(
            {} if isinstance(node, Leaf) else {k: self._shown(v) for k, v in all_saved(node).items()}
        )

    @property
    def variable(self) -> Tensor[Any]:
        """The tensor of a leaf.

        Raises:
            NotTrackedError: this is not a leaf.
        """
        node = self._operation
        if isinstance(node, Retained):
            node = node.kept_leaf
        if not isinstance(node, Leaf):
            raise NotTrackedError(
                f"grad_fn.variable is the tensor of a leaf, and this is {self.name}; see grad_fn.saved"
            )
        tracked = untracked(node.value)
        tracked.node = node
        return tensor_of(self._device, tracked)  # type: ignore[no-any-return]  # of that class

    @property
    def metadata(self) -> dict[str, Any]:
        """The operation's own dictionary for notes of any kind; it lives as long as the operation.

        Raises:
            NotTrackedError: this is a leaf, which has none.
        """
        if isinstance(self._operation, Leaf):
            raise NotTrackedError("grad_fn.metadata is an operation's, and this is a leaf, which has none")
        return note(self._operation)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The user's lines that recorded it, innermost last; filled inside of `track_lines` or `detect_anomaly`."""
        return lines_of(stack_of(self._operation))

    @property
    def line(self) -> Line | None:
        """The innermost of `lines`."""
        return self.lines[-1] if self.lines else None

    def _unfreed(self, what: str) -> Node | Leaf:
        if self.is_freed:
            raise GraphError(
                f"cannot read grad_fn.{what} of {self.name}: a backward pass has freed it; read it before the pass, or "
                "call backward(retain_graph=True)"
            )
        return self._operation

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Stored) or not is_array(value):
            return value
        kind = kind_of(value.dtype)
        inner = self._device.inner
        value = mapped(array_of, value)
        return new_tensor(TensorBase.kinds[kind], inner, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and self._operation is other._operation

    def __hash__(self) -> int:
        return hash(self._operation)

    def __repr__(self) -> str:
        facts = "" if self._meta is None else f", shape={self.shape}, dtype={self.dtype}"
        state = ", freed" if self.is_freed else ""
        return f"GradFn({self.name}{facts}{state})"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction]  # notebooks call it
        """Return the graph as a notebook shows it: a picture of the operations, or their number by name if there are
        many."""
        from burnpy.autodiff.tools.drawing import html_of

        return html_of(self._device, self._operation, self._meta)


def grad_fn_of(x: TensorBase[Any]) -> GradFn | None:
    """Return ``x.grad_fn``; None for leaves and for tensors not tracked on the outermost level of their device."""
    node = getattr(x._primitive, "node", None)
    if node is None or isinstance(node.target, Leaf):
        return None
    return GradFn(x.device, node.target, (x.shape, x.dtype))
