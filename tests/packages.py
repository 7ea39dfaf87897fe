"""Build the wheel and the sdist, and try both in a clean environment of each Python: ``python -m tests.packages``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.interpreters import PYENV, VERSIONS, found

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2_200_000
"""The size of the wheel, at most; a quarter of it are docstrings."""
TYPED = ("burnpy", "burnpy_array", "burnpy_cupy", "burnpy_numpy")
PROGRAM = """
from burnpy import Autodiff, Tensor, environment, manual_seed
from burnpy.backend import NumPy
from burnpy.nn import Linear
from burnpy.optim import AdamW

def loss_of(model: Linear[Autodiff[NumPy]]) -> Tensor[Autodiff[NumPy]]:
    return model(Tensor[Autodiff[NumPy]].ones((4, 3))).square().mean()

manual_seed(0)
model, optim = Linear(3, 2, device=Autodiff[NumPy]), AdamW()
first = loss_of(model).item()
for _ in range(3):
    model = optim.step(0.01, model, loss_of(model).backward())
assert loss_of(model).item() < first
assert "backend NumPy: works" in environment.report()
"""
MISTAKE = """
from burnpy import Tensor
from burnpy.backend import NumPy

Tensor[NumPy].ones((2,)).sum().backward()
"""


def built(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist in a folder, and return their paths."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def installed(program: Path, package: Path, folder: Path) -> Path:
    """Install a package in a new environment of an interpreter, and return the environment's own interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([program, "-m", "venv", folder], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([python, *pip, package], check=True)
    return python


def run(python: Path) -> None:
    """Run a program, and have mypy check it and one with a mistake, with what is installed for an interpreter."""
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run([python, "-I", "-W", "error", "-c", PROGRAM], check=True, cwd=elsewhere)
        for text, status in ((PROGRAM, 0), (MISTAKE, 1)):
            Path(elsewhere, "program.py").write_text(text)
            mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "program.py"]
            environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
            done = subprocess.run(mypy, check=False, cwd=elsewhere, env=environment, capture_output=True, text=True)
            assert done.returncode == status, done.stdout + done.stderr


def main() -> int:
    """Try the packages; the exit status is 1 where one fails."""
    programs = found(os.get_exec_path(), PYENV)
    failed = []
    shutil.rmtree(ROOT / "out" / "packages", ignore_errors=True)
    packages = built(ROOT / "out" / "packages")
    for version, program in programs.items():
        for package in packages:
            try:
                run(installed(program, package, ROOT / "out" / "packages" / f"python{version}"))
            except (subprocess.CalledProcessError, AssertionError) as error:
                failed.append(f"{package.name} on Python {version}: {error}")
    absent = [version for version in VERSIONS if version not in programs]
    print(f"{', '.join(package.name for package in packages)} tried on Python {', '.join(programs) or 'none'}", end="")
    print(f"; not found: {', '.join(absent)}" if absent else "")
    print(*failed, sep="\n", end="\n" * bool(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
