"""Convolution and pooling on the real CuPy: launches, views, parts of a batch, 64-bit indices, and ties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy_cupy.kernels import convolution, convolution_launches, elementwise_kernel
from burnpy_cupy.kernels.kernel import Kernels
from tests.hostcuda import simulator

simulator.require()

COPIES, TILES = "burnpy_conv_operands", "burnpy_conv"
WHERE = ((2, 1), (1, 2), (1, 2))


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def called(name: str, *args: Any, device: Any = None) -> tuple[Any, list[str]]:
    """The result of an operation, and its launches by the first word of their names."""
    device = device or CuPy()
    given = [CuPy().from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    with simulator.watched() as journal:
        out = getattr(device, name)(*given)
    return CuPy().to_numpy(out), [launch.split("__")[0] for launch in journal.launches]


def examples(groups: int) -> dict[str, tuple[Any, ...]]:
    x, weight, bias = drawn((3, 12, 6, 7)), drawn((12, 12 // groups, 3, 2), 1), drawn((12,), 2)
    grad = NumPy().conv2d(x, weight, *WHERE, groups)
    return {
        "conv2d": (x, weight, *WHERE, groups),
        "conv2d_bias": (x, weight, bias, *WHERE, groups),
        "conv2d_input": (grad, weight, x.shape, *WHERE, groups),
        "conv2d_weight": (grad, x, weight.shape, *WHERE, groups),
    }


LAUNCHES = {
    "conv2d": [COPIES, TILES],
    "conv2d_bias": [COPIES, TILES],
    "conv2d_input": [COPIES, TILES],
    "conv2d_weight": [COPIES, f"{TILES}_weight"],
}


@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize("groups", [1, 2])
def test_operands_are_copied_in_one_launch_and_multiplied_in_another(name: str, groups: int) -> None:
    args = examples(groups)[name]
    out, launches = called(name, *args)
    np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    assert launches == LAUNCHES[name]


@pytest.mark.parametrize("name", LAUNCHES)
def test_large_batches_are_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among launches that count pixels in 32 bits: an image of 6 × 7, and a result of 3 × 9."""
    args = examples(1)[name]
    monkeypatch.setattr(convolution, "_MOST_PIXELS", 2 * 27)
    out, launches = called(name, *args)
    np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    assert sum(launch.startswith(TILES) and launch != COPIES for launch in launches) == 3


@pytest.mark.parametrize("groups", [1, 2])
def test_offsets_of_large_arrays_have_64_bits(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_launches, "_MOST_ELEMENTS", 1)
    for cached in (convolution_launches.launches, convolution_launches.weight_launches):
        cached.cache_clear()
    for name, args in examples(groups).items():
        out, _ = called(name, *args)
        np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    for cached in (convolution_launches.launches, convolution_launches.weight_launches):
        cached.cache_clear()


@pytest.mark.parametrize("tile", convolution_launches._RATES)
def test_every_tile_has_the_shared_memory_that_it_asks_for(
    tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution_launches, "_RATES", {tile: 1.0})
    caches = convolution_launches.launches, convolution_launches.weight_launches
    for cached in caches:
        cached.cache_clear()
    for name, args in examples(1).items():
        if name != "conv2d_weight" or tile[0] >= 64:
            out, _ = called(name, *args)
            np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("groups", [1, 2])
def test_sums_of_many_pixels_are_divided_in_one_order(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_launches, "_SHORTEST_SUM", 32)
    convolution_launches.weight_launches.cache_clear()
    x, grad, where = drawn((3, 5 * groups, 9, 8)), drawn((3, 7 * groups, 9, 8), 1), ((1, 1), (1, 1), (1, 1), groups)
    out, launches = called("conv2d_weight", grad, x, (7 * groups, 5, 3, 3), *where)
    convolution_launches.weight_launches.cache_clear()
    want = NumPy().conv2d_weight(grad, x, (7 * groups, 5, 3, 3), *where)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    assert len(launches) == 3


