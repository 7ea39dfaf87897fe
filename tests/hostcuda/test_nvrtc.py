"""NVRTC, CUDA's compiler, takes every kernel that CuPy generates for the conformance suite, and ours; it needs no GPU.

Kernels that differ in the number of dimensions alone are taken once. The short form compiles each of ours for one
dtype, and a sample of CuPy's, for one architecture, and optimizes little, which takes a third of the time: our kernels
declare the threads of a block, so that they get no more registers than these have. The long form compiles all for three
as CuPy does. The compiled code says what a launch needs, and so which launches a GPU would refuse.
"""

from __future__ import annotations

import re
import zlib
from functools import cache

import numpy as np
import pytest

from burnpy import IntTensor, Tensor
from burnpy.backend import Backend, CuPy
from burnpy.backend.dtypes import dtype_of, float32, float64, int64
from burnpy.backend.programs import Extent, Input, trace
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.cases.table import ALL_DTYPES, calls, fits
from tests.hostcuda import compile as kernels
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_DRY, dry
from tests.hostcuda.nvrtc import Resources, compiled
from tests.hostcuda.test_recurrent import examples, moved
from tests.interrupting import LONG

simulator.require()

from burnpy_cupy import cuda_graphs  # noqa: E402
from burnpy_cupy.kernels import convolution, convolution_launches  # noqa: E402
from burnpy_cupy.kernels.attention import TILINGS, tiling  # noqa: E402
from burnpy_cupy.kernels.attention_kernels import ATTENTION  # noqa: E402
from burnpy_cupy.kernels.convolution_tiles import TILES  # noqa: E402
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES  # noqa: E402
from burnpy_cupy.kernels.emitter import emit  # noqa: E402
from burnpy_cupy.kernels.normalization import _MIN_PART  # noqa: E402
from burnpy_cupy.kernels.pointwise import BINARY  # noqa: E402
from burnpy_cupy.kernels.reduction import reduction_source  # noqa: E402
from burnpy_cupy.kernels.shape_and_indexing import CATS  # noqa: E402

ARCHITECTURES = (80, 90, 100)
DTYPES = ("float64", "int64", "bool")
"""The dtypes of the short form: an operation runs in the first that fits, whose kernels take the most registers."""
PARTS = 6
SAMPLE = 60
"""The short form compiles one of so many kernels of CuPy's."""
QUICKLY = "--Ofast-compile=max"
"""The option with which NVRTC optimizes little."""
REGISTERS, SHARED = 1 << 16, 48 << 10
"""The registers of a multiprocessor, and the shared memory that a block can have without asking for more."""
OF_CUPY = 512
"""The threads of the largest block that CuPy launches its elementwise kernels and reductions with."""


@cache
def sources(brief: bool = False) -> dict[str, str]:
    """A source for each kernel and dtypes, the longest, by the names of both; if brief, in one dtype and layout."""
    for name, row in ROWS.items():
        fitting = [dtype for dtype in (DTYPES if brief else ALL_DTYPES) if fits(row, dtype_of(dtype))]
        dtypes, layouts = (fitting[:1], LAYOUTS[1:2]) if brief else (fitting, LAYOUTS)  # addressed element by element
        for arguments in calls(name, dtypes, layouts) if name not in NOT_DRY else ():
            dry(arguments)
    with simulator.dry_run():
        Tensor[CuPy].ones((2,))[IntTensor[CuPy].from_data([0])]  # whose indices are checked in a kernel of ours
        rows, index = CuPy().full((64, 2), 1.0, float32), CuPy().full((64,), 0, int64)
        CuPy().bounded_and_counted(index, 0, 2, IndexError, 1)
        CuPy().embedding_backward(rows, index, (3, 2), None)  # of more indices than one thread takes
        for draw in (CuPy().random_uniform, CuPy().random_normal, CuPy().random_exponential):
            draw(np.random.default_rng(0), (2,), float32)
        count, mean, total = CuPy().full((), 0, int64), CuPy().full((2,), 0.0, float32), CuPy().full((3,), 1.0, float32)
        for number in (1, 2):
            CuPy().statistics_update(count, [mean] * number, [total] * number, 0.1)
        long, channels = CuPy().full((2 * _MIN_PART, 2), 1.0, float32), CuPy().full((2,), 1.0, float32)
        CuPy().normalize(long, channels, channels, (0,), 1e-5)  # in parts, each way
        CuPy().normalize_backward(long, long, channels, channels, channels, (0,), 1e-5)
        CuPy().host_number(1.0)
        for name, args in examples(None, False, (4, 3, 8), "float64").items():  # in one launch
            getattr(CuPy(), name)(*moved(args, "float64"))
        for number in (1, 2, 3, 4):
            CuPy().foreach_cast([rows] * number, dtype_of("bfloat16"))
        for reduce in ("prod", "amin", "amax"):  # of 4 bytes
            CuPy().index_reduce(rows, 0, index, rows, reduce)
        for name, taken in BINARY.items():  # with numbers
            for x in (rows, index):
                if x.dtype in taken:
                    getattr(CuPy(), name)(x, 2)
        for x in (rows, index):
            CuPy().where(CuPy().eq(x, 2), x, 2)
            CuPy().full((2,), 2, x.dtype)
        for size in (*CATS, CATS[-1] + 1):
            CuPy().cat([CuPy().full((2,), 1.0, float32)] * size, 0)
    found: dict[str, str] = {}
    for text, _ in kernels.noted.values():
        names = re.findall(r'extern "C" __global__ (?:__launch_bounds__\([^)]+\) )?void (\w+)', text)
        key = " ".join([*names, *sorted(set(re.findall(r"typedef [^;]+;", text)))])
        if len(text) > len(found.get(key, "")):
            found[key] = text
    return found


