"""Gradients of tensors: leaves, backward passes, and conversion to the inner device.

The tools of `burnpy.autodiff` are made of tensors. Methods that call them import them at their first use, and no other
module of `burnpy.tensor` does: `tests/test_import_direction.py` asserts it.
"""

from __future__ import annotations

import math
from functools import cache, partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Never, NoReturn, Self

from burnpy.backend.errors import (
    CallError,
    DeviceError,
    ImmutableError,
    KindError,
    MissingNameError,
    NotTrackedError,
    ShapeError,
    a,
)
from burnpy.backend.functions import signature
from burnpy.tensor.call_errors import inherit_method, need_flag
from burnpy.tensor.host_data import notify, watches
from burnpy.tensor.levels import raised
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B, I, T

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature

    from burnpy.autodiff.tools.grad_fn import GradFn
    from burnpy.autodiff.tools.hooks import HookHandle
    from burnpy.tensor.gradients import Gradients
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import OnAutodiff, ThisOnAutodiff


def inner_of(x: TensorBase[Any], operation: str) -> Any:
    """Return the inner device of a tensor's device."""
    device = x._device
    if not device.differentiates:
        raise NotTrackedError(
            f"{operation} got {describe(x)} on {device}, which records no graph; for gradients make the "
            f"tensor on Autodiff[{device}] and call require_grad(), or take it from the model that was trained, not "
            "from valid(); for values use it as it is"
        )
    return device.inner


class DiscreteDifferentiation(TensorBase[B]):
    """The differentiation methods of int and bool tensors, which carry no gradient and change levels at no cost."""

    __slots__ = ()

    def detach(self) -> Self:
        """Return the tensor itself, which is never part of a graph."""
        return self

    def is_require_grad(self) -> bool:
        """Return False: only float tensors are tracked."""
        return False

    def require_grad(self) -> Self:
        """Raise an error: only float tensors can be tracked.

        Raises:
            KindError: always.
        """
        raise KindError(
            f"require_grad() got {a(type(self).__name__)} of dtype {self.dtype}; only float tensors have "
            "gradients: convert it first, as in x.float().require_grad()"
        )


_HINT = "gradients are not stored in tensors: compute grads = loss.backward(), then read x.grad(grads)"


