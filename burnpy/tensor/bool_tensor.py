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
        """A tensor of bools, nested lists of them, a bool array, or another bool tensor, by copying it.

        ``copy=False`` takes a NumPy array that nobody can ever write to as it is, if the device is on the CPU: what
        ``to_numpy()`` of a tensor gave, what a file's record has, and arrays over bytes, as ``np.frombuffer(data)``.

        Raises:
            DTypeError: numbers, of which a comparison makes truth values.
            ShapeError: a ragged list.
            ArgumentError: something that holds no bools; ``copy=False`` of an array that could still change.
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
        """Falses of the given shape.

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
        """Trues of the given shape."""
        return creation.full(cls, shape, True, None, device, "ones")

    @overload
    @classmethod
    def full(cls, shape: Size, value: bool) -> Self: ...

    @overload
    @classmethod
    def full(cls, shape: Size, value: bool, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...

    @classmethod
    def full(cls, shape: Size, value: bool, *, device: Any = None) -> Any:
        """``value`` in the given shape.

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
        """A copy of an array of another library that speaks DLPack and has its memory on the CPU.

        What others may still write to is copied, and DLPack does not say who may: its read-only flag binds those who
        import. Not copied is what ``from_data(copy=False)`` takes: a tensor's memory, and a NumPy array's over bytes.

        Raises:
            DTypeError: the array is of another kind.
            ArgumentError: ``source`` offers nothing that can be read.
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
        """The values of ``x`` on a device that differentiates, untracked; they share memory.

        Args:
            x: on the inner backend of the alias's, or of ``device``; with neither, on any: ``Autodiff`` goes around it.
            device: a backend class, an alias or a device, instead of the alias. ``Autodiff[Balanced[NumPy]]`` is best
                given here, where type checkers see it.

        Raises:
            DeviceError: ``x`` is on another backend than that.

        >>> from burnpy import BoolTensor
        >>> from burnpy.backend import NumPy
        >>> BoolTensor.from_inner(BoolTensor[NumPy].ones((2,))).device
        Autodiff[NumPy]
        """
        return creation.lifted(cls, x, device)  # type: ignore[no-any-return]  # of that class

    def to_device(self, device: B2 | type[B2]) -> BoolTensor[B2]:
        """The values on another device: a backend class, an alias or a device. On the same device, the tensor itself.

        Raises:
            DeviceError: ``device`` is no backend.
        """
        return moved(self, device)  # type: ignore[no-any-return]  # of that class

    @overload
    def inner(self: BoolTensor[Autodiff[Balanced[I]]]) -> BoolTensor[I]: ...

    @overload
    def inner(self: BoolTensor[Autodiff[I]]) -> BoolTensor[I]: ...

    def inner(self: BoolTensor[Any]) -> BoolTensor[Any]:
        """The same values on the inner backend; they share memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        return new_tensor(BoolTensor, inner_of(self, "inner()"), self._primitive)  # type: ignore[no-any-return]  # of that class

    def item(self) -> bool:
        """The only element, as a Python bool.

        Raises:
            ShapeError: there are more, or none.
        """
        return bool(self._item("item()"))
