"""NVRTC's work: how long it takes, and the kernels of plans compiled side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from time import perf_counter
from typing import Any

from burnpy.backend.runtime import CompileTimes

times = CompileTimes(
    "burnpy: compiling CUDA kernels for this GPU, once, as CuPy keeps them in ~/.cupy/kernel_cache (CUPY_CACHE_DIR); "
    "BURNPY_PROGRESS=0 hides this line"
)
"""The seconds of the kernels that this process compiled, CuPy's own among them."""


class TimedCache:
    """CuPy's cache of compiled kernels, which notes the time from asking for one that it lacks to keeping it.

    Args:
        cache: a cache of CuPy's.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._begun = threading.local()

    def load(self, name: str) -> bytes | None:
        """Return a kernel's code; None if the cache lacks it, so that CuPy compiles."""
        code: bytes | None = self._cache.load(name)
        self._begun.at = perf_counter()
        return code

    def save(self, name: str, code: bytes, source: str) -> None:
        """Keep a kernel's code."""
        times.note(perf_counter() - self._begun.at)
        self._cache.save(name, code, source)


@cache
def note_times(xp: Any) -> None:
    """Note the time of all kernels that CuPy compiles from now on, if this CuPy can have another cache.

    Args:
        xp: the module cupy.
    """
    compiler: Any = getattr(xp.cuda, "compiler", None)
    if hasattr(compiler, "_set_kernel_cache_backend"):  # CuPy 14.2
        compiler._set_kernel_cache_backend(TimedCache(compiler._kernel_cache_backend))


class Compilations:
    """Kernels that threads compile while a plan is being made.

    NVRTC takes some 0.1 s for a kernel, and compiles several at a time.

    Args:
        call: a function that calls another on the device's GPU.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._begun: dict[Any, Future[Any]] = {}  # by the kernel

    def begin(self, kernels: Iterable[Any]) -> None:
        """Begin to compile kernels, each a `cupy.RawKernel`."""
        for kernel in kernels:
            if kernel not in self._begun:
                self._begun[kernel] = _threads().submit(self._call, getattr, kernel, "kernel")

    def function(self, kernel: Any) -> Any:
        """Return the function of a kernel that was begun, once it is compiled."""
        return self._begun[kernel].result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="burnpy-nvrtc")
