"""`Function`: operations whose derivative the user writes, with PyTorch's meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.autodiff.custom.apply import applied
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.user_code import positional
from burnpy.autodiff.multi_output import node_kind
from burnpy.backend.errors import KindError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, Protocol, TypeVar

    from burnpy.autodiff.graph import Node

    P = ParamSpec("P")
    R = TypeVar("R")
    R_co = TypeVar("R_co", covariant=True)

    class _WithForward(Protocol[P, R_co]):
        """What `Function.apply` is typed by: a class with a static method forward()."""

        @staticmethod
        def forward(ctx: Context, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class _Apply:
        """The type of `Function.apply`: that of forward(), without ctx."""

        def __get__(self, instance: object, owner: type[_WithForward[P, R]]) -> Callable[P, R]: ...


_PYTORCH = {
    "setup_context": "let forward(ctx, *args) take ctx, and do there what setup_context() was to do",
    "vjp": "name it backward()",
}
"""Methods that PyTorch calls, with what to write in their place."""


class Function:
    """An operation with a derivative of your own: write forward() and backward() as static methods, call ``apply``.

    ``forward(ctx, *args)`` computes on plain tensors and returns one, or a tuple of several, int and bool ones too.
    ``backward(ctx, *grads)`` is given the gradient of each result and returns that of each argument: None for what is
    no float tensor, or has no influence, and then has no gradient, unless it gets one on another way.
    ``jvp(ctx, *tangents)``, which is optional, does the same the other way round, for `Forward`. Tensors are arguments
    by themselves, never in lists.

    backward() is differentiable itself where it is written in terms of saved arguments and results: on
    ``Autodiff[Autodiff[B]]`` it computes on ``Autodiff[B]``. Of other tensors that forward() made and saved, second
    derivatives know nothing, as in PyTorch: return them as further results, or use `custom_vjp`.
    Where values leave tensors, by ``to_numpy()`` or ``item()``, and second derivatives would be lost with them, whoever
    asks for these is told; what may leave as a constant is ``x.detach()``.

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

    _kind: type[Node]

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

    @classmethod
    def defines(cls, method: str) -> bool:
        """Whether the class writes forward, backward or jvp itself."""
        return getattr(cls, method) is not getattr(Function, method)

    @staticmethod
    def forward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """The operation itself, on tensors of a plain backend."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError("backward() is not there")

    @staticmethod
    def jvp(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """The tangents of the results, from those of the arguments."""
        raise NotImplementedError("jvp() is not there")

    if TYPE_CHECKING:
        apply = _Apply()
    else:

        @classmethod
        def apply(cls, *args, **kwargs):
            """What forward() computes of the arguments, recorded as one operation.

            Raises:
                ArgumentError: arguments that forward() does not take, or cannot take by position.
                KindError: there is no forward(); or tensors inside of a list, tuple or dict; or forward() returned
                    something else than tensors.
                DeviceError: tensors of several devices.
                NotTrackedError: an argument is tracked, or has a tangent, and there is no backward(), or jvp().
            """
            if not cls.defines("forward"):
                raise KindError(
                    f"{cls.__name__}.apply() was called, and {cls.__name__} defines no forward(); write a static "
                    "method forward(ctx, *args) that returns a tensor, or a tuple of some"
                )
            return applied(cls, positional(f"{cls.__name__}.apply", cls.forward, args, kwargs, 1))
