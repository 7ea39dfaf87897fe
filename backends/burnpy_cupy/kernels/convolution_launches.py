"""Launches of convolutions by tiles, and of the copies that bring their operands to the order of the tiles.

In that order channels lie side by side, by vectors of 16 bytes. One launch copies all that a convolution needs: an
image and the weight in the order of its products, or two images. An operand that lies so, as an image whose channels
are last in memory, is read where it is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import Pair
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.attention_tiles import INSTRUCTIONS
from burnpy_cupy.kernels.convolution_tiles import SIZES
from burnpy_cupy.kernels.kernel import Raw
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.runtime import empty

if TYPE_CHECKING:
    from burnpy_cupy.kernels.convolution import CuPyConvolution

COPY = (
    *("operand", "from", "into", "block", "members", "groups", "height", "width", "channels", "vectors"),
    *("member", "group", "channel", "row", "column", "into_member", "into_group", "into_pixel"),
)
"""The members of a copy of a part of an operand to the order of the tiles.

operand: the first or the second pair of arrays, in which the part begins at the elements ``from`` and ``into``.
block: the first of its blocks.
members, groups, height, width, channels: the sizes of the part; in a weight, the members are its rows.
vectors: of the channels of a group, in which channels that are lacking are zeros.
member, group, channel, row, column: the strides of the source, in elements.
into_member, into_group, into_pixel: the strides of the result, whose channels are neighbours.
"""

_OPERANDS = f"""
#if TENSOR_CORES == 8
{INSTRUCTIONS}
#endif
struct Copy {{ long long {", ".join(COPY)}; }};
struct Copies {{ Copy each[COUNT]; }};
constexpr int THREADS = 256, SIDE = 64, VECTOR = 16 / sizeof(M), STEP = THREADS / SIDE;
constexpr int PITCH = SIDE + (sizeof(M) == 2 ? 2 : 1);  // so that neighbours of a column lie in different banks
struct __align__(16) Vector {{ M x[VECTOR]; }};

