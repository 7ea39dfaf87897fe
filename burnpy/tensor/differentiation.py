"""Gradients of tensors: leaves, backward passes, and the way between a device and its inner one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import DeviceError, KindError, NotTrackedError, ShapeError, a
from burnpy.tensor.base import B, TensorBase, describe, new_tensor
from burnpy.tensor.host_reads import told, watches

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.gradients import Gradients
    from burnpy.autodiff.hooks.tensor_hooks import HookHandle
    from burnpy.autodiff.inspect.grad_fn import GradFn
    from burnpy.autodiff.rematerialize.balanced import Balanced
    from burnpy.tensor.tensor import Tensor

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


def inner_of(x: TensorBase[Any], operation: str) -> Any:
    """The inner device of a tensor's device.

    Raises:
        NotTrackedError: it has none: the device is a plain one, or an instrument.
    """
    device = x.device
    if not hasattr(device, "lower"):
        raise NotTrackedError(
            f"{operation} was asked of {describe(x)} on {device}, which records no graph; for gradients make the "
            f"tensor on Autodiff[{device}] and call require_grad(), or take it from the model that was trained, not "
            "from what valid() gave; for values use it as it is"
        )
    return device.inner


class DiscreteDifferentiation(TensorBase[B]):
    """What int and bool tensors have of differentiation: they carry no gradient, and go between levels at no cost."""

    __slots__ = ()

    def detach(self) -> Self:
        """The tensor itself: it has no history."""
        return self

    def is_require_grad(self) -> bool:
        """False: only float tensors are tracked."""
        return False

    def require_grad(self) -> Self:
        """Always an error: only float tensors are tracked.

        Raises:
            KindError: always.
        """
        raise KindError(
            f"require_grad() was asked of {a(type(self).__name__)} of dtype {self.dtype}; only float tensors have "
            "gradients: convert it first, as in x.float().require_grad()"
        )


class Differentiation(TensorBase[B]):
    """What float tensors have of differentiation. On a plain backend all of it but `inner` and `backward` is idle."""

    __slots__ = ()

    def require_grad(self) -> Self:
        """The same values as a leaf: what is computed from the result is recorded, on every level of its device.

        The tensor itself stays as it is; on a plain backend, and of a leaf, it is what is returned.

        Raises:
            NotTrackedError: the tensor was computed from tracked ones.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> x.is_require_grad(), (x * 2).is_require_grad(), x.detach().is_require_grad()
        (True, True, False)
        """
        return self._like(self._backend.require_grad(self._primitive))

    def is_require_grad(self) -> bool:
        """Whether operations on the tensor are recorded, on any level."""
        return bool(self._backend.is_require_grad(self._primitive))

    def set_require_grad(self, require_grad: bool) -> Self:
        """`require_grad` or `detach`, as the flag says."""
        return self.require_grad() if require_grad else self.detach()

    def detach(self) -> Self:
        """The same values with no history, on every level; they share memory."""
        return self._like(self._backend.detach(self._primitive))

    def retain_grad(self) -> Self:
        """The same tensor, of which `Gradients` will hold the gradient though it is no leaf. Use it from then on.

        Raises:
            NotTrackedError: the tensor is not tracked.
        """
        return self._like(self._backend.retain_grad(self._primitive))

    @overload
    def register_hook(
        self: Differentiation[Autodiff[Balanced[I]]], hook: Callable[[Tensor[I]], Tensor[I] | None]
    ) -> tuple[Tensor[Autodiff[Balanced[I]]], HookHandle]: ...

    @overload
    def register_hook(
        self: Differentiation[Autodiff[I]], hook: Callable[[Tensor[I]], Tensor[I] | None]
    ) -> tuple[Tensor[Autodiff[I]], HookHandle]: ...

    def register_hook(self: Differentiation[Any], hook: Callable[[Any], Any]) -> tuple[Tensor[Any], HookHandle]:
        """The same tensor, whose gradient passes through a function in every backward pass; and what removes that.

        Use the tensor returned from then on: what goes through this one is not hooked. The function is called once a
        pass, with the whole gradient of the tensor returned, and may return another in its place. Of several hooks the
        one registered first is called first. In `Gradients` the result stands for this tensor.

        Args:
            hook: takes a tensor on the inner backend; returns one of the same shape and dtype, or None.

        Raises:
            NotTrackedError: the tensor is not tracked, or on a plain backend.
            KindError: ``hook`` is no function. In a pass, also `DeviceError`, `ShapeError` and `DTypeError`: what it
                returned is not of the gradient's kind, device, shape and dtype.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> x, handle = x.register_hook(lambda grad: grad.clamp(-3.0, 3.0))
        >>> (x * x).sum().backward()[x].tolist()
        [2.0, 3.0]
        """
        from burnpy.autodiff.hooks.tensor_hooks import hook_gradient

        return hook_gradient(self, hook)  # type: ignore[arg-type]  # a float tensor is a Tensor

    @overload
    def register_node_hook(
        self: Differentiation[Autodiff[Balanced[I]]],
        *,
        before: Callable[[tuple[Tensor[I]]], tuple[Tensor[I]] | None] | None = None,
        after: Callable[[tuple[Tensor[I], ...], tuple[Tensor[I]]], tuple[Tensor[I] | None, ...] | None] | None = None,
    ) -> tuple[Tensor[Autodiff[Balanced[I]]], HookHandle]: ...

    @overload
    def register_node_hook(
        self: Differentiation[Autodiff[I]],
        *,
        before: Callable[[tuple[Tensor[I]]], tuple[Tensor[I]] | None] | None = None,
        after: Callable[[tuple[Tensor[I], ...], tuple[Tensor[I]]], tuple[Tensor[I] | None, ...] | None] | None = None,
    ) -> tuple[Tensor[Autodiff[I]], HookHandle]: ...

    def register_node_hook(
        self: Differentiation[Any],
        *,
        before: Callable[[Any], Any] | None = None,
        after: Callable[[Any, Any], Any] | None = None,
    ) -> tuple[Tensor[Any], HookHandle]:
        """The same tensor, with functions around the backward of the operation that made it; and what removes them.

        Use the tensor returned from then on: what goes through this one is not hooked.

        Args:
            before: takes the gradient of the tensor, in a tuple; may return another, in a tuple.
            after: takes the gradients of the operation's tracked arguments, and that of the tensor in a tuple; may
                return others in place of the former, None for what is to be left.

        Raises:
            NotTrackedError: the tensor is not tracked, on a plain backend, or a leaf.
            ArgumentError: neither function is given; the tensor is one of several results of one operation. In a pass:
                a function returned another number of gradients.
            KindError: one is no function. In a pass, also `DeviceError`, `ShapeError` and `DTypeError`, as of
                `register_hook`.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> y, handle = (x * 3.0).register_node_hook(after=lambda grads, of_result: (grads[0] + of_result[0],))
        >>> y.sum().backward()[x].tolist()
        [4.0, 4.0]
        """
        from burnpy.autodiff.hooks.node_hooks import hook_node

        return hook_node(self, before, after)  # type: ignore[arg-type]  # a float tensor is a Tensor

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that made the tensor, as a view; None for leaves and for what is not tracked.

        It is the operation on the outermost level of the device: that of an inner one is ``x.inner().grad_fn``.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
        >>> y = x.exp()
        >>> x.grad_fn, y.grad_fn
        (None, GradFn(exp, shape=(2,), dtype=float32))
        """
        from burnpy.autodiff.inspect.grad_fn import grad_fn_of

        return grad_fn_of(self)

    @overload
    def inner(
        self: Differentiation[Autodiff[Balanced[I]]],
    ) -> Tensor[I]: ...  # a strategy: the inner backend is that of the user's

    @overload
    def inner(self: Differentiation[Autodiff[I]]) -> Tensor[I]: ...

    def inner(self: Differentiation[Any]) -> Tensor[Any]:
        """The same values on the inner backend, where nothing is recorded; they share memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[Autodiff[NumPy]].ones((2,)).inner().device
        NumPy
        """
        device = inner_of(self, "inner()")
        if watches:
            told(self, "inner()")
        return new_tensor(type(self), device, self._device.lower(self._primitive))  # type: ignore[no-any-return]  # of that class

    @overload
    def backward(
        self: Differentiation[Autodiff[Balanced[I]]], gradient: Tensor[I] | None = None, *, retain_graph: bool = False
    ) -> Gradients[I]: ...

    @overload
    def backward(
        self: Differentiation[Autodiff[I]], gradient: Tensor[I] | None = None, *, retain_graph: bool = False
    ) -> Gradients[I]: ...

    def backward(
        self: Differentiation[Any], gradient: Tensor[Any] | None = None, *, retain_graph: bool = False, **removed: Any
    ) -> Gradients[Any]:
        """The gradients of this tensor with respect to the leaves that it was computed from.

        No tensor is changed. The graph is freed on the way, so that a second pass through it is an error.

        Args:
            gradient: what to start from, of this tensor's shape and dtype, on the inner backend; 1 for a 0-d tensor.
            retain_graph: keep the graph for another pass.
            **removed: nothing; it is here to explain what PyTorch takes and this does not.

        Raises:
            NotTrackedError: the tensor is on a plain backend, or was computed from no leaf.
            TypeError: ``create_graph`` or ``inputs`` was passed.
            ShapeError: the tensor has more than one element and no ``gradient`` is given, or it is of another shape.
            GraphError: the graph was consumed by another pass.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[Autodiff[NumPy]].from_data([3.0]).require_grad()
        >>> (x * x).sum().backward()[x].tolist()
        [6.0]
        """
        if removed:
            refuse_arguments("backward", removed)
        seed = seed_of(self, gradient, "backward")
        found: Gradients[Any] = self._device.backward([(self._primitive, seed)], retain_graph=retain_graph)
        return found

    @overload
    def grad(self: Differentiation[Autodiff[Balanced[I]]], grads: Gradients[I]) -> Tensor[I] | None: ...

    @overload
    def grad(self: Differentiation[Autodiff[I]], grads: Gradients[I]) -> Tensor[I] | None: ...

    def grad(self: Differentiation[Any], grads: Any = None) -> Tensor[Any] | None:
        """This leaf's gradient, a plain tensor of the inner backend; None where the pass did not reach it.

        Raises:
            NotTrackedError: the tensor is no leaf (``retain_grad`` makes it have a gradient).
            DeviceError: the gradients are of another level or device.
        """
        found: Tensor[Any] | None = _gradients("grad", self, grads).get(self)
        return found

    @overload
    def grad_remove(
        self: Differentiation[Autodiff[Balanced[I]]], grads: Gradients[I]
    ) -> tuple[Tensor[I] | None, Gradients[I]]: ...

    @overload
    def grad_remove(
        self: Differentiation[Autodiff[I]], grads: Gradients[I]
    ) -> tuple[Tensor[I] | None, Gradients[I]]: ...

    def grad_remove(self: Differentiation[Any], grads: Any = None) -> tuple[Tensor[Any] | None, Gradients[Any]]:
        """This leaf's gradient, None where there is none, and new gradients without it."""
        return _gradients("grad_remove", self, grads).remove(self)  # type: ignore[no-any-return]  # of Gradients


