"""Products of matrices, convolutions, and pools in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from burnpy.interop.onnx.operators.elementwise import activation as activated
from burnpy.interop.onnx.operators.shapes import pad
from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    Conditional,
    GraphWriter,
    Ints,
    Operand,
    Value,
    cast,
    common_dtype,
    like,
    only,
    operator,
    tensor,
)
from burnpy.nn import functional
from burnpy.tensor.einsum import einsum as sum_of_products
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import IntTensor, Tensor

Sizes = tuple[int, ...] | None


@operator("Einsum")
def einsum(*xs: Value, equation: str) -> Value:
    """Return the sum of products of an equation."""
    return sum_of_products(equation, *xs)


@operator("Linear")
def linear(x: Value, weight: Value, bias: Value) -> Value:
    """Return x @ weight + bias: no operator of ONNX, but how `burnpy.interop.onnx.patterns` joins two."""
    return functional.linear(x, weight, bias)


class GemmSettings(TypedDict, total=False):
    """The attributes of Gemm."""

    alpha: float
    beta: float
    broadcast: int
    trans_a: int
    trans_b: int


@operator("Gemm")
def gemm(a: Value, b: Value, c: Value = None, **settings: Unpack[GemmSettings]) -> Value:
    """Return alpha · a @ b + beta · c, of matrices that may be transposed."""
    out = (a.T if settings.get("trans_a") else a) @ (b.T if settings.get("trans_b") else b)
    number: Any = int if isinstance(out, IntTensor) else float
    alpha, beta = number(settings.get("alpha", 1.0)), number(settings.get("beta", 1.0))
    out = out if alpha == 1.0 else out * alpha
    return out if c is None else out + (c if beta == 1.0 else c * beta)


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    trans_a: int = 0,
    trans_b: int = 0,
    trans_batch_a: int = 0,
    trans_batch_b: int = 0,
) -> Value:
    """Return alpha · a @ b of operands that may be transposed; rows may be a batch's first dimension."""
    parts = []
    for x, turned, batch in ((a, trans_a, trans_batch_a), (b, trans_b, trans_batch_b)):
        whole = x.movedim(0, -2) if batch else x
        parts.append(whole.mT if turned and whole.ndim > 1 else whole)
    out = parts[0] @ parts[1]
    return out if alpha == 1.0 else out * alpha


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **settings: Unpack[GemmSettings],
) -> Value:
    """Return an activation of a Gemm."""
    out = gemm(a, b, c, **settings)
    return out if activation is None else activated(out, kind=activation, alpha=activation_alpha, beta=activation_beta)


