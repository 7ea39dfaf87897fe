"""The factories of the tensor classes: classmethods that create tensors.

Each is written once here, for all the kinds that have it. Type checkers read ``factories.pyi`` instead, in which every
kind has its own factories with two overloads each: without ``device``, the result is on the backend of the class that
the factory was called on, as in ``Tensor[NumPy].zeros((2,))``; with it, on that device. After a change here,
``make generated`` writes that file anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.tensor import creation
from burnpy.tensor.lazy_methods import DistributionFactories, RandomFactories, RandomIntFactories
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burnpy.tensor.creation import Size
    from burnpy.tensor.host_data import DTypeLike

    Number = Any
    """A Python number of the kind: float for `Tensor`, complex for `ComplexTensor`, int for `IntTensor`, bool for
    `BoolTensor`."""
    OnInner = Any
    """A tensor of the kind on the inner backend of the result's."""


class Factories(TensorBase[B]):
    """Factories of all kinds."""

    __slots__ = ()

    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: Any = None
    ) -> Any:
        """Return a tensor with a copy of ``data``: numbers, nested lists of numbers, an array or another tensor.

        The numbers are of the kind: a `Tensor` takes floats and ints, which become float32 unless ``dtype`` says
        otherwise, an `IntTensor` ints, which become int64, and a `BoolTensor` bools. An array keeps its dtype, which
        must be of the kind; with ``dtype``, ints and bools are converted to wider kinds.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the numbers or the array are of another kind, or the dtype is unknown or cannot represent them.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> Tensor[NumPy].from_data([[1, 2], [3, 4]]).dtype, IntTensor[NumPy].from_data([1, 2]).dtype
        (dtype('float32'), dtype('int64'))
        """
        return creation.from_data(cls, data, dtype, device, copy)

    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a tensor of the given shape filled with 0, or False.

        >>> Tensor[NumPy].zeros((2,)).tolist(), BoolTensor[NumPy].zeros((2,)).tolist()
        ([0.0, 0.0], [False, False])
        """
        return creation.full(cls, shape, False, dtype, device, "zeros")

    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a tensor of the given shape filled with 1, or True."""
        return creation.full(cls, shape, True, dtype, device, "ones")

    @classmethod
    def full(cls, shape: Size, value: Number, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
        return creation.full(cls, shape, value, dtype, device)

    @classmethod
    def from_dlpack(cls, source: Any, *, device: Any = None) -> Any:
        """Return a tensor with a copy of another library's array, which supports DLPack.

        An array on a GPU becomes a tensor on `CuPy`, and is copied there, in order with the streams of both.

        Memory that others may still write to is copied, and DLPack does not say who may: its read-only flag binds only
        the importer. Arrays that ``from_data(copy=False)`` accepts are not copied: a tensor's own memory, and a NumPy
        array over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` cannot be read by DLPack.
        """
        return creation.from_dlpack(cls, source, device)

    @classmethod
    def from_inner(cls, x: OnInner, *, device: Any = None) -> Any:
        """Return the values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> Tensor.from_inner(Tensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
        return creation.lifted(cls, x, device)


class NumberFactories(Factories[B]):
    """Factories of floats and ints."""

    __slots__ = ()

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
        return creation.eye(cls, rows, columns, dtype, device)

    @classmethod
    def arange(
        cls,
        start: Number,
        end: Number | None = None,
        step: Number = 1,
        *,
        dtype: DTypeLike | None = None,
        device: Any = None,
    ) -> Any:
        """Return a 1-d tensor of start, start + step, …, excluding ``end``; with one argument, from 0 to that number.

        Raises:
            ArgumentError: the step is 0 or leads away from the end.

        >>> Tensor[NumPy].arange(3).tolist(), IntTensor[NumPy].arange(4, 0, -2).tolist()
        ([0.0, 1.0, 2.0], [4, 2])
        """
        return creation.arange(cls, start, end, step, dtype, device)


class ComplexTensorFactories(Factories[B]):
    """The factories of `ComplexTensor`."""

    __slots__ = ()

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
        return creation.eye(cls, rows, columns, dtype, device)

    @classmethod
    def linspace(
        cls, start: complex, end: complex, steps: int, *, dtype: DTypeLike | None = None, device: Any = None
    ) -> Any:
        """Return a 1-d tensor of ``steps`` numbers evenly spaced from ``start`` to ``end``, both included."""
        return creation.linspace(cls, start, end, steps, dtype, device)


class TensorFactories(NumberFactories[B], RandomFactories[B], DistributionFactories[B]):
    """The factories of `Tensor`."""

    __slots__ = ()

    @classmethod
    def linspace(
        cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None, device: Any = None
    ) -> Any:
        """Return a 1-d tensor of ``steps`` numbers evenly spaced from ``start`` to ``end``, both included."""
        return creation.linspace(cls, start, end, steps, dtype, device)


class IntTensorFactories(NumberFactories[B], RandomIntFactories[B]):
    """The factories of `IntTensor`."""

    __slots__ = ()


class BoolTensorFactories(Factories[B]):
    """The factories of `BoolTensor`."""

    __slots__ = ()