extern "C" __global__ __launch_bounds__(256) void burnpy_conv_operands(
  const T* first, M* into_first, const T* second, M* into_second, Copies copies) {{
  // A block reads SIDE channels of as many pixels along the pixels, and writes them along the channels.
  __shared__ M tile[SIDE * PITCH];
  int n = 0;
  while (n + 1 < COUNT && blockIdx.x >= copies.each[n + 1].block) n++;
  const Copy& c = copies.each[n];
  const unsigned height = c.height, width = c.width, pixels = c.members * height * width;
  const int padded = c.vectors * VECTOR, parts = (padded + SIDE - 1) / SIDE;
  const unsigned rest = (blockIdx.x - static_cast<unsigned>(c.block)) / parts;
  const int channel = (blockIdx.x - static_cast<unsigned>(c.block)) % parts * SIDE, group = rest % c.groups;
  const unsigned first_pixel = rest / static_cast<unsigned>(c.groups) * SIDE;
  {{
    const int line = threadIdx.x % SIDE, begin = threadIdx.x / SIDE;
    const unsigned pixel = first_pixel + line;
    const bool exists = pixel < pixels;
    const T* from = (c.operand ? second : first) + c.from + group * c.group + (channel + begin) * c.channel;
    if (exists) from += pixel / width / height * c.member + pixel / width % height * c.row + pixel % width * c.column;
    T read[SIDE / STEP];
    #pragma unroll
    for (int k = 0; k < SIDE / STEP; k++)
      read[k] = exists && channel + begin + k * STEP < c.channels ? from[k * STEP * c.channel] : T(0.0f);
    #pragma unroll
    for (int k = 0; k < SIDE / STEP; k++)
#if TENSOR_CORES == 8
      tile[line * PITCH + begin + k * STEP] = burnpy_rounded(read[k]);
#else
      tile[line * PITCH + begin + k * STEP] = M(read[k]);
#endif
  }}
  __syncthreads();
  M* const into = (c.operand ? into_second : into_first) + c.into + group * c.into_group + channel;
  #pragma unroll
  for (int k = threadIdx.x; k < SIDE * SIDE / VECTOR; k += THREADS) {{
    const int line = k / (SIDE / VECTOR), at = k % (SIDE / VECTOR) * VECTOR;
    const unsigned pixel = first_pixel + line, member = pixel / (height * width);
    if (pixel >= pixels || channel + at >= padded) continue;
    Vector v;
    #pragma unroll
    for (int e = 0; e < VECTOR; e++) v.x[e] = tile[line * PITCH + at + e];
    const long long place = member * c.into_member + (pixel - member * height * width) * c.into_pixel;
    *reinterpret_cast<Vector*>(into + place + at) = v;
  }}
}}
"""

OPERANDS = {"burnpy_conv_operands": Raw(_OPERANDS)}
"""The kernel that copies arrays of the type T to operands of the type M."""

Where = tuple[Pair, Pair, Pair]
"""Stride, padding and dilation."""
THREADS, _SIDE = 256, 64
"""The threads of a block of small kernels, and the channels and pixels that such a block copies."""
_MOST_COPIES = 24
"""The most copies of a launch, whose arguments have 4 KB."""
_PROCESSORS = 132
"""The multiprocessors among which blocks are divided evenly, those of an H100. Sums are divided alike on every GPU."""
_RATES = {(128, 128): 1.0, (64, 128): 0.85, (64, 64): 0.7, (16, 256): 0.35}
"""The tiles, and about how fast they are: the larger they are, the less they read."""
_RATE_ALONE = 0.7
"""About the rate of a multiprocessor with one block in place of two."""
_FEWEST_STAGES, _MOST_STAGES, _RESERVED = 3, 4, 3072
"""The stages for which three blocks share a multiprocessor, the most, and the bytes of shared memory beside them."""
_SHORTEST_SUM, _MOST_PARTS = 512, 256
"""The least number of pixels whose products a block adds up, and the most parts of such a sum."""
_SPEEDS = {16: 200e12, 8: 100e12, 0: 40e12}
"""About the floating-point operations in a second, by the constant ``TENSOR_CORES``."""
_PART_SECONDS, _ELEMENT_SECONDS = 5e-6, 5e-12
"""The seconds that adding up parts of sums takes, and those for each element of a part, which is written and read."""
_MOST_ELEMENTS = 1 << 30
"""The least number of elements of an operand for which offsets have 64 bits."""


class Layout(NamedTuple):
    """An array's shape, its strides in elements, and whether its memory begins at a multiple of 16 bytes."""

    shape: Shape
    strides: Shape
    aligned: bool


class Operand(NamedTuple):
    """An array as tiles read it: strides in elements, and the copies that bring it there, none if it lies there. The
    strides are those of members, groups, rows and columns. ``size`` is the number of elements of the copy."""

    strides: tuple[int, int, int, int]
    copies: tuple[dict[str, int], ...]
    size: int

    def is_dense(self, shape: Shape) -> bool:
        """Return whether the pixels of an image, and of all members, follow each other at one step."""
        member, _, row, column = self.strides
        return (row, member) == (shape[3] * column, shape[2] * shape[3] * column)

    def reach(self, shape: Shape) -> int:
        """Return a bound of the offsets in an image."""
        return sum([n * abs(step) for n, step in zip(shape, self.strides, strict=True)])


