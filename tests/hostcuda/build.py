"""Makes the stand-ins for CUDA's driver, runtime and cuBLAS, and CuPy's own runtime.pyx against them.

    python -m tests.hostcuda.build

Run it with the Python of a virtual environment with ``burnpy[hostcuda]``. CuPy's wheel holds the CUDA runtime inside of
one module, so that module alone is compiled again, from CuPy's sdist, which pip fetches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.hostcuda.places import BUILT, CUDA_HEADERS, CUPY, RUNTIME, SITE, SOURCES, STAMP, fingerprint, is_built

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
SDIST = BUILT / f"cupy-{CUPY}.tar.gz"
CYTHON = "3.2.4"  # which made the wheel
CXX = ["g++", "-w", "-fPIC", f"-I{CUDA_HEADERS}"]
SHARED = ["-shared", "-Wl,-rpath,$ORIGIN"]
CYTHONIZE = f"""\
from Cython.Build import cythonize
from setuptools import Extension
names = dict(CUPY_CUDA_VERSION=13000, CUPY_HIP_VERSION=0, CUPY_USE_CUDA_PYTHON=False, CUPY_CUFFT_STATIC=False,
             CUPY_CYTHON_VERSION="{CYTHON}")
module = Extension("cupy_backends.cuda.api.runtime", ["cupy_backends/cuda/api/runtime.pyx"], language="c++")
cythonize([module], language_level=3, compile_time_env=names)
"""
PROFILER_HEADER = """\
#include <cuda_runtime.h>
extern "C" { cudaError_t cudaProfilerStart(); cudaError_t cudaProfilerStop(); }
"""  # in no wheel of headers
FUNCTION = re.compile(r"cu(da|blas|solver)?[A-Z]\w*")
NOT_SUPPORTED = {"cuda": 801, "cublas": 15, "cusolver": 9}  # cudaErrorNotSupported and so on


class BuildError(Exception):
    """What is missing, in one sentence."""


def main() -> int:
    """Build what is not built yet; 1 where that cannot be done, after saying why."""
    try:
        if is_built():
            return 0
        check_environment()
        build()
    except BuildError as error:
        print(f"tests.hostcuda.build: {error}", file=sys.stderr)
        return 1
    print(f"CuPy {CUPY} computes on the CPU")
    return 0


def check_environment() -> None:
    """Refuse an environment that lacks something, by name."""
    if sys.prefix == sys.base_prefix:
        raise BuildError("this Python is not a virtual environment's; `make test-cupy` makes one")
    if shutil.which("g++") is None:
        raise BuildError("g++ is missing; on Debian: apt install g++")
    program = "template <class T> concept C = true; int main() {}"
    asked = ["g++", "-std=c++20", "-x", "c++", "-fsyntax-only", "-"]
    if subprocess.run(asked, input=program, text=True, capture_output=True, check=False).returncode:
        raise BuildError("this g++ knows no C++20; version 10 or newer is needed")
    for package, needed in (("cupy-cuda13x", CUPY), ("cython", CYTHON)):
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "none"
        if found != needed:
            raise BuildError(
                f'{package} {needed} is needed, and {found} is installed: {sys.executable} -m pip install ".[hostcuda]"'
            )
    for header in ("cuda.h", "cuda_runtime.h", "crt/host_defines.h"):
        if not (CUDA_HEADERS / header).exists():
            raise BuildError(f'CUDA\'s {header} is missing: {sys.executable} -m pip install ".[hostcuda]"')
    if not lapacks():
        raise BuildError(f"NumPy's wheel with its LAPACK is missing: {sys.executable} -m pip install --force numpy")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise BuildError("Python.h is missing; on Debian: apt install python3-dev")


def lapacks() -> list[Path]:
    """Return the library in NumPy's wheel that has LAPACK, if it is there."""
    return [*(SITE / "numpy.libs").glob("libscipy_openblas64_*.so")]


def build() -> None:
    """Make everything in a folder of its own, and move it where it is looked for once it is whole."""
    BUILT.mkdir(exist_ok=True)
    STAMP.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as name:
        made = Path(name)
        fetch_sdist(made)
        objects = cythonized(made)
        make_library(made, "libcuda.so.1", ["log", "memory", "devices", "driver", "graphs", "threads"], objects)
        libraries = SITE / "cupy_backends" / "cuda" / "libs"
        lapack = lapacks()[0]
        make_library(made, "libcublas.so.13", ["blas"], [libraries / f"cublas{SUFFIX}"], lapack)
        make_library(made, "libcublasLt.so.13", ["blas_lt"], [])
        make_library(made, "libcusolver.so.12", ["solver"], [libraries / f"cusolver{SUFFIX}"], lapack)
        step("runtime", [*CXX, *SHARED, *map(str, objects), str(made / "libcuda.so.1"), "-o", str(made / RUNTIME)])
        for library in ("libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13", "libcusolver.so.12", RUNTIME):
            (made / library).replace(BUILT / library)
    compute = "import tests.hostcuda.simulator as s; s.load(); import cupy; x = cupy.arange(5.0); print((x * x).sum())"
    if step("a first sum", [sys.executable, "-c", compute]).strip() != "30.0":
        raise BuildError("what was built does not compute")
    STAMP.write_text(fingerprint())


