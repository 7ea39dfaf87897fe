"""`BoolTensor`: tensors of truth values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, final, overload

from burnpy.backend.backend import Backend
from burnpy.tensor import creation
from burnpy.tensor.base import B, new_tensor
from burnpy.tensor.conversion import moved
from burnpy.tensor.creation import Size
from burnpy.tensor.differentiation import DiscreteDifferentiation, inner_of
from burnpy.tensor.exchange import Exchange, imported
from burnpy.tensor.indexing import Indexing
from burnpy.tensor.logic import Equality, Logic
from burnpy.tensor.printing import Printing
from burnpy.tensor.protocols import Protocols
from burnpy.tensor.reductions import BoolReductions
from burnpy.tensor.sampling import Filling
from burnpy.tensor.shaping import Shaping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.rematerialize.balanced import Balanced

B2 = TypeVar("B2", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


@final
class BoolTensor(
    Logic[B, bool],
    Equality[B],
    BoolReductions[B],
    Shaping[B],
    Indexing[B],
    DiscreteDifferentiation[B],
    Filling[B],
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

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, copy: bool = True) -> Self: ...

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, copy: bool = True, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def from_data(cls, data: ArrayLike, *, copy: bool = True, device: Any = None) -> Any:
        """A tensor with a copy of ``data``: bools, nested lists of bools, a bool array or another bool tensor.

        ``copy=False`` shares the memory of a NumPy array that can never be written to, if the device is on the CPU: the
        result of a tensor's ``to_numpy()``, an array of a loaded record, or an array over bytes, as
        ``np.frombuffer(data)``.

        Raises:
            DTypeError: the data has numbers; compare them, as in ``x != 0``, for truth values.
            ShapeError: the list is ragged.
            ArgumentError: the data has no bools; ``copy=False`` with an array that could still change.
        """
        return creation.from_data(cls, data, None, device, copy)

    @overload
    @classmethod
    def zeros(cls, shape: Size) -> Self: ...

    @overload
    @classmethod
    def zeros(cls, shape: Size, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def zeros(cls, shape: Size, *, device: Any = None) -> Any:
        """A tensor of the given shape filled with False.

        >>> from burnpy import BoolTensor
        >>> from burnpy.backend import NumPy
        >>> BoolTensor[NumPy].zeros((2,)).tolist()
        [False, False]
        """
        return creation.full(cls, shape, False, None, device, "zeros")

    @overload
    @classmethod
    def ones(cls, shape: Size) -> Self: ...

    @overload
    @classmethod
    def ones(cls, shape: Size, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def ones(cls, shape: Size, *, device: Any = None) -> Any:
        """A tensor of the given shape filled with True."""
        return creation.full(cls, shape, True, None, device, "ones")

    @overload
    @classmethod
    def full(cls, shape: Size, value: bool) -> Self: ...

    @overload
    @classmethod
    def full(cls, shape: Size, value: bool, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def full(cls, shape: Size, value: bool, *, device: Any = None) -> Any:
        """A tensor of the given shape filled with ``value``.

        Raises:
            ShapeError: a size is negative.
            DTypeError: the value is of another kind, or does not fit the dtype.
        """
        return creation.full(cls, shape, value, None, device)

    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...

    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

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
        return creation.from_dlpack(cls, imported(source, "BoolTensor"), device)

    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[I]) -> BoolTensor[Autodiff[I]]: ...

    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[Any], *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def from_inner(cls, x: BoolTensor[Any], *, device: Any = None) -> BoolTensor[Any]:
        """The values of ``x`` on an ``Autodiff`` device around its own, untracked and in the same memory.

        Args:
            x: a tensor on the inner backend of the class's backend or of ``device``; without either, on any backend,
                and the result is on ``Autodiff`` around it.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``.
                ``Autodiff[Balanced[NumPy]]`` is best passed here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is not on the inner backend.

        >>> from burnpy import BoolTensor
        >>> from burnpy.backend import NumPy
        >>> BoolTensor.from_inner(BoolTensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
        return creation.lifted(cls, x, device)  # type: ignore[no-any-return]  # of that class

    def to_device(self, device: B2 | type[B2]) -> BoolTensor[B2]:
        """The tensor on another device (a backend class, an alias or a device); itself if it is there already.

        Raises:
            DeviceError: ``device`` is not a backend.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class

    @overload
    def inner(self: BoolTensor[Autodiff[Balanced[I]]]) -> BoolTensor[I]: ...

    @overload
    def inner(self: BoolTensor[Autodiff[I]]) -> BoolTensor[I]: ...

    def inner(self: BoolTensor[Any]) -> BoolTensor[Any]:
        """The tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        return new_tensor(BoolTensor, inner_of(self, "inner()"), self._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> bool:
        """The only element, as a Python bool.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return bool(self._item("item()"))