@pytest.mark.parametrize(("groups", "side"), [(2048, 224), (70_000, 7)])
def test_cuda_takes_the_blocks_of_many_groups(groups: int, side: int) -> None:
    """It takes 65,535 rows of blocks at most. The gradient of the weight of 2,048 groups has 33 parts."""
    shapes = (8, 4 * groups, side, side), (8, 2 * groups, side, side), (4 * groups, 2, 3, 3)
    out, image, weight = (
        convolution_launches.Layout(shape, tuple([math.prod(shape[d:]) for d in range(1, 5)]), True) for shape in shapes
    )
    rest = ((1, 1), (1, 1), (1, 1)), groups
    with simulator.dry_run():
        convolution_launches.weight_launches(CuPy(), out, image, weight.shape, *rest, float32, float32, False).launch(
            0, 0, 0
        )
        convolution_launches.launches(
            CuPy(), weight, image, out.shape, *rest, False, False, float32, float32, False
        ).launch(0, 0, 0, 0)


def test_views_are_gathered_where_they_lie() -> None:
    """A batch whose channels are last in memory, every other column of images, and transposed weights."""
    x, weight, where = drawn((2, 6, 12, 20)), drawn((20, 5, 3, 3), 1), ((1, 2), (1, 0), (2, 1))
    device = CuPy()
    image = device.from_numpy(x).transpose(0, 3, 2, 1)[:, :, ::2, :]
    turned = device.from_numpy(weight).transpose(1, 0, 2, 3)
    host, flipped = x.transpose(0, 3, 2, 1)[:, :, ::2, :], weight.transpose(1, 0, 2, 3)
    out, grad = device.conv2d(image, turned, *where, 1), NumPy().conv2d(host, flipped, *where, 1)
    np.testing.assert_allclose(device.to_numpy(out), grad, rtol=1e-4, atol=1e-4)
    moved = device.from_numpy(np.ascontiguousarray(grad.transpose(2, 3, 1, 0))).transpose(3, 2, 0, 1)
    by_weight = device.conv2d_weight(moved, image, flipped.shape, *where, 1)
    by_input = device.conv2d_input(moved, turned, host.shape, *where, 1)
    want = NumPy().conv2d_weight(grad, host, flipped.shape, *where, 1)
    np.testing.assert_allclose(device.to_numpy(by_weight), want, rtol=1e-4, atol=1e-3)
    want = NumPy().conv2d_input(grad, flipped, host.shape, *where, 1)
    np.testing.assert_allclose(device.to_numpy(by_input), want, rtol=1e-4, atol=1e-3)


