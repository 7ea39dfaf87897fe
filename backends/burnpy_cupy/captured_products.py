"""cuBLAS for products within a capture.

CuPy's own binding refuses each call of cuBLAS while a stream is captured, although cuBLAS allows it. Source: NVIDIA,
cuBLAS, CUDA graphs support.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from burnpy_cupy.availability import shared_library
from burnpy_cupy.gemm import NO_REDUCED_PRECISION, Library

WORKSPACE = 8 << 20
"""The bytes of the GPU's memory in which the products of one graph may store parts of their results."""


class CapturedProducts(NamedTuple):
    """A stream that is captured, and cuBLAS on it."""

    stream: Any  #: a cupy.cuda.Stream
    library: Library
    use: Callable[[Any], None]  #: gives cuBLAS an array of `WORKSPACE` bytes to work in


@cache
def captured_products(xp: Any, device: int) -> CapturedProducts:
    """Return what all captures on the current device use, one after the other."""
    stream = xp.cuda.Stream(non_blocking=True)
    cublas = shared_library("cublas", xp.cuda.runtime.runtimeGetVersion() // 1000)
    handle = ctypes.c_void_p()
    _checked(cublas.cublasCreate_v2(ctypes.byref(handle)))
    _checked(cublas.cublasSetMathMode(handle, NO_REDUCED_PRECISION))
    _checked(cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream.ptr)))

    def use(workspace: Any) -> None:
        pointer, size = ctypes.c_void_p(workspace.data.ptr), ctypes.c_size_t(workspace.nbytes)
        _checked(cublas.cublasSetWorkspace_v2(handle, pointer, size))

    single, batched = (_typed(cublas[f"cublasGemm{name}Ex"], name != "") for name in ("", "StridedBatched"))
    return CapturedProducts(stream, Library(handle.value or 0, single, batched), use)


def _typed(function: Any, batched: bool) -> Callable[..., None]:
    """Return a function of cuBLAS that takes ints and addresses, and raises its errors."""
    number, address, stride = ctypes.c_int, ctypes.c_void_p, [ctypes.c_longlong] * batched
    function.argtypes = [
        *(address, number, number, number, number, number, address),
        *(address, number, number, *stride),
        *(address, number, number, *stride, address),
        *(address, number, number, *stride, *[number] * batched, number, number),
    ]
    return lambda *arguments: _checked(function(*arguments))


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLAS returned the status {status}")
