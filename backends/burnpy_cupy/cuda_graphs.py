"""`Graphs`: the launches of a plan as CUDA graphs, each one call of the driver."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any

from burnpy_cupy.availability import shared_library
from burnpy_cupy.gemm import NO_REDUCED_PRECISION, Library

_MOST = 16
"""The maximum number of graphs of a sequence of launches."""
_WORKSPACE = 8 << 20
"""The bytes of the GPU's memory in which the products of one sequence may store parts of their results."""

_uses_graphs: ContextVar[bool] = ContextVar("burnpy_cupy_graphs", default=False)
_capturing = Lock()  # as all captures on a device use the same handle of cuBLAS


@contextmanager
def graphs(enabled: bool = True) -> Generator[None, None, None]:
    """Within the context, launch the kernels and products of plans as CUDA graphs."""
    token = _uses_graphs.set(enabled)
    try:
        yield
    finally:
        _uses_graphs.reset(token)


def uses_graphs() -> bool:
    """Return whether plans launch CUDA graphs in this context."""
    return _uses_graphs.get()


class Graphs:
    """The graphs of one sequence of launches.

    A graph holds the arguments of its launches, so there is one for each set of addresses that the launches use. It is
    captured, on a stream of its own, when these addresses come a second time: kernels and cuBLAS are loaded by then,
    and addresses that differ in every call need no graph. If the driver or cuBLAS refuses, there are no graphs.

    Args:
        xp: the module cupy.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._known: dict[Hashable, Any] = {}  # None for addresses that came once
        self._workspace: Any = None
        self._refused = False

    def launch(self, key: Hashable, stream: int, queue: Callable[[int, Library], None]) -> bool:
        """Launch the graph of a key.

        Args:
            key: all that the arguments of the launches depend on.
            stream: the address of the stream.
            queue: a function that launches all on the stream with an address, with products by a library.

        Returns:
            False if there is no graph, so that the caller has to launch.
        """
        if self._refused:
            return False
        graph = self._known.get(key)
        if graph is None:
            if key not in self._known:
                if len(self._known) == _MOST:
                    del self._known[next(iter(self._known))]
                self._known[key] = None
                return False
            graph = self._known[key] = self._captured(queue)
            if graph is None:
                return False
        self._xp.cuda.runtime.graphLaunch(graph.graphExec, stream)
        return True

    def _captured(self, queue: Callable[[int, Library], None]) -> Any:
        """Return the graph of launches; None if something refuses to be captured."""
        if self._workspace is None:
            self._workspace = self._xp.empty(_WORKSPACE, "uint8")
        stream = self._xp.cuda.Stream(non_blocking=True)
        try:
            with _capturing:
                library = _library_for(self._xp, stream.ptr, self._workspace)
                stream.begin_capture()
                try:
                    queue(stream.ptr, library)
                finally:
                    graph = stream.end_capture()
        except (OSError, RuntimeError) as error:  # of CUDA's driver and runtime, and of cuBLAS
            self._refused = True
            warnings.warn(f"CuPy.graphs(): kernels are launched one by one, as {error}", RuntimeWarning, stacklevel=2)
            return None
        return graph


def _library_for(xp: Any, stream: int, workspace: Any) -> Library:
    """Return cuBLAS for products on a stream, which may be captured."""
    cublas, handle = _cublas(xp, xp.cuda.runtime.getDevice())
    _checked(cublas.cublasSetStream_v2(ctypes.c_void_p(handle), ctypes.c_void_p(stream)))
    pointer = ctypes.c_void_p(workspace.data.ptr)
    _checked(cublas.cublasSetWorkspace_v2(ctypes.c_void_p(handle), pointer, ctypes.c_size_t(workspace.nbytes)))
    single, batched = _typed(cublas.cublasGemmEx, False), _typed(cublas.cublasGemmStridedBatchedEx, True)
    return Library(handle, single, batched, workspace)


@cache
def _cublas(xp: Any, device: int) -> tuple[Any, int]:
    """Return cuBLAS, which CuPy has loaded, and a handle on the current device.

    CuPy's own binding refuses each call while a stream is captured, although cuBLAS allows it.
    """
    cublas = shared_library("cublas", xp.cuda.runtime.runtimeGetVersion() // 1000)
    handle = ctypes.c_void_p()
    _checked(cublas.cublasCreate_v2(ctypes.byref(handle)))
    _checked(cublas.cublasSetMathMode(handle, NO_REDUCED_PRECISION))
    return cublas, handle.value or 0


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
