"""Hooks: functions called with the gradients of tensors, and with the gradients that enter and leave nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, final, overload

from burnpy.autodiff.graph import (
    Leaf,
    Node,
    Relay,
    Retained,
    Tracked,
    conjugate,
    new_node,
    next_seq,
    saved_tuple,
    untracked,
)
from burnpy.autodiff.joint_nodes import put_gradient, record_outputs, result_vjp
from burnpy.autodiff.tools.user_code import call_user_code
from burnpy.autodiff.tools.user_values import TensorSpec, mismatch
from burnpy.backend.errors import ArgumentError, GraphError, KindError, NotTrackedError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad, Vjp, identity
from burnpy.tensor.backward import inner_of
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import same_device
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import describe, tensor_of
from burnpy.typevars import I, T

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import ThisOnAutodiff


class Hook:
    """A registered function, or None after it was removed, and its name for error messages."""

    __slots__ = ("function", "name")

    function: Callable[..., Any] | None
    name: str

    def __init__(self, operation: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise KindError(f"{operation}() takes a function, not {describe(function)}")
        self.function = function
        self.name = f"hook {getattr(function, '__qualname__', None) or repr(function)} of {operation}()"

    def call(self, inner: Any, *args: Any) -> Any:
        """Call the function with tensors on a device and return its result; None if the hook was removed."""
        if self.function is None:
            return None
        return call_user_code(f"the {self.name}", "as many", self.function, inner, *args)


@final
class HookHandle:
    """A handle that removes a hook: by ``handle.remove()`` or at the end of ``with handle:``; repeated calls are fine.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> x, handle = x.register_hook(lambda grad: grad * 10.0)
    >>> with handle:
    ...     (x * x).sum().backward()[x].tolist()
    [20.0, 40.0]
    >>> (x * x).sum().backward()[x].tolist()
    [2.0, 4.0]
    """

    __slots__ = ("_hooks",)

    def __init__(self, *hooks: Hook) -> None:
        """Create a handle, as the functions that register hooks do."""
        self._hooks = hooks

    def remove(self) -> None:
        """Remove the hook: it is not called any more, and the function is released."""
        for hook in self._hooks:
            hook.function = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        names = ", ".join(hook.name for hook in self._hooks)
        return f"HookHandle({names}{', removed' if all(hook.function is None for hook in self._hooks) else ''})"


class Overlay(Node):
    """A node on top of a tensor's node; in `Gradients` it stands for the same tensor."""

    __slots__ = ("source",)

    source: Node | Leaf

    @property
    def leaf(self) -> Leaf | None:
        """The leaf of the tensor's node."""
        return self.source.leaf

    @property
    def target(self) -> Node | Leaf:
        """The tensor's node."""
        return self.source


class Hooked(Overlay):
    """A node that passes its gradient on through the hooks saved in it."""

    __slots__ = ()

    operation = "register_hook"

    @property
    def beneath(self) -> Node | Leaf:
        """The node under the hooks."""
        return self.parent0 or self

    def over(self, node: Node) -> Node:
        """Return a node with the same hooks on top of ``node``."""
        return _hooked(node, self.saved0)


class _Fixed:
    """A descriptor for a slot of `Node` that is written once; later writes, such as freeing, are ignored."""

    def __init__(self, slot: Any) -> None:
        self.slot = slot

    def __get__(self, node: Any, owner: type) -> Any:
        return self if node is None else self.slot.__get__(node)

    def __set__(self, node: Any, value: Any) -> None:
        try:
            self.slot.__get__(node)
        except AttributeError:
            self.slot.__set__(node, value)

    def __delete__(self, node: Any) -> None:
        pass


def lasting(kind: type[Node]) -> type[Node]:
    """Return a subclass of a node class whose nodes are not consumed by backward passes, as leaves are not."""
    fixed = {name: _Fixed(vars(Node)[name]) for name in ("alive", "parent0", "parent1", "saved0", "saved1")}
    return type(f"Lasting{kind.__name__}", (kind,), {"__slots__": (), "__doc__": kind.__doc__, **fixed})


_LastingHooked = lasting(Hooked)


