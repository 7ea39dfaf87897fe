"""`GradFn`: a view of the operation that computed a tensor, like PyTorch's ``grad_fn``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from burnpy.autodiff.graph import Leaf, Meta, Node, Retained, is_array, mapped, untracked
from burnpy.autodiff.recording import note, stack_of
from burnpy.autodiff.tools.graph_views import all_saved, is_freed, own_meta, parents_with_metas
from burnpy.autodiff.tools.saved_tensors import Stored, array_of
from burnpy.backend.call_origin import Line, lines_of
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import GraphError, NotTrackedError
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.tensor import Tensor


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
