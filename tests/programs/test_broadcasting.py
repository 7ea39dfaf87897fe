"""Elementwise operations of rows and columns: the bits of NumPy, whichever way computes them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from tests.programs.switched import without_kernels

pytest.importorskip("llvmlite")

from burnpy_numpy import pointwise

D: Any = NumPy()
THEIRS = {"sub": "subtract", "mul": "multiply", "div": "divide", "eq": "equal", "ne": "not_equal"}
THEIRS |= {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
FUNCTIONS: dict[str, Any] = {
    name: getattr(np, THEIRS.get(name, name)) for name in ("add", "maximum", "minimum", *THEIRS)
}
KERNELS: dict[tuple[Any, Any], tuple[str, str]] = {  # the extents of the operands
    ((50, 37), (37,)): ("full", "row"),
    ((50, 37), (50, 1)): ("full", "column"),
    ((50, 1), (1, 37)): ("column", "row"),
    ((150, 1), (1, 150)): ("column", "row"),
    ((2, 3, 400), (3, 1)): ("full", "column"),
    ((2, 3, 400), (400,)): ("full", "row"),
    ((2, 3, 4, 50), (1, 1, 4, 50)): ("full", "row"),
    ((4, 5, 20, 1, 4), (4, 1, 1, 1, 1)): ("full", "column"),
}
NUMPY = [
    ((50, 1, 37), (1, 50, 37)),
    ((20, 1, 60), (40, 1)),
    ((50, 37), ()),
    ((50, 37), (1, 1)),
    ((0, 9), (9,)),
    ((3, 5), (5,)),
]
"""Shapes that are no rows and columns, or have little to do."""


def drawn(seed: int, shape: Any, dtype: Any) -> Any:
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.5, 1e-40, 3.0e38]
    return np.random.default_rng(seed).choice(special, shape).astype(dtype)


def equal(found: Any, wanted: Any, signs: bool = True) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)
    if signs and wanted.dtype != bool:
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[real], np.signbit(wanted)[real])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slowest)])
def test_values_are_those_of_numpy(dtype: str, noted: list[Any]) -> None:
    for (shapes, name), swapped in product(product([*KERNELS, *NUMPY], FUNCTIONS), (False, True)):
        x, y = (drawn(k, shape, dtype) for k, shape in enumerate(shapes[::-1] if swapped else shapes))
        noted.clear()
        found = getattr(D, name)(x, y)
        assert bool(noted) == (shapes in KERNELS), (name, shapes)
        with np.errstate(all="ignore"):  # which of two zeros of different signs is larger, NumPy leaves open
            equal(found, FUNCTIONS[name](x, y), name not in ("maximum", "minimum"))


@pytest.mark.parametrize("shapes", [((8, 8), (8,)), ((4, 5), (4, 1)), ((2, 3, 4), (4,)), ((6, 1), (5,))])
def test_few_elements_are_one_call(shapes: Any) -> None:
    D.softmax(np.ones((2, 3), np.float32), 1)  # the compiler is loaded, so that there may be a kernel for few
    for name, dtype, _ in product(FUNCTIONS, ("float32", "float64"), range(2)):  # the second time without its plan
        for given in (shapes, shapes[::-1]):
            x, y = (drawn(k, shape, dtype) for k, shape in enumerate(given))
            with np.errstate(all="ignore"):
                equal(getattr(D, name)(x, y), FUNCTIONS[name](x, y), name not in ("maximum", "minimum"))
            assert (name, *given, x.dtype) in pointwise._small
    x, y = np.ones((*shapes[0][:-1], 2 * shapes[0][-1]), np.float32)[..., ::2], np.ones(shapes[1], np.float32)
    equal(D.add(x, y), x + y)


def test_small_operands_that_are_not_contiguous_are_copied(noted: list[Any]) -> None:
    x, y = (np.random.default_rng(0).normal(size=(60, columns)).astype("float32") for columns in (80, 160))
    equal(D.add(x, y[:, 3:4]), x + y[:, 3:4])
    equal(D.add(x, y[0, ::2]), x + y[0, ::2])
    assert len(noted) == 2
    equal(D.add(y[:, ::2], x[:, :1]), y[:, ::2] + x[:, :1])  # a large one is not
    assert len(noted) == 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_takes_masks_that_are_rows_and_columns(dtype: str, noted: list[Any]) -> None:
    for shapes in KERNELS:
        for mask_shape, x_shape in (shapes, shapes[::-1]):
            mask = np.random.default_rng(0).integers(0, 2, mask_shape).astype(bool)
            x = drawn(1, x_shape, dtype)
            for y in (drawn(2, mask_shape, dtype), -np.inf, 2.5, 3):
                noted.clear()
                found = D.where(mask, x, y)
                assert noted, (shapes, y)
                equal(found, np.where(mask, x, np.asarray(y, dtype)))


def test_layouts_are_rows_and_columns() -> None:
    for shapes, extents in KERNELS.items():
        found = pointwise.layout(shapes)
        assert found is not None
        assert found.extents == extents
        assert found.rows * found.columns == np.prod(found.shape) == np.prod(np.broadcast_shapes(*shapes))
    assert not any(pointwise.layout(shapes) for shapes in NUMPY)


def test_views_and_mixed_dtypes_are_computed_by_numpy(noted: list[Any]) -> None:
    x, y = drawn(0, (37, 50), np.float32).T, drawn(1, (37,), np.float32)
    with np.errstate(all="ignore"):
        equal(D.add(x, y), x + y)
        equal(D.sub(x[::-2], y), x[::-2] - y)
    assert not noted
    assert D.add(drawn(0, (50, 37), np.float64), y).dtype == np.float64
    assert D.add(np.ones((50, 37), np.int64), np.ones(37, np.int64)).dtype == np.int64


def test_results_are_the_same_without_kernels_and_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = drawn(0, (4000, 137), np.float32), drawn(1, (4000, 1), np.float32)
    wanted = D.div(x, y)
    with without_kernels():
        np.testing.assert_array_equal(D.div(x, y), wanted)
    from burnpy_numpy.kernels import launch

    monkeypatch.setattr(launch, "COUNT", 4)
    np.testing.assert_array_equal(D.div(x, y), wanted)


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "_MAX_PLANS", 10)
    pointwise._plans.clear()
    for n in range(30):
        D.add(np.zeros((40, 40 + n)), np.zeros(40 + n))
    assert len(pointwise._plans) <= 10


def _scaled(b: Any, x: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return (b.add(b.mul(x, scale), shift),)


def _two_results(b: Any, x: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return b.mul(x, scale), b.add(scale, shift)


def _unused(b: Any, x: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return (b.mul(x, scale),)


FUSED: list[tuple[Any, tuple[Any, ...], int]] = [  # a formula, the shapes of its arrays, and the number of kernels
    (_scaled, ((8, 5, 7, 9), (1, 5, 1, 1), (1, 5, 1, 1)), 1),
    (_scaled, ((40, 50), (50,), (50,)), 1),
    (_scaled, ((40, 50), (40, 1), (40, 1)), 1),
    (_scaled, ((40, 50), (50,), (40, 1)), 1),
    (_scaled, ((40, 50), (1, 40, 1), (50,)), 1),
    (_scaled, ((50,), (40, 1), (40, 1)), 1),
    (_scaled, ((40, 50), (40, 50), ()), 1),
    (_two_results, ((40, 50), (50,), (40, 1)), 2),  # of different shapes: by operations
    (_two_results, ((40, 50), (1, 40, 1), (50,)), 2),
    (_unused, ((40, 50), (50,), (1, 1, 50)), 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("formula", "shapes", "kernels"), FUSED)
def test_formulas_of_rows_and_columns_are_one_kernel(
    formula: Any, shapes: Any, kernels: int, dtype: str, noted: list[Any]
) -> None:
    arrays = [drawn(k, shape, dtype) for k, shape in enumerate(shapes)]
    noted.clear()
    found = D.fused(formula, arrays)
    assert len(noted) == kernels
    with without_kernels():
        wanted = formula(D, *arrays)
    for out, right in zip(found, wanted, strict=True):
        equal(out, right)


def test_formulas_of_rows_and_columns_of_two_dtypes_are_computed_by_operations() -> None:
    x, row = drawn(0, (40, 50), "float32"), drawn(1, (50,), "float64")
    (out,) = D.fused(_scaled, (x, row, row))
    equal(out, _scaled(D, x, row, row)[0])
