"""Exceptions of signal handlers arrive while a kernel is compiled or loaded, and kernels stay on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels import kernel, launch
from burnpy_numpy.kernels.compiler import llvm, target
from burnpy_numpy.kernels.compiler.llvm import undisturbed

D = NumPy()
X = np.linspace(-2, 2, 64 * 100, dtype=np.float32).reshape(64, 100)
WANTED = X / (1 + np.exp(-X))
STEPS = {
    "the import of llvmlite": (llvm, "llvm"),
    "the key": (kernel, "_environment"),
    "the cache's reading": (target, "read"),
    "the compiler": (llvm, "compile_text"),
    "the cache's writing": (target, "write"),
    "the loader": (llvm, "load"),
}


@pytest.fixture
def raising() -> Iterator[list[type[Exception]]]:
    """Signals raise an exception of the class that the test puts into the list."""
    classes: list[type[Exception]] = []

    def handler(number: int, frame: object) -> None:
        raise classes.pop()

    before = signal.signal(signal.SIGINT, handler)
    yield classes
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError, TimeoutError, ImportError, MemoryError])
@pytest.mark.parametrize("step", STEPS)
def test_what_a_handler_raises_arrives(
    step: str, error: type[Exception], kernels: Path, raising: list[type[Exception]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = STEPS[step]
    real = getattr(module, name)

    def interrupted(*args: Any) -> Any:
        if raising:
            signal.raise_signal(signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(module, name, interrupted)
    raising.append(error)
    with pytest.raises(error) as caught:
        D.silu(X)
    assert caught.traceback[-1].name == "handler"
    noted: list[Any] = []
    monkeypatch.setattr(launch, "executed", [noted])
    np.testing.assert_allclose(D.silu(X), WANTED, rtol=1e-5)
    assert kernel.failure() is None
    assert [k.program.name for k in noted] == ["silu"]


def test_a_lack_of_memory_arrives(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(text: str) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(llvm, "compile_text", failing)
        with pytest.raises(MemoryError):
            D.silu(X)
    assert kernel.failure() is None
    np.testing.assert_allclose(D.silu(X), WANTED, rtol=1e-5)
    assert len([*kernels.iterdir()]) == 1


PROGRAM = """
import itertools
import signal
import sys

import numpy as np

from burnpy.backend import NumPy

fired = []


def handler(number, frame):
    fired.append(number)
    raise (RuntimeError, TimeoutError)[len(fired) % 2]("from the handler")


signal.signal(signal.SIGALRM, handler)
device, x, arrived = NumPy(), np.full((40, 50), 0.5, np.float32), 0
device.elu(x, 1.0, 1.0, 1.0)  # imports what compiles: importlib takes a TimeoutError for a file that is missing
names = ["gelu", "silu", "softplus", "erf", "tanh", "asinh", "sinh", "mish", "erfc", "sigmoid", "atan", "log1p"]
rest = {"gelu": (False,), "softplus": (2.0,)}
for name, delay in zip(names, itertools.cycle((0.004, 0.08, 0.012, 0.03)), strict=False):
    before = len(fired)
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        getattr(device, name)(np.tile(x, (2, 2)), *rest.get(name, ()))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert len(fired) == before, f"{name}: what the handler raised was lost"
    except (RuntimeError, TimeoutError) as error:
        assert "from the handler" in str(error), error
        arrived += 1

from burnpy_numpy.kernels import kernel

assert kernel.kernels_enabled() and kernel.failure() is None, kernel.failure()
print(arrived)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that send signals")
def test_what_a_timer_raises_arrives(tmp_path: Path) -> None:
    environment = os.environ | {"BURNPY_CACHE_DIR": str(tmp_path), "BURNPY_COMPILE": "1"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_calls_return_and_raise_as_they_would_undisturbed() -> None:
    assert undisturbed(lambda: 3) == 3
    with pytest.raises(KeyError, match="MISSING"):
        undisturbed(lambda: os.environ["MISSING"])


@pytest.mark.slowest
@pytest.mark.parametrize(("program", "code"), [("fork", 7), ("limit", 0)])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no processes that share memory")
def test_a_process_without_another_thread(program: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAMS[program]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


PROGRAMS = {
    "fork": """
import os, signal, threading, time
from burnpy.backend.errors import StateError
from burnpy_numpy.kernels.compiler.llvm import undisturbed

children = []
signal.signal(signal.SIGUSR1, lambda number, frame: children.append(os.fork()))

def call():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    time.sleep(0.2)
    return 3

try:
    assert undisturbed(call) == 3
except StateError as error:
    assert "forked while a kernel was compiled" in str(error)
    os._exit(7 if children == [0] else 8)
os._exit(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
""",
    "limit": """
import threading
from burnpy_numpy.kernels.compiler.llvm import undisturbed

threading.stack_size(1 << 46)  # more than there is memory for
try:
    threading.Thread(target=int).start()
except RuntimeError:
    assert undisturbed(threading.get_ident) == threading.get_ident()
""",
}
