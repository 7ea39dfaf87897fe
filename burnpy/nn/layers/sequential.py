"""`Sequential`, a chain of layers, and the layers `Flatten` and `Identity`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from burnpy.backend.errors import CallError, IndexRangeError, ModuleError, a
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.module_base import ModuleBase
from burnpy.tensor.call_errors import UNEXPLAINED, refuse_call
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.backend import Backend
    from burnpy.tensor.tensor import Tensor

    N = TypeVarWithDefault("N", bound=Backend, default=Any)  # so that Identity() needs no annotation
else:
    N = TypeVar("N", bound="Backend")


class Sequential(Module[B]):
    """A chain of layers, each applied to the output of the one before it.

    Layers are named by index in paths: ``0.weight``. ``model[0]`` is the first layer, ``model[1:]`` a `Sequential` of
    the others.

    Args:
        layers: modules that take one tensor and return one.

    Raises:
        ModuleError: an argument is not a module; wrap a function in a subclass of `Stateless`.

    >>> from burnpy.nn import Linear, Relu
    >>> model = Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy))
    >>> model(Tensor[NumPy].ones((3, 2))).shape, len(model)
    ((3, 1), 3)
    """

    def __init__(self, *layers: Module[B] | Stateless) -> None:
        for k, layer in enumerate(layers):
            argument: object = layer
            if not isinstance(argument, ModuleBase):
                way_out = (
                    "give the layers one by one: Sequential(*layers)"
                    if isinstance(argument, (list, tuple))
                    else "to apply a function, write a subclass of burnpy.nn.Stateless whose forward() calls it"
                )
                got = a(type(argument).__name__)
                if isinstance(argument, type):
                    got, way_out = f"the class {argument.__name__}", f"make one: {argument.__name__}(...)"
                raise ModuleError(f"Sequential() got {got} as layer {k}, which is not a module; {way_out}")
            setattr(self, str(k), layer)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply all layers in order."""
        for layer in vars(self).values():
            try:
                x = layer.forward(x)
            except UNEXPLAINED as error:
                refuse_call(layer, (x,), {}, error)
                raise
        return x

    @property
    def layers(self) -> tuple[Module[B] | Stateless, ...]:
        """The layers in order."""
        return tuple(vars(self).values())

    def __len__(self) -> int:
        return len(vars(self))

    def __iter__(self) -> Iterator[Module[B] | Stateless]:
        return iter(self.layers)

    @overload
    def __getitem__(self, key: int) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> Sequential[B]: ...
    def __getitem__(self, key: Any) -> Any:
        """Return a layer by index, or a `Sequential` of the layers of a slice.

        Raises:
            IndexRangeError: the index is out of range.
        """
        try:
            selected = self.layers[key]
        except IndexError:
            raise IndexRangeError(f"index {key} is out of range for a Sequential of {len(self)} layers") from None
        except TypeError:
            raise CallError(
                f"a Sequential of {len(self)} layers is indexed by ints and slices, got {key!r:.80}; its paths "
                "are those of model.replace({path: layer}) and model.named_modules()"
            ) from None
        return Sequential(*selected) if isinstance(selected, tuple) else selected

    def valid(self: Sequential[Autodiff[I]]) -> Sequential[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


class Identity(Stateless, Generic[N]):
    """The identity function: returns its input.

    Its type may name a backend, as in ``Identity[B] | Sequential[B]``, although it takes tensors of any.
    """

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return x."""
        return x


class Flatten(Stateless):
    """Flattens consecutive dimensions into one; by default all but the first.

    Args:
        start_dim: the first dimension to flatten.
        end_dim: the last dimension to flatten.

    >>> Flatten()(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return x with the dimensions flattened."""
        self._need_tensor(x)
        return x.flatten(self.start_dim, self.end_dim)
