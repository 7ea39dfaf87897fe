"""Kernels: g++ compiles the sources that CuPy generates, many in one go, and they are kept in the folder of the kit.

A source costs a fifth of a second alone, and nine milliseconds among hundreds, which share the headers. So a test
whose kernels are not compiled is postponed (`plugin`), and `compile_wanted` compiles the kernels of many such tests.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path

from tests.hostcuda.places import BUILT, CUDA_HEADERS, CUPY, CUPY_HEADERS, SOURCES

FLAGS = [
    *("-std=c++20", "-O0", "-w", "-fPIC", "-fpermissive", "-ffp-contract=off"),
    *("-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"),
    *(f"-I{SOURCES / 'include'}", f"-I{SOURCES}", f"-I{CUPY_HEADERS}", f"-I{CUDA_HEADERS}"),
    f"-I{CUPY_HEADERS / 'cupy' / '_cccl' / 'libcudacxx'}",
]
HEADERS = ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h", "float16.cuh", "bfloat16.cuh")
INLINED = {
    CUPY_HEADERS: ("cupy/carray.cuh", "cupy/atomics.cuh", "cupy/float16.cuh", "cupy/bfloat16.cuh"),
    CUDA_HEADERS: ("cuda_fp16.h", "cuda_bf16.h"),
}
"""Headers with functions that are not inline: g++ makes code of these in each run, whether they are called or not."""
BATCH = 300
"""The least kernels that g++ compiles in one run where many are wanted: a run takes a sixth of a second by itself."""
_FUNCTION = re.compile(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\([^)]*\)\s+)?void\s+(\w+)\s*\(')
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w:<> ]+?)\s+(\w+)\[\];")
_CAST = re.compile(r"\breinterpret_cast<([\w: ]+)\*>\(")
"""A cast of a pointer, whose address the kit checks."""

_CONTIGUOUS = re.compile(r"(, [1-9]\d*), 1(, [01]> (_raw_\w+))")
"""A contiguous operand, as in ``CArray<float, 2, 1, 1> _raw_in0``. Without dimensions, CuPy has no other."""

noted: dict[str, tuple[str, tuple[str, ...]]] = {}
"""Sources by their key: the text, and the C++ expressions of further functions beside those by name."""
wanted: set[str] = set()
"""The keys of kernels that a postponed test launches. The kernels of dry runs alone are noted and not compiled."""


class CompileError(Exception):
    """g++ refuses a kernel's source."""


def note(source: str, expressions: tuple[str, ...]) -> str:
    """Note a source; its key, which sources with the same code share."""
    key = hashlib.sha1("\0".join([_strided(source), *expressions]).encode()).hexdigest()
    noted[key] = source, expressions
    return key


def _strided(source: str) -> str:
    """Declare contiguous operands as strided where the code is the same: CuPy's ``CArray`` takes an element by its
    position, as in ``_raw_in0[_ind.get()]``, by the strides of either. By its number, it takes them differently.
    """

    def declared(found: re.Match[str]) -> str:
        uses = re.findall(rf"\b{found[3]}\b(\[\w+\.get\(\)\])?", source)
        return f"{found[1]}, 0{found[2]}" if uses.count("") == 1 else found[0]  # the declaration

    return _CONTIGUOUS.sub(declared, source)


def has_barriers(source: str) -> bool:
    """Whether the threads of a block wait for each other, or may do other than go through all elements."""
    return re.search("__syncthreads|__syncwarp|__shfl", source) is not None or not re.search(
        "(CUPY|BURNPY)_FOR", source
    )


def is_compiled(key: str) -> bool:
    """Return whether this process or another one has compiled a source."""
    return key in _libraries()


def address(key: str, name: str) -> int:
    """Of the function that runs a kernel for one thread."""
    if not is_compiled(key):
        _compile([key])
    library = _opened(_libraries()[key])
    return ctypes.cast(getattr(library, f"host_{key}_{name}"), ctypes.c_void_p).value or 0


def lacking() -> set[str]:
    """The keys of the kernels that are wanted and not compiled yet."""
    return wanted - set(_libraries())


