"""Detection of CuPy, CUDA's libraries and the GPU, with an error message for each that is missing."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from importlib import import_module
from os import environ
from typing import Any

from burnpy.backend.errors import ArgumentError, BackendUnavailableError

_OLDEST_CUPY = 14, 2
_INSUFFICIENT_DRIVER = 35  # CUDA's cudaErrorInsufficientDriver: no driver, or one older than CuPy's CUDA
_NO_DEVICE = 100  # cudaErrorNoDevice


def load() -> Any:
    """Import and return the module cupy.

    Raises:
        BackendUnavailableError: cupy is not installed, too old or hidden by a folder of that name, its installation is
            incomplete, or it is set to use a default stream for each thread.
    """
    if environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0").strip() not in ("", "0"):
        raise BackendUnavailableError(
            "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM is set, which leaves the work of threads on shared tensors unordered; "
            "unset it, and use device.stream() for work in parallel"
        )
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise BackendUnavailableError(
            'CuPy needs the package cupy, which cannot be imported; install it with: pip install "burnpy[cuda13]" '
            "(or burnpy[cuda12] for a driver of CUDA 12)"
        ) from error
    version = getattr(cupy, "__version__", None)
    if version is None:  # a folder on the path is a namespace package
        raise BackendUnavailableError(
            f"CuPy needs the package cupy, and Python imported {[*getattr(cupy, '__path__', [])]} in its place; rename "
            "that, or remove it from sys.path"
        )
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_CUPY:
        raise BackendUnavailableError(
            f"CuPy needs the package cupy {_OLDEST_CUPY[0]}.{_OLDEST_CUPY[1]} or newer, and found {version}; install "
            'it with: pip install --upgrade "burnpy[cuda13]" (or burnpy[cuda12] for a driver of CUDA 12)'
        )
    return cupy


def count() -> int:
    """Return the number of usable GPUs.

    Raises:
        BackendUnavailableError: cupy is not installed, there is no CUDA driver or one that is too old, CUDA does not
            start, there is no GPU, or a CUDA library is missing without which CuPy can only allocate memory.
    """
    cupy = load()
    try:
        gpus = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status == _INSUFFICIENT_DRIVER:
            raise _insufficient_driver(cupy) from error
        if error.status != _NO_DEVICE:
            raise BackendUnavailableError(
                f"CuPy found a CUDA driver that does not start ({error}); see that nvidia-smi lists the GPU and that "
                "no other process has it to itself, and restart the machine if the driver was updated, or use NumPy"
            ) from error
        gpus = 0
    if gpus == 0:
        raise BackendUnavailableError(
            "CuPy found no GPU; see that nvidia-smi lists one and CUDA_VISIBLE_DEVICES does not hide it, "
            "or use NumPy on the CPU"
        )
    for name, purpose, probe in (
        ("library NVRTC", "compiles its kernels", lambda: cupy.cuda.nvrtc.getVersion()),
        ("library cuBLAS", "multiplies matrices", lambda: cupy.cuda.cublas),
        ("headers", "its kernels include", _headers),
    ):
        with_library(cupy, name, purpose, probe)
    return gpus


def _headers() -> None:
    """Find CUDA's headers, as CuPy does before it compiles a kernel."""
    if import_module("cuda.pathfinder").find_nvidia_header_directory("cudart") is None:
        raise OSError("no headers")


def _insufficient_driver(cupy: Any) -> BackendUnavailableError:
    """Return the error for a driver that is absent or too old, which is one error to CUDA."""
    needed, found = (
        f"{version // 1000}.{version % 1000 // 10}" if version else ""
        for version in (cupy.cuda.runtime.runtimeGetVersion(), cupy.cuda.runtime.driverGetVersion())
    )
    if not found:
        return BackendUnavailableError("CuPy found no CUDA driver; install NVIDIA's driver, or use NumPy on the CPU")
    older = ', or a CuPy for it with: pip install "burnpy[cuda12]"' if found.startswith("12.") else ""
    return BackendUnavailableError(
        f"CuPy found a driver that is too old: it supports CUDA {found}, and this CuPy needs {needed}; install a newer "
        f"driver{older}, or use NumPy on the CPU"
    )


def with_library(cupy: Any, name: str, purpose: str, f: Callable[[], Any]) -> Any:
    """Return ``f()``, which needs a CUDA library or its headers; CuPy's wheels do not include them."""
    try:
        return f()
    except (ImportError, RuntimeError, OSError) as error:
        if hasattr(error, "status") or isinstance(error, NotImplementedError):  # the library is there, and refuses
            raise
        release = cupy.cuda.runtime.runtimeGetVersion() // 1000
        raise BackendUnavailableError(
            f"CuPy found a GPU, but not CUDA's {name}, which {purpose}; install CUDA's libraries with: "
            f'pip install "cupy-cuda{release}x[ctk]"'
        ) from error


def shared_library(name: str, release: int) -> Any:
    """Return a library of a release of CUDA, which CuPy has loaded."""
    return ctypes.CDLL(f"{name}64_{release}.dll" if sys.platform == "win32" else f"lib{name}.so.{release}")


def check_index(index: int) -> None:
    """Raise an error unless a GPU has this index."""
    gpus = count()
    if type(index) is not int or not 0 <= index < gpus:
        raise ArgumentError(
            f"CuPy({index!r}) names no GPU; there {'is' if gpus == 1 else 'are'} {gpus}, numbered from 0: "
            f"use {'CuPy(0)' if gpus == 1 else f'CuPy(0) to CuPy({gpus - 1})'}"
        )
