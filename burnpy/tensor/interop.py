"""Exchange with other array libraries: NumPy's ``__array__`` and DLPack."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, BurnpyError, DTypeError, a
from burnpy.tensor.base import class_name
from burnpy.tensor.conversion import Conversion
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

DLPACK_CPU = 1
"""DLPack's number for the CPU, kDLCPU."""
_CPU = (DLPACK_CPU, 0)


class Exchange(Conversion[B]):
    """The protocols of NumPy and of libraries that support DLPack."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The array for ``np.asarray(x)``: read-only, and on the CPU not a copy; ``np.array(x)`` is a writable copy."""
        array = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    f"np.asarray(x, {np.dtype(dtype)}, copy=False) got {a(type(self).__name__)} of dtype "
                    f"{self.dtype}, which takes a copy; leave copy=False out"
                )
            return array.astype(dtype)
        return np.array(array) if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of a copy that the consumer owns; with ``copy=False``, of the tensor's own memory.

        The capsule is on the tensor's device: a copy of a tensor on a GPU is made there, in order with the consumer's
        ``stream``. The capsule of the tensor's own memory is flagged read-only. NumPy respects the flag; PyTorch does
        not, and would allow writing to the tensor, so it must be requested, as in ``np.from_dlpack(x, copy=False)``.
        ``np.asarray(x)`` does not copy either.

        Raises:
            DTypeError: the dtype is bfloat16 on the CPU, which NumPy cannot export.
            ArgumentError: ``copy=False``, and the consumer or NumPy does not support read-only memory; or
                ``dl_device`` is neither the tensor's nor the CPU.
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
        """The values as an object that exports them from a GPU; None if they are on the CPU."""
        device: Any = self._backend
        primitive = self._primitive
        while device.inner is not None:
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
