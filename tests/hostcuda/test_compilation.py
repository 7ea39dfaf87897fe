"""The time of NVRTC, the compilation of a plan's kernels side by side, and settings that no kernel is compiled for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import CuPy, runtime
from burnpy.backend.runtime import CompileTimes
from burnpy.nn import Linear, functional
from burnpy.optim import AdamW, Lamb, RmsProp, Sgd
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from tests.hostcuda import compile as kernels
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_DRY, dry

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


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of kernels that are compiled from now on."""
    sources: list[str] = []
    compile_module = compiler._compile_module_with_cache

    def noted(source: str, *args: Any, **keywords: Any) -> Any:
        sources.append(source)
        return compile_module(source, *args, **keywords)

    monkeypatch.setattr(compiler, "_compile_module_with_cache", noted)
    return sources


def settings(name: str) -> list[int]:
    """The positions of an operation's arguments that are numbers."""
    return [k for k, a in enumerate(ROWS[name].operation.arguments) if a.kind is None or a.scalar]


@pytest.mark.parametrize("name", [name for name in ROWS if name not in NOT_DRY and settings(name)])
def test_an_operation_has_one_kernel_for_all_values_of_a_setting(name: str, compiled: list[str]) -> None:
    for arguments in calls(name, ("float32", "bfloat16"), ("contiguous",)):
        for k in settings(name):
            value = arguments.given[k]
            if type(value) is not float or not math.isfinite(value):
                continue
            for other in (1.125 * value + 0.0625, 1.25 * value + 0.03125):  # 1 and 2 may have kernels of their own
                compiled.clear()
                arguments.given[k] = other
                dry(arguments)
            assert not compiled, f"{arguments.where}, argument {k}"
            arguments.given[k] = value


def loss_of_a_function(name: str, setting: str, value: float) -> None:
    device = Autodiff(CuPy())
    x, y = [Tensor.from_data(np.ones((4, 6), np.float32), device=device).require_grad() for _ in range(2)]
    target = IntTensor.from_data(np.zeros(4, np.int64), device=device)
    given: dict[str, Any] = {
        "cross_entropy": (x, target),
        "threshold": (x, 0.5),
        **dict.fromkeys(("smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "margin_ranking_loss"), (x, y)),
    }
    if name in ("gaussian_nll_loss", "margin_ranking_loss"):
        given[name] = (x, y, y)
    getattr(functional, name)(*given.get(name, (x,)), **{setting: value}).sum().backward()


def step_of_an_optimizer(kind: Any, setting: str, value: Any) -> None:
    device = Autodiff(CuPy())
    model = Linear(3, 2, device=device)
    optim = kind(**{setting: value})
    for _ in range(2):
        loss = model(Tensor.from_data(np.ones((4, 3), np.float32), device=device)).sum()
        model = optim.step(0.1, model, loss.backward())


@pytest.mark.parametrize(
    ("run", "of", "setting"),
    [
        *[
            (loss_of_a_function, name, setting)
            for name, setting in (
                *[("celu", "alpha"), ("elu", "alpha"), ("leaky_relu", "negative_slope"), ("hardtanh", "max_val")],
                *[("softshrink", "lambd"), ("threshold", "value"), ("dropout", "p"), ("alpha_dropout", "p")],
                *[("normalize", "eps"), ("smooth_l1_loss", "beta"), ("huber_loss", "delta")],
                *[
                    ("cross_entropy", "label_smoothing"),
                    ("gaussian_nll_loss", "eps"),
                    ("margin_ranking_loss", "margin"),
                ],
            )
        ],
        *[
            (step_of_an_optimizer, kind, setting)
            for kind, setting in (
                *[(AdamW, "betas"), (AdamW, "eps"), (AdamW, "weight_decay"), (Lamb, "betas")],
                *[(RmsProp, "alpha"), (RmsProp, "momentum"), (Sgd, "momentum"), (Sgd, "weight_decay")],
            )
        ],
    ],
)
def test_a_setting_is_an_argument_of_kernels(
    run: Callable[[Any, str, Any], None], of: Any, setting: str, compiled: list[str]
) -> None:
    with simulator.dry_run():
        for value in (0.375, 0.4375):
            compiled.clear()
            run(of, setting, (value, value) if setting == "betas" else value)
    assert not compiled


@pytest.mark.parametrize(("element", "made"), [("T x", 1), ("raw T x", 2)])
def test_the_kit_compiles_equal_code_of_contiguous_and_strided_operands_once(element: str, made: int) -> None:
    """An operand that is raw is read by the number of an element, where the code differs."""
    read = "x[i]" if element.startswith("raw") else "x"
    kernel: Any = cupy.ElementwiseKernel(element, "T y", f"y = {read} + 41", f"kit_{made}")
    wide = cupy.arange(12.0)
    for x in (wide[:6], wide[::2]):
        assert kernel(x, cupy.empty(6)).tolist() == (cupy.asnumpy(x) + 41).tolist()
    assert len([key for key, (source, _) in kernels.noted.items() if f"kit_{made}" in source]) == made
