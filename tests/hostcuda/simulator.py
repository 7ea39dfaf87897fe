"""The real CuPy on the CPU: `load` before anything imports cupy.

CuPy's modules find our libraries by the names of CUDA's, and our `cupy_backends.cuda.api.runtime` in the place of the
wheel's. Kernels go to `compile` rather than to NVRTC. NumPy sorts in place of the device code in the wheel (Thrust).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import math
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from typing import Any
from unittest import mock

import numpy as np

from tests.hostcuda import compile as kernels
from tests.hostcuda.places import BUILT, RUNTIME

COUNTED = ("launches", "to_device", "to_host", "on_device", "fills", "waits", "allocations")
_WORK = ctypes.CFUNCTYPE(None)
_FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class _Runtime:
    """Finds our module in the place of the wheel's."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "cupy_backends.cuda.api.runtime":
            return None
        return importlib.util.spec_from_file_location(name, BUILT / RUNTIME)


_met: list[list[str]] = []
"""While tests are postponed, the kernels that the current one needs and that are not compiled, which ends it."""


def _find(key: bytes, name: bytes) -> int | None:
    try:
        if is_dry() or (_met and not kernels.is_compiled(key.decode())):
            _met[-1].append(key.decode())
            kernels.wanted.add(key.decode())
            _flag("execute").value, _flag("listing").value = 0, 1
            np.seterr(all="ignore")  # what comes now is computed from memory that nobody wrote
            warnings.simplefilter("ignore")
            return None
        return kernels.address(key.decode(), name.decode())
    except BaseException:  # there is no way through CUDA's interface for it
        traceback.print_exc()
        return None


_found = _FIND(_find)  # which the library calls as long as the process lives


@cache
def load() -> None:
    """Put the CPU under CuPy, in this process."""
    if "cupy" in sys.modules:
        raise ImportError("cupy was imported before tests.hostcuda.simulator")
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB is device code
    sys.meta_path.insert(0, _Runtime)
    _library().hostcuda_compile_with(_found)
    for library in ("libcublas.so.13", "libcublasLt.so.13", "libcusolver.so.12"):
        loaded = ctypes.CDLL(str(BUILT / library), mode=ctypes.RTLD_GLOBAL)
    from cupy.cuda import compiler, thrust

    # Before anybody asks for these: they would look for other libraries of NVIDIA first.
    solver = types.SimpleNamespace(_handle_uint=loaded._handle)
    with mock.patch("cuda.pathfinder.load_nvidia_dynamic_lib", return_value=solver):
        for name in ("cublas", "cusolver"):
            importlib.import_module(f"cupy_backends.cuda.libs.{name}")
    compiler._compile_module_with_cache = _compiled
    thrust.sort, thrust.argsort = _sort, _argsort


def is_loaded() -> bool:
    """Whether `load` was called."""
    return load.cache_info().currsize > 0


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(BUILT / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    library.hostcuda_log_line.restype, library.hostcuda_log_line.argtypes = ctypes.c_char_p, [ctypes.c_long]
    library.hostcuda_divergence.restype = ctypes.c_char_p
    return library


def _flag(name: str) -> ctypes.c_int:
    return ctypes.c_int.in_dll(_library(), f"hostcuda_{name}")


@contextmanager
def dry_run() -> Iterator[None]:
    """Launches are counted and the sources of kernels noted, and nothing is computed."""
    flags = _flag("execute"), _flag("listing")
    before = [flag.value for flag in flags]
    for flag in flags:
        flag.value = 0
    try:
        yield
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.value = value
        _forget_uncomputed()


@contextmanager
def postponing() -> Iterator[list[str]]:
    """Nothing is computed from the first kernel on that is not compiled: the list names it then."""
    _met.append([])
    try:
        with np.errstate(), warnings.catch_warnings():
            yield _met[-1]
    finally:
        if _met.pop():
            _flag("execute").value, _flag("listing").value = 1, 0
            _forget_uncomputed()


def _forget_uncomputed() -> None:
    """Drop the late checks and the kept arrays that were not computed."""
    from burnpy.backend import CuPy

    CuPy()._late._waiting.clear()
    CuPy()._seeds.clear()


def is_dry() -> bool:
    """True if the current test is postponed: its results were not computed."""
    return bool(_met and _met[-1])


ORDERS = ("forward", "reversed", "shuffled")


@contextmanager
def order(name: str) -> Iterator[None]:
    """Within the context, the blocks of a launch and the threads of a block run in one of `ORDERS`."""
    flag = _flag("order")
    before, flag.value = flag.value, ORDERS.index(name)
    try:
        yield
    finally:
        flag.value = before


def divergences() -> list[str]:
    """Return and forget the barriers that a part of a warp or block did not reach, by kernel."""
    return [text.decode() for text in iter(_library().hostcuda_divergence, None)]


class Journal:
    """The calls of the device while it was `watched`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}

    @property
    def launches(self) -> list[str]:
        """The kernels that were launched, in order."""
        return [line.removeprefix("launch ") for line in self.lines if line.startswith("launch ")]


@contextmanager
def watched() -> Iterator[Journal]:
    """Write down launches, copies and waits; to be read when the context is left."""
    journal = Journal()
    _library().hostcuda_clear()
    _flag("logging").value = 1
    try:
        yield journal
    finally:
        _flag("logging").value = 0
        counts = (ctypes.c_long * len(COUNTED)).in_dll(_library(), "hostcuda_counts")
        journal.counts = dict(zip(COUNTED, counts, strict=True))
        lines = _library().hostcuda_log_size()
        journal.lines = [_library().hostcuda_log_line(k).decode() for k in range(lines)]
        _library().hostcuda_clear()


def _compiled(source: str, options: Any = (), *, name_expressions: Any = None, **_: Any) -> Any:
    """Stands for CuPy's compilation of a source."""
    from cupy.cuda import function

    expressions = tuple(name_expressions or ())
    key = kernels.note(source, expressions)
    module = function.Module()
    module.load(f"{'b' if kernels.has_barriers(source) else '-'}{key}".encode() + b"\0")
    module._set_mapping({expression: f"expression{k}" for k, expression in enumerate(expressions)})
    return module


def _array(pointer: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The memory of a device as an array."""
    memory = (ctypes.c_char * (math.prod(shape) * np.dtype(dtype).itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(shape)


def _sort(dtype: Any, data: int, keys: int, shape: tuple[int, ...]) -> None:
    _queue(lambda: _array(data, dtype, shape).sort(-1))


def _argsort(dtype: Any, index: int, data: int, keys: int, shape: tuple[int, ...]) -> None:
    def work() -> None:
        values = _array(data, dtype, shape)
        _array(index, np.intp, shape)[...] = values.argsort(-1, kind="stable")
        values.sort(-1)

    _queue(work)


_queued: list[Any] = []
"""The work in Python of all graphs, which may run as long as the process lives."""


def _queue(work: Callable[[], None]) -> None:
    """Do work now or, on a stream that is captured, in each run of the graph; none in a dry run."""
    import cupy

    if not _flag("execute").value:
        return
    called = _WORK(work)
    stream = cupy.cuda.get_current_stream()
    if stream.is_capturing():
        _queued.append(called)
    _library().hostcuda_work(ctypes.c_void_p(stream.ptr), called)


def require() -> None:
    """Skip the test module that calls this, with a sentence, where CuPy is not on the CPU in this process."""
    if not is_loaded():
        import pytest

        pytest.skip("the real CuPy computes on the CPU in `make test-cupy` alone", allow_module_level=True)
