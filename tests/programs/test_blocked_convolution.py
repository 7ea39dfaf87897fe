"""Convolution with channels as lanes: against references in float64, and what its results must not depend on."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.operations.convolution import window_counts
from burnpy.testing.cases import table
from tests.interrupting import LONG

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels import kernel
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution import blocked, weight_gradients
from burnpy_numpy.kernels.convolution.blocked import convolve_blocks
from burnpy_numpy.kernels.convolution.channel_lanes import convolve_depthwise, depthwise_weight_gradient
from burnpy_numpy.kernels.convolution.tiles import tiles
from burnpy_numpy.kernels.convolution.weight_gradients import weight_gradient_of_blocks
from burnpy_numpy.kernels.packed_weights import PackedWeights
from tests.programs.switched import one_by_one

D: Any = NumPy()
SAME = (1, 1), (1, 1), (1, 1)
STRIDED = (2, 2), (1, 1), (1, 1)
BOUNDS = {"float32": 2e-5, "float64": 1e-12}


def drawn(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def geometries(count: int, seed: int, depthwise: bool) -> list[tuple[Any, ...]]:
    """Shapes of x and of the weight, stride, padding and dilation; sizes are odd, and around those of blocks."""
    rng, found = np.random.default_rng(seed), list[tuple[Any, ...]]()

    def pair(low: int, high: int) -> tuple[int, int]:
        return int(rng.integers(low, high)), int(rng.integers(low, high))

    while len(found) < count:
        members = int(rng.choice([1, 2, 3, 7, 8, 9, 16, 17, 24]))
        channels = int(rng.choice([2 if depthwise else 1, 5, 16, 17, 31, 33, 40, 70]))
        shape = members, channels, int(rng.integers(1, 14)), int(rng.integers(1, 20))
        outputs = int(rng.choice([1, 7, 16, 17, 32, 33, 48, 65]))
        weight = (*((channels, 1) if depthwise else (outputs, channels)), *pair(1, 6))
        where = pair(1, 4), pair(0, 4), pair(1, 4)
        padded = [n + 2 * p - d * (k - 1) for n, k, p, d in zip(shape[2:], weight[2:], *where[1:], strict=True)]
        if min(padded) > 0:
            found.append((shape, weight, *where))
    return found


def results(x: Any, weight: Any, bias: Any, grad: Any, where: Any) -> list[Any]:
    """The convolution and the gradients of x and the weight; a depthwise one if the weight has one channel."""
    depthwise = weight.shape[1] == 1 < x.shape[1]
    convolve = convolve_depthwise if depthwise else convolve_blocks
    gradient = depthwise_weight_gradient if depthwise else weight_gradient_of_blocks
    out, by_x, by_weight = (np.full_like(a, np.nan, order="C") for a in (grad, x, weight))
    assert convolve(x, weight, bias, out, where, False)
    assert convolve(grad, weight, None, by_x, where, True)
    assert gradient(grad, x, by_weight, where)
    return [out, by_x, by_weight]


def given(dtype: str, shape: Any, weight: Any, *where: Any) -> tuple[Any, ...]:
    """x, weight, bias, a gradient, and the geometry."""
    counts = window_counts(shape, weight[2:], *where)
    arrays = drawn(1, *shape), drawn(2, *weight), drawn(3, weight[0]), drawn(4, shape[0], weight[0], *counts)
    return *(a.astype(dtype) for a in arrays), where


@pytest.mark.slowest
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("seed", range(24 if LONG else 1))
def test_odd_sizes_agree_with_float64(seed: int, depthwise: bool) -> None:
    """In both dtypes by turns: a kernel's geometry is in vectors, whatever their elements."""
    for geometry, dtype in zip(geometries(200 if LONG else 12, seed, depthwise), cycle(BOUNDS), strict=False):
        groups = geometry[0][1] if depthwise else 1
        x, weight, bias, grad, where = given(dtype, *geometry)
        wide = [a.astype(np.float64) for a in (x, weight, bias, grad)]
        wanted = [
            table.ROWS["conv2d"].reference(wide[0], wide[1], *where, groups) + wide[2][:, None, None],
            table.ROWS["conv2d_input"].reference(wide[3], wide[1], x.shape, *where, groups),
            table.ROWS["conv2d_weight"].reference(wide[3], wide[0], weight.shape, *where, groups),
        ]
        for name, found, want in zip(
            ("out", "by x", "by weight"), results(*given(dtype, *geometry)), wanted, strict=True
        ):
            bound = BOUNDS[dtype] * max(1.0, float(np.abs(want).max()))
            np.testing.assert_allclose(found, want, rtol=0, atol=bound, err_msg=f"{name} of {geometry}")


