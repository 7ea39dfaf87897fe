"""`register_multi_grad_hook`: a function called with the gradients of a group of tensors in each backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.autodiff.graph import Leaf, Node, new_node, next_seq
from burnpy.autodiff.hooks.tensor_hooks import Hook, HookHandle, Seen, lasting, seen_through, tracked
from burnpy.autodiff.multi_output import placed, put
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import identity
from burnpy.tensor.operands import same_device
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import I, T

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import ThisOnAutodiff


class Grouped(Seen):
    """A node that passes its gradient on, both to the tensor and to its group."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


class Group(Node):
    """A node without parents that collects the gradients of a group of tensors in each pass."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


_LastingGrouped = lasting(Grouped)
_LastingGroup = lasting(Group)


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
        KindError: a tensor is no float tensor, or the hook is no function.
        NotTrackedError: a tensor is not tracked.
        DeviceError: the tensors are on several devices.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> (x, y), handle = register_multi_grad_hook([x, x.exp()], lambda grads: print([g is not None for g in grads]))
    >>> grads = (x * 2.0).sum().backward()
    [True, False]
    """
    name = "register_multi_grad_hook"
    if mode not in ("all", "any"):
        raise ArgumentError(f'{name}() takes mode="all" or mode="any", not {mode!r}')
    if isinstance(tensors, TensorBase) or not tensors or not all(isinstance(x, Tensor) for x in tensors):
        raise KindError(f"{name}() takes a sequence of float tensors, at least one, not {tensors!r:.80}")
    nodes = [tracked(x, name) for x in tensors]
    same_device(name, *tensors)
    cell = Hook(name, hook)
    group = _LastingGroup()
    group.parent0 = group.parent1 = None
    group.vjp0, group.saved0 = (_call_with_all if mode == "all" else _done), (cell,)
    group.seq, group.alive = next_seq(), True
    add = put if mode == "all" else partial(_put_and_call, cell)
    hooked = []
    for k, (x, node) in enumerate(zip(tensors, nodes, strict=True)):
        source = node.target
        kind = _LastingGrouped if source.__class__ is Leaf else Grouped
        over = new_node(kind, [(node, identity, ()), (group, placed, (add, len(nodes), k))])
        over.source = source  # type: ignore[attr-defined]  # new_node returns a node of the class passed to it
        hooked.append(seen_through(x, over))
    return tuple(hooked), HookHandle(cell)


def _call_with_all(inner: Any, grads: Sequence[Float | None], hook: Hook) -> None:
    """The vjp of a group of mode "all": calls the hook; the pass has visited all members that it reaches."""
    _call(hook, inner, [None if grad is None else new_tensor(Tensor, inner, grad) for grad in grads])


def _done(inner: Any, grads: object, hook: Hook) -> None:
    """The vjp of a group of mode "any", whose hook has been called already."""


def _put_and_call(hook: Hook, inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """Add a gradient to a group of mode "any"; the first one of a pass calls the hook."""
    if total is None:
        _call(hook, inner, new_tensor(Tensor, inner, grad))
    return put(inner, total, count, k, grad)


def _call(hook: Hook, inner: Any, argument: Any) -> None:
    if (result := hook.called(inner, argument)) is not None:
        raise ArgumentError(
            f"the {hook.name} returned {result!r:.80}, and cannot replace gradients; x.register_hook(f) can"
        )
