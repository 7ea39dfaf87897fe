"""Conversions: to another dtype, kind or device, and out to Python, to NumPy and to other array libraries by DLPack."""

from __future__ import annotations

import builtins
import math
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import (
    bool_,
    complex_dtype,
    converted,
    dtype_of,
    float16,
    float32,
    float64,
    int64,
    kind_of,
    part_dtype,
)
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    CallError,
    DTypeError,
    NotTrackedError,
    RecordingError,
    ShapeError,
    a,
    class_name,
)
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.host_data import DTypeLike, notify, readonly, watches
from burnpy.tensor.levels import lifted_to, plain_device
from burnpy.tensor.operand_checks import explain_memory
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor


class Size(int):
    """A number of elements, which explains PyTorch's call ``x.size()``."""

    __slots__ = ()

    def __call__(self, dim: builtins.int | None = None) -> NoReturn:
        """Raise an error that says what to write instead."""
        asked, ours = ("", "x.shape") if dim is None else (dim, f"x.shape[{dim}]")
        raise CallError(f"x.size({asked}) was called, but x.size is the number of elements, {self}; write {ours}")


class RealConversion(TensorBase[B]):
    """Conversions to other kinds of numbers, which complex tensors do not have."""

    __slots__ = ()

    def float(self, dtype: DTypeLike = float32) -> Tensor[B]:
        """Return the values as floats; True becomes 1.

        Raises:
            DTypeError: ``dtype`` is not a float dtype.

        >>> IntTensor[NumPy].from_data([1, 2]).float().tolist()
        [1.0, 2.0]
        """
        target = dtype_of(dtype, "float")
        if self.kind == "float":
            return cast(self, target)  # type: ignore[no-any-return]  # a float tensor is a Tensor
        return self._float(self._device.to_float(self._primitive, target))

    def int(self, dtype: DTypeLike = int64) -> IntTensor[B]:
        """Return the values as ints, truncated toward zero; True becomes 1. The results for NaN and inf are arbitrary.

        Raises:
            DTypeError: ``dtype`` is not an int dtype.

        >>> Tensor[NumPy].from_data([-1.7, 1.7]).int().tolist()
        [-1, 1]
        """
        target = dtype_of(dtype, "int")
        if self.kind == "int":
            return cast(self, target)  # type: ignore[no-any-return]  # an int tensor is an IntTensor
        return self._int(self._backend.to_int(self._primitive, target))

    def complex(self, dtype: DTypeLike | None = None) -> ComplexTensor[B]:
        """Return the values as complex numbers, whose imaginary parts are 0.

        Args:
            dtype: complex64 or complex128; by default complex128 for float64, else complex64.

        Raises:
            DTypeError: ``dtype`` is not a complex dtype, or the backend has no complex arrays.

        >>> Tensor[NumPy].from_data([1.0, 2.0]).complex().tolist()
        [(1+0j), (2+0j)]
        """
        target = complex_dtype(self.dtype) if dtype is None else dtype_of(dtype, "complex")
        real = self.float(part_dtype(target))
        return self._complex(self._device.complex(real._primitive, real._device.full(real.shape, 0.0, real.dtype)))