class WindowSettings(TypedDict, total=False):
    """The attributes of windows."""

    auto_pad: Literal["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
    dilations: Sizes
    kernel_shape: Sizes
    pads: Sizes
    strides: Sizes


class ConvSettings(WindowSettings, total=False):
    """The attributes of a convolution."""

    group: int


class PoolSettings(WindowSettings, total=False):
    """The attributes of a pool."""

    ceil_mode: int
    count_include_pad: int


class Windows:
    """The windows of a convolution or pool over the dimensions after the first two."""

    def __init__(self, x: Value, kernel: Sizes = None, **settings: Unpack[WindowSettings]) -> None:
        self.kernel = tuple(kernel or settings.get("kernel_shape") or ())
        n, auto_pad = len(self.kernel), settings.get("auto_pad", "NOTSET")
        self.stride = np.array(settings.get("strides") or (1,) * n)
        self.dilation = np.array(settings.get("dilations") or (1,) * n)
        self.spans = self.dilation * (np.array(self.kernel) - 1) + 1
        pads = settings.get("pads") if auto_pad == "NOTSET" else None
        self.low, self.high = np.array(pads or (0,) * 2 * n).reshape(2, n)
        if auto_pad.startswith("SAME"):
            sizes = np.array(x.shape[2:])
            total = np.maximum((-(-sizes // self.stride) - 1) * self.stride + self.spans - sizes, 0)
            halves = total // 2, total - total // 2
            self.low, self.high = halves[::-1] if auto_pad == "SAME_LOWER" else halves

    @property
    def halves(self) -> bool:
        """True if padding is the same on both sides and at most half of the windows, as `max_pool2d` takes it."""
        inside = (self.low >= 0) & (2 * self.low <= self.kernel)
        return bool((inside & (self.low == self.high)).all())

    def counts(self, sizes: Sequence[int], ceil_mode: bool = False) -> Any:
        """Return the number of windows along each dimension; with ``ceil_mode`` the last one may end beyond padding."""
        whole = sizes + self.low + self.high - self.spans
        if not ceil_mode:
            return whole // self.stride + 1
        counts = -(-whole // self.stride) + 1
        return counts - ((counts - 1) * self.stride >= sizes + self.low)  # less windows that begin in the padding

    def cut(self, sizes: Sequence[int]) -> None:
        """Leave out what windows have beyond images and their padding, where one window is larger than these."""
        most = (np.array(sizes) + self.low + self.high - 1) // self.dilation + 1
        self.kernel = tuple(np.minimum(self.kernel, most).tolist())
        self.spans = self.dilation * (np.array(self.kernel) - 1) + 1

    def fitted(self, x: Value, counts: Any, value: float = 0.0) -> Value:
        """Return x padded or cut to the size that the windows cover."""
        return padded(x, self.low, (counts - 1) * self.stride + self.spans - x.shape[2:] - self.low, value)

    def sums(self, x: Value, counts: Any) -> Value:
        """Return the sums of windows, whose elements may be apart."""
        ones = like(x, (x.shape[1], 1, *self.kernel), 1.0)
        return self.call("conv", self.fitted(x, counts), ones, groups=x.shape[1])

    def around(self) -> tuple[Any, Any, Any, Any]:
        """Return stride, the sizes of padding before and after, and dilation."""
        return self.stride, self.low, self.high, self.dilation

    def one(self, sizes: Any) -> Any:
        """Return sizes as functions take them."""
        return int(sizes[0]) if len(sizes) == 1 else tuple([int(size) for size in sizes])

    def call(self, name: str, *args: Any, **settings: Any) -> Any:
        """Call a function of `burnpy.nn.functional` with these windows; it has a name for each number of dimensions."""
        f = getattr(functional, f"{name}{len(self.kernel)}d")
        return f(*args, stride=self.one(self.stride), dilation=self.one(self.dilation), **settings)


def padded(x: Value, low: Any, high: Any, value: float = 0.0) -> Value:
    """Return images padded by numbers before and after them, or cut for negative ones."""
    return pad(x, tuple(np.concatenate([low, high]).tolist()), value, tuple(range(2, x.ndim)))


@operator("Conv")
def conv(x: Value, weight: Value, bias: Value = None, *, group: int = 1, **windows: Unpack[WindowSettings]) -> Value:
    """Convolve."""
    w = Windows(x, weight.shape[2:], **windows)
    if (w.low == w.high).all():
        return w.call("conv", x, weight, bias, padding=w.one(w.low), groups=group)
    return w.call("conv", padded(x, w.low, w.high), weight, bias, groups=group)


@operator("CausalConvWithState")
def causal_conv(x: Value, weight: Value, bias: Value = None, past: Value = None, *, activation: str = "none") -> Any:
    """Convolve each channel with its last elements, and return those for the next call as well."""
    size = weight.shape[2] - 1
    before = like(x, (x.shape[0], x.shape[1], size), 0.0) if past is None else past
    whole = cat([before, x], dim=2)
    out = functional.conv1d(whole, weight, bias, groups=x.shape[1])
    out = out if activation == "none" else cast(cast(out, "float32").silu(), x.dtype)
    return out, whole.narrow(2, whole.shape[2] - size, size)


@operator("ConvTranspose")
def conv_transpose(
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    group: int = 1,
    output_padding: Sizes = None,
    output_shape: Sizes = None,
    **windows: Unpack[WindowSettings],
) -> Value:
    """Convolve transposed: the result is cut by the pads, or to a shape."""
    n, auto_pad = x.ndim - 2, windows.pop("auto_pad", "NOTSET")
    w = Windows(x, weight.shape[2:], **windows)
    low, high, sizes, extra = w.low, w.high, np.array(x.shape[2:]), np.array(output_padding or (0,) * n)
    if output_shape is not None or auto_pad.startswith("SAME"):
        target = sizes * w.stride if output_shape is None else np.array(output_shape[-n:])
        cut = w.stride * (sizes - 1) + extra + w.spans - target
        low = np.maximum(cut // 2 if auto_pad == "SAME_UPPER" else cut - cut // 2, 0)
        high = cut - low
    out = padded(w.call("conv_transpose", x, weight, None, groups=group), -low, extra - high)
    return out if bias is None else out + bias.reshape(1, -1, *(1,) * n)


@operator("MaxPool")
def max_pool(
    x: Value, *, ceil_mode: int = 0, storage_order: int = 0, outputs: int = 1, **windows: Unpack[WindowSettings]
) -> Any:
    """Return the maxima of windows, and the places of the maxima in the whole tensor."""
    w = Windows(x, **windows)
    n = len(w.kernel)
    floats = x if isinstance(x, Tensor) else cast(x, "float64")
    counts = w.counts(x.shape[2:], bool(ceil_mode))
    w.cut(x.shape[2:])
    if outputs == 1 and w.halves and (counts == w.counts(x.shape[2:])).all():
        return cast(w.call("max_pool", floats, w.one(w.kernel), padding=w.one(w.low)), x.dtype)
    whole = w.fitted(floats, counts, -math.inf)
    if outputs == 1:
        return cast(w.call("max_pool", whole, w.one(w.kernel)), x.dtype)
    out, index = w.call("max_pool", whole, w.one(w.kernel), return_indices=True)
    padded_sizes, sizes = whole.shape[2:], x.shape[2:]
    places = np.zeros(padded_sizes, np.int64)
    for d in range(n):
        along = np.clip(np.arange(padded_sizes[d]) - w.low[d], 0, sizes[d] - 1)
        later = [*range(d + 1, n)] if not storage_order else [*range(d)]
        places = places + (along * math.prod(sizes[k] for k in later)).reshape([-1 if k == d else 1 for k in range(n)])
    local = tensor(places.reshape(-1), x.device).index_select(0, index.reshape(-1)).reshape(*index.shape)
    planes = tensor(np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *(1,) * n), x.device)
    return cast(out, x.dtype), local + planes * math.prod(sizes)


@operator("AveragePool")
def average_pool(
    x: Value, *, ceil_mode: int = 0, count_include_pad: int = 0, **windows: Unpack[WindowSettings]
) -> Value:
    """Return the means of windows, of their elements in x or in x and its padding."""
    w = Windows(x, **windows)
    counts = w.counts(x.shape[2:], bool(ceil_mode))
    w.cut(x.shape[2:])
    counted, inner = like(x, (1, 1, *x.shape[2:]), 1.0), w
    if count_include_pad:
        counted = padded(counted, w.low, w.high, 1.0)
        inner = Windows(counted, w.kernel, strides=(*w.stride,), dilations=(*w.dilation,))
    return w.sums(x, counts) / inner.sums(counted, counts)


@operator("LpPool")
def lp_pool(x: Value, *, ceil_mode: int = 0, p: int = 2, **windows: Unpack[WindowSettings]) -> Value:
    """Return the p-norms of windows."""
    w = Windows(x, **windows)
    counts = w.counts(x.shape[2:], bool(ceil_mode))
    w.cut(x.shape[2:])
    return w.sums(x.abs() ** p, counts) ** (1.0 / p)


@operator("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def global_pool(x: Value, *, kind: str, p: int = 2) -> Value:
    """Return the mean, the p-norm or the maximum of each channel."""
    dims = tuple(range(2, x.ndim))
    if kind == "GlobalLpPool":
        return (x.abs() ** p).sum(dim=dims, keepdim=True) ** (1.0 / p)
    return x.mean(dim=dims, keepdim=True) if kind == "GlobalAveragePool" else x.amax(dims, True)


@operator("MaxUnpool")
def max_unpool(x: Value, index: Value, shape: Ints | None = None, **windows: Unpack[WindowSettings]) -> Value:
    """Put elements at the places that `max_pool` gave, and zeros elsewhere."""
    w = Windows(x, **windows)
    sizes = (np.array(x.shape[2:]) - 1) * w.stride - w.low - w.high + w.kernel
    target = [*x.shape[:2], *sizes.tolist()]
    asked = target if shape is None else list(shape)
    flat = cast(index, "int64").reshape(-1)
    if asked != target:
        places = np.arange(math.prod(target)).reshape(target)
        grown = np.ravel_multi_index(np.unravel_index(places.reshape(-1), target), asked)
        flat = tensor(grown, x.device).index_select(0, flat)
    out = like(x, (math.prod(asked),), 0).scatter(0, flat, x.reshape(-1))
    return out.reshape(*asked)


@operator("Col2Im")
def col2im(x: Value, image: Ints, block: Ints, **windows: Unpack[WindowSettings]) -> Value:
    """Sum blocks into an image of any number of dimensions."""
    n, w = len(image), Windows(x, block, **windows)
    whole = (image + w.low + w.high).tolist()
    counts = w.counts(image)
    places = np.zeros((*block, *counts), np.int64)
    for d in range(n):
        taps = np.arange(block[d]).reshape(-1, 1) * w.dilation[d] + np.arange(counts[d]) * w.stride[d]
        sizes = [1] * (2 * n)
        sizes[d], sizes[n + d] = taps.shape
        places = places * whole[d] + taps.reshape(sizes)
    channels = x.shape[1] // math.prod(block)
    columns = x.reshape(x.shape[0], channels, places.size)
    index = tensor(places.reshape(-1), x.device)
    out = like(x, (x.shape[0], channels, math.prod(whole)), 0).index_add(2, index, columns)
    out = out.reshape(x.shape[0], channels, *whole)
    return out[(slice(None), slice(None), *[slice(w.low[d], w.low[d] + image[d]) for d in range(n)])]


@operator("DeformConv")
def deform_conv(
    x: Value,
    weight: Value,
    offset: Value,
    bias: Value = None,
    mask: Value = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    **windows: Unpack[WindowSettings],
) -> Value:
    """Convolve at places moved by offsets, with interpolation."""
    w = Windows(x, weight.shape[2:], **windows)
    n, c, height, width = x.shape
    kh, kw = w.kernel
    oh, ow = offset.shape[2:]
    rows = (
        np.arange(oh).reshape(1, 1, oh, 1) * w.stride[0] - w.low[0] + np.arange(kh).reshape(kh, 1, 1, 1) * w.dilation[0]
    )
    columns = (
        np.arange(ow).reshape(1, 1, 1, ow) * w.stride[1] - w.low[1] + np.arange(kw).reshape(1, kw, 1, 1) * w.dilation[1]
    )
    moved = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
    y = moved[:, :, :, :, 0] + tensor(np.broadcast_to(rows, (kh, kw, oh, ow)).astype(x.dtype), x.device)
    z = moved[:, :, :, :, 1] + tensor(np.broadcast_to(columns, (kh, kw, oh, ow)).astype(x.dtype), x.device)
    grid = stack([z * (2.0 / max(width - 1, 1)) - 1.0, y * (2.0 / max(height - 1, 1)) - 1.0], dim=-1)
    grid = grid.reshape(n * offset_group, kh * kw * oh, ow, 2)
    parts = x.reshape(n * offset_group, c // offset_group, height, width)
    taken = functional.grid_sample(parts, grid, align_corners=True).reshape(
        n, offset_group, c // offset_group, kh, kw, oh, ow
    )
    if mask is not None:
        taken = taken * mask.reshape(n, offset_group, 1, kh, kw, oh, ow)
    out_channels = weight.shape[0]
    taken = taken.reshape(n, group, c // group * kh * kw, oh * ow)
    out = (weight.reshape(group, out_channels // group, -1) @ taken).reshape(n, out_channels, oh, ow)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Value,
    weight: Value,
    bias: Value = None,
    z: Value = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] = (),
    **settings: Unpack[ConvSettings],
) -> Value:
    """Return a convolution, or its sum with z, and an activation of it."""
    out = conv(x, weight, bias, **settings)
    total = out if z is None else out + z
    alpha, beta = (*activation_params, None, None)[:2]
    return total if activation is None else activated(total, kind=activation, alpha=alpha, beta=beta)


def write_matmul(g: GraphWriter, x: Operand, y: Operand) -> Any:
    """Write a product of operands of one dtype."""
    dtype = common_dtype(x, y)
    return g.node("MatMul", g.cast(x, dtype), g.cast(y, dtype))


write_det = Conditional("Det")


def _attributes(stride: Any, padding: Any, dilation: Any = None, **others: Any) -> dict[str, Any]:
    """Return the attributes of windows with the same padding on both sides."""
    dilations = {} if dilation is None else {"dilations": list(dilation)}
    return {"strides": list(stride), "pads": [*padding, *padding], **dilations, **others}


def write_convolution(g: GraphWriter, x: Operand, weight: Operand, *rest: Any) -> Any:
    """Write a Conv with or without a bias."""
    *bias, stride, padding, dilation, groups = rest
    return g.node("Conv", x, weight, *bias, **_attributes(stride, padding, dilation, group=groups))


def write_transposed_convolution(
    g: GraphWriter, grad: Operand, weight: Operand, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Write a ConvTranspose, with as much padding of the output as the shape has."""
    extra = [
        g.each(
            lambda out, size, k=weight.shape[2 + d], s=stride[d], p=padding[d], e=dilation[d]: (
                out - ((size - 1) * s - 2 * p + e * (k - 1) + 1)
            ),
            shape[2 + d],
            grad.shape[2 + d],
        )
        for d in range(len(stride))
    ]
    settings = _attributes(stride, padding, dilation, group=groups, output_padding=extra)
    return g.node("ConvTranspose", grad, weight, **settings)


def write_max_pool(
    g: GraphWriter, x: Operand, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    """Write a MaxPool."""
    settings = _attributes(stride, padding, dilation, ceil_mode=int(ceil_mode))
    return g.node("MaxPool", x, kernel_shape=list(kernel), **settings)


@only(when=lambda *args: args[6] is None)
def write_avg_pool(
    g: GraphWriter, x: Operand, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, inside: bool, *rest: Any
) -> Any:
    """Write an AveragePool."""
    settings = _attributes(stride, padding, ceil_mode=int(ceil_mode), count_include_pad=int(inside))
    return g.node("AveragePool", x, kernel_shape=list(kernel), **settings)


write_mean_of_planes = Conditional(
    lambda g, x, size: g.node("ReduceMean", x, g.sizes((2, 3)), keepdims=1), when=lambda x, size: size == (1, 1)
)
