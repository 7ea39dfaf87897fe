"""Exchange of arrays on the GPU with other libraries by DLPack, without going through the CPU.

Source: the Python specification of DLPack, https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from burnpy.backend.errors import ArgumentError, a

CUDA, CUDA_MANAGED = 2, 13
"""DLPack's kDLCUDA and kDLCUDAManaged."""
_READ_ONLY: Final = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _Versioned(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class Exported:
    """An array on a GPU, for ``__dlpack__`` of a tensor.

    Args:
        call: a function that calls another on the array's device and stream.
        array: a `cupy.ndarray`.
    """

    def __init__(self, call: Callable[..., Any], array: Any) -> None:
        self._call, self._array = call, array

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return int(device[0]), int(device[1])

    def __dlpack__(self, *, stream: Any, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
        """Return a capsule of a copy on the GPU, which the consumer owns, or of the array's own memory, flagged
        read-only.

        The consumer's stream waits for the work that is queued on this one.
        """
        if copy is not False:
            return self._capsule(self._call(self._array.copy), stream, max_version)
        if max_version is None or max_version[0] < 1:
            raise ArgumentError(
                "DLPack export of a tensor's own memory, which is read-only, needs max_version=(1, 0), and the "
                "consumer asked for none or an older one; allow a copy"
            )
        capsule = self._capsule(self._array, stream, max_version)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).flags |= _READ_ONLY
        return capsule

    def _capsule(self, array: Any, stream: Any, max_version: tuple[int, int] | None) -> Any:
        try:
            return self._call(array.__dlpack__, stream=stream, max_version=max_version)
        except ValueError as error:
            raise ArgumentError(
                f"DLPack export from a GPU got stream {stream!r}; expected 1 for the default stream, 2 for "
                "the thread's default stream, -1 for no order, or the address of a CUDA stream"
            ) from error


def is_on_gpu(data: Any) -> bool:
    """Return whether an object with DLPack's methods is on an NVIDIA GPU."""
    return data.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED)


def copied(xp: Any, data: Any) -> Any:
    """Return a copy, in row-major order on the current device, of an array on any GPU."""
    if not isinstance(data, xp.ndarray):
        try:
            data = xp.from_dlpack(data)
        except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"cannot take {a(type(data).__name__)} on a GPU: its library does not export it ({error}); detach it "
                "from its graph, or convert it to a dtype that NumPy or ml_dtypes knows"
            ) from error
    return xp.array(data, order="C")
