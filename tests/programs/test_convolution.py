"""Convolution's kernels: against references in float64 at random geometries, and what they must not depend on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy, explain
from burnpy.testing.cases import table

pytest.importorskip("llvmlite")

from burnpy_numpy import convolution, cpu_threads
from burnpy_numpy.kernels import kernel
from burnpy_numpy.kernels.convolution import channel_lanes, conv2d, tiles
from tests.interrupting import LONG
from tests.programs.switched import one_by_one, without_kernels

pytestmark = pytest.mark.slow

D: Any = NumPy()
ONE = ((1, 1), (0, 0), (1, 1), 1)
SAME = ((1, 1), (1, 1), (1, 1), 1)

GEOMETRIES: dict[str, tuple[Any, ...]] = {  # shapes of x and weight; stride, padding, dilation, groups
    "whole vectors": ((3, 5, 16, 32), (7, 5, 3, 3), *SAME),
    "rows that no vectors divide": ((2, 3, 9, 29), (9, 3, 3, 3), *SAME),
    "narrow": ((3, 4, 5, 7), (6, 4, 3, 3), *SAME),
    "five by five, no padding": ((2, 3, 12, 17), (4, 3, 5, 5), *ONE),
    "one row": ((2, 3, 1, 40), (4, 3, 1, 3), *ONE),
    "stride": ((2, 3, 19, 23), (5, 3, 3, 3), (2, 3), (1, 2), (1, 1), 1),
    "stride beyond the window": ((2, 3, 19, 23), (5, 3, 2, 1), (3, 4), (1, 0), (1, 1), 1),
    "dilation": ((2, 3, 19, 23), (5, 3, 3, 3), (1, 1), (2, 3), (2, 3), 1),
    "stride and dilation": ((2, 3, 30, 41), (5, 3, 3, 2), (2, 3), (2, 3), (3, 2), 1),
    "groups": ((2, 6, 9, 12), (9, 2, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    "depthwise": ((2, 5, 9, 12), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1), 5),
    "depthwise, twice as many": ((2, 5, 9, 12), (10, 1, 3, 3), (2, 2), (1, 1), (1, 1), 5),
    "depthwise, padding beyond the window": ((2, 5, 3, 21), (5, 1, 2, 3), (1, 2), (4, 5), (1, 1), 5),
    "depthwise, stride and dilation": ((2, 5, 30, 41), (5, 1, 3, 2), (2, 2), (2, 3), (3, 2), 5),
    "depthwise, dilation": ((2, 5, 33, 17), (5, 1, 3, 5), (1, 1), (3, 4), (2, 3), 5),
    "depthwise, large windows": ((2, 5, 20, 19), (5, 1, 9, 8), (1, 2), (4, 3), (1, 1), 5),
    "stride and dilation with a common divisor": ((2, 3, 33, 41), (5, 3, 3, 3), (4, 2), (2, 3), (2, 4), 1),
    "stride and groups": ((2, 6, 19, 23), (10, 3, 4, 5), (2, 2), (1, 3), (1, 1), 2),
    "stride, padding beyond the window": ((2, 3, 16, 19), (5, 3, 3, 3), (2, 2), (4, 4), (1, 1), 1),
    "stride with a rest": ((2, 3, 22, 24), (5, 3, 2, 2), (3, 4), (0, 0), (1, 1), 1),
    "kernel 4, stride 2": ((2, 3, 16, 24), (5, 3, 4, 4), (2, 2), (1, 1), (1, 1), 1),
    "stride and groups of other sizes": ((2, 4, 15, 22), (6, 2, 5, 3), (3, 2), (2, 1), (1, 1), 2),
    "elements after the last window": ((2, 3, 18, 25), (5, 3, 3, 3), (4, 3), (0, 0), (1, 1), 1),
    "padding beyond the window": ((2, 3, 6, 9), (5, 3, 2, 3), (1, 1), (3, 4), (1, 1), 1),
    "one column": ((2, 9, 40, 1), (4, 9, 5, 1), (1, 1), (2, 0), (1, 1), 1),
    "one column, wide windows, groups, a stride": ((2, 16, 41, 1), (6, 8, 4, 3), (2, 3), (1, 1), (2, 1), 2),
    "three columns": ((2, 9, 40, 3), (4, 9, 5, 1), (1, 1), (2, 0), (1, 1), 1),
    "a batch of one": ((1, 3, 20, 20), (5, 3, 3, 3), *SAME),
    "more than one part": ((40, 5, 40, 43), (3, 5, 3, 3), *SAME),
}


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(conv2d, "MIN_PRODUCTS", 1)
    monkeypatch.setattr(convolution, "FEW_PRODUCTS", (0, 0))
    monkeypatch.setattr(channel_lanes, "_MIN_GRADIENT_LANES", channel_lanes.MIN_LANES)
    kernel._described.clear()
    yield
    kernel._described.clear()


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).uniform(-1, 1, shape)


def made(case: str) -> tuple[Any, ...]:
    """x, weight, bias, a gradient, and the geometry."""
    shape, weight, *where = GEOMETRIES[case]
    counts = D.conv2d(drawn(*shape), drawn(*weight), *where).shape
    return drawn(*shape), drawn(*weight), drawn(weight[0]), drawn(*counts), tuple(where)


def reference(name: str, *args: Any) -> Any:
    return table.ROWS[name].reference(*args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *((case, "float32") for case in GEOMETRIES),
        # Loops are over vectors, whatever their elements, and compiling each kernel for both dtypes takes long.
        *(pytest.param(case, "float64", marks=pytest.mark.slowest) for case in (list(GEOMETRIES)[:: 1 if LONG else 3])),
    ],
)
def test_kernels_agree_with_float64(case: str, dtype: str, noted: list[Any]) -> None:
    x, weight, bias, grad, where = made(case)
    noted.clear()
    calls: dict[str, tuple[Any, ...]] = {
        "conv2d": (x, weight),
        "conv2d_bias": (x, weight, bias),
        "conv2d_weight": (grad, x, weight.shape),
        "conv2d_input": (grad, weight, x.shape),
    }
    for name, args in calls.items():
        given = [a.astype(dtype) if isinstance(a, np.ndarray) else a for a in args]
        found = getattr(D, name)(*given, *where)
        wanted = reference(name, *args, *where)
        assert (found.shape, found.dtype) == (wanted.shape, np.dtype(dtype))
        bound = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound * max(1.0, np.abs(wanted).max()))
    names = [k.program.name for k in noted]
    kernel = "depthwise" if case.startswith("depthwise") else "convolution"
    assert names[:3] == [kernel, kernel, "weight_gradient"]
    sparse = ("stride beyond the window", "stride with a rest", "elements after the last window")
    if case not in sparse:  # whose parts have one element: matrix products
        assert {kernel, "convolution"}.intersection(names[3:])


@pytest.mark.parametrize("case", GEOMETRIES)
def test_few_windows_leave_the_weight_as_it_lies(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, _, where = made(case)
    monkeypatch.setattr(convolution, "FEW_PRODUCTS", (1 << 30, 1 << 30))
    monkeypatch.setattr(conv2d, "convolve", None)
    if where[3] == 1:
        for name, *rest in (("conv2d",), ("conv2d_bias", bias)):
            found = getattr(D, name)(np.asfortranarray(x), weight, *rest, *where)
            np.testing.assert_allclose(found, reference(name, x, weight, *rest, *where), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["rows that no vectors divide", "groups", "a batch of one", "stride"])
def test_results_do_not_depend_on_how_work_is_divided(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, grad, where = made(case)

    def results() -> list[Any]:
        return [D.conv2d_bias(x, weight, bias, *where), D.conv2d_weight(grad, x, weight.shape, *where)]

    wanted, ranges = results(), one_by_one(monkeypatch)
    for threads in (1, 1000):  # by members, by blocks
        monkeypatch.setattr(conv2d, "COUNT", threads)
        for found, want in zip(results(), wanted, strict=True):
            np.testing.assert_array_equal(found, want)
    assert max(ranges) > 1


@pytest.mark.parametrize("side", [14, 32])  # one product of all members, and products of each
def test_weight_gradients_of_one_element_are_the_same_on_any_number_of_threads(
    side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(side)
    x, grad = (rng.standard_normal((5, channels, side, side)).astype("f") for channels in (32, 64))
    found = []
    for count in (1, 2, 3, 8):
        monkeypatch.setattr(cpu_threads, "COUNT", count)
        found.append(D.conv2d_weight(grad, x, (64, 32, 1, 1), *ONE))
    expected = np.einsum("nohw,nchw->oc", grad, x, dtype=np.float64)
    np.testing.assert_allclose(found[0][:, :, 0, 0], expected, rtol=1e-4, atol=1e-3)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_views_and_order_of_memory_do_not_matter() -> None:
    x, weight, _, grad, where = made("groups")
    wide, last = np.repeat(x, 2, -1)[..., ::2], np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    flipped = np.ascontiguousarray(weight[::-1])[::-1]
    far = np.asfortranarray(grad)
    for other in (wide, last):
        wanted, found = D.conv2d(x, weight, *where), D.conv2d(other, flipped, *where)
        np.testing.assert_array_equal(found, wanted)
        wanted, found = (
            D.conv2d_weight(grad, x, weight.shape, *where),
            D.conv2d_weight(far, other, weight.shape, *where),
        )
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slowest
@pytest.mark.parametrize("special", [[np.nan, np.inf], pytest.param([-np.inf, np.inf], marks=pytest.mark.long)])
def test_special_values_stay_in_their_windows(special: list[float]) -> None:
    """No gradient of an input has products with padding, neither by kernels nor, with many channels, by NumPy."""
    cases = GEOMETRIES | {
        "8 channels, stride and dilation": ((3, 8, 14, 28), (8, 8, 1, 3), (3, 1), (1, 2), (1, 2), 1),
        "many channels": ((2, 12, 10, 10), (16, 12, 3, 3), *SAME),
    }
    del cases["more than one part"]  # many images more, with no other window
    for case, (shape, weight_shape, *where) in cases.items():
        x, weight = drawn(*shape), drawn(*weight_shape)
        grad = drawn(*D.conv2d(x, weight, *where).shape)
        for k in range(3):
            given = [x.copy(), weight.copy(), grad.copy()]
            given[k].reshape(-1)[[0, -3]] = special
            calls: dict[str, tuple[Any, ...]] = {
                "conv2d": (given[0], given[1]),
                "conv2d_weight": (given[2], given[0], weight.shape),
                "conv2d_input": (given[2], given[1], x.shape),
            }
            with np.errstate(invalid="ignore"):
                for name, args in calls.items():
                    if not any(arg is given[k] for arg in args):
                        continue
                    found, wanted = getattr(D, name)(*args, *where), reference(name, *args, *where)
                    message = f"{name}: {case}, {('x', 'weight', 'grad')[k]} has {special}"
                    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), message)
                    np.testing.assert_array_equal(found[np.isinf(found)], wanted[np.isinf(wanted)], message)


def test_what_has_no_kernel_is_computed_all_the_same(noted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, _, grad, where = made("whole vectors")
    wanted = D.conv2d(x, weight, *where), D.conv2d_weight(grad, x, weight.shape, *where)
    noted.clear()
    with without_kernels():
        found = D.conv2d(x, weight, *where), D.conv2d_weight(grad, x, weight.shape, *where)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert D.conv2d(x[:0], weight, *where).shape == (0, *grad.shape[1:])
    D.conv2d(x[:, :, :3, :3], weight, *where)  # too narrow
    D.conv2d(x, weight[:, :, :1, :1], *ONE)  # a product of matrices
    assert not noted
    monkeypatch.setattr(conv2d, "MIN_PRODUCTS", 1 << 20)
    D.conv2d(x[:1], weight[:1], *where)
    assert not noted


@pytest.mark.parametrize("registers", [16, 32])
def test_blocks_have_sums_enough_for_products_that_do_not_wait(registers: int) -> None:
    """Also where no block of several vectors divides their number, as 7 rows of one and a row of 10 or 13."""
    for channels, shape in ((32, (32, 1, 160)), (32, (32, 1, 200)), (64, (64, 7, 16)), (2, (8, 13, 16))):
        weight = (channels, shape[0], 1, 5)
        windows = tiles.Windows(shape, weight, ((1, 1), (0, 2), (1, 1)), 1, 16, registers)
        assert np.prod(windows.forward.block) >= 8


def test_explain_lists_them() -> None:
    x, weight, _, _, where = made("whole vectors")
    found = explain(D.conv2d, x, weight, *where)
    assert str(found).startswith("convolution, once:\n    a template of burnpy_numpy with the parameters float64, ")
    assert "define void @kernel" in found.code