def _hooked(node: Node | Leaf, hooks: tuple[Hook, ...]) -> Node:
    """Create the node with hooks on top of a tensor's node."""
    source = node.target
    over = new_node(_LastingHooked if source.__class__ is Leaf else Hooked, [(node, _hooked_vjp, hooks)])
    over.source = source  # type: ignore[attr-defined]  # new_node returns a node of the class passed to it
    return over


def _hooked_vjp(inner: Any, grad: Float, *hooks: Hook) -> Float:
    """Return the gradient, replaced by each hook that returns another: the vjp of tensor hooks."""
    for hook in hooks:
        result = hook.call(inner, _shown(inner, grad))
        if result is not None:
            grad = replacement(hook, result, grad, inner)
    return grad


def replacement(hook: Hook, returned: object, grad: Float, inner: Any, position: str = "") -> Float:
    """Return the primitive of the gradient that a hook returned, after checking it against the original gradient."""
    error = mismatch(returned, TensorSpec(type(_shown(inner, grad)), grad.shape, grad.dtype, True), inner)
    if error is not None:
        raise type(error)(f"the {hook.name} returned{position} {error}; a hook may return None to leave the gradient")
    return conjugate(inner, returned._primitive)  # type: ignore[attr-defined]  # mismatch checked that it is a tensor


def _shown(inner: Any, grad: Float) -> Any:
    """Return a gradient as the tensor that a hook gets."""
    return tensor_of(inner, conjugate(inner, grad))


def tracked(x: Tensor[Any], operation: str) -> Node | Leaf:
    """Return the node of a tensor on which a hook is registered."""
    inner_of(x, f"{operation}()")
    if hasattr(x.device, "refuse"):  # a level whose function has returned
        x.device.refuse(operation)
    node = getattr(x._primitive, "node", None)
    if node is None:
        raise NotTrackedError(
            f"{operation}() got a tensor of shape {x.shape} on {x.device} that is not tracked, and has no "
            "gradient; call require_grad() on it, or on the tensors it is computed from"
        )
    return node  # type: ignore[no-any-return]  # of a tracked primitive


def overlaid(x: Any, node: Node) -> Any:
    """Return the tensor with another node, which is recorded now."""
    device: Any = x.device
    primitive: Tracked = untracked(x._primitive.value)
    primitive.node = node
    primitive.meta = x._primitive.meta
    mode = device.mode()
    if mode is not None:
        mode.record(device, node)
    return x._like(primitive)


def hook_gradient(x: Any, hook: Callable[[Any], Any]) -> tuple[Any, HookHandle]:
    """Implement ``x.register_hook(hook)``."""
    node = tracked(x, "register_hook")
    cell = Hook("register_hook", hook)
    if isinstance(node, Hooked) and node.beneath is not node:  # earlier hooks come first, as they were registered
        over = _hooked(node.beneath, (*node.saved0, cell))
    else:
        over = _hooked(node, (cell,))
    return overlaid(x, over), HookHandle(cell)


class GroupedNode(Overlay):
    """A node that passes its gradient on, both to the tensor and to its group."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


class GroupNode(Node):
    """A node without parents that collects the gradients of a group of tensors in each pass."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


_LastingGrouped = lasting(GroupedNode)
_LastingGroup = lasting(GroupNode)