def sampled() -> dict[str, str]:
    """Each kernel of ours for one dtype, float64 if it can be, and some of CuPy's; without the tiles of convolution,
    which `test_convolution_of_every_tile_fits` compiles.
    """
    found = sources(brief=True)
    ours = {key: text for key, text in found.items() if re.search(r"void burnpy_", text)}
    chosen = {key.split()[0]: key for key in sorted(ours, key=lambda key: ("double" in key, len(ours[key])))}
    others = [
        key for key, text in found.items() if "void burnpy_" not in text and zlib.crc32(key.encode()) % SAMPLE == 0
    ]
    return {key: found[key] for key in (*[chosen[name] for name in chosen if name not in TILES], *others)}


def large_programs() -> list[str]:
    """Kernels for arrays too large for a test, whose positions have 64 bits, by all divisions among threads."""
    program = trace(Backend.logsumexp, (Input(Extent.FULL, "float16"),), (1,), True)
    return [
        emit(program, f"burnpy_large_{address}_{kind}_{chunked:d}", address, kind, 1024, wide=True, chunked=chunked)
        for address in ("plain", "transposed", "planes")
        for kind in ("warp", "block", "lanes")
        for chunked in (False, True)
    ]


def large_reductions() -> list[str]:
    """Reductions of such arrays, of the largest partial results and of the narrowest elements."""
    return [
        reduction_source("burnpy_large", op, dtype, result, kind, block, planes=True, wide=True)
        for op, dtype, result in (("argmax", "float64", "int64"), ("mean", "bfloat16", "bfloat16"))
        for kind, block in (("warp", 256), ("block", 1024), ("lanes", 1024))
    ]


@pytest.mark.parametrize(
    "architecture",
    [90, *[pytest.param(other, marks=pytest.mark.long) for other in ARCHITECTURES if other != 90]],
)
def test_the_compiler_takes_kernels_of_large_arrays(architecture: int) -> None:
    options = () if LONG else (QUICKLY,)
    check_launches(compiled([*large_programs(), *large_reductions()], architecture, *options))


