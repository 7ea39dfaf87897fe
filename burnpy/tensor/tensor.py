"""`Tensor`: tensors of floating point numbers."""

from __future__ import annotations

from typing import final

from burnpy.tensor.arithmetic import Arithmetic
from burnpy.tensor.base import TensorBase
from burnpy.tensor.conversion import FloatConversion, moved
from burnpy.tensor.differentiation import Differentiation
from burnpy.tensor.factories import TensorFactories
from burnpy.tensor.float_reductions import FloatReductions
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.interop import Exchange
from burnpy.tensor.matmul import MatrixProduct
from burnpy.tensor.methods import (
    Activations,
    Binary,
    Combining,
    Counting,
    Covariances,
    Diagonals,
    Elementary,
    Filling,
    Matrices,
    Ordering,
    Placing,
    Products,
    Random,
    Ranking,
    Rearranging,
    Regrouping,
    Repeating,
    Selecting,
    Special,
    Statistics,
)
from burnpy.tensor.pointwise import Pointwise
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.shaping import Shaping
from burnpy.typevars import B2, B


@final
class Tensor(
    TensorFactories[B],
    Arithmetic[B, float],
    Pointwise[B],
    MatrixProduct[B],
    Statistics[B],
    Covariances[B],
    Ranking[B],
    FloatReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Selecting[B],
    Placing[B],
    Regrouping[B],
    Repeating[B],
    Diagonals[B],
    Differentiation[B],
    Elementary[B],
    Special[B],
    Binary[B],
    Combining[B, float],
    Activations[B],
    Filling[B],
    Matrices[B],
    Products[B],
    Counting[B],
    Ordering[B],
    Random[B],
    FloatConversion[B],
    Protocols[B],
    Exchange[B],
    Printing[B],
):
    """An immutable tensor of floating point numbers, the kind that can be differentiated.

    ``B`` is its backend: ``Tensor[NumPy]``, ``Tensor[Autodiff[NumPy]]``. Tensors are created by classmethods, called on
    the class with its backend, as ``Tensor[NumPy].zeros((2,))``, or with ``device=``.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Tensor[NumPy].from_data([[1, 2], [3, 4]])
    Tensor([[1., 2.],
            [3., 4.]],
           shape=(2, 2), dtype=float32, device=NumPy)
    >>> Tensor.zeros((2,), device=NumPy).tolist()
    [0.0, 0.0]
    """

    __slots__ = ()
    _backend = vars(TensorBase)["_device"]  # the device's own descriptor: as fast as a separate slot
    kind = "float"
    numbers = frozenset({float, int})

    def to_device(self, device: B2 | type[B2]) -> Tensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            NotTrackedError: the tensor is tracked; call ``detach()`` first.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class
