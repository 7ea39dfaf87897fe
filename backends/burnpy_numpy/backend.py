"""`NumPy`: the backend for the CPU.

Its base classes have one family of operations each. They override those of `burnpy_array`, which are written for both
NumPy's functions and CuPy's, where NumPy has a faster way or a compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.primitives import DType, Scalar
from burnpy_array.shape import canonical
from burnpy_numpy.activation import NumPyActivation, NumPySoftmax
from burnpy_numpy.allocator import keep_freed_memory
from burnpy_numpy.attention_and_recurrent import NumPyAttention, NumPyRecurrent
from burnpy_numpy.convolution import NumPyConvolution, NumPyVolumes
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.fourier import NumPyFourier
from burnpy_numpy.indexing import NumPyEmbedding, NumPyIndexing
from burnpy_numpy.linalg_and_distances import NumPyDistances, NumPyLinalg
from burnpy_numpy.losses import NumPyLosses
from burnpy_numpy.matmul import NumPyMatmul, NumPyQuantization
from burnpy_numpy.normalization import NumPyNormalization
from burnpy_numpy.numpy_calls import constant, quietly, run
from burnpy_numpy.pointwise import NumPyPointwise, fast_methods
from burnpy_numpy.pooling_and_resampling import NumPyPooling, NumPyResampling
from burnpy_numpy.programs import NumPyForeach, NumPyPrograms
from burnpy_numpy.reduction import NumPyReduction
from burnpy_numpy.scans_and_ordering import NumPyOrdering, NumPyScans
from burnpy_numpy.shape import NumPyPadding, NumPyShape
from burnpy_numpy.special import NumPyRandom, NumPySpecial

if TYPE_CHECKING:
    from burnpy.backend.device_memory import DeviceMemory


class NumPy(
    NumPyActivation,
    NumPyLosses,
    NumPyAttention,
    NumPyEmbedding,
    NumPyConvolution,
    NumPyMatmul,
    NumPyDistances,
    NumPyFourier,
    NumPyIndexing,
    NumPyLinalg,
    NumPyNormalization,
    NumPyOrdering,
    NumPyPadding,
    NumPyPointwise,
    NumPyPooling,
    NumPyPrograms,
    NumPyQuantization,
    NumPyRandom,
    NumPyRecurrent,
    NumPyReduction,
    NumPyResampling,
    NumPyScans,
    NumPyShape,
    NumPySoftmax,
    NumPySpecial,
    NumPyForeach,
    NumPyVolumes,
):
    """A backend that computes with NumPy arrays on the CPU.

    The first device sets glibc's malloc to keep freed memory, and the first kernel makes arrays start at cache lines
    (`burnpy_numpy.allocator`); ``BURNPY_MALLOPT=0`` prevents both. Operations on large arrays use as many threads as
    OpenBLAS would (`burnpy_numpy.cpu_threads`); with ``BURNPY_NUM_THREADS=1`` they run in the calling thread alone.
    A family of operations has its compiled kernels in the file of its name in `burnpy_numpy.kernels`.
    """

    xp = np

    def __init__(self) -> None:
        super().__init__()
        keep_freed_memory()

    locals().update(fast_methods())  # add, exp, sum and the like, generated without the layers of calls of the others

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function of NumPy without its warnings; infinite and NaN results are no errors."""
        try:
            return run(f, *args, **keywords)
        except RuntimeError:
            return quietly(f, *args, **keywords)

    def _share(self, work: Callable[[int, int], None], size: int, each: int = 1, *, products: bool = False) -> None:
        """Call ``work(start, stop)`` for parts of ``range(size)`` on several threads."""
        shared(work, size, each, products=products)

    def _number(self, y: Scalar, dtype: DType) -> Any:
        """Return a number as the 0-d array with which NumPy computes fastest, or unchanged."""
        return constant(y, dtype)

    def memory(self) -> DeviceMemory:
        from burnpy_numpy.allocator import measured

        try:
            return measured()
        except OSError:
            return super().memory()

    def reset_peak_memory(self) -> None:
        from burnpy_numpy.allocator import reset_peak

        try:
            reset_peak()
        except OSError:
            super().reset_peak_memory()

    host_number: Any = staticmethod(np.asarray)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, True, "C")

    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return canonical(array, None, "K")

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x)
