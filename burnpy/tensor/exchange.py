"""Exchange with other array libraries: NumPy's ``__array__`` and DLPack."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, BurnpyError, DTypeError
from burnpy.tensor.base import B, a
from burnpy.tensor.conversion import Conversion

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CPU = (1, 0)  # DLPack's kDLCPU, device 0


class Exchange(Conversion[B]):
    """What NumPy and the libraries that speak DLPack ask of an array."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """``np.asarray(x)`` is `to_numpy`: read-only, no copy on the CPU. ``np.array(x)`` is a copy of your own."""
        array = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    f"np.asarray(x, {np.dtype(dtype)}, copy=False) was asked of {a(type(self).__name__)} of dtype "
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
        """A DLPack capsule of a copy, which is its consumer's own; with ``copy=False``, of the tensor's own memory.

        That one says that it is read-only. NumPy heeds it; PyTorch does not, and would let the tensor be written to:
        so it is for whoever asks for it, ``np.from_dlpack(x, copy=False)``. ``np.asarray(x)`` copies nothing either.

        Raises:
            DTypeError: bfloat16, which NumPy cannot export.
            ArgumentError: no copy, for a consumer or a NumPy that knows no read-only memory; or another device than
                the CPU is wanted.
        """
        if self.dtype.kind == "V":
            raise DTypeError(f"DLPack export of dtype {self.dtype} is not supported; use x.float() first")
        if dl_device is not None and dl_device != _CPU:
            raise ArgumentError(
                f"DLPack export goes to the CPU {_CPU}, not to device {dl_device}; ask for dl_device=None"
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
        return _CPU


@cache
def _versioned() -> bool:
    """Whether NumPy exports read-only arrays."""
    return bool(np.lib.NumpyVersion(np.__version__) >= "2.1.0")


def imported(source: Any, name: str) -> NDArray[Any]:
    """The array that an object offers by DLPack, for ``name.from_dlpack``; a tensor's and an array's own memory."""
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
            f"{name}.from_dlpack() can make nothing of {a(type(source).__name__)} ({error}); "
            "it takes arrays on the CPU that have __dlpack__ and a dtype that NumPy knows"
        ) from None
