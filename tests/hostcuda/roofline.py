"""The share of a GPU's roofline that kernels can reach, from their shapes, registers and occupancy, without a GPU.

    python -m tests.hostcuda.roofline [float32 tf32 bfloat16]

It prints a line for each convolution of a ResNet-50, forward and backward, for its batch norms, and for attention. The
least time is the time of the useful floating-point operations at the peak, or of reading all arguments and writing all
results once, whichever is longer. The model adds what launches lose: tiles that reach beyond the result, channels that
do not fill a step, multiprocessors that get a block less than others, products that are computed again, arguments that
are read again from memory, the time between launches, and what ``mma.sync`` lacks to the peak. It knows no latency, and
of instructions only products: it is an upper bound. The blocks on a multiprocessor, which hide latency, are those whose
registers and shared memory, as NVRTC's code takes them, fit.

Sources: NVIDIA, H100 Tensor Core GPU Architecture; Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture via Microbenchmarking, 2024, for the rate of ``mma.sync``.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

from burnpy.backend.dtypes import dtype_of
from tests.hostcuda import simulator
from tests.hostcuda.nvrtc import Resources, compiled

MULTIPROCESSORS, ARCHITECTURE, BANDWIDTH, L2 = 132, 90, 3.35e12, 50 << 20
GAP = 1e-6
"""The seconds from the end of a launch to the next one that waits for it, in a graph."""
REGISTERS, SHARED, THREADS = 1 << 16, 227 << 10, 2048
"""The limits of a multiprocessor."""
PEAKS = {"float32": 67e12, "tf32": 494e12, "bfloat16": 989e12}
"""The floating-point operations in a second: of ordinary cores for float32, of tensor cores for the others."""
REACHED = {"float32": 1.0, "tf32": 0.63, "bfloat16": 0.63}
"""The share of the peak that the instructions reach."""
BATCH = 64
LAYERS = (
    *((3, 64, 7, 2, 224), (64, 64, 1, 1, 56), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (256, 128, 1, 1, 56)),
    *((128, 128, 3, 2, 56), (128, 128, 3, 1, 28), (512, 128, 1, 1, 28), (256, 256, 3, 1, 14), (1024, 256, 1, 1, 14)),
    *((256, 1024, 1, 1, 14), (512, 512, 3, 1, 7), (512, 2048, 1, 1, 7)),
)
"""Convolutions of a ResNet-50: channels, results, the side of the kernel, the stride, and the side of the image."""
NORMS = ((64, 112), (64, 56), (256, 56))
"""Its batch norms that are divided among blocks: channels, and the side of the image."""
HEADS = ((96, 1024, 64), (64, 2048, 128))
"""Attention with the causal limit: heads of the whole batch, queries and keys, and the size of a head."""


class Prepared(NamedTuple):
    """A launch: the source of its kernel, its blocks, the threads of a block, and its last argument."""

    source: str
    blocks: int
    threads: int
    rest: bytes
    shared: int = 0  #: the bytes of shared memory that are asked for at the launch


class Estimate(NamedTuple):
    """The times of an operation in seconds, and its first launch."""

    name: str
    blocks: int
    resident: int  #: blocks on a multiprocessor
    registers: int
    least: float
    modelled: float

    @property
    def share(self) -> float:
        """The share of the roofline."""
        return self.least / self.modelled


def prepared(module: Any, function: Any, *args: Any) -> list[Prepared]:
    """Return the launches that a function of a module prepares, which are not launched."""
    found: list[Prepared] = []

    def prepare(xp: Any, kernel: Any, grid: Any, block: Any, given: str, rest: bytes, shared: int = 0) -> None:
        found.append(Prepared(kernel.code, grid[0] * grid[1], block[0], rest, shared))

    with mock.patch.object(module, "launcher", prepare):
        function.__wrapped__(*args)
    return found


@cache
def resources(source: str) -> Resources:
    """Return what NVRTC's code of a kernel takes."""
    return compiled([source], ARCHITECTURE)[0]


