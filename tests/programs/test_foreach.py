"""Operations on lists: kernels give the bits of the defaults, whatever the dtypes and layouts; norms at extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend import Backend, NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.operations.programs import mul_each
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.rows import every_row

D: Any = NumPy()
bfloat16 = dtype_of("bfloat16")


class Composed(NumPy):
    """Without kernels of lists."""

    foreach = NumPyForeachBlocks.foreach
    foreach_norm = Backend.foreach_norm
    total_norm = Backend.total_norm


def mixed() -> list[Any]:
    """Arrays of several shapes, dtypes and layouts; one that is larger than a part of a kernel."""
    generator = np.random.default_rng(3)
    dtypes: tuple[Any, ...] = ("float32", "float64", "float32", "float16", bfloat16, "float32", "float32", "float32")
    shapes = ((3, 5), (4,), (), (7,), (2, 3), (0, 4), (130, 150), (6, 8))
    xs = [np.asarray(generator.uniform(-2, 2, s)).astype(d) for s, d in zip(shapes, dtypes, strict=True)]
    return [*xs[:-1], xs[-1][::-2].T]


CALLS: dict[str, tuple[Any, ...]] = {
    "foreach_mul": (0.3,),
    "foreach_div": (0.3,),
    "foreach_add": (mixed(), -0.7),
    "foreach_lerp": (mixed(), 0.3),
    "foreach_clamp": (-0.5, 0.75),
    "foreach_where": (mixed(),),
}


@every_row("name", CALLS)
def test_kernels_have_the_bits_of_the_defaults(name: str) -> None:
    before: tuple[Any, ...] = (np.asarray(True),) if name == "foreach_where" else ()
    xs, default = mixed(), Composed()
    found = getattr(D, name)(*before, xs, *CALLS[name])
    wanted = getattr(default, name)(*before, xs, *CALLS[name])
    for x, a, b in zip(xs, found, wanted, strict=True):
        assert (a.shape, a.dtype, a.tobytes()) == (x.shape, x.dtype, b.tobytes())
    for x, same in zip(xs, mixed(), strict=True):
        np.testing.assert_array_equal(x, same)
    assert getattr(D, name)(*before, [], *[[] if type(a) is list else a for a in CALLS[name]]) == []


def test_a_number_may_be_a_primitive_or_one_for_each() -> None:
    xs = mixed()
    factors: tuple[Any, ...] = (np.float32(0.3), np.asarray(0.3), np.linspace(0.5, 2, len(xs)).astype("f4"))
    for factor in factors:
        for k, (x, found) in enumerate(zip(xs, D.foreach_mul(xs, factor), strict=True)):
            one = factor[k] if np.ndim(factor) else factor
            wide = np.promote_types(x.dtype, np.float32) if x.dtype != bfloat16 else np.dtype(np.float32)
            np.testing.assert_array_equal(found, (x.astype(wide) * np.asarray(one).astype(wide)).astype(x.dtype))


@every_row("device", [D, Composed()], ids=["kernels", "default"])
@every_row("p", [2.0, 1.0, math.inf, 3.0])
def test_norms_neither_overflow_nor_underflow(device: Any, p: float) -> None:
    large, small = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
    for dtype, numbers in ("float32", (2e38, 1e-42)), ("float64", (large / 4, small)), ("float16", (6e4, 6e-8)):
        for number in numbers:
            xs = [np.full(shape, number, dtype) for shape in ((2,), (0, 3), ())]
            found = device.total_norm(xs, p)
            wanted = float(xs[0][0]) * (3 ** (1 / p) if p != math.inf else 1)
            if float(np.finfo(found.dtype).max) > wanted:
                np.testing.assert_allclose(float(found), wanted, rtol=1e-6 if number > 1e-30 else 0.3)
    assert device.total_norm([np.ones(2, "f2")], p).dtype == np.float32
    for bad in (math.nan, math.inf):
        xs = [np.ones(3, "f4"), np.array([1.0, bad], "f4")]
        np.testing.assert_equal(float(device.total_norm(xs, p)), bad)
        np.testing.assert_equal(device.foreach_norm(xs, p)[1], np.float32(bad))
    assert device.total_norm([], p) == 0
    assert device.foreach_norm([], p).shape == (0,)
    assert device.total_norm([np.zeros(3), np.zeros((), "f4")], p) == 0


def test_one_kernel_for_all(noted: list[Any]) -> None:
    xs = [x for x in mixed() if x.dtype == np.float32]
    D.foreach_mul(xs, 2.0)
    assert [kernel.program.name for kernel in noted] == [mul_each.__name__]
    noted.clear()
    D.total_norm(xs, 2.0)
    assert len(noted) == 1


def test_a_large_sum_is_as_exact_as_float64() -> None:
    x = np.random.default_rng(0).normal(size=300_000).astype("f4")
    wanted = np.linalg.norm(x.astype("f8"))
    assert abs(float(D.total_norm([x, x], 2.0)) / (wanted * math.sqrt(2)) - 1) < 2e-7
