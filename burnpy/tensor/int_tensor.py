"""`IntTensor`: tensors of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from burnpy.tensor.base import new_tensor
from burnpy.tensor.conversion import moved
from burnpy.tensor.differentiation import DiscreteDifferentiation, inner_of
from burnpy.tensor.factories import IntTensorFactories
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.integers import Integers
from burnpy.tensor.interop import Exchange
from burnpy.tensor.matmul import MatrixProduct
from burnpy.tensor.methods import (
    Combining,
    Counting,
    Covariances,
    Diagonals,
    Filling,
    IntCounting,
    NumberTheory,
    Ordering,
    Placing,
    Products,
    Ranking,
    Rearranging,
    Regrouping,
    Repeating,
    Selecting,
)
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.reductions import NumberReductions
from burnpy.tensor.shaping import Shaping
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Above, IntOperand  # noqa: F401  # in the bases, as text
    from burnpy.tensor.on_autodiff import OnAutodiff


@final
class IntTensor(
    IntTensorFactories[B],
    Integers[B],
    MatrixProduct[B],
    Ranking[B],
    NumberReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Selecting[B],
    Placing[B],
    Regrouping[B],
    Repeating[B],
    Diagonals[B],
    DiscreteDifferentiation[B],
    Combining[B, "IntOperand[B]"],
    NumberTheory[B],
    Filling[B],
    Products[B],
    Counting[B],
    Ordering[B],
    IntCounting[B],
    Covariances[B],
    Protocols[B],
    Exchange[B],
    Printing[B],
):
    """A tensor of integers: labels, indices, counts. It carries no gradient.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> IntTensor[NumPy].from_data([1, 2]) + 1
    IntTensor([2, 3], shape=(2,), dtype=int64, device=NumPy)
    """

    __slots__ = ()
    kind = "int"
    numbers = frozenset({int})

    if TYPE_CHECKING:

        def __ints_for__(self, device: Above[B]) -> None: ...  # see `burnpy.tensor.discrete`

    def to_device(self, device: B2 | type[B2]) -> IntTensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class

    def inner(self: OnAutodiff[I]) -> IntTensor[I]:
        """The tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        x: Any = self
        return new_tensor(IntTensor, inner_of(x, "inner()"), x._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> int:
        """The only element, as a Python int.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return int(self._item("item()"))

    def __index__(self) -> int:
        return self.item()
