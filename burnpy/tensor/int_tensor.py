"""`IntTensor`: tensors of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, final, overload

from burnpy.backend.backend import Backend
from burnpy.tensor import creation, sampling
from burnpy.tensor.base import B, new_tensor
from burnpy.tensor.conversion import moved
from burnpy.tensor.creation import Size
from burnpy.tensor.data import DTypeLike
from burnpy.tensor.differentiation import DiscreteDifferentiation, inner_of
from burnpy.tensor.exchange import Exchange, imported
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.integers import Integers
from burnpy.tensor.matmul import MatrixProduct
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.reductions import NumberReductions
from burnpy.tensor.sampling import Filling
from burnpy.tensor.shaping import Shaping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.rematerialize.balanced import Balanced
    from burnpy.tensor.generator import Generator

B2 = TypeVar("B2", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


@final
class IntTensor(
    Integers[B],
    MatrixProduct[B],
    NumberReductions[B],
    Shaping[B],
    Indexing[B],
    DiscreteDifferentiation[B],
    Filling[B],
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

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...

    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: Any = None
    ) -> Any:
        """A tensor with a copy of ``data``: ints, nested lists of ints, an int array or another int tensor.

        Python ints become int64 unless ``dtype`` says otherwise. An array keeps its dtype, which must be an int one;
        with ``dtype``, bool arrays are converted.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the data has floats (NaN and inf included), or an int that the dtype cannot represent.
            ShapeError: the list is ragged.
            ArgumentError: the data has no numbers; ``copy=False`` with an array that could still change.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 2]).dtype
        dtype('int64')
        """
        return creation.from_data(cls, data, dtype, device, copy)

    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...

    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A tensor of the given shape filled with 0.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].zeros((2,)).tolist()
        [0, 0]
        """
        return creation.full(cls, shape, 0, dtype, device, "zeros")

    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...

    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A tensor of the given shape filled with 1."""
        return creation.full(cls, shape, 1, dtype, device, "ones")

    @overload
    @classmethod
    def full(cls, shape: Size, value: int, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def full(
        cls, shape: Size, value: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

    @classmethod
    def full(cls, shape: Size, value: int, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
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
    ) -> IntTensor[B2]: ...

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """A matrix with ones on the diagonal and zeros elsewhere; by default with as many columns as rows."""
        return creation.eye(cls, rows, columns, dtype, device)

    @overload
    @classmethod
    def arange(cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def arange(
        cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

    @classmethod
    def arange(
        cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None, device: Any = None
    ) -> Any:
        """A 1-d tensor of start, start + step, …, excluding ``end``; with one argument, from 0 to that number.

        Raises:
            ArgumentError: the step is 0 or leads away from the end.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].arange(3).tolist()
        [0, 1, 2]
        """
        return creation.arange(cls, start, end, step, dtype, device)

    @overload
    @classmethod
    def randint(
        cls, low: int, high: int, shape: Size, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self: ...

    @overload
    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: Size,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2],
    ) -> IntTensor[B2]: ...

    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: Size,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random ints drawn uniformly from low … high - 1.

        They are drawn from ``generator``, or from `burnpy.default_generator` of the device.

        Raises:
            ArgumentError: ``high`` is not above ``low``.
            DTypeError: the dtype cannot represent low … high - 1.
        """
        return sampling.randint(cls, low, high, shape, dtype, generator, device)

    @overload
    @classmethod
    def permutation(cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None) -> Self: ...

    @overload
    @classmethod
    def permutation(
        cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

    @classmethod
    def permutation(
        cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None, device: Any = None
    ) -> Any:
        """A random permutation of 0 … n - 1, as a 1-d tensor.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> sorted(IntTensor[NumPy].permutation(4).tolist())
        [0, 1, 2, 3]
        """
        return sampling.permutation(cls, n, dtype, generator, device)

    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...

    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> IntTensor[B2]: ...

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
        return creation.from_dlpack(cls, imported(source, "IntTensor"), device)

    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[I]) -> IntTensor[Autodiff[I]]: ...

    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[Any], *, device: B2 | type[B2]) -> IntTensor[B2]: ...

    @classmethod
    def from_inner(cls, x: IntTensor[Any], *, device: Any = None) -> IntTensor[Any]:
        """The values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor.from_inner(IntTensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
        return creation.lifted(cls, x, device)  # type: ignore[no-any-return]  # of that class

    def to_device(self, device: B2 | type[B2]) -> IntTensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class

    @overload
    def inner(self: IntTensor[Autodiff[Balanced[I]]]) -> IntTensor[I]: ...

    @overload
    def inner(self: IntTensor[Autodiff[I]]) -> IntTensor[I]: ...

    def inner(self: IntTensor[Any]) -> IntTensor[Any]:
        """The tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        return new_tensor(IntTensor, inner_of(self, "inner()"), self._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> int:
        """The only element, as a Python int.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return int(self._item("item()"))

    def __index__(self) -> int:
        return self.item()
