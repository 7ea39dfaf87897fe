"""The tensor classes, one for each kind, made of the methods that each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from burnpy.tensor.arithmetic import Arithmetic, Integers, Interpolating, MatrixProduct, NumberArithmetic
from burnpy.tensor.backward import Differentiation, DiscreteDifferentiation, Tracking, inner_of
from burnpy.tensor.comparison import Closeness, Comparison, Equality, Logic, Shifts
from burnpy.tensor.complex_numbers import ComplexNumbers, refuse_order, refuse_real
from burnpy.tensor.conversion import Exchange, FloatConversion, RealConversion, moved
from burnpy.tensor.creation import Filling
from burnpy.tensor.factories import BoolTensorFactories, ComplexTensorFactories, IntTensorFactories, TensorFactories
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.lazy_methods import (
    AnalyticFunctions,
    Combining,
    ComplexFunctions,
    Counting,
    Diagonals,
    Differences,
    Elementary,
    FloatFunctions,
    FloatParts,
    FloatStatistics,
    Gathering,
    Histograms,
    IntCounting,
    IntFunctions,
    Matrices,
    Norms,
    NumberFunctions,
    NumberStatistics,
    Ordering,
    Products,
    ProductSums,
    Random,
    RandomLike,
    Ranking,
    Rearranging,
    Repeating,
    RunningExtremes,
    RunningLogarithms,
    Scans,
    Scattering,
    SliceUpdates,
    Unique,
)
from burnpy.tensor.operand_checks import refuse_arithmetic, refuse_bits, refuse_index
from burnpy.tensor.pointwise import Pointwise
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.reduction import BoolReductions, FloatReductions, Means, NumberReductions
from burnpy.tensor.shape import Shaping
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    from burnpy.tensor.gradients import Gradients
    from burnpy.tensor.tensor_types import Above, BoolOperand, IntOperand, OnAutodiff  # noqa: F401  # in the bases, as text


@final
class BoolTensor(
    BoolTensorFactories[B],
    Logic[B, "BoolOperand[B]"],
    Equality[B, bool],
    BoolReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Gathering[B],
    Scattering[B],
    SliceUpdates[B],
    Repeating[B],
    Diagonals[B],
    DiscreteDifferentiation[B],
    Filling[B],
    Counting[B],
    Differences[B],
    Ordering[B],
    RunningExtremes[B],
    Unique[B],
    Protocols[B],
    RealConversion[B],
    Exchange[B],
):
    """A tensor of truth values: masks, and the results of comparisons. It carries no gradient.

    >>> Tensor[NumPy].from_data([1.0, 3.0]) > 2.0
    BoolTensor([False,  True], shape=(2,), dtype=bool, device=NumPy)
    """

    __slots__ = ()
    kind = "bool"
    numbers = frozenset({bool})
    if not TYPE_CHECKING:  # type checkers reject them
        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = refuse_arithmetic
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = refuse_arithmetic
        __lt__ = __le__ = __gt__ = __ge__ = __lshift__ = __rshift__ = __neg__ = __abs__ = refuse_arithmetic

    if TYPE_CHECKING:

        def __bools_for__(self, device: Above[B]) -> None: ...  # see `burnpy.tensor.tensor_types`

    def to_device(self, device: B2 | type[B2], *, stream: None = None) -> BoolTensor[B2]:
        """Return the tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            ArgumentError: ``stream``, a parameter of the array API standard, is not None.
        """
        return moved(self, device, stream)  # type: ignore[no-any-return]  # of that class

    def inner(self: OnAutodiff[I]) -> BoolTensor[I]:
        """Return the tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        x: Any = self
        return new_tensor(BoolTensor, inner_of(x, "inner()"), x._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> bool:
        """Return the only element, as a Python bool.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return bool(self._item("item()"))


@final
class IntTensor(
    IntTensorFactories[B],
    Integers[B],
    Closeness[B, "IntOperand[B]"],
    Shifts[B],
    MatrixProduct[B],
    Ranking[B],
    NumberStatistics[B],
    NumberReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Gathering[B],
    Scattering[B],
    SliceUpdates[B],
    Repeating[B],
    Diagonals[B],
    DiscreteDifferentiation[B],
    NumberFunctions[B, "IntOperand[B]"],
    IntFunctions[B],
    Combining[B, "IntOperand[B]"],
    ProductSums[B, "IntOperand[B]"],
    Filling[B],
    Products[B],
    Counting[B],
    Differences[B],
    Ordering[B],
    Unique[B],
    IntCounting[B],
    Scans[B],
    RunningExtremes[B],
    Protocols[B],
    RealConversion[B],
    Exchange[B],
):
    """A tensor of integers: labels, indices, counts. It carries no gradient.

    >>> IntTensor[NumPy].from_data([1, 2]) + 1
    IntTensor([2, 3], shape=(2,), dtype=int64, device=NumPy)
    """

    __slots__ = ()
    kind = "int"
    numbers = frozenset({int})

    if TYPE_CHECKING:

        def __ints_for__(self, device: Above[B]) -> None: ...  # see `burnpy.tensor.tensor_types`

    def to_device(self, device: B2 | type[B2], *, stream: None = None) -> IntTensor[B2]:
        """Return the tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            ArgumentError: ``stream``, a parameter of the array API standard, is not None.
        """
        return moved(self, device, stream)  # type: ignore[no-any-return]  # of that class

    def inner(self: OnAutodiff[I]) -> IntTensor[I]:
        """Return the tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        x: Any = self
        return new_tensor(IntTensor, inner_of(x, "inner()"), x._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> int:
        """Return the only element, as a Python int.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return int(self._item("item()"))

    def __index__(self) -> int:
        return self.item()


@final
class ComplexTensor(
    ComplexTensorFactories[B],
    ComplexNumbers[B],
    ComplexFunctions[B],
    NumberArithmetic[B, complex],
    Equality[B, complex],
    Closeness[B, complex],
    AnalyticFunctions[B],
    MatrixProduct[B],
    Means[B],
    Scans[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Gathering[B],
    Scattering[B],
    SliceUpdates[B],
    Repeating[B],
    Diagonals[B],
    Tracking[B],
    ProductSums[B, complex],
    Filling[B],
    Matrices[B],
    Products[B],
    Counting[B],
    Differences[B],
    Protocols[B],
    Exchange[B],
):
    """An immutable tensor of complex numbers, complex64 or complex128, which can be differentiated.

    Kinds do not mix: beside a `Tensor` x write ``x.complex()``. A loss is real, such as ``z.abs().sum()``; its gradient
    of z is ∂L/∂Re + i ∂L/∂Im, as in PyTorch.

    >>> z = ComplexTensor[NumPy].from_data([1 + 2j, -1j])
    >>> z * z.conj()
    ComplexTensor([5.+0.j, 1.+0.j], shape=(2,), dtype=complex64, device=NumPy)
    >>> (2 * z + 1).tolist(), abs(z)[1].item()
    ([(3+4j), (1-2j)], 1.0)
    """

    __slots__ = ()
    _backend = vars(TensorBase)["_device"]  # as in `Tensor`
    kind = "complex"
    numbers = frozenset({complex, float, int})
    if not TYPE_CHECKING:  # type checkers reject them
        __lt__ = __le__ = __gt__ = __ge__ = __floordiv__ = __mod__ = __rfloordiv__ = __rmod__ = refuse_order
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __invert__ = refuse_bits
        __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = refuse_bits
        __index__ = __float__ = __int__ = refuse_real

    if TYPE_CHECKING:
        __float__: None  # type: ignore[assignment]  # float(z) is an error

        def inner(self: OnAutodiff[I]) -> ComplexTensor[I]: ...  # noqa: D102
        def grad(self: OnAutodiff[I], grads: Gradients[I]) -> ComplexTensor[I] | None: ...  # noqa: D102

    def to_device(self, device: B2 | type[B2], *, stream: None = None) -> ComplexTensor[B2]:
        """Return the tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            ArgumentError: ``stream``, a parameter of the array API standard, is not None.
            NotTrackedError: the tensor is tracked; call ``detach()`` first.
        """
        return moved(self, device, stream)  # type: ignore[no-any-return]  # of that class


@final
class Tensor(
    TensorFactories[B],
    Arithmetic[B, float],
    Interpolating[B],
    Comparison[B, float],
    Closeness[B, float],
    Pointwise[B],
    MatrixProduct[B],
    FloatStatistics[B],
    Norms[B],
    Histograms[B],
    NumberStatistics[B],
    Scans[B],
    RunningExtremes[B],
    RunningLogarithms[B],
    Ranking[B],
    FloatReductions[B],
    Rearranging[B],
    Shaping[B],
    Indexing[B],
    Gathering[B],
    Scattering[B],
    SliceUpdates[B],
    Repeating[B],
    Diagonals[B],
    Differentiation[B],
    FloatFunctions[B],
    AnalyticFunctions[B],
    NumberFunctions[B, float],
    FloatParts[B],
    Elementary[B],
    Combining[B, float],
    ProductSums[B, float],
    Filling[B],
    Matrices[B],
    Products[B],
    Counting[B],
    Differences[B],
    Ordering[B],
    Unique[B],
    Random[B],
    RandomLike[B],
    RealConversion[B],
    FloatConversion[B],
    Protocols[B],
    Exchange[B],
):
    """An immutable tensor of floating point numbers, the kind that can be differentiated.

    ``B`` is its backend: ``Tensor[NumPy]``, ``Tensor[Autodiff[NumPy]]``. Tensors are created by classmethods, called on
    the class with its backend, as ``Tensor[NumPy].zeros((2,))``, or with ``device=``.

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
    if not TYPE_CHECKING:  # type checkers reject them
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __invert__ = refuse_bits
        __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = refuse_bits
        __index__ = refuse_index

    def to_device(self, device: B2 | type[B2], *, stream: None = None) -> Tensor[B2]:
        """Return the tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            ArgumentError: ``stream``, a parameter of the array API standard, is not None.
            NotTrackedError: the tensor is tracked; call ``detach()`` first.
        """
        return moved(self, device, stream)  # type: ignore[no-any-return]  # of that class


DIFFERENTIABLE = (Tensor, ComplexTensor)
"""The classes of the tensors that carry gradients."""
