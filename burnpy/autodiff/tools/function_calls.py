"""One call of a `Function`: its `Context`, the part that all levels share, and functions that refuse a derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, final

from burnpy.autodiff.joint_nodes import opaque_class
from burnpy.autodiff.tools.user_values import TensorSpec, brought, primitives, tensor, tensors, zero_like
from burnpy.backend.errors import ArgumentError, DeviceError, GraphError, ImmutableError, KindError
from burnpy.backend.primitives import INEXACT
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import F

if TYPE_CHECKING:
    from burnpy.autodiff.graph import Node
    from burnpy.tensor.tensor import Tensor


@final
class Context:
    """The saved tensors and attributes that forward() passes to backward() and jvp().

    Each call of ``apply`` has its own. Every pass through that call, on every level of the device, has the same
    attributes, and the saved tensors of that level. Only ``saved_tensors`` are freed with the graph; do not store
    tensors as attributes.
    """

    __slots__ = ("__dict__", "_device", "_marked", "_materialize", "_name", "_phase", "_saved", "needs_input_grad")

    needs_input_grad: tuple[bool, ...]
    """For each argument, whether its gradient is needed; in jvp(), whether it has a tangent."""

    def __init__(self, name: str, phase: str, needs: tuple[bool, ...], device: Any, saved: Any = None) -> None:
        """Create the context of a call, as `Function` does.

        Args:
            name: the function's name.
            phase: "forward", "backward" or "jvp".
            needs: for each argument, whether its gradient is needed or it has a tangent.
            device: the device of the call.
            saved: the saved tensors, in "backward" and "jvp".
        """
        self._name = name
        self._phase = phase
        self._device = device
        self._saved: Any = saved
        self._marked: tuple[TensorBase[Any], ...] = ()
        self._materialize = True
        self.needs_input_grad = needs

    def save_for_backward(self, *tensors: TensorBase[Any] | None) -> None:
        """Save tensors for backward() and jvp(); call it at most once, in forward().

        Second derivatives flow through saved arguments and results of forward(). Another tensor that was computed from
        the arguments makes them an error: return it as a further result, or compute it in backward().

        Raises:
            KindError: an argument is not a tensor; set it as an attribute, as in ``ctx.scale = 3``.
            DeviceError: a tensor is not on the device of the arguments.
            ArgumentError: tensors were saved already.
            GraphError: this is not in forward().
        """
        self._refuse_unless_forward("save_for_backward")
        if self._saved is not None:
            raise ArgumentError(
                f"ctx.save_for_backward() was called twice in {self._name}.forward(); save all tensors in one call"
            )
        saved = []
        for k, x in enumerate(tensors):
            argument: Any = x  # user code may pass any type
            if argument is not None and not isinstance(argument, TensorBase):
                raise KindError(
                    f"ctx.save_for_backward() of {self._name} keeps tensors, and argument {k} is {argument!r:.80}; "
                    "keep other values as attributes, as in ctx.scale = 3"
                )
            lifted = argument if argument is None else brought(argument, self._device)
            if lifted is not None and self._device is not None and lifted.device is not self._device:
                raise DeviceError(
                    f"ctx.save_for_backward() of {self._name} got a tensor on {lifted.device} as argument {k}, but "
                    f"forward() computes on {self._device}; save tensors computed from the arguments"
                )
            saved.append(lifted)
        self._saved = tuple(saved)

    @property
    def saved_tensors(self) -> tuple[Tensor[Any], ...]:
        """The tensors saved by `save_for_backward`, on the device of the gradients; in backward() and jvp() only.

        For type checkers all are float tensors; annotate others, as in ``index: Any = ctx.saved_tensors[0]``.

        Raises:
            GraphError: it is read outside of these methods, or after the call.
        """
        if self._phase == "forward":
            raise GraphError(
                f"ctx.saved_tensors of {self._name} are for backward() and jvp(); forward() has its arguments"
            )
        if self._phase == "over":
            raise self._over("saved_tensors")
        device, specs, values = self._saved
        return tensors(device, specs, values)

    def mark_non_differentiable(self, *outputs: TensorBase[Any]) -> None:
        """Declare in forward() which results have no gradient; int and bool results never have one.

        backward() gets zeros for them, or None after ``set_materialize_grads(False)``; jvp() must return None for them.

        Raises:
            GraphError: it is not called in forward().
        """
        self._refuse_unless_forward("mark_non_differentiable")
        self._marked = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Set in forward() whether missing gradients and tangents are passed as zeros (the default) or as None.

        Raises:
            GraphError: it is not called in forward().
        """
        self._refuse_unless_forward("set_materialize_grads")
        self._materialize = bool(value)

    def mark_dirty(self, *tensors: object) -> NoReturn:
        """Raise an error: tensors cannot be changed in place.

        Raises:
            ImmutableError: always.
        """
        raise ImmutableError(
            f"ctx.mark_dirty() was called in {self._name}; no argument can be changed in place: return a new tensor"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # looked up by Python itself, for instance when copying
            raise AttributeError(name)
        raise AttributeError(f"ctx of {self._name} has no attribute {name}; set it in forward(), as in ctx.{name} = …")

    def _refuse_unless_forward(self, method: str) -> None:
        if self._phase == "over":
            raise self._over(f"{method}()")
        if self._phase != "forward":
            raise GraphError(f"ctx.{method}() of {self._name} is for forward(), and was called in {self._phase}()")

    def _over(self, what: str) -> GraphError:
        return GraphError(
            f"ctx.{what} of {self._name} was used when the call was over, and ctx freed: it is there in "
            f"{'backward() and jvp()' if what == 'saved_tensors' else 'forward()'} only"
        )

    def _close(self) -> None:  # pyright: ignore[reportUnusedFunction]  # the functions that made the context close it
        self._phase, self._saved = "over", None


class FunctionBase:
    """The base class of `Function` and of the operations by which `Function` is implemented."""

    _kind: type[Node]

    @classmethod
    def defines(cls, method: str) -> bool:
        """Return whether the class defines ``method``: forward, backward or jvp."""
        return getattr(cls, method) is not getattr(FunctionBase, method)

    @staticmethod
    def forward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the operation, on tensors of a plain backend."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the arguments from those of the results."""
        raise NotImplementedError("backward() is not there")

    @staticmethod
    def jvp(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Compute the tangents of the results from those of the arguments."""
        raise NotImplementedError("jvp() is not there")


ONCE = "_burnpy_once"
"""The attribute of a backward() that `burnpy.autodiff.once_differentiable` marked."""
SAVED_INTERMEDIATE = (
    "saved a tensor that it computed from its arguments, which second derivatives cannot go through; save arguments "
    "and results with ctx.save_for_backward(), and compute it from them in backward(), or decorate that with "
    "once_differentiable"
)
"""The record of a forward(): see `FunctionCall.lost`."""
TAKES = {
    "forward": "ctx, and then each argument of apply()",
    "backward": "ctx, and then the gradient of each result",
    "jvp": "ctx, and then the tangent of each argument",
}
"""The arguments of the methods of a Function, in words, for error messages."""


@dataclass(slots=True, eq=False)
class FunctionCall:
    """The data of one call of a Function that all levels share. It holds no tensors except those set on ctx."""

    function: type[FunctionBase]
    attributes: dict[str, Any]  #: the attributes of ctx
    materialize: bool  #: whether missing gradients and tangents are passed as zeros
    arguments: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec, ...]
    differentiable: tuple[bool, ...]  #: for each output
    saved: tuple[TensorSpec | None, ...]
    hidden: int  #: the number of saved tensors, the last ones, that ctx does not have
    lost: str | None  #: what forward() did that loses second derivatives, for the error message; or None

    def context(self, phase: str, needs: tuple[bool, ...], device: Any, saved: Sequence[Any]) -> Context:
        """Create the ctx of one call of backward() or jvp()."""
        count = len(self.saved) - self.hidden
        ctx = Context(self.function.__name__, phase, needs, device, (device, self.saved[:count], saved[:count]))
        ctx.__dict__ = self.attributes
        return ctx


def differentiable_flags(
    name: str, outs: Sequence[TensorBase[Any]], marked: Sequence[TensorBase[Any]]
) -> tuple[bool, ...]:
    """Return for each result whether it has a derivative: a float tensor that forward() did not mark otherwise."""
    if not marked:
        return tuple([out.kind in INEXACT for out in outs])
    for k, x in enumerate(marked):
        if not any(x is out for out in outs):
            raise ArgumentError(
                f"ctx.mark_non_differentiable() of {name}: argument {k} is not a result of forward(); pass the tensors "
                "that forward() returns"
            )
    return tuple([out.kind in INEXACT and not any(x is out for x in marked) for out in outs])


def source_of(saved: object, c: int, arguments: Sequence[Any], outs: Sequence[Any]) -> tuple[int, int]:
    """Return the location of the c-th saved tensor on every level, by identity: (0, k) for the k-th argument, (1, k)
    for the k-th result, (2, c) for any other tensor, which is a constant."""
    if saved is not None:
        for pool, members in enumerate((arguments, outs)):
            for k, member in enumerate(members):
                if member is saved:
                    return pool, k
    return 2, c


@explained
def once_differentiable(backward: F) -> F:
    """Decorate a backward() that cannot be differentiated again.

    It gets plain tensors on every level, so that it may use any computation, NumPy included; second derivatives through
    it raise a `GraphError` instead of being wrong.

    Raises:
        KindError: ``backward`` is not a function.

    >>> from burnpy.autodiff import Function
    >>> class Double(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2.0
    ...
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2.0
    """
    method: Any = backward
    if not callable(getattr(method, "__func__", method)):
        raise KindError(f"once_differentiable decorates a backward() of a Function, not {method!r:.80}")
    setattr(getattr(method, "__func__", method), ONCE, True)  # set on the function, for either order of the decorators
    return backward


class OnceBackward(FunctionBase):
    """One call of a once-differentiable backward(), as an operation whose arguments are all of its inputs."""

    @staticmethod
    def forward(
        ctx: Context,
        backward: Callable[..., Any],
        call: FunctionCall,
        needs: tuple[bool, ...],
        missing: list[Any],
        *inputs: Any,
    ) -> Any:
        """Call ``backward`` and return the needed gradients.

        ``inputs`` are the results' gradients, then the saved tensors. A missing gradient is returned as zeros. To
        ``missing``, its `absent` part is appended; None for any other.
        """
        ctx.name = call.function.__name__
        count = len(call.outputs)
        plain = next(x.device for x in inputs if isinstance(x, TensorBase))
        parts = backward(call, "backward", needs, plain, inputs[:count], primitives(inputs[count:]))
        outs = []
        for spec, part, needed in zip(call.arguments, parts, needs, strict=True):
            if needed and spec is not None:
                is_absent = isinstance(part, PartialGrad)
                missing.append(part if is_absent else None)
                outs.append(zero_like(spec, plain) if is_absent else tensor(spec, plain, part))
        return tuple(outs)

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: the derivative is not known."""
        raise GraphError(
            f"{ctx.name}.backward() is once_differentiable and cannot be differentiated again; drop the decorator and "
            "write backward() with operations on the gradients and ctx.saved_tensors alone"
        )

    jvp = backward


OnceBackward._kind = opaque_class("once_differentiable")


class UnknownDerivative(FunctionBase):
    """The identity of some tensors, whose derivative with respect to these and other tensors raises an error."""

    @staticmethod
    def forward(ctx: Context, message: str, count: int, *tensors: Any) -> Any:
        """Return the first ``count`` tensors."""
        ctx.message = message
        return tensors[:count]

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: the derivative is not known."""
        raise GraphError(ctx.message)

    jvp = backward


UnknownDerivative._kind = opaque_class("unknown_derivative")
