"""`Sequential`: one layer after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import IndexRangeError, ModuleError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.module import Module, Stateless, rebound

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Sequential(Module[B]):
    """One layer after another, each given what the one before it returned.

    Paths go by number: ``0.weight``. ``model[0]`` is the first layer, ``model[1:]`` a `Sequential` of the others.

    Args:
        layers: each takes one tensor and returns one.

    Raises:
        ModuleError: one is no module; a function can be wrapped in one, see `Stateless`.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Relu
    >>> model = Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy))
    >>> model(Tensor[NumPy].ones((3, 2))).shape, len(model)
    ((3, 1), 3)
    """

    def __init__(self, *layers: Module[B] | Stateless) -> None:
        for k, layer in enumerate(layers):
            given: object = layer
            if not isinstance(given, ModuleBase):
                way_out = (
                    "give the layers one by one: Sequential(*layers)"
                    if isinstance(given, (list, tuple))
                    else "of a function make one: a subclass of burnpy.nn.Stateless whose forward() calls it"
                )
                raise ModuleError(
                    f"Sequential() was given {a(type(given).__name__)} as layer {k}, which is no module; {way_out}"
                )
            setattr(self, str(k), layer)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """What the last layer returns."""
        for layer in vars(self).values():
            x = layer.forward(x)
        return x

    @property
    def layers(self) -> tuple[Module[B] | Stateless, ...]:
        """The layers."""
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
        """A layer by its number, or the layers of a slice.

        Raises:
            IndexRangeError: there is no such layer.
        """
        try:
            found = self.layers[key]
        except IndexError:
            raise IndexRangeError(f"layer {key} was asked of a Sequential of {len(self)} layers") from None
        return Sequential(*found) if isinstance(found, tuple) else found

    def valid(self: Sequential[Autodiff[I]]) -> Sequential[I]:
        """The same layers on the inner backend."""
        return rebound(self)