def resident(launch: Prepared) -> int:
    """Return how many blocks a multiprocessor holds."""
    kernel = resources(launch.source)
    registers = launch.threads // 32 * -(-32 * kernel.registers // 256) * 256
    return min(REGISTERS // registers, SHARED // (kernel.shared + launch.shared + 1024), THREADS // launch.threads)


def filled(launch: Prepared) -> float:
    """Return the share of the time in which multiprocessors are busy, if each gets as many blocks as it can."""
    return launch.blocks / (MULTIPROCESSORS * -(-launch.blocks // MULTIPROCESSORS))


def products(launch: Prepared) -> float:
    """Return the floating-point operations of a convolution's tiles, those that are thrown away included."""
    from burnpy_cupy.kernels.convolution_tiles import SIZES

    if "void burnpy_conv_operands" in launch.source:
        return 0.0
    sizes = dict(zip(SIZES, struct.unpack(f"={len(SIZES)}q", launch.rest[-8 * len(SIZES) :]), strict=True))
    rows, columns = (int(re.findall(rf"#define {name} (\d+)", launch.source)[0]) for name in ("ROWS", "COLUMNS"))
    vector = 8 if "typedef bfloat16 M" in launch.source else 4
    phases = max(1, sizes["phases_y"] * sizes["phases_x"])  # among which taps are divided
    runs = int(re.findall(r"#define RUNS (\d+)", launch.source)[0])
    length: int = (
        sizes["part"] or -(-sizes["taps_y"] * sizes["taps_x"] * sizes["vectors"] // (runs * phases)) * runs * vector
    )
    return 2.0 * launch.blocks * rows * columns * length


def estimate(
    name: str,
    precision: str,
    launches: list[Prepared],
    done: list[float],
    useful: float,
    least_bytes: float,
    moved: float,
) -> Estimate:
    """Return the times of an operation of so many useful operations and bytes; the launches do and move more."""
    peak = PEAKS[precision]
    rates = [peak * REACHED[precision] * filled(each) for each in launches]
    computing = sum([flops / rate for flops, rate in zip(done, rates, strict=True)])
    busy = sum([filled(each) / len(launches) for each in launches])
    _, _, first = max(zip(done, [each.blocks for each in launches], launches, strict=True))
    least = max(useful / peak, least_bytes / BANDWIDTH)
    modelled = max(computing, moved / (BANDWIDTH * busy)) + GAP * (len(launches) - 1)
    return Estimate(name, first.blocks, resident(first), resources(first.source).registers, least, modelled)


def convolutions(device: Any, precision: str) -> Iterator[Estimate]:
    """Yield the estimates of the convolutions and of both gradients, also of those that cuBLAS multiplies."""
    from burnpy_cupy.kernels import convolution_launches as launches

    dtype, cores = dtype_of(precision.replace("tf", "float")), precision != "float32"
    for channels, results, kernel, stride, side in LAYERS:
        count, where = -(-side // stride), ((stride, stride), (kernel // 2, kernel // 2), (1, 1))
        weight, image, out = (
            launches.Layout(shape, tuple([math.prod(shape[d:]) for d in range(1, 5)]), True)
            for shape in (
                (results, channels, kernel, kernel),
                (BATCH, channels, side, side),
                (BATCH, results, count, count),
            )
        )
        common = False, dtype, dtype, cores
        problems: dict[str, tuple[Any, ...]] = {
            "forward": (launches.launches, weight, image, out.shape, where, 1, False, *common),
            "by input": (launches.launches, weight, out, image.shape, where, 1, True, *common),
            "by weight": (launches.weight_launches, out, image, weight.shape, where, 1, dtype, dtype, cores),
        }
        elements = [math.prod(each.shape) for each in (image, out, weight)]
        useful = 2.0 * math.prod(out.shape) * channels * kernel * kernel
        for problem, (function, *args) in problems.items():
            found = prepared(launches, function, device, *args)
            least = float(dtype.itemsize) * sum(elements)
            copied = dtype.itemsize * sum(
                {"forward": elements[:1], "by input": elements[1:2]}.get(problem, elements[:2])
            )
            name = f"{channels} to {results}, {kernel} × {kernel} / {stride}, {side} × {side}, {problem}"
            yield estimate(name, precision, found, [*map(products, found)], useful, least, least + 2 * copied)


def norms(device: Any, precision: str) -> Iterator[Estimate]:
    """Yield the estimates of batch norms and their gradients, which read twice what the L2 cache does not keep."""
    from burnpy_cupy.kernels import normalization

    dtype = dtype_of(precision.replace("tf", "float"))
    for channels, side in NORMS:
        shape = (BATCH, channels, side, side)
        size, rest = float(dtype.itemsize) * math.prod(shape), f"batch norm of {channels} channels, {side} × {side}"
        for problem, names, arrays in (("", ("_sums", ""), 2), (", backward", ("_gradient_sums", "_gradient"), 3)):
            kernels, inputs = tuple([f"burnpy_batch_norm{name}" for name in names]), arrays - 1
            chosen = shape, dtype, 4 * dtype.itemsize, kernels, ("", ""), arrays
            found = prepared(normalization, normalization._divided, device, *chosen)
            again = 0 if inputs * size < L2 / 2 else inputs
            nothing = [0.0] * len(found)
            yield estimate(rest + problem, precision, found, nothing, 0.0, arrays * size, (arrays + again) * size)


def _products(tiles: Any, heads: int, length: int, size: int, count: int) -> float:
    """Return the operations of a kernel's products, in tiles that reach beyond the causal limit."""
    rows = range(0, length, tiles.rows)
    scores = heads * sum([-(-min(n + tiles.rows, length) // tiles.COLUMNS) * tiles.COLUMNS for n in rows])
    return float(2.0 * scores * tiles.rows * size * (tiles.SLICES - 1 + count))


def attentions(device: Any, precision: str) -> Iterator[Estimate]:
    """Yield the estimates of attention and its gradient, in which five products are useful and seven computed."""
    from burnpy_cupy.kernels import attention

    dtype = dtype_of(precision.replace("tf", "float"))
    kind = {"float32": "float", "tf32": "tf32"}.get(precision, "16-bit")
    for heads, length, size in HEADS:
        array = (heads, length, size), (length * size * dtype.itemsize, size * dtype.itemsize, dtype.itemsize), dtype
        for problem, counts, arrays, useful in (("", (2,), 4, 2), (", backward", (3, 4), 8, 5)):
            names = attention.KERNELS[1:] if problem else attention.KERNELS[:1]
            tiles = tuple([attention.tiling(each, size, size, kind, SHARED - 1024) for each in names])
            name = f"attention of {heads} heads of {size}, {length} positions{problem}"
            found = prepared(attention, attention._launches, device, tiles, 0, (array,) * arrays)
            done = [_products(each, heads, length, size, count) for each, count in zip(tiles, counts, strict=True)]
            pairs, moved = heads * length * (length + 1) / 2, float(arrays * heads * length * size * dtype.itemsize)
            yield estimate(name, precision, found, done, 2.0 * pairs * size * useful, moved, moved)


PARTS: tuple[Callable[[Any, str], Iterator[Estimate]], ...] = (convolutions, norms, attentions)


def main(precisions: list[str]) -> None:
    """Print a table for each precision."""
    from burnpy.backend import CuPy

    for precision in precisions or PEAKS:
        print(
            f"\n| {precision}, batch {BATCH} | blocks | on a multiprocessor | registers | least µs | model µs | share |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for part in PARTS:
            for each in part(CuPy(), precision):
                times = f"{1e6 * each.least:.0f} | {1e6 * each.modelled:.0f} | {each.share:.0%}"
                print(f"| {each.name} | {each.blocks} | {each.resident} | {each.registers} | {times} |", flush=True)


if __name__ == "__main__":
    simulator.load()
    main(sys.argv[1:])
