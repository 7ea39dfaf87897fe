"""`Module`: what a model and its layers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, overload

from burnpy.autodiff.rematerialize.balanced import Balanced
from burnpy.backend.backend import Backend
from burnpy.backend.errors import NotTrackedError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.state import Stateful
from burnpy.nn.transform import Transforms
from burnpy.tensor.call_errors import composed

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
B2 = TypeVar("B2", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[P, R_co]):
    """What has a ``forward``: a call takes its arguments and gives its result."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """What is computed."""
        ...


@composed
class Module(Stateful[B], Transforms[B]):
    """A model, or a layer of one: an immutable tree of parameters, buffers and other modules on backend ``B``.

    A module is a class with an ``__init__`` that takes ``device: B | type[B]``, assigns its parts and is done; from
    then on nothing can be assigned. What it computes is its ``forward``, which a call runs. Its fields may be `Param`,
    `Buffer`, modules; None; lists, tuples and dicts of these, which become tuples and read-only dicts; and plain
    values. A bare tensor or array is an error, as is a part on another device.

    A module that stands in two places is one module, and a `Param` one parameter. Every method that changes something
    returns another module, of which the parameters have the same ids.

    One line more gives `valid` its type: ``rebound`` makes what it is declared to return::

        def valid(self: "Mlp[Autodiff[I]]") -> "Mlp[I]": return rebound(self)

    Raises:
        ModuleError: a field is what no module can hold.
        DeviceError: parts are on several devices.

    >>> from typing import TypeVar
    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import Backend, NumPy
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
            """What `forward` computes."""
            ...

    @overload
    def valid(self: Module[Autodiff[Balanced[I]]]) -> Module[I]: ...
    @overload
    def valid(self: Module[Autodiff[I]]) -> Module[I]: ...
    def valid(self: Module[Any]) -> Module[Any]:
        """The same model on the inner backend, where nothing is recorded; they share memory.

        It behaves as in use, unless `train` said otherwise.

        Raises:
            NotTrackedError: the module is on a plain backend already.
        """
        return rebound(self)

    @overload
    def fork(self) -> Self: ...
    @overload
    def fork(self, device: B | type[B]) -> Self: ...
    @overload
    def fork(self, device: B2 | type[B2]) -> Module[B2]: ...
    def fork(self, device: Any = None) -> Any:
        """The same model with leaves of its own, for another thread or device: gradients meet again by parameters' ids.

        On the same device they share memory.

        Args:
            device: where to; the module's own, unless given.

        >>> from burnpy import Autodiff
        >>> from burnpy.backend import NumPy
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
    def to_device(self, device: Any) -> Any:
        """The same model on another device, from or to one that differentiates too; on its own, the module itself.

        Where one device is on top of the other, as ``Autodiff[NumPy]`` on ``NumPy``, they share memory.
        """
        return self._moved(device, renewed=False)


class Unplaced(Stateful[Any], Transforms[Any]):
    """A module with nothing to hold, which is on no device and takes tensors of every backend."""

    __slots__ = ()

    def valid(self) -> Self:
        """The module itself: it is on no device."""
        return self

    def fork(self, device: Any = None) -> Self:
        """The module itself: it is on no device."""
        return self

    def to_device(self, device: Any) -> Self:
        """The module itself: it is on no device."""
        return self


@composed
class Stateless(Unplaced):
    """A layer with nothing to hold, from one tensor to one of the same backend, whichever it is: an activation, a pool.

    Its ``forward`` is generic in the backend of its argument, and it is written without one: ``Relu()``.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import Backend, NumPy
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
            """What the layer computes."""
            ...

        def __call__(self, x: Tensor[B2]) -> Tensor[B2]:
            """What `forward` computes."""
            ...


def rebound(module: ModuleBase[Any]) -> R:  # type: ignore[type-var]  # the class that the caller declares
    """The same module on the inner backend of its own: what ``valid()`` of a class returns, typed as it declares.

    Raises:
        NotTrackedError: the module is on a plain backend already.
    """
    device: Any = next((held.device for held in module._all_held().values()), None)
    if device is not None and not hasattr(device, "lower"):
        raise NotTrackedError(
            f"valid() was asked of {a(type(module).__name__)} on {device}, which records no graph; it is what valid() "
            "gives: use it as it is, or make the model on Autodiff[...] to train it"
        )
    found: Any = module  # of the class that the caller declares
    return found if device is None else found._moved(device.inner, renewed=False)  # type: ignore[no-any-return]  # as above
