"""`Tensor`: tensors of floating point numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, final, overload

from burnpy.backend.backend import Backend
from burnpy.tensor import creation
from burnpy.tensor.arithmetic import Arithmetic
from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.conversion import FloatConversion, moved
from burnpy.tensor.creation import Size
from burnpy.tensor.data import DTypeLike
from burnpy.tensor.differentiation import Differentiation
from burnpy.tensor.exchange import Exchange, imported
from burnpy.tensor.float_reductions import FloatReductions
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.matmul import MatrixProduct
from burnpy.tensor.pointwise import Pointwise
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.sampling import Sampling
from burnpy.tensor.shaping import Shaping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burnpy.autodiff.autodiff import Autodiff

B2 = TypeVar("B2", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


@final
class Tensor(
    Arithmetic[B, float],
    Pointwise[B],
    MatrixProduct[B],
    FloatReductions[B],
    Shaping[B],
    Indexing[B],
    Differentiation[B],
    Sampling[B],
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

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...

    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: Any = None
    ) -> Any:
        """A tensor with a copy of ``data``: numbers, nested lists of numbers, an array or another tensor.

        Python numbers become float32 unless ``dtype`` says otherwise. An array keeps its dtype, which must be a float
        one; with ``dtype``, int and bool arrays are converted.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the numbers or the array are of another kind, or the dtype is unknown.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([[1, 2], [3, 4]]).dtype
        dtype('float32')
        """
        return creation.from_data(cls, data, dtype, device, copy)

    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...

    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A tensor of the given shape filled with 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].zeros((2,)).tolist()
        [0.0, 0.0]
        """
        return creation.full(cls, shape, 0.0, dtype, device, "zeros")

    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...

    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A tensor of the given shape filled with 1."""
        return creation.full(cls, shape, 1.0, dtype, device, "ones")

    @overload
    @classmethod
    def full(cls, shape: Size, value: float, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def full(
        cls, shape: Size, value: float, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

    @classmethod
    def full(cls, shape: Size, value: float, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
        return creation.full(cls, shape, value, dtype, device)

    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
        return creation.eye(cls, rows, columns, dtype, device)

    @overload
    @classmethod
    def arange(
        cls, start: float, end: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None
    ) -> Self: ...

    @overload
    @classmethod
    def arange(
        cls,
        start: float,
        end: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...

    @classmethod
    def arange(
        cls,
        start: float,
        end: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: Any = None,
    ) -> Any:
        """A 1-d tensor of start, start + step, …, excluding ``end``; with one argument, from 0 to that number.

        Raises:
            ArgumentError: the step is 0 or leads away from the end.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].arange(3).tolist()
        [0.0, 1.0, 2.0]
        """
        return creation.arange(cls, start, end, step, dtype, device)

    @overload
    @classmethod
    def linspace(cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def linspace(
        cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

    @classmethod
    def linspace(
        cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None, device: Any = None
    ) -> Any:
        """A 1-d tensor of ``steps`` numbers evenly spaced from ``start`` to ``end``, both included."""
        return creation.linspace(cls, start, end, steps, dtype, device)

    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...

    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> Tensor[B2]: ...

    @classmethod
    def from_dlpack(cls, source: Any, *, device: Any = None) -> Any:
        """A tensor with a copy of another library's array, which supports DLPack and has its memory on the CPU.

        Memory that others may still write to is copied, and DLPack does not say who may: its read-only flag binds only
        the importer. Arrays that ``from_data(copy=False)`` accepts are not copied: a tensor's own memory, and a NumPy
        array over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` cannot be read by DLPack.
        """
        return creation.from_dlpack(cls, imported(source, "Tensor"), device)

    @overload
    @classmethod
    def from_inner(cls, x: Tensor[I]) -> Tensor[Autodiff[I]]: ...

    @overload
    @classmethod
    def from_inner(cls, x: Tensor[Any], *, device: B2 | type[B2]) -> Tensor[B2]: ...

    @classmethod
    def from_inner(cls, x: Tensor[Any], *, device: Any = None) -> Tensor[Any]:
        """The values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor.from_inner(Tensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
        return creation.lifted(cls, x, device)  # type: ignore[no-any-return]  # of that class

    def to_device(self, device: B2 | type[B2]) -> Tensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
            NotTrackedError: the tensor is tracked; call ``detach()`` first.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class
