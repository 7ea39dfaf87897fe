"""`BoolTensor`: tensors of truth values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from burnpy.tensor.base import new_tensor
from burnpy.tensor.conversion import moved
from burnpy.tensor.differentiation import DiscreteDifferentiation, inner_of
from burnpy.tensor.factories import BoolTensorFactories
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.interop import Exchange
from burnpy.tensor.logic import Equality, Logic
from burnpy.tensor.methods import (
    Counting,
    Diagonals,
    Filling,
    Ordering,
    Placing,
    Rearranging,
    Regrouping,
    Repeating,
    Selecting,
)
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.reductions import BoolReductions
from burnpy.tensor.shaping import Shaping
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Above, BoolOperand  # noqa: F401  # in the bases, as text
    from burnpy.tensor.on_autodiff import OnAutodiff


@final
class BoolTensor(
    BoolTensorFactories[B],
    Logic[B, "BoolOperand[B]"],
    Equality[B],
    BoolReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Selecting[B],
    Placing[B],
    Regrouping[B],
    Repeating[B],
    Diagonals[B],
    DiscreteDifferentiation[B],
    Filling[B],
    Counting[B],
    Ordering[B],
    Protocols[B],
    Exchange[B],
    Printing[B],
):
    """A tensor of truth values: masks, and the results of comparisons. It carries no gradient.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Tensor[NumPy].from_data([1.0, 3.0]) > 2.0
    BoolTensor([False,  True], shape=(2,), dtype=bool, device=NumPy)
    """

    __slots__ = ()
    kind = "bool"
    numbers = frozenset({bool})

    if TYPE_CHECKING:

        def __bools_for__(self, device: Above[B]) -> None: ...  # see `burnpy.tensor.discrete`

    def to_device(self, device: B2 | type[B2]) -> BoolTensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class

    def inner(self: OnAutodiff[I]) -> BoolTensor[I]:
        """The tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        x: Any = self
        return new_tensor(BoolTensor, inner_of(x, "inner()"), x._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> bool:
        """The only element, as a Python bool.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return bool(self._item("item()"))
