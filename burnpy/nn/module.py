"""`Module`: the base class of models and layers.

Its base classes have the methods of one concern each: `burnpy.nn.module_base` the fields and their immutability,
`burnpy.nn.module_state` parameters and their replacement, `burnpy.nn.buffer_updates` running statistics, and
`burnpy.nn.summary` what is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, Self, TypeVar, overload

from burnpy.backend.errors import NotTrackedError, a
from burnpy.nn.buffer_updates import Updatable
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_state import Stateful
from burnpy.nn.summary import Displayed
from burnpy.tensor.call_errors import explained, inherit_methods, next_value
from burnpy.typevars import B2, B, F, I, R

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import OnAutodiff

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[P, R_co]):
    """A protocol for classes with a ``forward``, which gives ``__call__`` the same signature."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute the output."""
        ...


if TYPE_CHECKING:

    def called_as(forward: F) -> Callable[[Callable[..., Any]], F]:
        """Give ``__call__`` the overloads of ``forward``; `HasForward` sees only one of them."""
        ...


class ModuleMethods(Stateful[B], Updatable[B], Displayed[B]):
    """The methods that `Module` and `Stateless` have in common."""

    __slots__ = ()


@inherit_methods
class Module(ModuleMethods[B]):
    """A model, or a layer of one: an immutable tree of parameters, buffers and other modules on backend ``B``.

    The ``__init__`` of a module takes ``device: B | type[B]`` and assigns its fields; afterwards it is immutable.
    ``forward`` defines the computation, and calling the module runs it. Fields may be `Param`, `Buffer`, modules, None,
    plain values, and lists, tuples and dicts of these, which become tuples and read-only dicts. A bare tensor or array
    is an error, as is a parameter on another device.

    A module or `Param` used in two places is shared: it is one module or one parameter. Methods that change something
    return a new module whose parameters keep their ids.

    To give `valid` a precise return type, declare it and return ``rebound(self)``::

        def valid(self: "Mlp[Autodiff[I]]") -> "Mlp[I]": return rebound(self)

    Raises:
        ModuleError: a field has a value that a module cannot store.
        DeviceError: parameters or buffers are on different devices.

    >>> from typing import TypeVar
    >>> from burnpy.backend import Backend
    >>> from burnpy.nn import Linear, Module, Param, rebound
    >>> B = TypeVar("B", bound=Backend)
    >>> class Mlp(Module[B]):
    ...     def __init__(self, device: B | type[B]) -> None:
    ...         self.layers = [Linear(2, 4, device=device), Linear(4, 1, device=device)]
    ...         self.scale = Param(Tensor.ones((), device=device))
    ...
    ...     def forward(self, x: Tensor[B]) -> Tensor[B]:
    ...         return self.layers[1](self.layers[0](x).relu()) * self.scale.value
    >>> model = Mlp(Autodiff[NumPy])
    >>> list(model.named_params())
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias', 'scale']
    >>> model.valid()(Tensor[NumPy].ones((3, 2))).shape
    (3, 1)
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
            """Return the result of `forward`."""
            ...

    @explained
    def valid(self: OnAutodiff[I]) -> Module[I]:
        """Return the same model on the inner backend, which records no graph; the two share memory.

        It is in eval mode unless `train` was called.

        Raises:
            NotTrackedError: the module is already on a plain backend.
        """
        module: Any = self
        return rebound(module)

    @overload
    def fork(self) -> Self: ...
    @overload
    def fork(self, device: B | type[B]) -> Self: ...
    @overload
    def fork(self, device: B2 | type[B2]) -> Module[B2]: ...
    @explained
    def fork(self, device: Any = None) -> Any:
        """Return the same model with new leaves, for another thread or device; its parameters keep their ids.

        Gradients of forks can be added, as they are stored by parameter id. On the same device, forks share memory.

        Args:
            device: the target device; by default the module's own.

        >>> from burnpy.nn import Linear
        >>> model = Linear(2, 3, device=Autodiff[NumPy])
        >>> model.fork().weight.id == model.weight.id
        True
        """
        return self._moved(self.device if device is None else device, renewed=True)

    @overload
    def to_device(self, device: B | type[B]) -> Self: ...
    @overload
    def to_device(self, device: B2 | type[B2]) -> Module[B2]: ...
    @next_value
    def to_device(self, device: Any) -> Any:
        """Return the same model on another device; on the module's own device, the module itself.

        Either device may differentiate. If one wraps the other, as ``Autodiff[NumPy]`` wraps ``NumPy``, the two models
        share memory.
        """
        return self._moved(device, renewed=False)


class Unplaced(ModuleMethods[Any]):
    """A module without parameters and buffers, which has no device and takes tensors of any backend."""

    __slots__ = ()

    def valid(self) -> Self:
        """Return the module itself: it has no device."""
        return self

    def fork(self, device: Any = None) -> Self:
        """Return the module itself: it has no device."""
        return self

    def to_device(self, device: Any) -> Self:
        """Return the module itself: it has no device."""
        return self


class FunctionLayer(Unplaced):
    """The base class of layers that call a function with settings, and have its arguments and errors.

    A subclass names the function, and the fields to pass to it by name.
    """

    __slots__ = ()

    _function: ClassVar[Callable[..., Any]]
    _settings: ClassVar[tuple[str, ...]]

    def _result(self, x: Tensor[B], *others: Any, **options: Any) -> Tensor[B]:
        """Return the result of the function with the settings of the layer."""
        for name in self._settings:
            options[name] = getattr(self, name)
        return self._function(x, *others, **options)  # type: ignore[no-any-return]  # a function of tensors


@inherit_methods
class Stateless(Unplaced):
    """A layer without parameters and buffers that maps a tensor to a tensor of the same backend, such as an activation.

    It works on any backend: ``forward`` is generic in the backend of its argument, and ``__init__`` takes no device.

    >>> from burnpy.backend import Backend
    >>> B = TypeVar("B", bound=Backend)
    >>> class Square(Stateless):
    ...     def forward(self, x: Tensor[B]) -> Tensor[B]:
    ...         return x * x
    >>> Square()(Tensor[NumPy].from_data([3.0])).tolist()
    [9.0]
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def forward(self, x: Tensor[B2]) -> Tensor[B2]:
            """Compute the output of the layer."""
            ...

        def __call__(self, x: Tensor[B2]) -> Tensor[B2]:
            """Return the result of `forward`."""
            ...


ModuleMethods._reserved = frozenset(dir(Module))


@explained
def rebound(module: ModuleBase[Any]) -> R:  # type: ignore[type-var]  # the class that the caller declares
    """Return the module on its inner backend, with the type that the caller's ``valid()`` declares.

    A module's own ``valid()`` returns it. Python's types cannot say "this class, on the inner backend" once for all
    classes, so each class says it in two lines. Without them, the module inherits ``valid()`` and runs the same, but
    type checkers see only a ``Module[I]``::

        def valid(self: "Net[Autodiff[I]]") -> "Net[I]":
            return rebound(self)

    Raises:
        NotTrackedError: the module is already on a plain backend.
    """
    device: Any = module._own_device()
    if device is not None and not device.differentiates:
        raise NotTrackedError(
            f"valid() got {a(type(module).__name__)} on {device}, which records no graph already; use the model as it "
            "is, or make it on Autodiff[...] to train it"
        )
    rebindable: Any = module  # of the class that the caller declares
    return rebindable if device is None else rebindable._on_inner(device)  # type: ignore[no-any-return]  # as above