def compile_wanted() -> None:
    """Compile what is wanted and not compiled yet."""
    keys = sorted(lacking())
    if not keys:
        return
    _headers()
    runs = max(1, len(keys) // BATCH)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(_compile, [keys[k::runs] for k in range(runs)]))


@cache
def folder() -> Path:
    """Of the kernels that were compiled with these headers and flags."""
    included = [SOURCES / name for name in ("kernel.h", "state.h", "tensor_cores.h")]
    read = [CUPY, *FLAGS, *[path.read_text() for path in (*included, *sorted(SOURCES.glob("include/**/*.h")))]]
    made = BUILT / "kernels" / hashlib.sha1("\0".join(read).encode()).hexdigest()[:12]
    made.mkdir(parents=True, exist_ok=True)
    return made


def _libraries() -> dict[str, Path]:
    """The library of each source that this process or another one has compiled."""
    return _listed(folder().stat().st_mtime_ns)


@lru_cache(1)
def _listed(_changed: int) -> dict[str, Path]:
    return {key: path.with_suffix(".so") for path in folder().glob("*.keys") for key in path.read_text().split()}


@cache
def _opened(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


@cache
def _headers() -> Path:
    """All that kernels include, compiled once; all functions are inline."""
    prefix = folder() / "headers.h"
    compiled = Path(f"{prefix}.gch")
    if not compiled.exists():
        mine = folder() / str(os.getpid())
        for path, names in INLINED.items():
            for name in names:
                text = re.sub(r"^__device__ ", "inline __device__ ", (path / name).read_text(), flags=re.MULTILINE)
                text = re.sub(r"(#define __CUDA_HOSTDEVICE_\w+_DECL__ static).*", r"\1 inline", text)
                (mine / name).parent.mkdir(parents=True, exist_ok=True)
                (mine / name).write_text(text)
        listed = mine / prefix.name
        listed.write_text('#include "kernel.h"\n' + "".join(f"#include <cupy/{name}>\n" for name in HEADERS))
        _run([f"-I{mine}", *FLAGS, "-x", "c++-header", str(listed), "-o", str(mine / compiled.name)])
        listed.replace(prefix)
        (mine / compiled.name).replace(compiled)  # at once: other processes may be waiting for it
    return prefix


def _compile(keys: list[str]) -> None:
    """Make one library of several sources; where g++ refuses one, say which."""
    name = hashlib.sha1("".join(keys).encode()).hexdigest()
    source, mine, made = (folder() / f"{name}.{end}" for end in (f"{os.getpid()}.cpp", f"{os.getpid()}.so", "so"))
    source.write_text("".join(_text(key) for key in keys))
    try:
        _run([*FLAGS, "-shared", "-include", str(_headers()), str(source), "-o", str(mine)])
    except CompileError:
        if len(keys) == 1:
            raise
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            _compile(half)
        return
    finally:
        source.unlink()
    mine.replace(made)
    listed = folder() / f"{name}.keys"
    listed.with_suffix(f".{os.getpid()}").write_text("\n".join(keys))
    listed.with_suffix(f".{os.getpid()}").replace(listed)


def _text(key: str) -> str:
    """A source in a namespace of its own, with an entry for each function."""
    source, expressions = _strided(noted[key][0]), noted[key][1]
    functions = {name: name for name in _FUNCTION.findall(source)}
    functions.update({f"expression{k}": expression for k, expression in enumerate(expressions)})
    entries = [
        f'extern "C" void host_{key}_{name}(HostState* s, void** p) {{ here = s; host_call({function}, p); }}\n'
        for name, function in functions.items()
    ]
    body = _FUNCTION.sub(r"static void \1(", source)
    body = _DYNAMIC.sub(r"\1* \2 = (\1*)here->shared;", body)
    body = _CAST.sub(r"host_aligned<\1>(", body)
    return in_namespace(f"k{key}", body + "\n" + "".join(entries))


def in_namespace(name: str, source: str) -> str:
    """A source beside which others may define the same names; without its headers, which come before."""
    body = re.sub(r"^\s*#\s*include.*$", "", source, flags=re.MULTILINE)
    undefined = "".join(f"#undef {macro}\n" for macro in re.findall(r"#\s*define\s+(\w+)", body))
    return f"namespace {name} {{\n{body}\n}}\n{undefined}"


def _run(arguments: list[str]) -> None:
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(done.stderr[:6000])
