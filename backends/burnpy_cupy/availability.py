"""Finding CuPy, CUDA's libraries and the GPU, and saying in one sentence what is missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from burnpy.backend.errors import ArgumentError, BackendUnavailableError

_NO_DRIVER = 35  # CUDA's cudaErrorInsufficientDriver: no driver, or one older than CuPy's CUDA


def load() -> Any:
    """The module cupy.

    Raises:
        BackendUnavailableError: it is not installed, or not whole.
    """
    try:
        return import_module("cupy")
    except ImportError as error:
        raise BackendUnavailableError(
            'CuPy needs the package cupy, which cannot be imported; install it with: pip install "burnpy[cuda13]" '
            "(or burnpy[cuda12] for a driver of CUDA 12)"
        ) from error


def count() -> int:
    """How many GPUs there are to compute on.

    Raises:
        BackendUnavailableError: cupy is not installed, there is no CUDA driver that fits it, no GPU, or a library of
            CUDA is missing without which CuPy can allocate memory and nothing else.
    """
    cupy = load()
    try:
        found = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status == _NO_DRIVER:
            raise BackendUnavailableError(
                "CuPy found no CUDA driver, or one too old for it; install NVIDIA's driver, or use NumPy on the CPU"
            ) from error
        found = 0
    if found == 0:
        raise BackendUnavailableError(
            "CuPy found no GPU; see that nvidia-smi lists one and CUDA_VISIBLE_DEVICES does not hide it, "
            "or use NumPy on the CPU"
        )
    _check_libraries(cupy)
    return found


def _check_libraries(cupy: Any) -> None:
    """Refuse a CuPy without the libraries of CUDA that everything needs, and that its wheels do not bring."""
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
    """Refuse an index that no GPU has."""
    there = count()
    if type(index) is not int or not 0 <= index < there:
        raise ArgumentError(
            f"CuPy({index!r}) names no GPU; there {'is' if there == 1 else 'are'} {there}, numbered from 0: "
            f"use {'CuPy(0)' if there == 1 else f'CuPy(0) to CuPy({there - 1})'}"
        )
