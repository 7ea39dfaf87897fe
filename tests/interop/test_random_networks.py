"""Random networks of any image size: a file is right for all sizes that the network takes, or export refuses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError, ExportError
from burnpy.interop import onnx
from burnpy.nn import Conv2d, ConvTranspose2d, MultiHeadAttention, functional
from tests.interrupting import LONG

pytestmark = [pytest.mark.heavy("onnx", "onnxruntime"), pytest.mark.slowest]

Step = Callable[[list[Any]], Any]
"""A function of the results of the steps before it."""

CHANNELS = 4
SIZES = ((1, 5), (2, 3), (3, 12), (1, 17), (2, 31), (1, 64), (5, 23), (1, 40))
"""Batches, and a number from which heights and widths follow."""


def floats(random: np.random.Generator, *shape: int) -> Any:
    return Tensor.from_data(random.normal(size=shape).astype(np.float32), device=NumPy)


def convolution(r: np.random.Generator) -> Step:
    kernel, dilation = int(r.integers(1, 5)), int(r.integers(1, 3))
    layer = Conv2d(
        CHANNELS, CHANNELS, kernel, stride=int(r.integers(1, 4)), padding=int(r.integers(0, 3)), dilation=dilation,
        device=NumPy,
    )  # fmt: skip
    return lambda xs: layer(xs[-1]).tanh()


def transposed_convolution(r: np.random.Generator) -> Step:
    stride = int(r.integers(1, 4))
    layer = ConvTranspose2d(CHANNELS, CHANNELS, int(r.integers(stride, 5)), stride=stride, device=NumPy)
    return lambda xs: layer(xs[-1]).tanh()


def pooling(r: np.random.Generator) -> Step:
    kernel, stride, ceil, inside = (
        int(r.integers(2, 5)),
        int(r.integers(1, 4)),
        bool(r.integers(2)),
        bool(r.integers(2)),
    )
    padding = int(r.integers(0, kernel // 2 + 1))
    if r.integers(2):
        return lambda xs: functional.max_pool2d(xs[-1], kernel, stride=stride, padding=padding, ceil_mode=ceil)
    return lambda xs: functional.avg_pool2d(
        xs[-1], kernel, stride=stride, padding=padding, ceil_mode=ceil, count_include_pad=inside
    )


def enlarged(r: np.random.Generator) -> Step:
    factor: Any = r.choice([2.0, 3.0, 0.5, 1.5])
    mode: Any = r.choice(["nearest", "bilinear", "bicubic", "nearest-exact"])
    return lambda xs: functional.interpolate(xs[-1], scale_factor=float(factor), mode=str(mode))  # type: ignore[arg-type]  # one of them


def resized(r: np.random.Generator) -> Step:
    mode: Any = str(r.choice(["nearest", "bilinear", "bicubic"]))
    place, corners = int(r.integers(8)), bool(r.integers(2)) if mode != "nearest" else None
    return lambda xs: functional.interpolate(
        xs[-1], size=xs[place % len(xs)].shape[2:], mode=mode, align_corners=corners
    )


def skip(r: np.random.Generator) -> Step:
    place, mode = int(r.integers(8)), r.choice(["add", "crop", "cat"])

    def step(xs: list[Any]) -> Any:
        x, other = xs[-1], xs[place % len(xs)]
        if mode == "crop":
            h, w = min(x.shape[2], other.shape[2]), min(x.shape[3], other.shape[3])
            return x[:, :, :h, :w] + other[:, :, :h, :w]
        up = functional.interpolate(x, size=other.shape[2:], mode="bilinear")
        return up + other if mode == "add" else burnpy.cat([up, other], dim=1)[:, ::2]

    return step


def padded(r: np.random.Generator) -> Step:
    multiple, mode = int(r.choice([2, 3, 4, 8])), r.choice(["constant", "reflect", "replicate", "circular"])
    inner = convolution(r)

    def step(xs: list[Any]) -> Any:
        x = xs[-1]
        h, w = x.shape[2:]
        x = functional.pad(x, (0, -w % multiple, 0, -h % multiple), mode=str(mode))  # type: ignore[arg-type]  # one of them
        return burnpy.cat([x, inner([x, x])], dim=3)[:, :, :h, :w] if multiple == 3 else x[:, :, :h, :w] * 2.0

    return step


def windows(r: np.random.Generator) -> Step:
    k = int(r.choice([2, 4]))

    def step(xs: list[Any]) -> Any:
        n, c, h, w = xs[-1].shape
        x = functional.pad(xs[-1], (0, -w % k, 0, -h % k))
        high, wide = x.shape[2] // k, x.shape[3] // k
        parts = x.reshape(n, c, high, k, wide, k).permute(0, 2, 4, 1, 3, 5).reshape(n * high * wide, c, k * k)
        parts = parts.softmax(dim=-1).reshape(n, high, wide, c, k, k).permute(0, 3, 1, 4, 2, 5)
        return parts.reshape(n, c, high * k, wide * k)[:, :, :h, :w]

    return step


def attention(r: np.random.Generator) -> Step:
    layer, causal = MultiHeadAttention(CHANNELS, 2, device=NumPy), bool(r.integers(2))

    def step(xs: list[Any]) -> Any:
        n, c, h, w = xs[-1].shape
        rows = xs[-1].permute(0, 2, 3, 1).reshape(n * h, w, c)
        return layer(rows, causal=causal).reshape(n, h, w, c).permute(0, 3, 1, 2)

    return step


def positions(r: np.random.Generator) -> Step:
    table, kind = floats(r, 1, CHANNELS, 7, 6), r.choice(["table", "coordinates", "numbers", "indices"])
    mode: Any = str(r.choice(["bilinear", "bicubic", "nearest"]))

    def step(xs: list[Any]) -> Any:
        x = xs[-1]
        n, _, h, w = x.shape
        if kind == "table":
            return x + functional.interpolate(table, size=(h, w), mode=mode)
        if kind == "numbers":
            return x * (1.0 / h) + x.mean(dim=3, keepdim=True) * w**-0.5 + x.tanh() * float(h * w)
        rows = IntTensor.arange(h, device=x.device)
        if kind == "indices":
            return x.index_select(2, (h - 1) - rows) + x.cumsum(dim=3).tanh()
        return x + (rows.float().unsqueeze(1) / h + IntTensor.arange(w, device=x.device).float() / w).expand(n, 1, h, w)

    return step


def reshaped(r: np.random.Generator) -> Step:
    kind = int(r.integers(6))

    def step(xs: list[Any]) -> Any:
        x = xs[-1]
        n, c, h, w = x.shape
        if kind == 0:
            return x.flip(2)[:, :, ::2].roll(1, 3)
        if kind == 1:
            return x[:, :, 1:, : w - 1]
        if kind == 2:
            return x.permute(0, 1, 3, 2).reshape(n, c, w, -1)
        if kind == 3:
            return functional.layer_norm(x.flatten(2), (h * w,)).reshape(n, -1, h, w) if h else x
        if kind == 4:
            return x[:, :, : h // 2] + x[:, :, h - h // 2 :]
        return functional.unfold(x, 2, stride=2).reshape(n, c, -1, h // 2, w // 2).mean(dim=2)

    return step


STEPS: tuple[Callable[[np.random.Generator], Step], ...] = (
    *(convolution, convolution, convolution, transposed_convolution, pooling, pooling, enlarged, resized, skip, skip),
    *(padded, windows, attention, positions, positions, reshaped, reshaped),
)


def network(seed: int) -> Callable[[Any], Any]:
    """Return a network of two to six random steps."""
    r = np.random.default_rng(seed)
    burnpy.manual_seed(seed)
    steps = [STEPS[int(r.integers(len(STEPS)))](r) for _ in range(int(r.integers(2, 7)))]
    ends = int(r.integers(3))

    def model(image: Any) -> Any:
        xs = [image]
        for step in steps:
            xs.append(step(xs))
        if ends == 0:
            return xs[-1].mean(dim=(2, 3))
        return xs[-1] if ends == 1 else xs[-1].flatten(2).sum(dim=2), *xs[1:-1]

    return model


def agrees(seed: int, path: Path) -> bool:
    """Return whether export writes a network; then its file is right for all sizes that the network takes."""
    model, r = network(seed), np.random.default_rng(seed)
    height, width = int(r.integers(12, 40)), int(r.integers(12, 40))
    dynamic = {"image": {0: "batch", 2: "height", 3: "width"}}
    example = (floats(r, 2, CHANNELS, height, width),)
    try:
        model(*example)
    except BurnpyError:
        return True  # it takes no such image
    try:
        onnx.export(model, example, path, dynamic=dynamic)
    except ExportError:
        return False
    for batch, size in (*SIZES, (2, height)):
        image = floats(r, batch, CHANNELS, size, max((size * 7 + seed) % 41, 2))
        try:
            made: Any = model(image)
        except BurnpyError:
            continue
        results: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)
        if all(bool(x.isfinite().all()) for x in results):
            for found in onnx.verify(path, model, (image,)):
                assert found.relative < 1e-2 or found.largest < 1e-4, (seed, image.shape, found)
    return True


@pytest.mark.parametrize("first", range(0, 200 if LONG else 100, 10))
def test_a_file_is_right_for_all_sizes_or_is_refused(first: int, tmp_path: Path) -> None:
    written = [agrees(seed, tmp_path / "model.onnx") for seed in range(first, first + 10)]
    assert sum(written) >= 5
