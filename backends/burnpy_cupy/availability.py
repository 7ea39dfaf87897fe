"""Detection of CuPy, CUDA's libraries and the GPU, with an error message for each that is missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from burnpy.backend.errors import ArgumentError, BackendUnavailableError

_NO_DRIVER = 35  # CUDA's cudaErrorInsufficientDriver: no driver, or one older than CuPy's CUDA


def load() -> Any:
    """Import and return the module cupy.

    Raises:
        BackendUnavailableError: cupy is not installed, or its installation is incomplete.
    """
    try:
        return import_module("cupy")
    except ImportError as error:
        raise BackendUnavailableError(
            'CuPy needs the package cupy, which cannot be imported; install it with: pip install "burnpy[cuda13]" '
            "(or burnpy[cuda12] for a driver of CUDA 12)"
        ) from error


def count() -> int:
    """Return the number of usable GPUs.

    Raises:
        BackendUnavailableError: cupy is not installed, there is no compatible CUDA driver, no GPU, or a CUDA library
            is missing without which CuPy can only allocate memory.
    """
    cupy = load()
    try:
        gpus = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status == _NO_DRIVER:
            raise BackendUnavailableError(
                "CuPy found no CUDA driver, or one too old for it; install NVIDIA's driver, or use NumPy on the CPU"
            ) from error
        gpus = 0
    if gpus == 0:
        raise BackendUnavailableError(
            "CuPy found no GPU; see that nvidia-smi lists one and CUDA_VISIBLE_DEVICES does not hide it, "
            "or use NumPy on the CPU"
        )
    _check_libraries(cupy)
    return gpus


def _check_libraries(cupy: Any) -> None:
    """Raise an error if a CUDA library is missing that all computation needs; CuPy's wheels do not include them."""
    probes: list[tuple[str, str, Callable[[], Any]]] = [
        ("NVRTC", "compiles its kernels", lambda: cupy.cuda.nvrtc.getVersion()),
        ("cuBLAS", "multiplies matrices", lambda: cupy.cuda.cublas),
    ]
    for name, purpose, probe in probes:
        try:
            probe()
        except (ImportError, RuntimeError, OSError) as error:
            release = cupy.cuda.runtime.runtimeGetVersion() // 1000
            raise BackendUnavailableError(
                f"CuPy found a GPU, but not CUDA's library {name}, which {purpose}; install CUDA's libraries with: "
                f'pip install "cupy-cuda{release}x[ctk]"'
            ) from error


def check_index(index: int) -> None:
    """Raise an error unless a GPU has this index."""
    gpus = count()
    if type(index) is not int or not 0 <= index < gpus:
        raise ArgumentError(
            f"CuPy({index!r}) names no GPU; there {'is' if gpus == 1 else 'are'} {gpus}, numbered from 0: "
            f"use {'CuPy(0)' if gpus == 1 else f'CuPy(0) to CuPy({gpus - 1})'}"
        )