@overload
def register_multi_grad_hook(
    tensors: Sequence[ThisOnAutodiff[I, T]],
    hook: Callable[[list[Tensor[I] | None]], None],
    *,
    mode: Literal["all"] = "all",
) -> tuple[tuple[T, ...], HookHandle]: ...
@overload
def register_multi_grad_hook(
    tensors: Sequence[ThisOnAutodiff[I, T]], hook: Callable[[Tensor[I]], None], *, mode: Literal["any"]
) -> tuple[tuple[T, ...], HookHandle]: ...
@explained
def register_multi_grad_hook(
    tensors: Sequence[Any], hook: Callable[[Any], None], *, mode: Literal["all", "any"] = "all"
) -> tuple[tuple[Any, ...], HookHandle]:
    """Register a function that is called with the gradients of several tensors in each pass that reaches any of them.

    Returns the tensors with the hook, and a handle that removes it. Compute with the returned tensors: the hook does
    not see gradients of the original ones. The function cannot replace gradients.

    Args:
        tensors: tracked tensors of one device, leaves or not.
        hook: for "all", takes the list of their gradients, None for those that the pass does not reach; for "any", the
            first gradient that is computed.
        mode: "all" calls the hook when all gradients of the pass are computed, "any" as soon as one is.

    Raises:
        ArgumentError: ``mode`` is neither; there are no tensors; in a pass, the function returned something.
        KindError: a tensor is not a float tensor, or the hook is not a function.
        NotTrackedError: a tensor is not tracked.
        DeviceError: the tensors are on several devices.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> (x, y), handle = register_multi_grad_hook([x, x.exp()], lambda grads: print([g is not None for g in grads]))
    >>> grads = (x * 2.0).sum().backward()
    [True, False]
    """
    name = "register_multi_grad_hook"
    if mode not in ("all", "any"):
        raise ArgumentError(f'{name}() takes mode="all" or mode="any", not {mode!r}')
    given: object = tensors
    if not isinstance(given, Sequence) or not tensors or not all(isinstance(x, DIFFERENTIABLE) for x in tensors):
        raise KindError(f"{name}() takes a sequence of float tensors, at least one, not {tensors!r:.80}")
    nodes = [tracked(x, name) for x in tensors]
    same_device(name, *tensors)
    cell = Hook(name, hook)
    group = _LastingGroup()
    group.parent0 = group.parent1 = None
    group.vjp0, group.saved0 = (_all_vjp if mode == "all" else _any_vjp), (cell,)
    group.seq, group.alive = next_seq(), True
    add = put_gradient if mode == "all" else partial(_put_and_call, cell)
    hooked = []
    for k, (x, node) in enumerate(zip(tensors, nodes, strict=True)):
        source = node.target
        kind = _LastingGrouped if source.__class__ is Leaf else GroupedNode
        over = new_node(kind, [(node, identity, ()), (group, result_vjp, (add, len(nodes), k))])
        over.source = source  # type: ignore[attr-defined]  # new_node returns a node of the class passed to it
        hooked.append(overlaid(x, over))
    return tuple(hooked), HookHandle(cell)


def _all_vjp(inner: Any, grads: Sequence[Float | None], hook: Hook) -> None:
    """Call the hook of a group of mode "all": the pass has visited all members that it reaches."""
    _call_group(hook, inner, [None if grad is None else _shown(inner, grad) for grad in grads])


def _any_vjp(inner: Any, grads: object, hook: Hook) -> None:
    """Do nothing: the hook of a group of mode "any" has been called already."""


