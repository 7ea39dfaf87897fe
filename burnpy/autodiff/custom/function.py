"""`Function`: an operation with a user-defined derivative, as `torch.autograd.Function`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.autodiff.custom.apply import applied
from burnpy.autodiff.custom.base import FunctionBase
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.user_code import positional
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import KindError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    R_co = TypeVar("R_co", covariant=True)

    class _WithForward(Protocol[P, R_co]):
        """The type of a class with a static method forward(), from which the type of `Function.apply` follows."""

        @staticmethod
        def forward(ctx: Context, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class _Apply:
        """The type of `Function.apply`: forward()'s signature without ctx."""

        def __get__(self, instance: object, owner: type[_WithForward[P, R]]) -> Callable[P, R]: ...


_PYTORCH = {
    "setup_context": "let forward(ctx, *args) take ctx, and do there what setup_context() was to do",
    "vjp": "name it backward()",
}
"""Methods that PyTorch calls and that do not exist here, with their replacements."""


class Function(FunctionBase):
    """The base class of operations with a user-defined derivative: define the static methods, then call ``apply``.

    ``forward(ctx, *args)`` computes on plain tensors and returns a tensor or a tuple of tensors; int and bool tensors
    are allowed. ``backward(ctx, *grads)`` takes the gradient of each result and returns the gradient of each argument:
    None for an argument that is no float tensor or has no influence, which then gets no gradient from this operation.
    ``jvp(ctx, *tangents)`` is optional and serves `Forward`: it takes the tangents of the arguments and returns the
    tangents of the results. Tensors must be direct arguments, never inside of lists.

    backward() is differentiable if it computes with saved arguments and results: on ``Autodiff[Autodiff[B]]`` it
    computes on ``Autodiff[B]``. Other tensors saved by forward() are constants for second derivatives, as in PyTorch:
    return them as further results, or use `custom_vjp`. If values are read from tensors, by ``to_numpy()`` or
    ``item()``, so that second derivatives would be lost, computing these raises an error; read constants from
    ``x.detach()``.

    >>> from typing import TypeVar
    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import Backend, NumPy
    >>> B = TypeVar("B", bound=Backend)
    >>> class Exp(Function):
    ...     @staticmethod
    ...     def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx: Context, grad: Tensor[B]) -> Tensor[B]:
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = Tensor[Autodiff[NumPy]].from_data([0.0, 0.0]).require_grad()
    >>> Exp.apply(x).sum().backward()[x].tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        name = type(self).__name__
        raise KindError(f"{name}(...) makes nothing; call {name}.apply(...)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward", "jvp"):
            if not isinstance(vars(cls).get(name, staticmethod(cls.forward)), staticmethod):
                raise KindError(f"{cls.__name__}.{name} must be a @staticmethod, with ctx as its first argument")
        for name, instead in _PYTORCH.items():
            if name in vars(cls):
                raise KindError(f"{cls.__name__}.{name}() would never be called; {instead}")
        cls._kind = node_kind(cls.__name__)

    if TYPE_CHECKING:
        apply = _Apply()
    else:

        @classmethod
        def apply(cls, *args, **kwargs):
            """Run forward() on the arguments and record it as one operation.

            Raises:
                ArgumentError: forward() does not take these arguments, or cannot take them by position.
                KindError: there is no forward(); or tensors are inside of a list, tuple or dict; or forward() returned
                    something other than tensors.
                DeviceError: tensors of several devices.
                NotTrackedError: an argument is tracked, or has a tangent, and there is no backward(), or jvp().
            """
            if not cls.defines("forward"):
                raise KindError(
                    f"{cls.__name__}.apply() was called, and {cls.__name__} defines no forward(); write a static "
                    "method forward(ctx, *args) that returns a tensor, or a tuple of some"
                )
            return applied(cls, positional(f"{cls.__name__}.apply", cls.forward, args, kwargs, 1))