@pytest.mark.parametrize("window", [(1, 1), (2, 2), (1, 3), (4, 4), (5, 5)])
def test_windows_of_all_sizes_are_packed(window: tuple[int, int]) -> None:
    """Blocks with all their lanes, and a last one without; an element that is not finite is found in the last."""
    x, weight, bias, grad, where = given("float32", (2, 50, 6, 7), (70, 50, *window), (1, 1), (1, 1), (1, 1))
    wide = [a.astype(np.float64) for a in (x, weight, bias, grad)]
    out, by_x, by_weight = results(x, weight, bias, grad, where)
    wanted = table.ROWS["conv2d"].reference(wide[0], wide[1], *where, 1) + wide[2][:, None, None]
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-4)
    wanted = table.ROWS["conv2d_input"].reference(wide[3], wide[1], x.shape, *where, 1)
    np.testing.assert_allclose(by_x, wanted, rtol=0, atol=1e-4)
    wanted = table.ROWS["conv2d_weight"].reference(wide[3], wide[0], weight.shape, *where, 1)
    np.testing.assert_allclose(by_weight, wanted, rtol=0, atol=1e-4)
    weight[-1, -1, -1, -1] = np.inf
    assert not convolve_blocks(x, weight, bias, out, where, False)
    assert not convolve_blocks(grad, weight, None, by_x, where, True)


CASES: dict[str, tuple[Any, ...]] = {
    "members": ((17, 40, 6, 5), (48, 40, 3, 3), *SAME),
    "neighbours": ((2, 40, 6, 17), (48, 40, 3, 3), *SAME),
    "stride": ((9, 40, 9, 10), (33, 40, 3, 2), *STRIDED),
    "depthwise": ((9, 70, 9, 10), (70, 1, 3, 2), *STRIDED),
    "several chunks": ((9, 200, 4, 4), (70, 200, 3, 3), *SAME),
}


@pytest.mark.parametrize("case", CASES)
def test_a_member_does_not_depend_on_its_batch(case: str) -> None:
    x, weight, bias, grad, where = given("float32", *CASES[case])
    whole = results(x, weight, bias, grad, where)
    for part in (slice(0, 1), slice(1, 2), slice(0, 8), slice(1, len(x))):
        found = results(x[part].copy(), weight, bias, grad[part].copy(), where)
        for a, b in zip(found[:2], whole, strict=False):
            np.testing.assert_array_equal(a, b[part])


@pytest.mark.parametrize("case", CASES)
def test_results_do_not_depend_on_threads_or_parts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = given("float32", *CASES[case])
    wanted, ranges = results(*arguments), one_by_one(monkeypatch)
    for threads, part, panel in ((1, 1, 1), (1000, 1 << 20, 1), (2, 1 << 20, 1 << 20)):  # by blocks, or by members
        monkeypatch.setattr(blocked, "COUNT", threads)
        monkeypatch.setattr(blocked, "_PART_BYTES", part)
        monkeypatch.setattr(blocked, "_PANEL_BYTES", panel)
        monkeypatch.setattr(weight_gradients, "COUNT", threads)
        monkeypatch.setattr(weight_gradients, "_PART_BYTES", part)
        kernel._described.clear()
        for found, want in zip(results(*arguments), wanted, strict=True):
            np.testing.assert_array_equal(found, want)
    assert max(ranges) > 1


def test_arrays_of_the_same_shapes_take_calls_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, grad, where = given("float64", *CASES["members"])
    results(x, weight, bias, grad, where)
    for module in (blocked, weight_gradients):
        monkeypatch.setattr(module, "block_kernels", None)
    shapes = [a.shape for a in (x, weight, bias, grad)]
    x, weight, bias, grad = (drawn(k, *shape) for k, shape in enumerate(shapes, 5))
    out, by_x, by_weight = results(x, weight, bias, grad, where)
    wanted = table.ROWS["conv2d"].reference(x, weight, *where, 1) + bias[:, None, None]
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-9)
    wanted = table.ROWS["conv2d_input"].reference(grad, weight, x.shape, *where, 1)
    np.testing.assert_allclose(by_x, wanted, rtol=0, atol=1e-9)
    wanted = table.ROWS["conv2d_weight"].reference(grad, x, weight.shape, *where, 1)
    np.testing.assert_allclose(by_weight, wanted, rtol=0, atol=1e-9)


def test_threads_have_memory_for_the_blocks_that_there_are() -> None:
    """Bound the packed blocks by those of the result, where a small weight leaves memory for more."""
    x, weight, _, grad, where = given("float32", (1, 16, 64, 64), (33, 16, 1, 1), *SAME)
    out = np.empty((1, 33, 66, 66), np.float32)
    convolve_blocks(x, weight, None, out, where, False)
    tracemalloc.start()
    try:
        assert convolve_blocks(x, weight, None, out, where, False)
        assert tracemalloc.get_traced_memory()[1] < 8 * grad.nbytes
    finally:
        tracemalloc.stop()


