"""The time of NVRTC, and the compilation of a plan's kernels side by side."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from burnpy.backend import CuPy, runtime
from burnpy.backend.runtime import CompileTimes
from tests.hostcuda import simulator

simulator.require()

import cupy  # noqa: E402  # there is no GPU to find
from cupy.cuda import compiler  # noqa: E402

from burnpy_cupy import runtime as cupy_runtime  # noqa: E402


class Cache:
    """A cache of CuPy's, in memory."""

    def __init__(self) -> None:
        self.codes: dict[str, bytes] = {}

    def load(self, name: str) -> bytes | None:
        return self.codes.get(name)

    def save(self, name: str, code: bytes, source: str) -> None:
        self.codes[name] = code


def test_the_cache_of_cupy_notes_times() -> None:
    """It has the methods of CuPy's cache, and CuPy's compiler uses it once a device is made."""
    CuPy()
    used: Any = compiler._kernel_cache_backend
    assert isinstance(used, cupy_runtime.TimedCache)
    base = compiler._KernelCacheBackend
    assert all(hasattr(used, name) for name in base.__abstractmethods__)


@pytest.mark.parametrize(("patience", "setting", "lines"), [(0.0, "1", 1), (0.0, "0", 0), (1e9, "1", 0)])
def test_long_compiling_is_told_once(
    patience: float, setting: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime, "PATIENCE", patience)
    monkeypatch.setattr(cupy_runtime, "compile_times", CompileTimes("burnpy: compiling"))
    monkeypatch.setenv("BURNPY_PROGRESS", setting)
    cache = cupy_runtime.TimedCache(Cache())
    for name in ("a", "b"):
        assert cache.load(name) is None
        cache.save(name, b"code", "source")
        assert cache.load(name) == b"code"
    assert len(cupy_runtime.compile_times.seconds) == 2
    assert capsys.readouterr().err == "burnpy: compiling\n" * lines


def test_kernels_of_plans_are_compiled_once_and_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[tuple[str, str]] = []
    both = threading.Barrier(2, timeout=60)
    compiled = compiler._compile_module_with_cache

    def noted(source: str, *args: Any, **keywords: Any) -> Any:
        sources.append((source, threading.current_thread().name))
        both.wait()
        return compiled(source, *args, **keywords)

    monkeypatch.setattr(compiler, "_compile_module_with_cache", noted)
    text = 'extern "C" __global__ void compiled_{0}(float* x) {{ x[0] = {0}; }}'
    kernels = [cupy.RawKernel(text.format(k), f"compiled_{k}") for k in range(2)]
    device = CuPy()
    device._compilations.begin([*kernels, *kernels])
    assert [device._compilations.function(kernel) for kernel in kernels] == [kernel.kernel for kernel in kernels]
    assert len({name for _, name in sources}) == len(sources) == 2
