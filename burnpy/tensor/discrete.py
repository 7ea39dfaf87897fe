"""The types of int and bool tensors that go with tensors of a backend: those on it, and on a backend beneath it.

Ints and bools carry no gradient, so those of ``NumPy`` are indices, masks and labels of ``Autodiff[NumPy]`` as well. A
function that takes them beside a ``Tensor[B]`` is annotated with ``Ints[B]`` and ``Bools[B]``. Only `IntTensor` and
`BoolTensor` are such: to type checkers, a tensor on ``B`` serves the backends `Above` ``B``, and the protocols ask for
one of them. At run time, `burnpy.tensor.levels.common_device` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from burnpy.autodiff.autodiff import Autodiff, Strategy
from burnpy.autodiff.forward import Forward
from burnpy.backend.backend import Backend
from burnpy.typevars import B

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