def layout(x: Any) -> Layout:
    """Return the layout of an array."""
    itemsize = x.dtype.itemsize
    return Layout(x.shape, tuple([step // itemsize for step in x.strides]), x.data.ptr % 16 == 0)


def vectors_of(channels: int, itemsize: int) -> int:
    """Return the vectors of this many channels."""
    return -(-channels * itemsize // 16)


def image_operand(given: Layout, groups: int, itemsize: int, is_converted: bool) -> Operand:
    """Return an image, or a gradient, as an operand whose numbers have ``itemsize`` bytes."""
    (n, c, height, width), (member, channel, row, column) = given.shape, given.strides
    vector, each = 16 // itemsize, c // groups
    steps = [step for count, step in ((n, member), (height, row), (width, column)) if count > 1]
    if groups > 1:
        steps.append(each)
    is_last = given.aligned and 1 in (c, channel) and not any(step % vector for step in steps)
    if is_last and not is_converted:
        return Operand((member, each, row, column), (), 0)
    vectors = vectors_of(each, itemsize)
    pixel = groups * vectors * vector
    into = {"into_member": height * width * pixel, "into_group": vectors * vector, "into_pixel": pixel}
    sizes = {"members": n, "groups": groups, "height": height, "width": width, "channels": each, "vectors": vectors}
    source = {"member": member, "group": each * channel, "channel": channel, "row": row, "column": column}
    return Operand(
        (height * width * pixel, vectors * vector, width * pixel, pixel),
        (sizes | source | into,),
        n * height * width * pixel,
    )


def weight_operand(
    given: Layout,
    groups: int,
    itemsize: int,
    is_converted: bool,
    taps: Sequence[tuple[range, range]],
    *,
    by_image: bool,
) -> tuple[Operand, int]:
    """Return a weight as the operand of rows, by group and phase, and the vectors of a row. ``taps`` are those of each
    phase along y and x. Rows are channels if ``by_image``, and outputs if not."""
    (outputs, each, *window), (first, second, row, column) = given.shape, given.strides
    vector, of_group = 16 // itemsize, outputs // groups
    rows, channels = (each, of_group) if by_image else (of_group, each)
    steps = (second, first) if by_image else (first, second)
    vectors = vectors_of(channels, itemsize)
    length, phases = max([len(y) * len(x) for y, x in taps]) * vectors, len(taps)
    dense = (math.prod(window) * each, 1, window[1] * each, each)
    is_dense = all(step == want for step, want, n in zip(given.strides, dense, given.shape, strict=True) if n > 1)
    if not by_image and not is_converted and given.aligned and channels % vector == 0 and is_dense:
        return Operand((0, 0, 0, 0), (), 0), length
    common = {"members": rows, "groups": groups, "channels": channels, "vectors": vectors, "channel": steps[1]}
    common |= {"member": steps[0], "group": of_group * first, "into_group": phases * rows * length * vector}
    common |= {"into_member": length * vector, "into_pixel": vectors * vector}
    copies = list[dict[str, int]]()
    for phase, (y, x) in enumerate(taps):
        part = {"height": len(y), "width": len(x), "row": y.step * row, "column": x.step * column}
        part |= {"from": y.start * row + x.start * column, "into": phase * rows * length * vector}
        if y and x:
            copies.append(common | part)
    return Operand((0, 0, 0, 0), tuple(copies), groups * phases * rows * length * vector), length


def copying(
    b: CuPyConvolution, operands: tuple[Operand, Operand], cores: bool, dtype: DType, into: DType
) -> tuple[Launch, ...]:
    """Return the launches that copy two operands from arrays of ``dtype``."""
    constants = {"TENSOR_CORES": 32 // into.itemsize if cores else 0}
    parts = [part | {"operand": number} for number, operand in enumerate(operands) for part in operand.copies]
    found = []
    for k in range(0, len(parts), _MOST_COPIES):
        together, blocks, rest = parts[k : k + _MOST_COPIES], 0, b""
        for part in together:
            pixels = part["members"] * part["height"] * part["width"]
            rest += struct.pack(f"={len(COPY)}q", *[(part | {"block": blocks}).get(name, 0) for name in COPY])
            padded = part["vectors"] * (16 // into.itemsize)
            blocks += -(-pixels // _SIDE) * part["groups"] * -(-padded // _SIDE)
        if blocks:
            kernel = b._kernels.typed("burnpy_conv_operands", constants | {"COUNT": len(together)}, T=dtype, M=into)
            found.append(launcher(b.xp, kernel, (blocks, 1), (256, 1), "4Q", rest))
    return tuple(found)


class Launches(NamedTuple):
    """The launches of a convolution, and the arrays that they need."""

    copies: tuple[Launch, ...]  #: of both operands to the order of the tiles
    sizes: tuple[int, int]  #: the elements of the copies; 0 where an operand lies in that order
    operand: DType  #: of the copies
    launch: Launch
    splits: int = 1  #: the parts of each sum, which are added last

    def run(self, b: CuPyConvolution, first: Any, second: Any, *others: int) -> None:
        """Launch, with the addresses that follow those of the operands."""
        at = [first.data.ptr, second.data.ptr]
        if self.copies:
            copied = empty(b.xp, (sum(self.sizes),), self.operand)
            into = copied.data.ptr, copied.data.ptr + self.sizes[0] * self.operand.itemsize
            for copy in self.copies:
                copy(at[0], into[0], at[1], into[1])
            at = [there if size else here for here, there, size in zip(at, into, self.sizes, strict=True)]
        self.launch(*at, *others)


def _taps(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[range]:
    """Return the taps of the elements of a dimension in its gradient, for each remainder of their positions."""
    apart, found = stride // math.gcd(stride, dilation), list[range]()
    for phase in range(min(stride, size)):
        first = [r for r in range(min(apart, kernel)) if (phase + padding - r * dilation) % stride == 0]
        found.append(range(first[0], kernel, apart) if first else range(0))
    return found


@lru_cache(2048)
def launches(
    b: CuPyConvolution,
    of_weight: Layout,
    of_image: Layout,
    shape: Shape,
    where: Where,
    groups: int,
    by_image: bool,
    has_bias: bool,
    dtype: DType,
    out_dtype: DType,
    cores: bool,
) -> Launches:
    """Return the launches of a convolution or of the gradient of its image, whose result has the given shape."""
    operand, kernel = operand_type(dtype, cores), of_weight.shape[2:]
    is_converted = operand is not dtype or (cores and dtype.itemsize == 4)
    taps, apart = [[range(count)] for count in kernel], [1, 1]
    if by_image:
        taps = [_taps(*each) for each in zip(shape[2:], kernel, *where, strict=True)]
        apart = [stride // math.gcd(stride, dilation) for stride, _, dilation in zip(*where, strict=True)]
    size, gathered = operand.itemsize, image_operand(of_image, groups, operand.itemsize, is_converted)
    phases = [(y, x) for y in taps[0] for x in taps[1]]
    rows_of, length = weight_operand(of_weight, groups, size, is_converted, phases, by_image=by_image)
    rows, channels = shape[1] // groups, of_image.shape[1] // groups
    # The first phase has the most pixels.
    counts = [-(-n // stride) for n, stride in zip(shape[2:], where[0], strict=True)] if by_image else shape[2:]
    pixels = shape[0] * math.prod(counts)
    tile = _tile(rows, pixels * len(phases), groups, dtype, cores)
    sizes = window_sizes(where, kernel, of_image.shape, groups, gathered, size)
    sizes |= {"rows": rows, "channels": channels, "length": length, "apart_y": apart[0], "apart_x": apart[1]}
    sizes |= {"phases_y": len(taps[0]), "phases_x": len(taps[1]), "out_member": math.prod(shape[1:])}
    count = -(-rows // tile[0]) * -(-pixels // tile[1]) * len(phases)
    sizes |= {"members": shape[0], "high": shape[2], "wide": shape[3], "tiles": count}
    reach = max(gathered.reach(of_image.shape), rows * length * (16 // size))
    constants = {"BY_IMAGE": int(by_image), "HAS_BIAS": int(has_bias), "WIDE": int(reach >= _MOST_ELEMENTS)}
    blocks = count * groups, 1
    stage = sum(tile) * block_of(tile, cores)["RUNS"] * (16 // size)
    launch = _prepared(b, "burnpy_conv", cores, tile, constants, stage, blocks, "4Q", sizes, operand, out_dtype)
    copies = copying(b, (rows_of, gathered), cores, dtype, operand)
    return Launches(copies, (rows_of.size, gathered.size), operand, launch)


@lru_cache(1024)
def weight_launches(
    b: CuPyConvolution,
    of_grad: Layout,
    of_image: Layout,
    shape: Shape,
    where: Where,
    groups: int,
    dtype: DType,
    out_dtype: DType,
    cores: bool,
) -> Launches:
    """Return the launches of the gradient of the weight."""
    operand = operand_type(dtype, cores)
    size, is_converted = operand.itemsize, operand is not dtype or (cores and dtype.itemsize == 4)
    grad, gathered = (image_operand(each, groups, size, is_converted) for each in (of_grad, of_image))
    if not grad.is_dense(of_grad.shape):  # as views of larger images
        grad = image_operand(of_grad, groups, size, is_converted=True)
    members, _, high, wide = of_grad.shape
    rows, channels, vector, pixels = shape[0] // groups, shape[1], 16 // size, members * high * wide
    columns = math.prod(shape[2:]) * vectors_of(channels, size) * vector
    tile = _weight_tile(rows, columns, dtype, cores)
    count, depth = -(-rows // tile[0]) * -(-columns // tile[1]), block_of(tile, cores)["RUNS"] * vector
    work = 2.0 * pixels * tile[0] * tile[1] / _SPEEDS[32 // size if cores else 0]
    part = -(-pixels // (_parts(count * groups, pixels, work, math.prod(shape)) * depth)) * depth
    splits = -(-pixels // part)
    sizes = window_sizes(where, shape[2:], of_image.shape, groups, gathered, size)
    sizes |= {"rows": rows, "channels": channels, "members": members, "high": high, "wide": wide}
    sizes |= {"grad_group": grad.strides[1], "grad_column": grad.strides[3], "tiles": count, "part": part}
    into = out_dtype if splits == 1 or out_dtype.itemsize > 2 else float32
    stage = depth * (sum(tile) + 2 * (2 if size == 8 else 8))
    blocks = count * groups, splits
    reach = max(grad.reach(of_grad.shape), gathered.reach(of_image.shape))
    in_line = gathered.is_dense(of_image.shape) and shape[2:] == (1, 1) and where[:2] == ((1, 1), (0, 0))
    constants = {"WIDE": int(reach >= _MOST_ELEMENTS), "IN_LINE": int(in_line)}
    launch = _prepared(b, "burnpy_conv_weight", cores, tile, constants, stage, blocks, "3Q", sizes, operand, into)
    copies = copying(b, (grad, gathered), cores, dtype, operand)
    return Launches(copies, (grad.size, gathered.size), operand, launch, splits)


def operand_type(dtype: DType, cores: bool) -> DType:
    """Return the dtype of operands in tiles: ordinary cores multiply 16-bit floats as float32."""
    return dtype if cores or dtype.itemsize > 2 else float32


def tiles(name: str, dtype: DType, cores: bool) -> list[tuple[int, int]]:
    """Return the rows and columns of a kernel's tiles; float64 has no registers for the largest."""
    found = [tile for tile in _RATES if cores or dtype.itemsize < 8 or tile != (128, 128)]
    return found if name == "burnpy_conv" else [tile for tile in found if tile[0] >= 64]


def block_of(tile: tuple[int, int], cores: bool) -> dict[str, int]:
    """Return a block's warps, the vectors of a row of tiles, and the blocks for which a multiprocessor has registers.
    Fewer warps, each with more of a tile, read less from shared memory, and count places for more products."""
    if not cores:
        return {"WARPS": 8, "RUNS": 4, "BLOCKS": 2}
    return {"WARPS": 4, "RUNS": 8, "BLOCKS": 2 if sum(tile) > 192 else 3}


def _tile(rows: int, pixels: int, groups: int, dtype: DType, cores: bool) -> tuple[int, int]:
    """Return the tile of a convolution that takes the least time."""

    def time(tile: tuple[int, int]) -> float:
        blocks = groups * -(-rows // tile[0]) * -(-pixels // tile[1])
        return _shares(blocks) * tile[0] * tile[1] / _RATES[tile]

    return min(tiles("burnpy_conv", dtype, cores), key=time)


def _shares(blocks: int) -> float:
    """Return the blocks of the busiest multiprocessor, by the time that they take."""
    return max(-(-blocks // _PROCESSORS), 1 / _RATE_ALONE)


def _weight_tile(rows: int, columns: int, dtype: DType, cores: bool) -> tuple[int, int]:
    """Return the tile of a weight's gradient, whose sums are divided into as many parts as there is room for."""

    def time(tile: tuple[int, int]) -> float:
        return -(-rows // tile[0]) * -(-columns // tile[1]) * tile[0] * tile[1] / _RATES[tile]

    return min(tiles("burnpy_conv_weight", dtype, cores), key=time)


def _parts(tiles: int, pixels: int, work: float, results: int) -> int:
    """Return in how many parts to add up products of all pixels. ``work`` is the seconds that all multiprocessors need
    for a tile, ``results`` the number of elements of a part."""

    def time(parts: int) -> float:
        computing = work * _PROCESSORS * _shares(tiles * parts) / parts
        return computing + (_PART_SECONDS + parts * results * _ELEMENT_SECONDS if parts > 1 else 0.0)

    return min(range(1, max(1, min(_MOST_PARTS, pixels // _SHORTEST_SUM)) + 1), key=time)


def window_sizes(
    where: Where, kernel: Sequence[int], shape: Shape, groups: int, given: Operand, itemsize: int
) -> dict[str, int]:
    """Return the sizes of the window and of the image of a given shape."""
    found = dict(zip(("image_member", "image_group", "image_row", "image_column"), given.strides, strict=True))
    for name, pair in zip(("taps", "stride", "padding", "tap"), (kernel, *where), strict=True):
        found |= {f"{name}_y": pair[0], f"{name}_x": pair[1]}
    vectors = vectors_of(shape[1] // groups, itemsize)
    return found | {"height": shape[2], "width": shape[3], "vectors": vectors}


def packed_sizes(sizes: dict[str, int]) -> bytes:
    """Return the structure `Geometry` of the kernels."""
    return struct.pack(f"={len(SIZES)}q", *[sizes.get(name, 0) for name in SIZES])


def _prepared(
    b: CuPyConvolution,
    name: str,
    cores: bool,
    tile: tuple[int, int],
    constants: dict[str, int],
    stage: int,
    blocks: tuple[int, int],
    given: str,
    sizes: dict[str, int],
    operand: DType,
    out_dtype: DType,
) -> Launch:
    """Return the launch of tiles whose operands of a step have ``stage`` elements."""
    step, block = stage * operand.itemsize, block_of(tile, cores)
    if (b._limits[1] // block["BLOCKS"] - _RESERVED) // step < _FEWEST_STAGES:
        block["BLOCKS"] = 2
    stages = max(2, min(_MOST_STAGES, (b._limits[1] // block["BLOCKS"] - _RESERVED) // step))
    constants |= {"TENSOR_CORES": 32 // operand.itemsize if cores else 0, "ROWS": tile[0], "COLUMNS": tile[1]}
    sums = float32 if operand.itemsize == 2 else operand
    types = {"M": operand, "S": sums, "O": out_dtype}
    kernel = b._kernels.typed(name, constants | block | {"STAGES": stages}, stages * step, **types)
    return launcher(b.xp, kernel, blocks, (32 * block["WARPS"], 1), given, packed_sizes(sizes), stages * step)