class GradMethod:
    """The method ``grad`` of one tensor. To call it is all that it can do."""

    __slots__ = ("_method",)

    def __init__(self, method: Any) -> None:
        self._method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the gradient of the tensor in the gradients that a backward pass has returned."""
        return self._method(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<the method x.grad; {_HINT}>"

    @property
    def __signature__(self) -> Signature:
        return signature(self._method)

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingNameError(lambda: f"x.grad is a method and has no {name}; {_HINT}")

    def _refuse(self, *other: object) -> NoReturn:
        raise KindError(f"x.grad is a method, not a tensor; {_HINT}")

    def _reflected(self, operation: str, x: Any) -> NoReturn:
        raise KindError(f"{operation}() got {a(type(x).__name__)} and the method x.grad; {_HINT}")

    __hash__ = object.__hash__
    __bool__ = __len__ = __iter__ = __getitem__ = __array__ = __float__ = __neg__ = __abs__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _refuse


class _ReadByCall:
    """The descriptor of ``grad``: of a tensor a `GradMethod`, of a class the function."""

    def __init__(self, function: Any) -> None:
        of_class: Any = cache(partial(inherit_method, function))  # of a class, which has a hash
        self.of_class = of_class

    def __get__(self, tensor: Any, cls: type[Any]) -> Any:
        if tensor is None:
            return self.of_class(cls)
        return GradMethod(MethodType(self.of_class(cls), tensor))

    def __set__(self, tensor: Any, value: object) -> NoReturn:
        raise ImmutableError("x.grad cannot be assigned to; each loss.backward() returns new gradients: x.grad(grads)")


class Tracking(TensorBase[B]):
    """The differentiation methods of float and complex tensors.

    The gradient of a complex tensor is ∂L/∂Re + i ∂L/∂Im, as in PyTorch: the direction in which L grows fastest.

    On a plain backend `require_grad`, `set_require_grad` and `detach` do nothing, and `is_require_grad` is False.
    """

    __slots__ = ()

    def require_grad(self) -> Self:
        """Return a leaf with the same values: operations on it are recorded, on every level of its device.

        The tensor itself does not change. On a plain backend, and for a tensor that is a leaf already, it is returned.

        Raises:
            NotTrackedError: the tensor was computed from tracked ones.

        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> x.is_require_grad(), (x * 2).is_require_grad(), x.detach().is_require_grad()
        (True, True, False)
        """
        return self._like(self._backend.require_grad(self._primitive))

    def is_require_grad(self) -> bool:
        """Return True if operations on the tensor are recorded, on any level."""
        return bool(self._backend.is_require_grad(self._primitive))

    def set_require_grad(self, require_grad: bool) -> Self:
        """Return the result of `require_grad` if the flag is True, else of `detach`."""
        return self.require_grad() if require_grad else self.detach()

    def detach(self) -> Self:
        """Return the same values, detached from the graph on every level; the result shares memory."""
        return self._like(self._backend.detach(self._primitive))

    def retain_grad(self) -> Self:
        """Return the same tensor, with its gradient included in `Gradients` though it is not a leaf.

        Compute with the tensor returned: operations on the original are not affected.

        Raises:
            NotTrackedError: the tensor is not tracked.
        """
        return self._like(self._backend.retain_grad(self._primitive))

    def register_hook(self: ThisOnAutodiff[I, T], hook: Callable[[Any], Any]) -> tuple[T, HookHandle]:
        """Return the same tensor with a hook on its gradient, and a handle that removes the hook.

        Compute with the tensor returned: gradients through the original do not call the hook. The hook is called once
        per backward pass, with the complete gradient of the tensor returned, and may return a replacement. Hooks are
        called in the order in which they were registered. Look up gradients in `Gradients` by the tensor returned.

        Args:
            hook: takes a tensor on the inner backend; returns one of the same shape and dtype, or None.

        Raises:
            NotTrackedError: the tensor is not tracked, or on a plain backend.
            KindError: ``hook`` is not callable. During the backward pass, also `DeviceError`, `ShapeError` and
                `DTypeError`: its result is not of the gradient's kind, device, shape and dtype.

        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> x, handle = x.register_hook(lambda grad: grad.clamp(-3.0, 3.0))
        >>> (x * x).sum().backward()[x].tolist()
        [2.0, 3.0]
        """
        from burnpy.autodiff.tools.hooks import hook_gradient

        return hook_gradient(self, hook)

    def register_node_hook(
        self: ThisOnAutodiff[I, T],
        *,
        before: Callable[[tuple[Any]], tuple[Any] | None] | None = None,
        after: Callable[[tuple[Any, ...], tuple[Any]], tuple[Any | None, ...] | None] | None = None,
    ) -> tuple[T, HookHandle]:
        """Return the same tensor with hooks before and after the vjp of the operation that created it, and a handle.

        The handle removes the hooks. Compute with the tensor returned: gradients through the original do not call them.

        Args:
            before: takes the gradient of the tensor, in a tuple; may return a replacement, in a tuple.
            after: takes the gradients of the operation's tracked arguments, and the gradient of the tensor in a tuple;
                may return replacements for the former, with None for each that is to stay.

        Raises:
            NotTrackedError: the tensor is not tracked, on a plain backend, or a leaf.
            ArgumentError: neither hook is passed; the tensor is one of several results of one operation. During the
                backward pass: a hook returned another number of gradients.
            KindError: a hook is not callable. During the backward pass, also `DeviceError`, `ShapeError` and
                `DTypeError`, as for `register_hook`.

        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> y, handle = (x * 3.0).register_node_hook(after=lambda grads, of_result: (grads[0] + of_result[0],))
        >>> y.sum().backward()[x].tolist()
        [4.0, 4.0]
        """
        from burnpy.autodiff.tools.hooks import hook_node

        return hook_node(self, before, after)

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that created the tensor, as a read-only view; None for leaves and untracked tensors.

        It is the operation on the outermost level of the device; for the next level use ``x.inner().grad_fn``.

        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> y = x.exp()
        >>> x.grad_fn, y.grad_fn
        (None, GradFn(exp, shape=(2,), dtype=float32))
        """
        from burnpy.autodiff.tools.grad_fn import grad_fn_of

        return grad_fn_of(self)

    def inner(self: OnAutodiff[I]) -> Any:
        """Return the same values on the inner backend, where nothing is recorded; the result shares memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.

        >>> Tensor[Autodiff[NumPy]].ones((2,)).inner().device
        NumPy
        """
        x: Any = self
        device = inner_of(x, "inner()")
        if watches:
            notify(x, "inner()")
        return new_tensor(type(x), device, x._device.lower(x._primitive))

    if not TYPE_CHECKING:  # without the gradients, which PyTorch stores in tensors, the error says where to get them

        @_ReadByCall
        def grad(self, grads=None):
            """Return the gradient of this leaf, a tensor on the inner backend; None if the backward pass did not reach
            it.

            Raises:
                NotTrackedError: the tensor is not a leaf (use ``retain_grad`` for the gradient of a non-leaf).
                DeviceError: the gradients are of another level or device.
            """
            return _gradients("grad", self, grads)._get(self)

        def grad_remove(self, grads=None):
            """Return the gradient of this leaf, or None, and a new `Gradients` without it."""
            return _gradients("grad_remove", self, grads).remove(self)


