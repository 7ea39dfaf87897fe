"""burnpy works without the parts of Linux that macOS and Windows lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MACOS = """
import builtins, ctypes, multiprocessing.reduction, os, socket, sys

def without(module, *names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

without(os, "memfd_create", "posix_fallocate", "sched_getaffinity", "sched_setaffinity")

def opened(path, *args, real=builtins.open, **kwargs):
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(path)
    return real(path, *args, **kwargs)

builtins.open = opened
missing = {"gnu_get_libc_version", "mallopt", "malloc_trim", "sched_getcpu"}  # of glibc

def found(library, name, real=ctypes.CDLL.__getitem__):
    if name in missing or "openblas" in name or "cblas" in name:  # NumPy multiplies by Accelerate
        raise AttributeError(name)
    return real(library, name)

ctypes.CDLL.__getitem__ = found
"""
WINDOWS = (
    MACOS
    + """
without(os, "fork", "register_at_fork", "getuid", "O_NOFOLLOW", "O_CLOEXEC")
without(socket, "send_fds", "recv_fds")
multiprocessing.reduction.HAVE_SEND_HANDLE = False
sys.modules |= dict.fromkeys(("fcntl", "pwd", "pty", "resource", "termios"))  # which cannot be imported then

def loaded(library, name, *args, real=ctypes.CDLL.__init__, **kwargs):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    real(library, name, *args, **kwargs)

ctypes.CDLL.__init__ = loaded
ctypes.pythonapi._name = "python dll"
"""
)
SYSTEMS = {"Linux": "", "macOS": MACOS, "Windows": WINDOWS}
SAME = ("epoch", "files", "lines", "kernels", "broken", "threads")

PROGRAM = """
import json, tempfile
from pathlib import Path

from burnpy import Autodiff, Tensor, compiled, environment
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.errors import BurnpyError
from burnpy.record import load, save
from burnpy.train import Dashboard
from tests.train.training import Batches, X, learner, net, valid_batches

def attempt(function):
    try:
        return function()
    except BurnpyError as error:
        return f"{type(error).__name__}: {error}"

def rows(engine):
    loader = Loader(ArrayDataset(x=X), collate(device=NumPy), batch_size=10, workers=2, engine=engine)
    return sum(batch.x.sum().item() for batch in loader.epoch(0))

result = learner(loggers=[Dashboard()]).fit(net(), Batches(), valid_batches(), epochs=2)
x = Tensor[Autodiff[NumPy]].full((300, 300), 0.01).require_grad()
with tempfile.TemporaryDirectory() as folder:
    for epoch in range(2):
        save(Path(folder, "run.safetensors"), model=result.model, epoch=epoch)
    loaded = load(Path(folder, "run.safetensors"))
    files = [path.name for path in Path(folder).iterdir()]
facts = {
    "losses": [row["valid/loss"] for row in result.history],
    "epoch": loaded.epoch,
    "files": files,
    "products": (x @ x).gelu().sum().backward()[x].sum().item(),
    "compiled": compiled(lambda x: (x @ x).tanh().sum())(x.inner()).item(),
    "kernels": "kernels: compiled for" in environment.report(),
    "broken": [line for line in environment.report().splitlines() if "fails with" in line],
    "threads": rows("threads"),
    "processes": attempt(lambda: rows("processes")),
    "memory": attempt(lambda: NumPy().memory().used > 0),
    "reset": attempt(NumPy().reset_peak_memory),
}
print(json.dumps(facts))
"""


NO_FILES = "ArgumentError: engine='processes' needs a system that passes files to processes; use engine='threads'"
NOT_MEASURED = "DeviceError: NumPy does not measure its memory; CuPy does, and NumPy on Linux"


def facts(system: str) -> Any:
    """Run the program where only what a system has is left; return what it found."""
    done = subprocess.run(
        [sys.executable, "-c", SYSTEMS[system] + PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"BURNPY_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    return {**json.loads(last), "lines": len(lines)}


@pytest.mark.slowest
@pytest.mark.skipif(sys.platform != "linux", reason="takes away what Linux has")
def test_burnpy_works_with_what_other_systems_have() -> None:
    linux, macos, windows = (facts(system) for system in SYSTEMS)
    assert linux["broken"] == []
    assert (linux["epoch"], linux["files"], linux["lines"]) == (1, ["run.safetensors"], 4)
    for found in (macos, windows):
        for name in ("losses", "products", "compiled"):
            assert found[name] == pytest.approx(linux[name], rel=1e-5), name
        assert found["memory"] == found["reset"] == NOT_MEASURED
        assert {name: found[name] for name in SAME} == {name: linux[name] for name in SAME}
    assert linux["processes"] == macos["processes"] == linux["threads"]
    assert windows["processes"] == NO_FILES