def step(what: str, command: list[str], *, cwd: Path | None = None) -> str:
    """Run a command; what it wrote."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        sys.stderr.write("\n".join((done.stdout + done.stderr).splitlines()[-30:]) + "\n")
        raise BuildError(f"{what} failed; what it said stands above")
    return done.stdout


def fetch_sdist(made: Path) -> None:
    """Unpack CuPy's sources, which pip fetches once."""
    if not SDIST.exists():
        print("fetching the sources of CuPy ...")
        # Its setup asks for nvcc unless told to make stubs; --no-binary :all: would compile NumPy and Cython too. pip
        # asks it for its metadata, for which it needs Cython and setuptools alone, which are here.
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        pip.append("--no-build-isolation")
        asked = [*pip, "--no-binary", "cupy", "--dest", str(made), f"cupy=={CUPY}"]
        done = subprocess.run(
            asked, capture_output=True, text=True, check=False, env={**os.environ, "CUPY_INSTALL_USE_STUB": "1"}
        )
        if done.returncode:
            sys.stderr.write("\n".join(done.stderr.splitlines()[-10:]) + "\n")
            raise BuildError(
                f"pip could not download the sources of cupy {CUPY}; put {SDIST.name} into {BUILT} by hand"
            )
        (made / SDIST.name).replace(SDIST)
    with tarfile.open(SDIST) as tar:
        members = [m for m in tar.getmembers() if m.name.startswith(f"cupy-{CUPY}/cupy_backends/")]
        tar.extractall(made, members, filter="data")


def cythonized(made: Path) -> list[Path]:
    """The object file of cupy_backends.cuda.api.runtime, which is kept: compiling it takes most of the time."""
    out = BUILT / f"runtime-{CUPY}-{CYTHON}{SUFFIX}.o"
    if out.exists():
        return [out]
    source = made / f"cupy-{CUPY}"
    (source / "cupy").mkdir()
    (source / "cupy" / "__init__.py").touch()
    (made / "cuda_profiler_api.h").write_text(PROFILER_HEADER)
    print("compiling CuPy's runtime.pyx ...")
    step("Cython", [sys.executable, "-c", CYTHONIZE], cwd=source)
    api = source / "cupy_backends" / "cuda" / "api"
    folders = [made, api, source / "cupy_backends", sysconfig.get_path("include")]
    compiled = made / "runtime.o"
    options = ["-O0", "-std=c++17", *[f"-I{folder}" for folder in folders]]
    step("g++ of runtime.pyx", [*CXX, *options, "-c", str(api / "runtime.cpp"), "-o", str(compiled)])
    compiled.replace(out)
    return [out]


def make_library(made: Path, name: str, sources: list[str], users: list[Path], *others: Path) -> None:
    """Make a library of some of our sources and other libraries, and of refusals for what else ``users`` want of it."""
    objects = []
    print(f"compiling {name} ...")
    for source in sources:
        objects.append(str(made / f"{source}.o"))
        step(
            f"g++ of {source}.cpp", [*CXX, "-O2", "-std=c++17", "-c", str(SOURCES / f"{source}.cpp"), "-o", objects[-1]]
        )
    kind = next((kind for kind in ("cublas", "cusolver") if name.startswith(f"lib{kind}.")), "cuda")
    lacking = symbols("--undefined-only", *map(str, users)) - symbols("--defined-only", *objects)
    lacking = {
        symbol
        for symbol in lacking
        if (symbol.startswith(kind) if kind != "cuda" else not symbol.startswith(("cublas", "cusolver")))
    }
    refusals = made / f"{name}.cpp"
    text = "".join(f'extern "C" int {symbol}(...) {{ return {NOT_SUPPORTED[kind]}; }}\n' for symbol in sorted(lacking))
    refusals.write_text(text)
    beside = [str(made / "libcuda.so.1")] if name != "libcuda.so.1" else []
    beside += [argument for other in others for argument in (str(other), f"-Wl,-rpath,{other.parent}")]
    linked = [*CXX, *SHARED, *objects, str(refusals), *beside, f"-Wl,-soname,{name}", "-o", str(made / name)]
    step(f"linking {name}", linked)


def symbols(which: str, *files: str) -> set[str]:
    """CUDA's functions among the symbols of object files or libraries."""
    listed: set[str] = set()
    for file in files:
        dynamic = ["--dynamic"] if file.endswith(".so") else []
        for line in step("nm", ["nm", which, *dynamic, file]).splitlines():
            symbol = line.split()[-1].partition("@")[0]  # without its version
            if FUNCTION.fullmatch(symbol):
                listed.add(symbol)
    return listed


if __name__ == "__main__":
    sys.exit(main())