def check_launches(kernels: list[Resources]) -> None:
    """Check that a GPU launches kernels: a block's registers, given to warps by 256, and its shared memory fit."""
    assert kernels
    for kernel in kernels:
        warps = -(-(kernel.block or OF_CUPY) // 32)
        assert warps * -(-32 * kernel.registers // 256) * 256 <= REGISTERS, kernel
        assert kernel.shared <= SHARED, kernel


def test_a_launch_that_a_gpu_would_refuse_is_noticed() -> None:
    """A kernel that keeps 48 numbers: without bounds it takes more registers than a block of 1,024 threads has."""
    load = [f"a[{k}] = x[{k} * 4096 + threadIdx.x];" for k in range(48)]
    work = [f"a[{k}] = a[{k}] * a[{(k * 7 + 1) % 48}] + n;" for k in range(48)]
    store = [f"x[{k} * 4096 + threadIdx.x] = a[{k}];" for k in range(48)]
    body = "\n".join(["double a[48];", *load, "for (int n = 0; n < x[0]; n++) {", *work, "}", *store])
    text = f'extern "C" __global__ BOUNDS void burnpy_many(double* x) {{ {body} }}'
    (free,) = compiled([text.replace("BOUNDS", "")], 90)
    (bounded,) = compiled([text.replace("BOUNDS", "__launch_bounds__(1024)")], 90)
    assert (free.block, bounded.block) == (0, 1024)
    check_launches([bounded])
    with pytest.raises(AssertionError, match="registers"):
        check_launches([free._replace(block=1024)])


def test_the_compiler_takes_each_kernel_of_ours_and_some_of_cupys() -> None:
    from burnpy_cupy.backend import ELEMENTWISE, RAW

    texts = sampled()
    check_compiled([*texts.values(), cuda_graphs._SOURCE], 90, QUICKLY)
    met = " ".join([*texts, *TILES])
    assert [name for name in (*ELEMENTWISE, *RAW) if name not in met] == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_compiler_takes_every_kernel(architecture: int, part: int) -> None:
    check_compiled([text for key, text in sources().items() if zlib.crc32(key.encode()) % PARTS == part], architecture)


def check_compiled(texts: list[str], architecture: int, *options: str) -> None:
    """Check that the compiler takes sources, and that a GPU launches their kernels."""
    assert len(texts) > 50
    found = compiled(texts, architecture, *options)
    assert len(found) >= sum('extern "C"' in text for text in texts)  # the others are templates
    check_launches(found)
    ours = [
        text
        for text in texts
        if re.search(r"__global__ .*void burnpy_", text) and not re.search("CUPY_FOR|_type_reduce", text)
    ]
    assert [text[:2000] for text in ours if "__launch_bounds__" not in text] == []


def test_the_compiler_can_refuse() -> None:
    with pytest.raises(AssertionError, match="absent"):
        compiled(['extern "C" __global__ void wrong(float* x) { x[0] = absent; }'], 90)


@pytest.mark.parametrize("dtype", ["float32", "tf32", "float16", "bfloat16", "float64"])
@pytest.mark.long
@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_attention_of_every_tiling_fits(architecture: int, dtype: str) -> None:
    """In the registers, and in the shared memory of the smallest GPUs with tensor cores for both 16-bit floats."""
    texts: list[str] = []
    kind = {"float32": "float", "tf32": "tf32", "float64": "double"}.get(dtype, "16-bit")
    dtype = dtype.replace("tf", "float")
    types = {"T": C_NAMES[dtype], "S": "double" if dtype == "float64" else "float"}
    for size in [size for of, size in TILINGS if of == kind]:
        for name, raw in ATTENTION.items():
            for shared in (99 << 10, 227 << 10):
                tiles = tiling(name, size, size, kind, shared)
                assert tiles is not None
                text = raw.typed(tiles._asdict(), {**types, "O": types["T"]})
                if text not in texts:
                    texts.append(text)
    found = compiled(texts, architecture)
    check_launches(found)
    # The compiler leaves some values without registers, so that a multiprocessor holds another block.
    assert all(kernel.stack <= 256 for kernel in found), found


@pytest.mark.parametrize(
    "dtype", ["float32", "tf32", "bfloat16", *[pytest.param(d, marks=pytest.mark.long) for d in ("float16", "float64")]]
)
@pytest.mark.parametrize(
    "architecture", [90, *[pytest.param(other, marks=pytest.mark.long) for other in (75, 80, 86, 89, 100, 120)]]
)
def test_convolution_of_every_tile_fits(architecture: int, dtype: str) -> None:
    """Two blocks in the registers and shared memory of a multiprocessor; GPUs without tensor cores have others.

    Whether a tile is of one image or goes on in the next takes turns in the short form.
    """
    texts, cores = list[str](), architecture >= 80 and dtype in ("tf32", "float16", "bfloat16")
    given = dtype_of(dtype.replace("tf", "float"))
    operand = convolution_launches.operand_type(given, cores)
    sums, names = "double" if given == float64 else "float", [C_NAMES[t.name] for t in (given, operand)]
    types = {"T": names[0], "M": names[1], "S": sums, "O": names[0]}
    constants = {"TENSOR_CORES": 32 // given.itemsize if cores else 0, "STAGES": 2 + (architecture in (90, 100))}
    for name, raw in (TILES | convolution.DIRECT | convolution_launches.OPERANDS).items():
        sizes_of = convolution_launches.tiles(name, given, cores) if name in TILES else [(64, 64)]
        for k, (rows, columns) in enumerate(sizes_of):
            for by_image in ((0, 1) if LONG else (k % 2,)) if name == "burnpy_conv" else (0,):
                sizes = {"ROWS": rows, "COLUMNS": columns, "BY_IMAGE": by_image, "HAS_BIAS": 1, "COUNT": 2, "WIDE": 1}
                sizes |= {"IN_LINE": 0, **convolution_launches.block_of((rows, columns), cores)}
                texts.append(raw.typed(constants | sizes, types))
    found = compiled(texts, architecture)
    check_launches(found)
    assert all(kernel.registers * kernel.block <= REGISTERS // 2 and kernel.stack <= 64 for kernel in found), found