class Differentiation(Tracking[B]):
    """The differentiation methods of float tensors."""

    __slots__ = ()

    def backward(
        self: OnAutodiff[I],
        gradient: Tensor[I] | None = None,
        *,
        retain_graph: bool = False,
        on_ready: Callable[[Tensor[Any], Tensor[I]], None] | None = None,
        **removed: Never,
    ) -> Gradients[I]:
        """Return the gradients of this tensor with respect to the leaves that it was computed from.

        No tensor is changed. The graph is freed during the pass, so that a second pass through it is an error.

        Args:
            gradient: the cotangent to start from, of this tensor's shape and dtype, on the inner backend; by default 1,
                for a tensor with one element.
            retain_graph: keep the graph for another pass.
            on_ready: called with each leaf and its gradient as soon as the pass has completed that gradient, for
                instance to send it on while the pass computes the others. It is called once for each gradient in the
                result, in an order that depends on the graph alone, after the hooks of the leaf, and cannot replace
                it.
            **removed: arguments that PyTorch accepts and this method does not; the error explains the alternative.

        Raises:
            NotTrackedError: the tensor is on a plain backend, or was computed from no leaf.
            CallError: ``create_graph`` or ``inputs`` was passed.
            ShapeError: the tensor has more than one element and no ``gradient`` is passed, or it is of another shape.
            GraphError: the graph was consumed by another pass.
            KindError: ``on_ready`` is not a function. During the pass also `ArgumentError`: it returned something.

        >>> x = Tensor[Autodiff[NumPy]].from_data([3.0]).require_grad()
        >>> (x * x).sum().backward()[x].tolist()
        [6.0]
        >>> grads = (x * x).sum().backward(on_ready=lambda leaf, grad: print(leaf.tolist(), grad.tolist()))
        [3.0] [6.0]
        """
        if removed:
            refuse_arguments("backward", removed)
        root: Any = self
        keep = need_flag(retain_graph, "retain_graph", "backward")
        seed, device = seed_of(root, gradient, "backward"), root._device
        if on_ready is None:
            found = device.gradients([(root._primitive, seed)], retain_graph=keep)
            return _gradients_class().found(device, found)  # type: ignore[no-any-return]  # of that class
        from burnpy.autodiff.tools.backward import reporting

        ready = reporting(device, on_ready)
        values = device.gradients([(root._primitive, seed)], retain_graph=keep, ready=ready)
        return _gradients_class().found(device, values)  # type: ignore[no-any-return]  # of that class

    if TYPE_CHECKING:  # the types of `Tracking`'s methods

        def register_hook(  # noqa: D102
            self: ThisOnAutodiff[I, T], hook: Callable[[Tensor[I]], Tensor[I] | None]
        ) -> tuple[T, HookHandle]: ...
        def register_node_hook(  # noqa: D102
            self: ThisOnAutodiff[I, T],
            *,
            before: Callable[[tuple[Tensor[I]]], tuple[Tensor[I]] | None] | None = None,
            after: Callable[[tuple[Tensor[I], ...], tuple[Tensor[I]]], tuple[Tensor[I] | None, ...] | None]
            | None = None,
        ) -> tuple[T, HookHandle]: ...
        def inner(self: OnAutodiff[I]) -> Tensor[I]: ...  # noqa: D102
        def grad(self: OnAutodiff[I], grads: Gradients[I]) -> Tensor[I] | None: ...  # noqa: D102
        def grad_remove(  # noqa: D102
            self: OnAutodiff[I], grads: Gradients[I]
        ) -> tuple[Tensor[I] | None, Gradients[I]]: ...


@cache
def _gradients_class() -> Any:
    """Return `Gradients`, imported by the first pass: an import statement in each takes a seventh of the smallest."""
    from burnpy.tensor.gradients import Gradients

    return Gradients


