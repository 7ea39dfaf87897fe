"""`register_multi_grad_hook`: a function that is told of the gradients of a group of tensors in each backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from burnpy.autodiff.graph import Leaf, Node, identity, new_node, next_seq
from burnpy.autodiff.hooks.tensor_hooks import Hook, HookHandle, Seen, lasting, seen_through, tracked
from burnpy.autodiff.multi_output import placed, put
from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase, new_tensor
from burnpy.tensor.operands import same_device
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.rematerialize.balanced import Balanced

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Grouped(Seen):
    """A node that hands its gradient on, and shows it to its group."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


class Group(Node):
    """Where the gradients of a group of tensors come together in each pass. It has no parents."""

    __slots__ = ()

    operation = "register_multi_grad_hook"


_LastingGrouped = lasting(Grouped)
_LastingGroup = lasting(Group)


@overload
def register_multi_grad_hook(
    tensors: Sequence[Tensor[Autodiff[Balanced[I]]]],
    hook: Callable[[list[Tensor[I] | None]], None],
    *,
    mode: Literal["all"] = "all",
) -> tuple[tuple[Tensor[Autodiff[Balanced[I]]], ...], HookHandle]: ...
@overload
def register_multi_grad_hook(
    tensors: Sequence[Tensor[Autodiff[Balanced[I]]]], hook: Callable[[Tensor[I]], None], *, mode: Literal["any"]
) -> tuple[tuple[Tensor[Autodiff[Balanced[I]]], ...], HookHandle]: ...
@overload
def register_multi_grad_hook(
    tensors: Sequence[Tensor[Autodiff[I]]],
    hook: Callable[[list[Tensor[I] | None]], None],
    *,
    mode: Literal["all"] = "all",
) -> tuple[tuple[Tensor[Autodiff[I]], ...], HookHandle]: ...
@overload
def register_multi_grad_hook(
    tensors: Sequence[Tensor[Autodiff[I]]], hook: Callable[[Tensor[I]], None], *, mode: Literal["any"]
) -> tuple[tuple[Tensor[Autodiff[I]], ...], HookHandle]: ...
def register_multi_grad_hook(
    tensors: Sequence[Tensor[Any]], hook: Callable[[Any], None], *, mode: Literal["all", "any"] = "all"
) -> tuple[tuple[Tensor[Any], ...], HookHandle]:
    """The same tensors, of whose gradients a function is told in every backward pass that reaches any of them.

    Use the tensors returned from then on; the gradients of those given are not seen. The function cannot replace any.

    Args:
        tensors: tracked ones of one device, leaves or not.
        hook: for "all", takes the list of their gradients, None for those that the pass does not reach; for "any", the
            first gradient that is there.
        mode: "all", when all that the pass reaches are there, or "any", as soon as one is.

    Raises:
        ArgumentError: ``mode`` is neither; no tensors; in a pass, the function returned something.
        KindError: something is no float tensor, or no function.
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
    group.vjp0, group.saved0 = (_tell_all if mode == "all" else _done), (cell,)
    group.seq, group.alive = next_seq(), True
    add = put if mode == "all" else partial(_put_and_tell, cell)
    seen = []
    for k, (x, node) in enumerate(zip(tensors, nodes, strict=True)):
        source = node.target
        kind = _LastingGrouped if source.__class__ is Leaf else Grouped
        over = new_node(kind, [(node, identity, ()), (group, placed, (add, len(nodes), k))])
        over.source = source  # type: ignore[attr-defined]  # linked makes the class it is given
        seen.append(seen_through(x, over))
    return tuple(seen), HookHandle(cell)


def _tell_all(inner: Any, grads: Sequence[Float | None], hook: Hook) -> None:
    """The vjp of a group of mode "all": by then a pass has come through every member that it reaches."""
    _tell(hook, inner, [None if grad is None else new_tensor(Tensor, inner, grad) for grad in grads])


def _done(inner: Any, grads: object, hook: Hook) -> None:
    """The vjp of a group of mode "any"."""


def _put_and_tell(hook: Hook, inner: Any, total: list[Any] | None, count: int, k: int, grad: Float) -> list[Any]:
    """How a gradient enters a group of mode "any": the first of a pass is told."""
    if total is None:
        _tell(hook, inner, new_tensor(Tensor, inner, grad))
    return put(inner, total, count, k, grad)


def _tell(hook: Hook, inner: Any, what: Any) -> None:
    if (found := hook.called(inner, what)) is not None:
        raise ArgumentError(
            f"the {hook.name} returned {found!r:.80}, and cannot replace gradients; x.register_hook(f) can"
        )