def _gradients(operation: str, leaf: TensorBase[Any], grads: Any) -> Any:
    """The gradients that a leaf was given, checked."""
    inner_of(leaf, f"{operation}()")
    if not hasattr(grads, "without"):
        if grads is None and getattr(leaf._primitive, "node", None) is None:
            raise NotTrackedError(
                f"{operation}() was asked of {describe(leaf)} on {leaf.device} that is not tracked and has no "
                f"gradient; call require_grad() before computing the loss, and then x.{operation}(loss.backward()) of "
                "the result"
            )
        given = (
            "was given none; gradients are not stored in tensors" if grads is None else f"was given {describe(grads)}"
        )
        raise KindError(f"x.{operation}(grads) takes the Gradients that loss.backward() returned, and {given}")
    return grads


_REMOVED = {
    "create_graph": "the type says it: gradients on Autodiff[Autodiff[B]] come back on Autodiff[B]",
    "inputs": "burnpy.autodiff.backward(tensors, inputs=[x]) does",
    "grad_tensors": "the gradients to start from are the second argument, gradients",
    "is_grads_batched": "burnpy.func.jacobian computes one row after another, or chunks of them",
    "only_inputs": "only the inputs have gradients in any case",
}
"""What PyTorch takes, and what to do instead."""


def refuse_arguments(operation: str, removed: dict[str, Any]) -> NoReturn:
    """Say what to do in place of an argument that there is not.

    Raises:
        TypeError: always.
    """
    name = next(iter(removed))
    raise TypeError(f"{operation}() takes no argument {name}{f'; {_REMOVED[name]}' if name in _REMOVED else ''}")


