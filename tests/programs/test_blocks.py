"""Programs that NumPy computes block by block: the values of the operations, for blocks of any size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.program import Extent, Input, Program, trace
from burnpy.backend.program.execute import execute
from burnpy_array.programs import program_of
from burnpy_numpy.block_kernel import BlockKernel, block_kernel
from burnpy_numpy.block_source import source
from burnpy_numpy.compiled import operations

D = NumPy()
RNG = np.random.default_rng(0)

PROGRAMS: list[tuple[str, tuple[str, ...], tuple[Any, ...]]] = [
    ("relu_backward", ("full", "full"), ()),
    ("gelu", ("full",), (False,)),
    ("gelu", ("full",), (True,)),
    ("gelu_backward", ("full", "full"), (False,)),
    ("gelu_backward", ("full", "full"), (True,)),
    ("silu_backward", ("full", "full"), ()),
    ("softplus", ("full",), (2.0,)),
    ("elu", ("full",), (1.5, 1.0, 1.0)),
    ("erfinv", ("full",), ()),
    ("lgamma", ("full",), ()),
    ("masked_scale", ("full", "mask", "scalar"), ()),
    ("softmax", ("full",), (1,)),
    ("softmax_backward", ("full", "full"), (1,)),
    ("log_softmax_backward", ("full", "full"), (1,)),
    ("cross_entropy", ("full", "index"), (1,)),
    ("cross_entropy_gradient", ("column", "full", "column", "index"), ()),
    ("normalize", ("full", "row", "row"), ((1,), 0.1)),
    ("normalize_backward", ("full", "full", "row", "column", "column"), ((1,), 0.1)),
    ("rms_norm_backward", ("full", "full", "row"), ((1,), 0.1)),
    ("sum_of_squares", ("full",), ()),
]


def arguments(extents: tuple[str, ...], dtype: str, shape: tuple[int, int]) -> tuple[list[Any], tuple[float, ...]]:
    """Arrays, and numbers, for the inputs of a program."""
    xs: list[Any] = []
    for extent in extents:
        if extent == "mask":
            xs.append(RNG.random(shape) < 0.5)
        elif extent == "index":
            xs.append(RNG.integers(0, shape[1], (shape[0], 1)))
        elif extent != "scalar":
            xs.append(RNG.uniform(0.1, 0.9, Extent(extent).shape(*shape)).astype(dtype))
    return xs, (1.25,) * extents.count("scalar")


@pytest.mark.parametrize(("name", "extents", "rest"), PROGRAMS, ids=[f"{p[0]}-{k}" for k, p in enumerate(PROGRAMS)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_compute_what_the_operations_do(
    name: str, extents: tuple[str, ...], rest: tuple[Any, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(name, extents, dtype, rest)
    assert program is not None
    rough = 1e-12 if dtype == "float64" else 3e-5
    for shape, size in (((3, 5), 1 << 16), ((41, 7), 60), ((41, 7), 1), ((100, 130), 9000), ((1, 1), 1)):
        xs, numbers = arguments(extents, dtype, shape)
        before = [x.copy() for x in xs]
        kernel = block_kernel(program)
        assert kernel is not None
        monkeypatch.setattr(kernel, "_block", size)
        found = in_blocks(program, xs, numbers, shape)
        for x, copy in zip(xs, before, strict=True):
            np.testing.assert_array_equal(x, copy)
        for a, b in zip(found, execute(D, program, xs, numbers), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=rough, atol=rough)
            assert not any(np.shares_memory(a, x) for x in xs)


def in_blocks(program: Program, xs: list[Any], numbers: tuple[float, ...], shape: tuple[int, int]) -> list[Any]:
    kernel = block_kernel(program)
    assert kernel is not None
    return kernel(xs, numbers, *shape)


@pytest.mark.parametrize("name", ["gelu", "softmax", "normalize_backward"])
def test_no_rows(name: str) -> None:
    _, extents, rest = next(row for row in PROGRAMS if row[0] == name)
    program = program_of(name, extents, "float64", rest)
    assert program is not None
    xs, numbers = arguments(extents, "float64", (0, 3))
    wanted = execute(D, program, xs, numbers)
    for a, b in zip(in_blocks(program, xs, numbers, (0, 3)), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_of_shapes_only_the_sizes_matter() -> None:
    x = RNG.uniform(-1, 1, (2, 3, 5))
    for name, rest in (("silu", ()), ("softmax", (1,))):
        program = program_of(name, ("full",), "float64", rest)
        assert program is not None
        (found,) = in_blocks(program, [x], (), (6, 5))
        np.testing.assert_allclose(found, execute(D, program, [x.reshape(6, 5)], ())[0], rtol=1e-12)


def test_special_values_are_chosen_bit_by_bit() -> None:
    condition, edges = RNG.random(9000) < 0.5, RNG.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324], 9000)
    for other in (0.0, -0.0, 2.0):

        def f(b: Any, mask: Any, x: Any, y: Any, other: float = other) -> Any:
            return b.where(mask, x, other), b.where(mask, x, y)

        program = trace(f, (Input(Extent.FULL, "bool"), *[Input(Extent.FULL, "float64")] * 2))
        given = [x.reshape(1, -1) for x in (condition, edges, edges[::-1])]
        for a, b in zip(in_blocks(program, given, (), (1, 9000)), (np.float64(other), given[2]), strict=True):
            assert a.tobytes() == np.where(given[0], given[1], b).tobytes()


def test_products_under_a_sum_are_not_stored() -> None:
    def f(b: Any, x: Any, y: Any) -> Any:
        return b.sum(b.mul(x, y), (1,), True)

    found = source(trace(f, (Input(Extent.FULL, "float32"),) * 2))
    assert "dots(x0, x1)" in found.text
    assert not found.memory


def test_memory_is_used_again() -> None:
    def f(b: Any, x: Any) -> Any:
        for _ in range(20):
            x = b.mul(b.exp(x), b.sin(x))
        return x

    assert len(source(trace(f, (Input(Extent.FULL, "float32"),))).memory) == 1


@pytest.mark.usefixtures("without_kernels")
def test_only_the_result_is_as_large_as_the_argument() -> None:
    x = np.ones((1 << 10, 1 << 10), np.float32)
    calls: list[Callable[[], Any]] = [
        lambda: D.gelu(x, False),
        lambda: D.gelu_backward(x, x, True),
        lambda: D.softmax(x, 1),
    ]
    for f in calls:
        f()
        tracemalloc.start()
        try:
            f()
            assert tracemalloc.get_traced_memory()[1] < 1.9 * x.nbytes  # and some blocks for each thread
        finally:
            tracemalloc.stop()


@pytest.mark.usefixtures("without_kernels")
def test_operations_run_in_blocks_from_some_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def into(kernel: BlockKernel, *args: Any) -> Any:
        ran.append(kernel.program.name)
        return before(kernel, *args)

    before = BlockKernel._run
    monkeypatch.setattr(BlockKernel, "_run", into)
    few, many = np.ones((8, 8), np.float32), np.ones((operations.BLOCKS, 1), np.float32)
    for x in (few, many):
        D.gelu(x, True)
        D.softmax(x, 1)
        D.relu(x)
    assert ran == ["gelu", "softmax"]
