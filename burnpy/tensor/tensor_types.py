"""Types of tensors by the backend that they serve, for annotations.

Ints and bools carry no gradient, so those of ``NumPy`` are indices, masks and labels of ``Autodiff[NumPy]`` as well. A
function that takes them beside a ``Tensor[B]`` is annotated with ``Ints[B]`` and ``Bools[B]``. Only `IntTensor` and
`BoolTensor` are such: to type checkers, a tensor on ``B`` serves the backends `Above` ``B``, and the protocols ask for
one of them. At run time, `burnpy.tensor.levels.common_device` decides.

Signatures that take ``Tensor[Autodiff[I]]`` and return ``Tensor[I]`` would need an overload for each strategy, such as
``Tensor[Autodiff[Balanced[I]]]``, since type arguments are invariant. The protocols `OnAutodiff` ask the device for the
backend of the gradients instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from burnpy.autodiff.autodiff import Autodiff, Strategy
from burnpy.autodiff.forward import Forward
from burnpy.backend.backend import Backend
from burnpy.typevars import B, I_co, T_co

B_contra = TypeVar("B_contra", bound=Backend, contravariant=True)

_Once: TypeAlias = Autodiff[B | Strategy[B]] | Forward[B]
_Twice: TypeAlias = Autodiff[B | Strategy[B] | _Once[B]] | Forward[B | _Once[B]]
Above: TypeAlias = B | Autodiff[B | Strategy[B] | _Twice[B]] | Forward[B | _Twice[B]]
"""``B``, and the backends that are up to three times differentiable over it."""
IntOperand: TypeAlias = "int | Ints[B]"
BoolOperand: TypeAlias = "bool | Bools[B]"


class Ints(Protocol[B_contra]):
    """An `IntTensor` on a backend or beneath it."""

    if TYPE_CHECKING:

        def __ints_for__(self, device: B_contra) -> None: ...


class Bools(Protocol[B_contra]):
    """A `BoolTensor` on a backend or beneath it."""

    if TYPE_CHECKING:

        def __bools_for__(self, device: B_contra) -> None: ...


class Differentiating(Protocol[I_co]):
    """A device whose gradients are on ``I``, that is an `Autodiff`."""

    def gradient_device(self) -> I_co:
        """Return the device of gradients."""
        ...


class OnAutodiff(Protocol[I_co]):
    """A tensor or module whose gradients are on ``I``."""

    @property
    def device(self) -> Differentiating[I_co]:
        """The device of the tensor or of the module's parameters."""
        ...


class TensorOnAutodiff(OnAutodiff[I_co], Protocol[I_co]):
    """A float tensor whose gradient is on ``I``."""

    def retain_grad(self) -> object:
        """Only float tensors have this method."""
        ...


class ThisOnAutodiff(OnAutodiff[I_co], Protocol[I_co, T_co]):
    """A float tensor of type ``T`` whose gradient is on ``I``."""

    def retain_grad(self) -> T_co:
        """Return a tensor of the same type."""
        ...