def _put_and_call(hook: Hook, inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """Add a gradient to a group of mode "any"; the first one of a pass calls the hook."""
    if total is None:
        _call_group(hook, inner, _shown(inner, grad))
    return put_gradient(inner, total, count, k, grad)


def _call_group(hook: Hook, inner: Any, argument: Any) -> None:
    if (result := hook.call(inner, argument)) is not None:
        raise ArgumentError(
            f"the {hook.name} returned {result!r:.80}, and cannot replace gradients; use x.register_hook(f)"
        )


class NodeHooked(Node):
    """A node that runs the rule of another node between hooks."""

    __slots__ = ()

    operation = "register_node_hook"


class _HookedEdge(NamedTuple):
    """An edge of the hooked node, without its parent."""

    vjp: Vjp
    kept: int  #: the number of its saved values
    onward: tuple[_HookedEdge, ...]  #: the edges of the relay that it leads to; empty if it leads to an argument


def hook_node(
    x: Any, before: Callable[[Any], Any] | None, after: Callable[[Any, Any], Any] | None
) -> tuple[Any, HookHandle]:
    """Implement ``x.register_node_hook(before=…, after=…)``."""
    name = "register_node_hook"
    node = tracked(x, name)
    beneath = node.beneath if isinstance(node, Hooked) else node
    if isinstance(beneath, Leaf):
        raise NotTrackedError(f"{name}() got a leaf, which no operation made; use x.register_hook(f)")
    if isinstance(beneath, (Overlay, Retained)):
        raise ArgumentError(
            f"{name}() got a tensor after {beneath.operation}(); register node hooks before, as in "
            f"x.register_node_hook(...)[0].{beneath.operation}(...)"
        )
    if before is None and after is None:
        raise ArgumentError(f"{name}() takes before=f or after=f, or both, got neither")
    hooks = [None if function is None else Hook(name, function) for function in (before, after)]
    parents: list[Node | Leaf] = []
    kept: list[Any] = []
    edges = _copied(beneath, parents, kept)
    if not hasattr(beneath, "alive"):
        raise GraphError(f"{name}() got a tensor whose graph a backward pass has freed; compute it again")
    device: Any = x.device
    (primitive,) = record_outputs(
        device, NodeHooked, [x._primitive.value], parents, _vjp_with_hooks, (*hooks, edges, *kept)
    )
    if isinstance(node, Hooked) and isinstance(primitive.node, Node):
        primitive.node = node.over(primitive.node)
    return x._like(primitive), HookHandle(*filter(None, hooks))


def _copied(node: Node, parents: list[Node | Leaf], kept: list[Any]) -> tuple[_HookedEdge, ...]:
    """Return the edges of a node; their parents and saved values are appended to the lists."""
    edges = []
    for parent, slot in ((node.parent0, 0), (node.parent1, 1)):
        if parent is None:
            continue
        vjp, own = (node.vjp0, saved_tuple(node.saved0)) if slot == 0 else (node.vjp1, saved_tuple(node.saved1))
        if vjp is result_vjp:
            raise ArgumentError(
                "register_node_hook() cannot hook an operation with several results, which share one rule; "
                "use x.register_hook(f) on each"
            )
        kept += own
        if isinstance(parent, Relay):
            edges.append(_HookedEdge(vjp, len(own), _copied(parent, parents, kept)))
        else:
            parents.append(parent)
            edges.append(_HookedEdge(vjp, len(own), ()))
    return tuple(edges)


def _vjp_with_hooks(
    inner: Any,
    grads: Sequence[Float],
    before: Hook | None,
    after: Hook | None,
    edges: tuple[_HookedEdge, ...],
    *kept: Any,
) -> tuple[Float, ...]:
    """Call the node's own vjps, between the hooks: the vjp of a hooked node."""
    (grad,) = grads
    if before is not None and before.function is not None:
        (grad,) = _replaced(before, before.call(inner, _tensors(inner, (grad,))), (grad,), inner)
    parts: list[Float] = []
    _append_parts(inner, grad, edges, list(reversed(kept)), parts)
    if after is not None and after.function is not None:
        result = after.call(inner, _tensors(inner, parts), _tensors(inner, (grad,)))
        parts = _replaced(after, result, parts, inner)
    return tuple(parts)


def _append_parts(inner: Any, grad: Any, edges: tuple[_HookedEdge, ...], kept: list[Any], parts: list[Float]) -> None:
    """Append the gradients computed by the edges to ``parts``, taking their saved values from the end of ``kept``."""
    for edge in edges:
        part = edge.vjp(inner, grad, *[kept.pop() for _ in range(edge.kept)])
        if edge.onward:
            _append_parts(inner, part, edge.onward, kept, parts)
        else:
            parts.append(part.add(inner, None, *part.arguments) if isinstance(part, PartialGrad) else part)


def _tensors(inner: Any, parts: Sequence[Float]) -> tuple[Any, ...]:
    return tuple(_shown(inner, part) for part in parts)


def _replaced(hook: Hook, returned: object, parts: Sequence[Float], inner: Any) -> list[Float]:
    """Return the gradients with those replaced for which the hook returned others: a tuple, or a single gradient."""
    if returned is None:
        return list(parts)
    members = returned if isinstance(returned, tuple) else (returned,)
    if len(members) != len(parts):
        raise ArgumentError(
            f"the {hook.name} returned {len(members)} gradients in place of {len(parts)}; return as many, None for "
            "each that is to be left, or None for all"
        )
    return [
        part if member is None else replacement(hook, member, part, inner, f" as gradient {k}")
        for k, (member, part) in enumerate(zip(members, parts, strict=True))
    ]
