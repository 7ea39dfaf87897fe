"""Hooks before and after the rule of the operation that computed a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.graph import Leaf, Node, Relay, Retained, kept_of
from burnpy.autodiff.joint_nodes import record_outputs, result_vjp
from burnpy.autodiff.tools.hooks.tensor_hooks import Hook, Hooked, HookHandle, Overlay, replacement, tracked
from burnpy.backend.errors import ArgumentError, GraphError, NotTrackedError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad, Vjp
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor


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
    hooks = []
    for function in (before, after):
        hook = Hook(name, _nothing if function is None else function)
        if function is None:
            hook.function = None
        hooks.append(hook)
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
    return x._like(primitive), HookHandle(*hooks)


def _nothing(*grads: object) -> None:
    """Do nothing: a hook in place of a missing one."""


def _copied(node: Node, parents: list[Node | Leaf], kept: list[Any]) -> tuple[_HookedEdge, ...]:
    """Return the edges of a node; their parents and saved values are appended to the lists."""
    edges = []
    for parent, slot in ((node.parent0, 0), (node.parent1, 1)):
        if parent is None:
            continue
        vjp, own = (node.vjp0, kept_of(node.saved0)) if slot == 0 else (node.vjp1, kept_of(node.saved1))
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
    inner: Any, grads: Sequence[Float], before: Hook, after: Hook, edges: tuple[_HookedEdge, ...], *kept: Any
) -> tuple[Float, ...]:
    """Call the node's own vjps, between the hooks: the vjp of a hooked node."""
    (grad,) = grads
    if before.function is not None:
        (grad,) = _replaced(before, before.call(inner, _tensors(inner, (grad,))), (grad,), inner)
    parts: list[Float] = []
    _append_parts(inner, grad, edges, list(reversed(kept)), parts)
    if after.function is not None:
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
    return tuple(new_tensor(Tensor, inner, part) for part in parts)


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
