"""Tensor hooks: functions that a backward pass calls with a tensor's gradient.

Registering a hook changes no tensor: it adds a node on top of the tensor's node, and returns a tensor with that node.
A node over a leaf is never freed by a backward pass, as the leaf is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, final

from burnpy.autodiff.custom.arguments import Kept
from burnpy.autodiff.custom.results import misfit
from burnpy.autodiff.custom.user_code import called
from burnpy.autodiff.graph import Leaf, Node, Tracked, new_node, untracked
from burnpy.backend.errors import KindError, NotTrackedError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import describe, new_tensor
from burnpy.tensor.differentiation import inner_of
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    pass


class Hook:
    """A registered function, or None after it was removed, and its name for error messages."""

    __slots__ = ("function", "name")

    function: Callable[..., Any] | None
    name: str

    def __init__(self, operation: str, function: Callable[..., Any] | None) -> None:
        if not callable(function):
            raise KindError(f"{operation}() takes a function, not {describe(function)}")
        self.function = function
        self.name = f"hook {getattr(function, '__qualname__', None) or repr(function)} of {operation}()"

    def called(self, inner: Any, *args: Any) -> Any:
        """Call the function with tensors on a device and return its result; None if the hook was removed."""
        if self.function is None:
            return None
        return called(f"the {self.name}", "as many", self.function, inner, *args)


@final
class HookHandle:
    """A handle that removes a hook: by ``handle.remove()`` or at the end of ``with handle:``; repeated calls are fine.

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
        """Called by the functions that register hooks."""
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


class Seen(Node):
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


class Hooked(Seen):
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
    source = node.target
    over = new_node(_LastingHooked if source.__class__ is Leaf else Hooked, [(node, _through, hooks)])
    over.source = source  # type: ignore[attr-defined]  # new_node returns a node of the class passed to it
    return over


def _through(inner: Any, grad: Float, *hooks: Hook) -> Float:
    """The vjp of tensor hooks: the gradient, replaced by each hook that returns another."""
    for hook in hooks:
        result = hook.called(inner, new_tensor(Tensor, inner, grad))
        if result is not None:
            grad = replacement(hook, result, grad, inner)
    return grad


def replacement(hook: Hook, returned: object, grad: Float, inner: Any, position: str = "") -> Float:
    """Return the primitive of the gradient that a hook returned, after checking it against the original gradient.

    Raises:
        KindError, DeviceError, ShapeError, DTypeError: kind, device, shape or dtype differ from the gradient's.
    """
    error = misfit(returned, Kept(Tensor, grad.shape, grad.dtype, True), inner)
    if error is not None:
        raise type(error)(f"the {hook.name} returned{position} {error}; a hook may return None to leave the gradient")
    return returned._primitive  # type: ignore[attr-defined]  # misfit checked that it is a tensor


def tracked(x: Tensor[Any], operation: str) -> Node | Leaf:
    """Return the node of a tensor on which a hook is registered.

    Raises:
        NotTrackedError: the tensor is not tracked.
        EscapedError: the tensor belongs to a level whose function has returned.
    """
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


def seen_through(x: Any, node: Node) -> Any:
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
    return seen_through(x, over), HookHandle(cell)
