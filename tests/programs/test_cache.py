"""Compiled code on disk: loaded where it can be trusted, built anew where not; and compiling that fails."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import tracemalloc
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.backend.programs import Extent, Input, Program, trace

PROGRAM: Program = trace(Backend.silu, (Input(Extent.FULL, "float32"),))
X = np.linspace(-2, 2, 64 * 100, dtype=np.float32).reshape(64, 100)
WANTED = X / (1 + np.exp(-X))


def run() -> list[str]:
    """Make the kernel as a new process would, use it, and return whether it was compiled or loaded."""
    kernel: Any = import_module("burnpy_numpy.kernels.kernel")
    llvm: Any = import_module("burnpy_numpy.kernels.compiler.llvm")
    seen: list[str] = []
    real = llvm.compile_text

    def noting(text: str) -> bytes:
        seen.append("compiled")
        return bytes(real(text))

    kernel._programs.clear()
    llvm.compile_text = noting
    try:
        found = kernel.program_kernel(PROGRAM)
    finally:
        llvm.compile_text = real
    assert found is not None
    np.testing.assert_allclose(found([X], (), *X.shape)[0], WANTED, rtol=1e-5)
    return seen or ["loaded"]


def failure() -> str | None:
    kernel: Any = import_module("burnpy_numpy.kernels.kernel")
    found: str | None = kernel.failure()
    return found


def entry(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_code_is_compiled_once(kernels: Path) -> None:
    assert [run(), run()] == [["compiled"], ["loaded"]]
    assert entry(kernels).stat().st_size > 1000


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists in place of modes")
def test_the_folder_and_its_entries_are_the_users_alone(kernels: Path) -> None:
    run()
    assert kernels.stat().st_mode & 0o777 == 0o700
    assert entry(kernels).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "renamed"])
def test_a_damaged_entry_is_built_anew(kernels: Path, damage: str) -> None:
    run()
    path = entry(kernels)
    content = path.read_bytes()
    if damage == "renamed":  # the code of another program
        path.write_bytes(content.replace(content[16:80], b"0" * 64))
    else:
        path.write_bytes({"cut": content[:-7], "changed": content[:-1] + b"?", "empty": b""}[damage])
    assert [run(), run()] == [["compiled"], ["loaded"]]
    assert path.read_bytes() == content


def test_reading_an_entry_takes_no_more_memory_than_its_size(kernels: Path) -> None:
    run()
    path, target = entry(kernels), import_module("burnpy_numpy.kernels.compiler.target")
    tracemalloc.start()
    code = target.read(path.name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert code is not None
    assert peak < 5 * path.stat().st_size + 1_000_000  # a file has a buffer, of 128 KiB in Python 3.14


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists in place of modes")
def test_what_others_may_write_is_not_trusted(kernels: Path) -> None:
    run()
    entry(kernels).chmod(0o666)
    assert run() == ["compiled"]
    assert run() == ["loaded"]  # it was replaced
    kernels.chmod(0o777)
    assert [run(), run()] == [["compiled"], ["compiled"]]


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="symbolic links")
def test_a_link_is_not_followed(kernels: Path, tmp_path: Path) -> None:
    run()
    path = entry(kernels)
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    assert run() == ["compiled"]
    assert not path.is_symlink()


def test_a_folder_in_place_of_an_entry_is_no_entry(kernels: Path) -> None:
    run()
    path = entry(kernels)
    path.unlink()
    path.mkdir()
    assert [run(), run()] == [["compiled"], ["loaded"]]  # it was replaced
    path.unlink()
    path.mkdir()
    (path / "kept").touch()
    assert [run(), run()] == [["compiled"], ["compiled"]]
    assert [*kernels.rglob("*")] == [path, path / "kept"]
    assert failure() is None


def test_a_folder_that_cannot_be_made_costs_the_cache_only(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("BURNPY_CACHE_DIR", str(tmp_path / "file"))
    assert [run(), run()] == [["compiled"], ["compiled"]]


def test_without_a_home_nothing_is_kept(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy_numpy.kernels.compiler import target

    for name in ("BURNPY_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert target.folder() is None
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_told_once_and_turns_kernels_off(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy_numpy.kernels import kernel, launch
    from burnpy_numpy.kernels.compiler import llvm

    device = NumPy()
    device.gelu(X, False)

    def failing(text: str) -> Any:
        raise RuntimeError("no such processor")

    monkeypatch.setattr(llvm, "compile_text", failing)
    with pytest.warns(RuntimeWarning, match="silu failed: no such processor") as found:
        out = device.silu(X)
    assert len(found) == 1
    np.testing.assert_allclose(out, WANTED, rtol=1e-5)
    noted: list[Any] = []
    monkeypatch.setattr(launch, "executed", [noted])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.gelu(X, False)
        device.sigmoid(X)
    assert not noted  # not even a kernel that was compiled before: all values are the fallback's
    assert kernel.failure() == "compiling silu failed: no such processor"


def test_an_old_llvmlite_is_named_once_and_kernels_are_off(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    from burnpy_numpy.kernels import kernel
    from burnpy_numpy.kernels.compiler import llvm

    monkeypatch.setattr(llvmlite, "__version__", "0.41.1")
    monkeypatch.setattr(llvm, "llvm", llvm.llvm.__wrapped__)
    device = NumPy()
    message = r"as llvmlite 0\.41\.1 is installed and kernels need 0\.50 or newer"
    with pytest.warns(RuntimeWarning, match=message):
        np.testing.assert_allclose(device.silu(X), WANTED, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(device.sigmoid(X) * X, WANTED, rtol=1e-5)
    assert not kernel.kernels_enabled()
    assert not kernels.exists()


def test_the_oldest_llvmlite_is_that_of_the_extra() -> None:
    from burnpy_numpy.kernels.compiler.llvm import OLDEST

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["fast"] == [f"llvmlite>={OLDEST[0]}.{OLDEST[1]}"]


@pytest.mark.slowest
def test_the_setting_turns_kernels_off() -> None:
    pytest.importorskip("llvmlite")
    code = (
        "import sys, numpy as np; from burnpy.backend import NumPy\n"
        "NumPy().gelu(np.ones(9999, np.float32), True); print('llvmlite' in sys.modules)"
    )
    for setting, loaded in (("0", "False"), ("1", "True")):
        environment = os.environ | {"BURNPY_COMPILE": setting}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == loaded


@pytest.mark.slowest
def test_llvmlite_is_not_needed_and_not_loaded_for_what_is_one_call_of_numpy() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import numpy as np; from burnpy.backend import NumPy\n"
        "print(NumPy().gelu(np.ones(9999, np.float32), True).shape)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(9999,)"
    code = (
        "import sys, numpy as np; from burnpy.backend import NumPy\n"
        "b = NumPy(); b.relu(b.add(b.exp(np.ones(60, np.float32)), 1.0)); print('llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