class Conversion(TensorBase[B]):
    """Conversions that tensors of all kinds have."""

    __slots__ = ()

    def bool(self) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where the value is not zero; NaN becomes True.

        >>> Tensor[NumPy].from_data([0.0, 0.5]).bool().tolist()
        [False, True]
        """
        if self.kind == "bool":
            return self  # type: ignore[return-value]  # a bool tensor is a BoolTensor
        return self._bool(self._backend.to_bool(self._primitive))

    def to_dtype(self, dtype: DTypeLike) -> Self:
        """Return the values in another dtype of the same kind; the tensor itself if it has that dtype already.

        Raises:
            DTypeError: the dtype is unknown or of another kind; ``float``, ``int`` and ``bool`` change the kind.

        >>> Tensor[NumPy].ones((2,)).to_dtype("float64").dtype
        dtype('float64')
        """
        target = dtype_of(dtype)
        kind = kind_of(target)
        if kind != self.kind:
            argument = "" if target == bool_ else repr(str(target))
            raise DTypeError(
                f"to_dtype({str(target)!r}) got {a(type(self).__name__)} of shape {self.shape} and dtype "
                f"{self.dtype}, and keeps the kind; convert the kind with x.{kind}({argument})"
            )
        return self._cast(target)

    def _cast(self, dtype: Any) -> Self:
        return cast(self, dtype)  # type: ignore[no-any-return]  # of this class

    def to_numpy(self) -> NDArray[Any]:
        """Return the values as a read-only NumPy array, which shares the tensor's memory if that is on the CPU.

        ``np.array(x)`` returns a writable copy. PyTorch ignores that an array is read-only: do not write to
        ``torch.from_numpy(x.to_numpy())``, which would change x. ``torch.from_dlpack(x)`` is a copy of PyTorch's own.

        >>> Tensor[NumPy].from_data([1.0, 2.0]).to_numpy()
        array([1., 2.], dtype=float32)
        """
        if watches:
            notify(self, "to_numpy()")
        return readonly(self._backend.to_numpy(self._primitive))

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers; for a 0-d tensor, a Python number."""
        if watches:
            notify(self, "tolist()")
        return self._listed()

    def _listed(self) -> Any:
        array = self._backend.to_numpy(self._primitive)
        if self.dtype.kind == "V":  # NumPy cannot convert bfloat16 to Python numbers
            array = array.astype(float32)
        return array.tolist()

    def numel(self) -> builtins.int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> builtins.int:
        """The number of elements, as `numel`; PyTorch's ``x.size()`` is ``x.shape``.

        >>> Tensor[NumPy].zeros((2, 3)).size
        6
        """
        return Size(self.numel())

    def _item(self, operation: str) -> Any:
        """Return the only element as a Python number."""
        if watches:
            notify(self, operation)
        return self._only(operation)

    def _only(self, operation: str) -> Any:
        if self.numel() != 1:
            raise ShapeError(
                f"{operation} got {a(type(self).__name__)} of shape {self.shape}, but takes one element; "
                "reduce it first, as with .sum(), or use .tolist()"
            )
        value = self._listed()
        while isinstance(value, list):
            value = value[0]
        return value


def cast(x: Any, dtype: Any) -> Any:
    """Return a tensor in another dtype of its kind."""
    try:
        return x if dtype == x.dtype else x._like(x._backend.cast(x._primitive, dtype))
    except MemoryError as error:
        explain_memory(error, "to_dtype", x)
        raise


class FloatConversion(Conversion[B]):
    """Conversions that only float tensors have."""

    __slots__ = ()

    def half(self) -> Self:
        """Return the values in float16."""
        return self._cast(float16)

    def bfloat16(self) -> Self:
        """Return the values in bfloat16, which needs the package ``ml_dtypes``.

        Raises:
            DTypeError: the package is missing.
        """
        return self._cast(dtype_of("bfloat16"))

    def double(self) -> Self:
        """Return the values in float64."""
        return self._cast(float64)

    def item(self) -> float:
        """Return the only element, as a Python float.

        Raises:
            ShapeError: the tensor does not have exactly one element.

        >>> Tensor[NumPy].from_data([1.0, 2.0]).sum().item()
        3.0
        """
        return float(self._item("item()"))


def moved(x: TensorBase[Any], device: Any, stream: Any = None) -> Any:
    """Implement ``x.to_device(device)``; the result shares memory if both devices have the same innermost backend."""
    target = device_of(device)
    if stream is not None:
        raise ArgumentError(
            f"to_device() got stream={stream!r:.80}; the copy is made on the stream of the block around the call, as "
            "in with device.stream(stream)"
        )
    if target is x._device:
        return x
    source, primitive = x._backend, x._primitive
    if x.kind in INEXACT and source.is_require_grad(primitive):
        raise NotTrackedError(
            f"to_device({target}) got a tracked tensor of shape {x.shape} on {x.device}, and graphs do "
            "not cross devices; call x.detach() first, and .require_grad() on the result for a leaf there"
        )
    backend = target if x.kind in INEXACT else target.discrete
    while source.inner is not None and not source.records:
        if source.stands_for is target:
            return new_tensor(type(x), source, primitive)
        source, primitive = source.inner, source.lower(primitive)
    if source.records and target.stands_for is None:
        if source.stands_for is not target:
            raise RecordingError(
                f"to_device({target}) got a tensor of shape {x.shape} on {x.device} inside of a compiled function, "
                "which computes on one device; move it before the call"
            )
        return new_tensor(type(x), source, primitive)
    return new_tensor(type(x), target, lifted_to(backend, plain_device(backend).transfer_from(primitive, source)))


