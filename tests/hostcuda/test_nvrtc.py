"""NVRTC, CUDA's compiler, takes every kernel that CuPy generates for the conformance suite, and ours; it needs no GPU.

Kernels that differ in the number of dimensions alone are taken once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from functools import cache

import pytest

from burnpy import IntTensor, Tensor
from burnpy.backend import Backend, CuPy
from burnpy.backend.dtypes import float32, int64
from burnpy.backend.programs import Extent, Input, trace
from burnpy.testing.arguments import calls
from burnpy.testing.cases import ROWS
from tests.hostcuda import compile as kernels
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_EXECUTED, dry

simulator.require()

from burnpy_cupy.kernels.emitter import emit  # noqa: E402
from burnpy_cupy.kernels.shape import CATS  # noqa: E402

ARCHITECTURES = (90, *(pytest.param(other, marks=pytest.mark.long) for other in (80, 100)))
"""One architecture by default; the long form compiles for the others too."""
PARTS = 6


@cache
def sources() -> dict[str, str]:
    """A source for each kernel and dtypes, the longest, by the names of both."""
    for name in ROWS:
        for arguments in calls(name) if name not in NOT_EXECUTED else ():
            dry(name, arguments)
    with simulator.dry_run():
        Tensor[CuPy].ones((2,))[IntTensor[CuPy].from_data([0])]  # whose indices are checked in a kernel of ours
        rows, index = CuPy().full((64, 2), 1.0, float32), CuPy().full((64,), 0, int64)
        CuPy().embedding_backward(rows, index, (3, 2), None)  # of more indices than one thread takes
        for count in CATS:
            CuPy().cat([CuPy().full((2,), 1.0, float32)] * count, 0)
    found: dict[str, str] = {}
    for text, _ in kernels.noted.values():
        names = re.findall(r'extern "C" __global__ void (\w+)', text)
        key = " ".join([*names, *sorted(set(re.findall(r"typedef [^;]+;", text)))])
        if len(text) > len(found.get(key, "")):
            found[key] = text
    return found


def large_programs() -> list[str]:
    """Kernels for arrays too large for a test, whose positions have 64 bits, by all divisions among threads."""
    program = trace(Backend.logsumexp, (Input(Extent.FULL, "float16"),), (1,), True)
    return [
        emit(program, f"burnpy_large_{address}_{kind}_{chunked:d}", address, kind, wide=True, chunked=chunked)
        for address in ("plain", "transposed", "planes")
        for kind in ("warp", "block", "lanes")
        for chunked in (False, True)
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_compiler_takes_programs_of_large_arrays(architecture: int) -> None:
    said = compiled(large_programs(), architecture)
    assert said.isdigit(), said


def compiled(texts: list[str], architecture: int) -> str:
    """The size of the code that the compiler makes from sources, or its errors."""
    command = [sys.executable, "-m", "tests.hostcuda.nvrtc", str(architecture)]
    return subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_compiler_takes_every_kernel(architecture: int, part: int) -> None:
    texts = [text for key, text in sources().items() if zlib.crc32(key.encode()) % PARTS == part]
    assert len(texts) > 50
    said = compiled(texts, architecture)
    assert said.isdigit(), said
    assert int(said) > 1000 * len(texts)


def test_the_compiler_can_refuse() -> None:
    assert "absent" in compiled(['extern "C" __global__ void wrong(float* x) { x[0] = absent; }'], 90)


def test_ours_are_among_them() -> None:
    from burnpy_cupy.backend import ELEMENTWISE, RAW
    from burnpy_cupy.kernels.reduction import REDUCTIONS

    met = " ".join(sources())
    assert [name for name in (*ELEMENTWISE, *RAW, *REDUCTIONS) if name not in met] == []