def _gradients(operation: str, leaf: Any, grads: Any) -> Any:
    """Return ``grads`` after checking that they are `Gradients` and that the leaf can have one."""
    inner_of(leaf, f"{operation}()")
    if type(grads) is not _gradients_class() and hasattr(grads, "from_grads"):
        raise KindError(
            f"x.{operation}(grads) takes the Gradients that loss.backward() returned, got GradientsParams, which are "
            "looked up by parameter or path: grads[model.weight]"
        )
    if not hasattr(grads, "without"):
        if grads is None and getattr(leaf._primitive, "node", None) is None:
            raise NotTrackedError(
                f"{operation}() got {describe(leaf)} on {leaf.device} that is not tracked and has no "
                f"gradient; call x = x.require_grad() before computing the loss, then x.{operation}(loss.backward())"
            )
        passed = "none; gradients are not stored in tensors" if grads is None else describe(grads)
        raise KindError(f"x.{operation}(grads) takes the Gradients that loss.backward() returned, got {passed}")
    return grads


_REMOVED = {
    "create_graph": "to differentiate a gradient, compute it by burnpy.func.grad(f)(x), or on Autodiff[Autodiff[B]]",
    "inputs": "burnpy.autodiff.backward(tensors, inputs=[x]) does",
    "grad_tensors": "the gradients to start from are the second argument, gradients",
    "is_grads_batched": "burnpy.func.jacobian computes many rows at once, and burnpy.func.vmap any pullback",
    "only_inputs": "only the inputs have gradients in any case",
}
"""Arguments that PyTorch's ``backward`` accepts, and the alternative to each."""


def refuse_arguments(operation: str, removed: dict[str, Any]) -> NoReturn:
    """Raise an error that names the alternative to an argument that is not supported."""
    name = next(iter(removed))
    raise CallError(f"{operation}() takes no argument {name}{f'; {_REMOVED[name]}' if name in _REMOVED else ''}")


def seed_of(root: TensorBase[Any], gradient: object, operation: str, argument: str = "gradient") -> Any:
    """Return the primitive of the cotangent that a backward pass starts from at ``root``; 1 by default. ``argument`` is
    the name of the parameter in error messages."""
    inner, device, x = inner_of(root, f"{operation}()"), root._device, root._primitive
    shape, dtype = x.shape, x.dtype
    if device.lifts_discrete:
        raise NotTrackedError(
            f"{operation}() was called in a function under vmap(), whose tensors have no graph of their own; write "
            "vmap(burnpy.func.grad(f)), or call it on the result of vmap(f)"
        )
    if not hasattr(device, "gradients"):
        raise NotTrackedError(
            f"{operation}() got a tensor on {device}, which carries tangents along and records no graph; "
            "its tangent is in burnpy.autodiff.unpack_dual(x)"
        )
    if x.node is None:
        raise NotTrackedError(
            f"{operation}() got a tensor of shape {shape} that was computed from no leaf; "
            "call require_grad() on the tensors whose gradients you want, before computing it"
        )
    if gradient is None:
        if dtype.kind == "c":
            raise KindError(
                f"{operation}() got a ComplexTensor of shape {shape}, which is not a loss: differentiate z.real or "
                f"z.abs(), or pass the gradient to start from as {argument}="
            )
        if math.prod(shape) != 1:
            raise ShapeError(
                f"{operation}() got a tensor of shape {shape}; reduce it to one element, as with .sum(), "
                f"or pass the gradient to start from, of that shape, as {argument}="
            )
        return inner.seed(shape, dtype)
    if type(gradient) is not type(root):
        raise KindError(
            f"{operation}() starts from {a(type(root).__name__)} on {inner} as {argument}, not from "
            f"{describe(gradient)}"
        )
    if gradient.device is not inner and gradient.device is not inner.stands_for:
        raise DeviceError(
            f"{operation}() of a tensor on {device} starts from a gradient on {inner}, not on {gradient.device}; "
            "gradients live one level below: use gradient.inner()"
        )
    if gradient.shape != shape or gradient.dtype != dtype:
        raise ShapeError(
            f"{operation}() got a gradient with shape {gradient.shape} and dtype {gradient.dtype}, expected the "
            f"tensor's shape {shape} and dtype {dtype}"
        )
    start = raised(gradient, inner)._primitive  # which may come from outside of a recording
    return inner.conj(start) if dtype.kind == "c" else start