DLPACK_CPU = 1
"""DLPack's number for the CPU, kDLCPU."""
_CPU = (DLPACK_CPU, 0)


class Exchange(Conversion[B]):
    """The protocols of NumPy and of libraries that support DLPack."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array for ``np.asarray(x)``: read-only, and on the CPU not a copy; ``np.array(x)`` is a writable
        copy."""
        array = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    f"np.asarray(x, {np.dtype(dtype)}, copy=False) got {a(type(self).__name__)} of dtype "
                    f"{self.dtype}, which takes a copy; leave copy=False out"
                )
            return converted(array, np.dtype(dtype))
        return np.array(array) if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of a copy that the consumer owns; with ``copy=False``, of the tensor's own memory.

        The capsule is on the tensor's device: a copy of a tensor on a GPU is made there, in order with the consumer's
        ``stream``. The capsule of the tensor's own memory is flagged read-only. NumPy respects the flag; PyTorch does
        not, and would allow writing to the tensor, so it must be requested, as in ``np.from_dlpack(x, copy=False)``.
        ``np.asarray(x)`` does not copy either.
        """
        exported = self._exported()
        own = _CPU if exported is None else exported.__dlpack_device__()
        if exported is not None and (dl_device is None or dl_device == own):
            return exported.__dlpack__(stream=stream, max_version=max_version, copy=copy)
        if self.dtype.kind == "V":
            raise DTypeError(f"DLPack export of dtype {self.dtype} is not supported; use x.float() first")
        if dl_device is not None and dl_device != _CPU:
            other = "" if own == _CPU else f" or stays on {own}"
            raise ArgumentError(
                f"DLPack export goes to the CPU {_CPU}{other}, not to device {dl_device}; ask for dl_device=None"
            )
        array = self.to_numpy()
        if max_version is not None and max_version[0] >= 1 and _versioned():
            return array.__dlpack__(max_version=max_version, copy=copy is not False)
        if copy is False:
            raise ArgumentError(
                "DLPack export of a tensor's own memory, which is read-only, needs max_version=(1, 0) and NumPy 2.1; "
                "without them, allow a copy"
            )
        return np.array(array).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        exported = self._exported()
        return _CPU if exported is None else exported.__dlpack_device__()

    def _exported(self) -> Any:
        """Return the values as an object that exports them from a GPU; None if they are on the CPU."""
        device: Any = self._backend
        primitive = self._primitive
        while device.inner is not None and not device.records:
            device, primitive = device.inner, device.lower(primitive)
        return device.exported(primitive)


@cache
def _versioned() -> bool:
    """Return True if NumPy can export read-only arrays."""
    return bool(np.lib.NumpyVersion(np.__version__) >= "2.1.0")


def imported(source: Any, name: str) -> NDArray[Any]:
    """Return the array on the CPU that an object exports by DLPack, for ``name.from_dlpack``.

    NumPy arrays and tensors are read directly, without a copy.

    Raises:
        ArgumentError: the object cannot be read by DLPack.
    """
    if isinstance(source, np.ndarray):
        return source
    if isinstance(source, Conversion):
        return source.to_numpy()
    try:
        return np.from_dlpack(source)
    except BurnpyError:
        raise
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name}.from_dlpack() cannot import {a(class_name(source))} ({error}); "
            "it takes arrays that have __dlpack__ and a dtype that NumPy knows; those on a GPU with device=CuPy"
        ) from None
