"""Conversions: to another dtype, kind or device, and out to Python and NumPy."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import bool_, dtype_of, float16, float32, float64, int64, kind_of
from burnpy.backend.errors import DTypeError, NotTrackedError, ShapeError, a
from burnpy.tensor.base import B, TensorBase, new_tensor
from burnpy.tensor.data import DTypeLike
from burnpy.tensor.host_reads import told, watches
from burnpy.tensor.readonly import readonly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor


class Conversion(TensorBase[B]):
    """What tensors of every kind can be turned into."""

    __slots__ = ()

    def float(self, dtype: DTypeLike = float32) -> Tensor[B]:
        """The values as floats; true is 1.

        Raises:
            DTypeError: ``dtype`` is no float dtype.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 2]).float().tolist()
        [1.0, 2.0]
        """
        wanted = dtype_of(dtype, "float")
        if self.kind == "float":
            return self._cast(wanted)  # type: ignore[return-value]  # a float tensor is a Tensor
        return self._float(self._device.to_float(self._primitive, wanted))

    def int(self, dtype: DTypeLike = int64) -> IntTensor[B]:
        """The values as ints, truncated toward zero; true is 1. What no int is (NaN, inf) comes out as any number.

        Raises:
            DTypeError: ``dtype`` is no int dtype.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([-1.7, 1.7]).int().tolist()
        [-1, 1]
        """
        wanted = dtype_of(dtype, "int")
        if self.kind == "int":
            return self._cast(wanted)  # type: ignore[return-value]  # an int tensor is an IntTensor
        return self._int(self._backend.to_int(self._primitive, wanted))

    def bool(self) -> BoolTensor[B]:
        """True where the value is not zero; NaN is true.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 0.5]).bool().tolist()
        [False, True]
        """
        if self.kind == "bool":
            return self  # type: ignore[return-value]  # a bool tensor is a BoolTensor
        return self._bool(self._backend.to_bool(self._primitive))

    def to_dtype(self, dtype: DTypeLike) -> Self:
        """The values in another dtype of the same kind; the tensor itself where it has that dtype.

        Raises:
            DTypeError: the dtype is unknown or of another kind, for which there are ``float``, ``int`` and ``bool``.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].ones((2,)).to_dtype("float64").dtype
        dtype('float64')
        """
        wanted = dtype_of(dtype)
        kind = kind_of(wanted)
        if kind != self.kind:
            argument = "" if wanted == bool_ else repr(str(wanted))
            raise DTypeError(
                f"to_dtype({str(wanted)!r}) was asked of {a(type(self).__name__)} of shape {self.shape} and dtype "
                f"{self.dtype}, and keeps the kind; convert the kind with x.{kind}({argument})"
            )
        return self._cast(wanted)

    def _cast(self, dtype: Any) -> Self:
        return self if dtype == self.dtype else self._like(self._backend.cast(self._primitive, dtype))

    def to_numpy(self) -> NDArray[Any]:
        """The values as a NumPy array that cannot be written to, in the tensor's own memory where that is on the CPU.

        ``np.array(x)`` makes an array of your own.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 2.0]).to_numpy()
        array([1., 2.], dtype=float32)
        """
        if watches:
            told(self, "to_numpy()")
        return readonly(self._backend.to_numpy(self._primitive))

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number."""
        if watches:
            told(self, "tolist()")
        return self._listed()

    def _listed(self) -> Any:
        array = self._backend.to_numpy(self._primitive)
        if self.dtype.kind == "V":  # NumPy knows no Python number for bfloat16
            array = array.astype(float32)
        return array.tolist()

    def numel(self) -> builtins.int:
        """The number of elements."""
        return math.prod(self.shape)

    def _item(self, operation: str) -> Any:
        """The only element as a Python number."""
        if watches:
            told(self, operation)
        return self._only(operation)

    def _only(self, operation: str) -> Any:
        if self.numel() != 1:
            raise ShapeError(
                f"{operation} was asked of {a(type(self).__name__)} of shape {self.shape}, and takes one element; "
                "reduce it first, as with .sum(), or use .tolist()"
            )
        found = self._listed()
        while isinstance(found, list):
            found = found[0]
        return found


class FloatConversion(Conversion[B]):
    """What float tensors can be turned into besides."""

    __slots__ = ()

    def half(self) -> Self:
        """The values in float16."""
        return self._cast(float16)

    def bfloat16(self) -> Self:
        """The values in bfloat16, which needs the package ``ml_dtypes``.

        Raises:
            DTypeError: the package is missing.
        """
        return self._cast(dtype_of("bfloat16"))

    def double(self) -> Self:
        """The values in float64."""
        return self._cast(float64)

    def item(self) -> float:
        """The only element, as a Python float.

        Raises:
            ShapeError: there are more, or none.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 2.0]).sum().item()
        3.0
        """
        return float(self._item("item()"))


def moved(x: TensorBase[Any], device: Any) -> Any:
    """``x.to_device(device)``: the values on another device, in the same memory where both compute on the same."""
    target = device_of(device)
    if target is x._device:
        return x
    source, primitive = x._backend, x._primitive
    if x.kind == "float" and source.is_require_grad(primitive):
        raise NotTrackedError(
            f"to_device({target}) was asked of a tracked tensor of shape {x.shape} on {x.device}, and graphs do "
            "not cross devices; call x.detach() first, and .require_grad() on the result for a leaf there"
        )
    goal = target if x.kind == "float" else target.discrete
    while hasattr(source, "inner"):
        if hasattr(source, "lower"):
            primitive = source.lower(primitive)
        source = source.inner
    levels = []
    while hasattr(goal, "lower"):
        levels.append(goal)
        goal = goal.inner
    primitive = goal.transfer_from(primitive, source)
    for level in reversed(levels):
        primitive = level.lift(primitive)
    return new_tensor(type(x), target, primitive)