def test_padding_is_not_multiplied_where_members_are_rows() -> None:
    """At 4 × 4 with a window of 3 × 3, 100 of 144 products are real; those beside neighbours in a row are zeros."""
    for members, pairs in ((8, 100), (1, 120)):
        found = tiles(members, (4, 4), (4, 4), (3, 3), SAME, False, True)
        assert sum(np.diff(found.tables[3])[found.tables[2]]) * found.rows // members == pairs, members


def test_a_stride_takes_the_products_of_its_rest() -> None:
    found = tiles(8, (4, 4), (8, 8), (3, 3), STRIDED, True, True)
    assert len(found.tables[4]) == 9 * 16 - 4 * 2 * 3 + 4 - 3  # each pair once, without those of padding


@pytest.mark.slow
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_has_the_results_of_numpy(special: float, noted: list[Any]) -> None:
    for members in (2, 9):
        x, weight, _, grad, where = given("float64", (members, 64, 7, 7), (64, 64, 3, 3), *SAME)
        assert D.conv2d(x, weight, *where, 1) is not None
        assert "blocked_convolution" in [k.program.name for k in noted]
        weight[3, 5, 0, 1] = special
        for name, args in (("conv2d", (x, weight)), ("conv2d_input", (grad, weight, x.shape))):
            found = getattr(D, name)(*args, *where, 1)
            with np.errstate(invalid="ignore"):
                wanted = table.ROWS[name].reference(*args, *where, 1)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_array_equal(found[np.isinf(found)], wanted[np.isinf(wanted)])
            ordinary = np.isfinite(wanted)
            np.testing.assert_allclose(found[ordinary], wanted[ordinary], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_an_element_of_x_reaches_its_windows_alone(special: float) -> None:
    for members in (1, 8):
        x, weight, bias, grad, where = given("float32", (members, 40, 6, 6), (40, 40, 3, 3), *SAME)
        x[-1, 3, 0, 5] = special
        out = results(x, weight, bias, grad, where)[0]
        reached = np.zeros(out.shape, bool)
        reached[-1, :, :2, 4:] = True
        np.testing.assert_array_equal(np.isfinite(out), ~reached)


@pytest.mark.slow
def test_groups_of_many_channels_are_lanes(noted: list[Any]) -> None:
    x, weight, grad = drawn(1, 3, 128, 7, 7), drawn(2, 128, 64, 3, 3), drawn(3, 3, 128, 7, 7)
    for name, args in (
        ("conv2d", (x, weight)),
        ("conv2d_input", (grad, weight, x.shape)),
        ("conv2d_weight", (grad, x, weight.shape)),
    ):
        noted.clear()
        found = getattr(D, name)(*args, *SAME, 2)
        np.testing.assert_allclose(found, table.ROWS[name].reference(*args, *SAME, 2), rtol=1e-9, atol=1e-9)
        kernel = "blocked_weight_gradient" if name == "conv2d_weight" else "blocked_convolution"
        assert {k.program.name for k in noted} == {kernel}


def test_kernels_of_depthwise_convolutions_and_their_gradients(noted: list[Any]) -> None:
    if target().vector < 32:
        pytest.skip("other kernels are chosen for narrow vectors")
    weight = drawn(2, 64, 1, 3, 3).astype(np.float32)
    for size, where, by_input, by_weight in (
        (3, SAME, "depthwise", "blocked_depthwise_gradient"),
        (40, SAME, "depthwise", "weight_gradient"),
        (6, STRIDED, "blocked_depthwise", "blocked_depthwise_gradient"),
    ):
        x = drawn(1, 16, 64, size, size).astype(np.float32)
        noted.clear()
        out = D.conv2d(x, weight, *where, 64)
        D.conv2d_input(out, weight, x.shape, *where, 64)
        D.conv2d_weight(out, x, weight.shape, *where, 64)
        assert [k.program.name for k in noted] == ["depthwise", by_input, by_weight], size


def test_few_channels_and_wide_rows_have_the_kernel_of_rows(noted: list[Any]) -> None:
    for shape, weight in (((2, 8, 7, 7), (8, 8, 3, 3)), ((1, 64, 32, 32), (64, 64, 3, 3))):
        D.conv2d(drawn(1, *shape).astype(np.float32), drawn(2, *weight).astype(np.float32), *SAME, 1)
    assert {k.program.name for k in noted} == {"convolution"}


def test_large_images_have_the_kernel_of_channels(noted: list[Any]) -> None:
    """In rows, each channel would be in other pages."""
    D.conv2d(drawn(1, 1, 64, 64, 64).astype(np.float32), drawn(2, 32, 64, 3, 3).astype(np.float32), *SAME, 1)
    assert [k.program.name for k in noted] == ["blocked_convolution"]


def test_small_images_have_the_kernels_of_channels_from_eight_channels_on(noted: list[Any]) -> None:
    """In rows, vectors would be short, or would read mostly padding."""

    def names(operation: str, *args: Any) -> list[str]:
        noted.clear()
        getattr(D, operation)(*[a.astype(np.float32) if isinstance(a, np.ndarray) else a for a in args])
        return [k.program.name for k in noted]

    assert names("conv2d", drawn(1, 32, 64, 5, 5), drawn(2, 24, 64, 3, 3), *SAME, 1) == ["blocked_convolution"]
    valid = (1, 1), (0, 0), (1, 1), 1
    grad, weight = drawn(1, 8, 48, 2, 2), drawn(2, 48, 16, 7, 7)
    assert names("conv2d_input", grad, weight, (8, 16, 8, 8), *valid) == ["blocked_convolution"]
    x, weights = drawn(1, 16, 24, 7, 7), drawn(2, 16, 32, 7, 7)
    assert "blocked_weight_gradient" in names("conv2d_weight", weights, x, (32, 24, 3, 3), *SAME, 1)
    wide = drawn(1, 1, 16, 128, 256)
    assert names("conv2d", wide, drawn(2, 16, 16, 3, 3), *SAME, 1) == ["convolution"]
    assert names("conv2d_weight", wide, wide, (16, 16, 3, 3), *SAME, 1) == ["weight_gradient"]


class TestPackedWeights:
    def convolved(self, weight: Any) -> Any:
        x, out = drawn(1, 2, 40, 5, 5), np.empty((2, 40, 5, 5))
        assert convolve_blocks(x, weight, None, out, SAME, False)
        return out

    def test_the_second_use_keeps_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = PackedWeights(1 << 30)
        monkeypatch.setattr(blocked, "packed_weights", kept)
        weight = drawn(2, 40, 40, 3, 3)
        first = self.convolved(weight)
        assert not kept._packed
        assert weight.flags.writeable
        second = self.convolved(weight)
        (packed,) = kept._packed.values()
        with pytest.raises(ValueError, match="read-only"):
            weight[0] = 0
        third = self.convolved(weight)
        assert [*kept._packed.values()] == [packed]
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)
        del weight
        gc.collect()
        assert not kept._packed
        assert not kept._seen

    def test_views_are_kept_if_nothing_can_write_to_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = PackedWeights(1 << 30)
        monkeypatch.setattr(blocked, "packed_weights", kept)
        owner = drawn(2, 80, 40, 3, 3)
        weight = owner[:40]
        wanted = 2 * self.convolved(weight)
        self.convolved(weight)
        owner *= 2
        np.testing.assert_allclose(self.convolved(weight), wanted)
        assert not kept._packed
        fixed = np.frombuffer(owner.tobytes(), owner.dtype).reshape(owner.shape)[:40]  # as from a file
        for _ in range(3):
            np.testing.assert_allclose(self.convolved(fixed), wanted)
        assert len(kept._packed) == 1

    def test_memory_is_bounded(self) -> None:
        kept = PackedWeights(1000)
        weights = [np.zeros(50) for _ in range(4)]
        assert not any(kept.keeps(weight, "forward") for weight in weights)
        for weight in weights:
            kept.add(weight, "forward", np.zeros(50))
        assert [kept.find(weight, "forward") is None for weight in weights] == [False, False, True, True]
        assert not kept.keeps(weights[3], "forward")
        del weights[0]
        gc.collect()
        assert kept.keeps(weights[2], "forward")

    def test_a_training_step_keeps_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from burnpy import Autodiff, Tensor
        from burnpy.nn import Conv2d, Sequential
        from burnpy.optim import Sgd

        kept = PackedWeights(1 << 30)
        monkeypatch.setattr(blocked, "packed_weights", kept)
        model: Any = Sequential(*(Conv2d(40, 40, 3, padding=1, device=Autodiff[NumPy]) for _ in range(2)))
        optim, x = Sgd(momentum=0.9), Tensor[Autodiff[NumPy]].from_data(drawn(1, 2, 40, 5, 5), dtype="float32")
        for _ in range(3):
            model = optim.step(0.1, model, model(x).sum().backward())
        assert not kept._packed


def test_without_a_kernel_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy_numpy.kernels.convolution import channel_blocks

    x, weight, _, grad, where = given("float32", *CASES["members"])
    wanted = D.conv2d(x, weight, *where, 1), D.conv2d_weight(grad, x, weight.shape, *where, 1)
    monkeypatch.setattr(channel_blocks, "template_kernel", lambda *_: None)
    kernel._described.clear()
    assert not convolve_blocks(x, weight, None, np.empty_like(grad), where, False)
    assert not weight_gradient_of_blocks(grad, x, np.empty_like(weight), where)
    found = D.conv2d(x, weight, *where, 1), D.conv2d_weight(grad, x, weight.shape, *where, 1)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