def seed_of(root: TensorBase[Any], gradient: object, operation: str, argument: str = "gradient") -> Any:
    """The primitive that a backward pass starts from at ``root``: the gradient given, or 1 for a single element.

    ``argument`` is what the gradient is called there.

    Raises:
        NotTrackedError: the root is on a plain backend, or was computed from no leaf.
        KindError: the gradient is no float tensor.
        DeviceError: it is not on the inner device.
        ShapeError: it is missing where there are several elements, or of another shape or dtype.
    """
    inner = inner_of(root, f"{operation}()")
    if not hasattr(root.device, "gradients"):
        raise NotTrackedError(
            f"{operation}() was asked of a tensor on {root.device}, which carries tangents along and records no graph; "
            "its tangent is in burnpy.autodiff.unpack_dual(x)"
        )
    if root._primitive.node is None:
        raise NotTrackedError(
            f"{operation}() was asked of a tensor of shape {root.shape} that was computed from no leaf; "
            "call require_grad() on what it should be differentiated by, before computing it"
        )
    if gradient is None:
        if math.prod(root.shape) != 1:
            raise ShapeError(
                f"{operation}() was asked of a tensor of shape {root.shape}; reduce it to one element, as with .sum(), "
                f"or pass the gradient to start from, of that shape, as {argument}="
            )
        return inner.full(root.shape, 1.0, root.dtype)
    if not isinstance(gradient, TensorBase) or gradient.kind != "float":
        raise KindError(f"{operation}() starts from a Tensor on {inner} as {argument}, not from {gradient!r:.80}")
    if gradient.device is not inner:
        raise DeviceError(
            f"{operation}() of a tensor on {root.device} starts from a gradient on {inner}, not on {gradient.device}; "
            "gradients live one level below: use gradient.inner()"
        )
    if gradient.shape != root.shape or gradient.dtype != root.dtype:
        raise ShapeError(
            f"{operation}() of a tensor of shape {root.shape} and dtype {root.dtype} starts from a gradient of the "
            f"same, not of shape {gradient.shape} and dtype {gradient.dtype}"
        )
    return gradient._primitive