def count_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels take all arrays for large ones."""
    monkeypatch.setattr(elementwise_kernel, "_INDEX64", 1)
    monkeypatch.setattr(CuPy(), "_kernels", Kernels(CuPy().xp, convolution.CONVOLUTION, {}))  # without earlier launches


@pytest.mark.parametrize("many", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize(
    "shape", [(6, 1, 3, 2), (12, 1, 3, 3), (8, 3, 3, 2)], ids=["depthwise", "two each", "three to four"]
)
def test_few_products_are_added_up_at_once(shape: tuple[int, ...], many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        count_in_64_bits(monkeypatch)
    x, weight, groups = drawn((2, 6, 7, 6)), drawn(shape, 1), 6 // shape[1]
    grad = drawn(NumPy().conv2d(x, weight, *WHERE, groups).shape, 2)
    calls: dict[str, tuple[Any, ...]] = {
        "conv2d": (x, weight, *WHERE, groups),
        "conv2d_bias": (x, weight, drawn((shape[0],), 3), *WHERE, groups),
        "conv2d_input": (grad, weight, x.shape, *WHERE, groups),
    }
    for name, args in calls.items():
        out, launches = called(name, *args)
        np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5, err_msg=name)
        assert len(launches) == 1
        mixed, _ = called(name, *args, device=Mixed(CuPy()))
        assert mixed.dtype == float32
        np.testing.assert_allclose(mixed, getattr(Mixed(NumPy()), name)(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["conv2d", "conv2d_bias", "conv2d_input", "conv2d_weight"])
def test_mixed_convolution_has_results_of_float32(name: str) -> None:
    args = examples(1)[name]
    out, launches = called(name, *args, device=Mixed(CuPy()))
    assert out.dtype == float32
    np.testing.assert_allclose(out, getattr(Mixed(NumPy()), name)(*args), rtol=1e-4, atol=1e-4)
    assert "burnpy_cast" not in launches, "the result is not converted"


def test_mixed_rounds_images_to_the_order_of_tiles() -> None:
    """One launch for each image and weight, which convolutions and their gradients read where they lie."""
    device, where = Mixed(CuPy()), ((1, 1), (1, 1), (1, 1), 1)
    x, weight, grad = drawn((2, 16, 6, 7)), drawn((24, 16, 3, 3), 1), drawn((2, 24, 6, 7), 2)
    image, given, back = (CuPy().from_numpy(a) for a in (x, weight, grad))
    out, launches = called("conv2d", image, given, *where, device=device)
    assert launches == [COPIES, COPIES, TILES]
    by_input, launches = called("conv2d_input", back, given, x.shape, *where, device=device)
    assert launches == [COPIES, COPIES, TILES], "the weight lies in another order"
    by_weight, launches = called("conv2d_weight", back, image, weight.shape, *where, device=device)
    assert launches == [f"{TILES}_weight"]
    host = Mixed(NumPy())
    np.testing.assert_allclose(out, host.conv2d(x, weight, *where), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_input, host.conv2d_input(grad, weight, x.shape, *where), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_weight, host.conv2d_weight(grad, x, weight.shape, *where), rtol=1e-4, atol=1e-4)


def test_tf32_is_off_by_default() -> None:
    """It rounds 1 + 2⁻¹² to 1, in the image and in the weights."""
    x, weight = np.full((1, 64, 3, 3), 1 + 2.0**-12, "f"), np.full((8, 64, 1, 1), 1.0, "f")
    where = ((1, 1), (0, 0), (1, 1), 1)
    grad = np.full((1, 8, 3, 3), 1.0, "f")
    calls: tuple[tuple[Any, ...], ...] = (
        ("conv2d", x, weight, *where),
        ("conv2d_input", np.full((1, 64, 3, 3), 1.0, "f"), x[:, :, :1, :1].repeat(64, 0), x.shape, *where),
        ("conv2d_weight", grad, x, weight.shape, *where),
    )
    for name, *args in calls:
        count = 9 if name == "conv2d_weight" else 64
        exact, _ = called(name, *args)
        with CuPy.tf32():
            rounded, _ = called(name, *args)
        assert np.unique(exact).tolist() == [count * (1 + 2.0**-12)]
        assert np.unique(rounded).tolist() == [count]


def test_operands_that_lie_as_tiles_are_not_copied() -> None:
    """Images whose channels are last in memory, and weights of windows of one element."""
    x, weight = drawn((2, 4, 5, 32)), drawn((64, 32, 1, 1), 1)
    where, image = ((1, 1), (0, 0), (1, 1)), CuPy().from_numpy(x).transpose(0, 3, 1, 2)
    host = x.transpose(0, 3, 1, 2)
    out, launches = called("conv2d", image, weight, *where, 1)
    assert launches == [TILES]
    grad = CuPy().from_numpy(np.ascontiguousarray(out.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    back, launches = called("conv2d_input", grad, weight, host.shape, *where, 1)
    assert launches == [COPIES, TILES]
    by_weight, launches = called("conv2d_weight", grad, image, weight.shape, *where, 1)
    assert launches == [f"{TILES}_weight"]
    np.testing.assert_allclose(out, NumPy().conv2d(host, weight, *where, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(back, NumPy().conv2d_input(out, weight, host.shape, *where, 1), rtol=1e-4, atol=1e-4)
    want = NumPy().conv2d_weight(out, host, weight.shape, *where, 1)
    np.testing.assert_allclose(by_weight, want, rtol=1e-4, atol=1e-3)


def test_windows_of_one_element_are_products_of_matrices() -> None:
    """By cuBLAS; its products of each member are added last in the gradient of the weight."""
    product = "cublasGemmStridedBatchedEx"
    x, weight, where = drawn((2, 24, 8, 9)), drawn((20, 24, 1, 1), 1), ((1, 1), (0, 0), (1, 1))
    out, launches = called("conv2d", x, weight, *where, 1)
    assert launches == [product]
    back, launches = called("conv2d_input", out, weight, x.shape, *where, 1)
    assert launches == [product]
    by_weight, launches = called("conv2d_weight", out, x, weight.shape, *where, 1)
    assert launches == [product, "burnpy_sum_lanes"]
    np.testing.assert_allclose(out, NumPy().conv2d(x, weight, *where, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(back, NumPy().conv2d_input(out, weight, x.shape, *where, 1), rtol=1e-4, atol=1e-4)
    want = NumPy().conv2d_weight(out, x, weight.shape, *where, 1)
    np.testing.assert_allclose(by_weight, want, rtol=1e-4, atol=1e-3)


def test_windows_of_one_element_copy_the_pixels_that_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, where = drawn((2, 20, 7, 8)), drawn((24, 20, 1, 1), 1), ((2, 3), (0, 0), (1, 1))
    sizes, copying = list[int](), convolution_launches.copying
    convolution_launches.launches.cache_clear()
    convolution_launches.weight_launches.cache_clear()

    def copied(b: Any, operands: Any, *args: Any) -> Any:
        sizes.append(operands[1].size)
        return copying(b, operands, *args)

    monkeypatch.setattr(convolution_launches, "copying", copied)
    out, _ = called("conv2d", x, weight, *where, 1)
    by_weight, _ = called("conv2d_weight", out, x, weight.shape, *where, 1)
    assert sizes == [2 * 20 * 4 * 3] * 2
    np.testing.assert_allclose(out, NumPy().conv2d(x, weight, *where, 1), rtol=1e-4, atol=1e-5)
    want = NumPy().conv2d_weight(out, x, weight.shape, *where, 1)
    np.testing.assert_allclose(by_weight, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_strides_have_a_phase_for_each_remainder(dtype: str) -> None:
    """Phases without taps, windows with gaps, and more phases than a launch copies weights for."""
    for shape, weights, where in (
        ((2, 5, 9, 11), (6, 5, 2, 2), ((3, 3), (1, 0), (1, 1))),
        ((1, 9, 13, 10), (17, 9, 3, 3), ((4, 2), (2, 1), (2, 3))),
        ((2, 3, 18, 12), (40, 3, 6, 6), ((6, 6), (0, 0), (1, 1))),
    ):
        narrow = dtype_of(dtype)
        weight = NumPy().cast(drawn(weights), narrow)
        grad = NumPy().cast(drawn(NumPy().conv2d(drawn(shape), drawn(weights), *where, 1).shape, 1), narrow)
        out, _ = called("conv2d_input", CuPy().from_numpy(grad), CuPy().from_numpy(weight), shape, *where, 1)
        want = NumPy().conv2d_input(grad, weight, shape, *where, 1)
        bound = 1e-5 if dtype == "float32" else 0.02
        np.testing.assert_allclose(out.astype(np.float32), want.astype(np.float32), rtol=bound, atol=10 * bound)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pools_take_one_launch_each_and_choose_the_first_of_ties(dtype: str) -> None:
    narrow = dtype_of(dtype)
    x = NumPy().cast(np.random.default_rng(0).integers(0, 3, (2, 3, 7, 6)).astype(np.float32), narrow)
    x[0, 0, 2, 3] = np.nan
    kernel, stride, padding, dilation = (3, 2), (2, 1), (1, 1), (1, 2)
    pooled = NumPy().max_pool2d(x, kernel, stride, padding, dilation, False)
    average = NumPy().avg_pool2d(x, kernel, stride, padding, True, False, None)
    grad = NumPy().cast(drawn(pooled.shape), narrow)
    calls: dict[str, tuple[Any, ...]] = {
        "max_pool2d": (x, kernel, stride, padding, dilation, False),
        "max_pool2d_indices": (x, kernel, stride, padding, dilation, False),
        "max_pool2d_backward": (grad, x, pooled, kernel, stride, padding, dilation),
        "avg_pool2d": (x, kernel, stride, padding, True, False, None),
        "avg_pool2d_backward": (average, x.shape, kernel, stride, padding, False, None),
        "adaptive_avg_pool2d": (x, (3, 4)),
        "adaptive_avg_pool2d_backward": (NumPy().cast(drawn((2, 3, 3, 4)), narrow), (2, 3, 7, 6)),
        "adaptive_max_pool2d_indices": (x, (3, 4)),
    }
    for name, args in calls.items():
        out, launches = called(name, *args)
        wanted = getattr(NumPy(), name)(*args)
        assert len(launches) == (2 if name == "max_pool2d_backward" else 1), name
        assert out.dtype == wanted.dtype
        tolerance = 0.02 if x.itemsize == 2 and out.dtype != np.int64 else 1e-6
        np.testing.assert_allclose(
            out.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=name
        )
