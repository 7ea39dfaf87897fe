"""Hooks: functions that a backward pass calls with gradients on their way.

Nothing is changed by hooking: a tensor's hooks are a further node over it, and what is returned is the tensor seen
through that node. A node over a leaf lasts as the leaf does, however many passes go through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from burnpy.autodiff.custom.arguments import Kept
from burnpy.autodiff.custom.results import misfit
from burnpy.autodiff.custom.user_code import called
from burnpy.autodiff.graph import Leaf, Node, Tracked, new_node, untracked
from burnpy.backend.backend import Backend
from burnpy.backend.errors import KindError, NotTrackedError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import describe, new_tensor
from burnpy.tensor.differentiation import inner_of
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Hook:
    """A function, until it is removed."""

    __slots__ = ("function", "name")

    function: Callable[..., Any] | None
    name: str

    def __init__(self, operation: str, function: Callable[..., Any] | None) -> None:
        if not callable(function):
            raise KindError(f"{operation}() takes a function, not {describe(function)}")
        self.function = function
        self.name = f"hook {getattr(function, '__qualname__', None) or repr(function)} of {operation}()"

    def called(self, inner: Any, *args: Any) -> Any:
        """What the function returns of tensors on a device; None where it was removed."""
        if self.function is None:
            return None
        return called(f"the {self.name}", "as many", self.function, inner, *args)


@final
class HookHandle:
    """What removes a hook: ``handle.remove()``, or the end of ``with handle:``. It can be removed more than once.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
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
        """Made by what registers hooks."""
        self._hooks = hooks

    def remove(self) -> None:
        """Let the hook be called no more, and forget it."""
        for hook in self._hooks:
            hook.function = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        names = ", ".join(hook.name for hook in self._hooks)
        return f"HookHandle({names}{', removed' if all(hook.function is None for hook in self._hooks) else ''})"


class Seen(Node):
    """A node over a tensor's, through which the tensor is seen; it stands for the same tensor in `Gradients`."""

    __slots__ = ("source",)

    source: Node | Leaf

    @property
    def leaf(self) -> Leaf | None:
        """The tensor's."""
        return self.source.leaf

    @property
    def target(self) -> Node | Leaf:
        """The tensor's node."""
        return self.source


class Hooked(Seen):
    """A node that hands its gradient on through hooks, which it keeps."""

    __slots__ = ()

    operation = "register_hook"

    @property
    def beneath(self) -> Node | Leaf:
        """The tensor's node."""
        return self.parent0 or self

    def over(self, node: Node) -> Node:
        """The same hooks on another node."""
        return _hooked(node, self.saved0)


class _Fixed:
    """A slot of `Node` that is written once, and which freeing the node leaves as it is."""

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
    """The class of nodes of a kind that no backward pass consumes, as none consumes leaves."""
    fixed = {name: _Fixed(vars(Node)[name]) for name in ("alive", "parent0", "parent1", "saved0", "saved1")}
    return type(f"Lasting{kind.__name__}", (kind,), {"__slots__": (), "__doc__": kind.__doc__, **fixed})


_LastingHooked = lasting(Hooked)


def _hooked(node: Node | Leaf, hooks: tuple[Hook, ...]) -> Node:
    source = node.target
    over = new_node(_LastingHooked if source.__class__ is Leaf else Hooked, [(node, _through, hooks)])
    over.source = source  # type: ignore[attr-defined]  # linked makes the class it is given
    return over


def _through(inner: Any, grad: Float, *hooks: Hook) -> Float:
    """The vjp: the gradient, replaced by each hook that returns another."""
    for hook in hooks:
        found = hook.called(inner, new_tensor(Tensor, inner, grad))
        if found is not None:
            grad = replacement(hook, found, grad, inner)
    return grad


def replacement(hook: Hook, found: object, grad: Float, inner: Any, position: str = "") -> Float:
    """The primitive of what a hook returned in place of a gradient.

    Raises:
        KindError, DeviceError, ShapeError, DTypeError: it is not of the gradient's kind, device, shape and dtype.
    """
    error = misfit(found, Kept(Tensor, grad.shape, grad.dtype, True), inner)
    if error is not None:
        raise type(error)(f"the {hook.name} returned{position} {error}; a hook may return None to leave the gradient")
    return found._primitive  # type: ignore[attr-defined]  # a tensor, as was just seen


def tracked(x: Tensor[Any], operation: str) -> Node | Leaf:
    """The node of a tensor whose gradient is to be hooked.

    Raises:
        NotTrackedError: it has none.
        EscapedError: it is of a level whose function has returned.
    """
    inner_of(x, f"{operation}()")
    if hasattr(x.device, "refuse"):  # a level whose function has returned
        x.device.refuse(operation)
    node = getattr(x._primitive, "node", None)
    if node is None:
        raise NotTrackedError(
            f"{operation}() was asked of a tensor of shape {x.shape} on {x.device} that is not tracked, and has no "
            "gradient; call require_grad() on it, or on what it is computed from"
        )
    return node  # type: ignore[no-any-return]  # of a tracked primitive


def seen_through(x: Any, node: Node) -> Any:
    """The tensor with another node, which was just recorded."""
    device: Any = x.device
    primitive: Tracked = untracked(x._primitive.value)
    primitive.node = node
    primitive.meta = x._primitive.meta
    mode = device.mode()
    if mode is not None:
        mode.record(device, node)
    return x._like(primitive)


def hook_gradient(
    x: Tensor[Autodiff[I]], hook: Callable[[Tensor[I]], Tensor[I] | None]
) -> tuple[Tensor[Autodiff[I]], HookHandle]:
    """What ``x.register_hook(hook)`` does."""
    node = tracked(x, "register_hook")
    cell = Hook("register_hook", hook)
    if isinstance(node, Hooked) and node.beneath is not node:  # earlier hooks come first, as they were registered
        over = _hooked(node.beneath, (*node.saved0, cell))
    else:
        over = _hooked(node, (cell,))
    return seen_through(x, over), HookHandle(cell)
