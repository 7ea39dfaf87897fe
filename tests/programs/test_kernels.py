"""Kernels compute what NumPy does, at every length, with every value, on any number of threads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.backend.programs import Extent, Input, Program, ProgramError, trace
from burnpy.backend.programs.program import execute

pytest.importorskip("llvmlite")

from burnpy_numpy import cpu_threads as threads
from burnpy_numpy.kernels import launch
from burnpy_numpy.kernels.compiler.emitter import CHUNK, emit
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.kernel import program_kernel, template_kernel
from tests.rows import every_row

D = NumPy()
VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, -1e-40, 1e30, -1e30, math.inf, -math.inf, math.nan, 3.0, 1e-310]


def full(dtype: str) -> Input:
    return Input(Extent.FULL, dtype)


def made(program: Program) -> Any:
    found = program_kernel(program)
    assert found is not None, program
    return found


def pairs(dtype: str) -> tuple[Any, Any]:
    x, y = np.meshgrid(np.array(VALUES, dtype), np.array(VALUES, dtype))
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


EXACT: dict[str, Callable[..., Any]] = {
    **{
        name: lambda b, x, y, name=name: getattr(b, name)(x, y)
        for name in ("add", "sub", "mul", "div", "maximum", "minimum")
    },
    **{
        name: lambda b, x, y, name=name: b.where(getattr(b, name)(x, y), x, -7.0)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    **{
        name: lambda b, x, y, name=name: getattr(b, name)(x)
        for name in ("neg", "abs", "sign", "floor", "ceil", "round", "sqrt", "relu", "square", "reciprocal", "rsqrt")
    },
    "masks": lambda b, x, y: b.where(
        b.bitwise_xor(b.bitwise_and(b.isnan(x), b.isfinite(y)), b.bitwise_not(b.bitwise_or(b.isinf(x), b.gt(y, 0.0)))),
        x,
        y,
    ),
    "counted": lambda b, x, y: b.add(b.cast(b.lt(x, y), x.dtype), y),
    "clamp": lambda b, x, y: b.clamp(x, -1.0, 2.0),
}


@pytest.mark.slow
@every_row("dtype", ["float32", "float64"])
@every_row("name", EXACT)
def test_arithmetic_is_numpys_bit_for_bit(name: str, dtype: str) -> None:
    program = trace(EXACT[name], (full(dtype), full(dtype)), name=name)
    x, y = pairs(dtype)
    (found,) = made(program)([x, y], (), *x.shape)
    with np.errstate(all="ignore"):
        (wanted,) = execute(D, program, [x, y], ())
    np.testing.assert_array_equal(found, wanted)
    settled = ~np.isnan(wanted)
    if name in ("maximum", "minimum", "relu", "clamp"):
        settled &= wanted != 0  # NumPy's order of 0.0 and -0.0 depends on the machine
    np.testing.assert_array_equal(np.signbit(found[settled]), np.signbit(wanted[settled]))


def test_casts_round_as_numpy_does() -> None:
    program = trace(
        lambda b, x: b.cast(b.mul(b.cast(x, np.dtype("float32")), 1.1), np.dtype("float64")), (full("float64"),)
    )
    x = np.array([*VALUES, 1e300, 0.1, 1 + 2**-30])
    (found,) = made(program)([x.reshape(1, -1)], (), 1, x.size)
    with np.errstate(all="ignore"):
        wanted = (x.astype("f4") * np.float32(1.1)).astype("f8")
    np.testing.assert_array_equal(found[0], wanted)


def test_bools_go_in_and_out() -> None:
    program = trace(
        lambda b, mask, x: (b.where(mask, x, 0.0), b.bitwise_not(mask)), (Input(Extent.FULL, "bool"), full("float32"))
    )
    mask = np.random.default_rng(0).integers(0, 2, (5, 37)).astype(bool)
    x = np.ones((5, 37), np.float32)
    kept, flipped = made(program)([mask, x], (), 5, 37)
    np.testing.assert_array_equal(kept, mask.astype("f4"))
    np.testing.assert_array_equal(flipped, ~mask)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_length_and_nothing_beyond_it(dtype: str) -> None:
    program = trace(Backend.silu, (full(dtype),))
    run = made(program)
    for length in range(1, 70):
        x = np.linspace(-2, 2, length).astype(dtype)
        room = np.full(length + 70, 9.0, dtype)
        run.into([x, room[:length]], (), 1, length)
        np.testing.assert_allclose(room[:length], x / (1 + np.exp(-x)), rtol=1e-6)
        assert (room[length:] == 9.0).all()


def rounded(b: Any, x: Any, low: float, scale: float = 0.05) -> Any:
    """Return x rounded to one of 256 numbers from ``low`` on, times the scale."""
    levels = b.clamp(b.add(b.round(b.div(x, scale)), low + 128.0), low, low + 255.0)
    return b.mul(b.sub(levels, low + 128.0), scale)


def of_bytes(b: Any, x: Any, dtype: str) -> Any:
    return b.tanh(b.mul(b.to_float(b.to_int(x, np.dtype(dtype)), np.dtype("float32")), 0.01))


TABULATED: dict[str, tuple[Callable[..., Any], int]] = {
    "silu": (lambda b, x: Backend.silu(b, rounded(b, x, 0.0)), 1),
    "signed": (lambda b, x: b.tanh(rounded(b, x, -128.0)), 1),
    "chain": (lambda b, x: rounded(b, b.mul(b.sigmoid(rounded(b, x, 0.0)), rounded(b, x, 0.0)), -128.0), 1),
    "quotients": (lambda b, x: rounded(b, b.div(rounded(b, x, 0.0), 3.0), 0.0), 1),
    "two": (lambda b, x: b.mul(b.exp(rounded(b, x, 0.0)), b.exp(rounded(b, b.neg(x), 0.0))), 2),
    "sum": (lambda b, x: b.add(b.exp(rounded(b, x, 0.0)), x), 1),
    "twice": (
        lambda b, x: b.sub(Backend.silu(b, rounded(b, x, 0.0)), b.sum(Backend.silu(b, rounded(b, x, 0.0)), (1,), True)),
        1,
    ),
    "uint8": (lambda b, x: of_bytes(b, b.clamp(x, 0.0, 255.0), "uint8"), 1),
    "int8": (lambda b, x: of_bytes(b, b.clamp(x, -128.0, 127.0), "int8"), 1),
    "int32": (lambda b, x: of_bytes(b, x, "int32"), 0),
    "of NaN": (lambda b, x: b.exp(b.cast(b.isnan(rounded(b, x, 0.0)), x.dtype)), 1),
    "of x": (lambda b, x: b.exp(b.clamp(x, 0.0, 255.0)), 0),
    "of wide numbers": (lambda b, x: b.exp(b.clamp(b.add(b.round(x), 1.0), 0.0, 256.0)), 0),
    "of -0.0": (lambda b, x: b.exp(b.clamp(b.round(x), -128.0, 127.0)), 0),
    "not slow": (lambda b, x: b.mul(rounded(b, x, 0.0), 2.0), 0),
}
"""Functions of quantized numbers, and how many tables they become."""


@every_row("name", TABULATED)
def test_functions_of_quantized_numbers_are_tables(name: str) -> None:
    formula, tables = TABULATED[name]
    program = trace(formula, (full("float32"),), name=name)
    kernel = made(program)
    assert [step.op for step in kernel.program.instructions].count("table") == tables
    for columns in (1, 5, 32, 150):
        x = np.random.default_rng(columns).normal(0, 5, (3, columns)).astype("f4")
        if not name.startswith(("uint", "int")):
            x[0, : len(VALUES)] = np.array(VALUES, "f4")[:columns]
        (found,) = kernel([x], (), *x.shape)
        with np.errstate(all="ignore"):
            (wanted,) = execute(D, program, [x], ())
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


ROWWISE: list[tuple[str, str, tuple[Any, ...]]] = [
    ("softmax", "f", (1,)),
    ("softmax_backward", "ff", (1,)),
    ("log_softmax", "f", (1,)),
    ("log_softmax_backward", "ff", (1,)),
    ("normalize", "frr", ((1,), 0.1)),
    ("normalize_backward", "ffrcc", ((1,), 0.1)),
    ("rms_norm", "fr", ((1,), 0.1)),
    ("rms_norm_backward", "ffr", ((1,), 0.1)),
    ("cross_entropy", "fi", (1,)),
]
EXTENTS = {"f": Extent.FULL, "r": Extent.ROW, "c": Extent.COLUMN, "i": Extent.COLUMN}


@every_row("dtype", ["float32", "float64"])
def test_elements_that_fill_no_vector(dtype: str) -> None:
    """They have the bits of elements in whole vectors, also where the outputs have the memory of the inputs."""
    kernel = made(trace(lambda b, x, y: (b.mul(x, b.sigmoid(y)), b.lt(x, y)), (full(dtype),) * 2))
    assert kernel.layout.flat
    x, y = np.random.default_rng(2).normal(size=(2, 150)).astype(dtype)
    wanted = [D.mul(x, D.sigmoid(y)), x < y]
    for begin, size in [(0, 1), (1, 31), (3, 33), (0, 63), (5, 64), (7, 100), (2, 148)]:
        part = slice(begin, begin + size)
        product, less = x.copy(), np.zeros(150, bool)
        kernel.into((product[part], y[part], product[part], less[part]), (), 1, size)
        np.testing.assert_array_equal(product[part], wanted[0][part])
        np.testing.assert_array_equal(less[part], wanted[1][part])
        others = np.r_[:begin, begin + size : 150]
        np.testing.assert_array_equal(product[others], x[others])
        assert not less[others].any()


@pytest.mark.slow
@every_row("dtype", ["float32", "float64"])
@every_row("name, kinds, rest", ROWWISE, ids=[r[0] for r in ROWWISE])
def test_rows_of_every_length(name: str, kinds: str, rest: tuple[Any, ...], dtype: str) -> None:
    inputs = tuple(Input(EXTENTS[kind], "int64" if kind == "i" else dtype) for kind in kinds)
    program = trace(getattr(Backend, name), inputs, *rest)
    run = made(program)
    generator = np.random.default_rng(1)
    for rows, columns in [(1, 1), (3, 2), (5, 7), (2, 16), (130, 17), (3, 33), (260, 3), (4, 1000), (1, 64)]:
        xs = []
        for kind, given in zip(kinds, inputs, strict=True):
            shape = given.extent.shape(rows, columns)
            drawn = generator.uniform(0.2, 2.0, shape)
            xs.append(generator.integers(0, columns, shape) if kind == "i" else drawn.astype(dtype))
        wide = [x if x.dtype == np.int64 else x.astype(np.float64) for x in xs]
        exact = execute(
            D,
            trace(
                getattr(Backend, name),
                tuple(Input(i.extent, "int64" if i.dtype == "int64" else "float64") for i in inputs),
                *rest,
            ),
            wide,
            (),
        )
        rough = 3e-5 if dtype == "float32" else 1e-12
        for found, wanted in zip(run(xs, (), rows, columns), exact, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=rough, atol=rough, err_msg=f"{rows} {columns}")


def test_rows_with_nan_and_infinity() -> None:
    run = made(trace(Backend.softmax, (full("float32"),), 1))
    x = np.zeros((6, 21), np.float32)
    x[0, 20] = x[1, 3] = np.nan
    x[2, 5] = np.inf
    x[3] = -np.inf
    x[4, 7] = -np.inf
    (out,) = run([x], (), *x.shape)
    assert np.isnan(out[:4]).all()
    assert out[4, 7] == 0
    np.testing.assert_allclose(out[4:].sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", ["gelu", "normalize_backward", "sums", "memory of its own"])
def test_results_do_not_depend_on_how_rows_are_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = 3 * CHUNK + 5, 37
    generator = np.random.default_rng(2)
    kinds = {"gelu": "f", "normalize_backward": "ffrcc", "sums": "f", "memory of its own": "f"}[name]
    function: Any = {
        "gelu": lambda b, x: Backend.gelu(b, x, True),
        "normalize_backward": lambda b, g, x, w, m, v: Backend.normalize_backward(b, g, x, w, m, v, (1,), 0.1),
        "sums": lambda b, x: (b.sum(x, (0,), False), b.sum(b.exp(x), (0, 1), False)),
        "memory of its own": lambda b, x: (b.mul(e := b.exp(x), b.sum(e, (1,), True)), b.sub(e, b.amax(e, (1,), True))),
    }[name]
    program = trace(function, tuple(Input(EXTENTS[kind], "float32") for kind in kinds), name=name)
    xs = [generator.uniform(0.2, 1, EXTENTS[kind].shape(rows, columns)).astype("f4") for kind in kinds]
    run = made(program)
    whole = run(xs, (), rows, columns)
    monkeypatch.setattr(launch, "COUNT", 2)
    monkeypatch.setattr(launch, "_SHARED", 0)
    monkeypatch.setattr(threads, "LEAST", 1)
    for count in (2, 3, 5):
        monkeypatch.setattr(threads, "COUNT", count)
        for a, b in zip(whole, run(xs, (), rows, columns), strict=True):
            np.testing.assert_array_equal(a, b)
    if name == "sums":
        np.testing.assert_allclose(whole[0], xs[0].sum(0), rtol=1e-5)
        assert whole[1].shape == ()
        np.testing.assert_allclose(whole[1], np.exp(xs[0].astype("f8")).sum(), rtol=1e-5)


def test_numbers_are_read_at_each_call() -> None:
    program = trace(lambda b, x, s: b.mul(x, s), (full("float32"), Input(Extent.SCALAR, "float32")))
    run = made(program)
    x = np.ones((2, 9), np.float32)
    for number in (0.1, -2.0, 1e300):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(run([x], (number,), 2, 9)[0], x * np.float32(number))


def test_an_output_may_have_the_memory_of_an_input() -> None:
    program = trace(lambda b, x, y: (b.add(x, y), b.sub(x, y)), (full("float64"), full("float64")))
    x, y = np.arange(40.0).reshape(1, 40), np.ones((1, 40))
    made(program).into([x, y, x, y], (), 1, 40)
    np.testing.assert_array_equal(x[0], np.arange(40) + 1)
    np.testing.assert_array_equal(y[0], np.arange(40) - 1)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda b, x: b.sub(x, b.mean(x, (0,), True)), "a sum over rows"),
        (lambda b, x: b.amax(x, (0,), False), "no maximum over rows"),
        (lambda b, x: b.abs(b.cast(x, np.dtype("float16"))), "do not compute"),
        (lambda b, x: b.cast(x, np.dtype("int64")), "do not compute"),
    ],
)
def test_what_kernels_cannot_do_is_left_to_the_interpreter(f: Callable[..., Any], message: str) -> None:
    program = trace(f, (full("float32"),))
    with pytest.raises(ProgramError, match=message):
        emit(program, 64)
    assert program_kernel(program) is None
    x = np.random.default_rng(0).standard_normal((70, 90)).astype("f4")
    (found,) = execute(D, program, [x], ())
    np.testing.assert_array_equal(D.run(program, [x], ())[0], found)


def test_operations_use_kernels_for_all_but_single_elements(noted: list[Any]) -> None:
    x = np.linspace(-3, 3, 96 * 64, dtype=np.float32).reshape(96, 64)
    several = {
        "sigmoid": D.sigmoid(x),
        "gelu": D.gelu(x, False),
        "silu": D.silu(x),
        "softmax": D.softmax(x, 1),
        "normalize": D.normalize(x, x[0], x[1], (1,), 1e-5)[0],
    }
    assert [kernel.program.name for kernel in noted] == list(several)
    noted.clear()
    D.gelu(x[:1, :1], False)
    D.softmax(x[:1, :1], 1)
    assert not noted
    D.softmax(x[0, :2], 0)
    assert [kernel.program.name for kernel in noted] == ["softmax"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(D.silu(x.T), D.silu(x).T)
        np.testing.assert_allclose(D.gelu(x[::2], False), D.gelu(x, False)[::2], atol=3e-7)


def test_layout_does_not_change_a_bit() -> None:
    x = np.random.default_rng(3).standard_normal((130, 70)).astype("f4")
    expanded = np.broadcast_to(x[:1], x.shape)
    for name, rest in (("gelu", (False,)), ("softmax", (1,)), ("silu", ())):
        whole = getattr(D, name)(x, *rest)
        np.testing.assert_array_equal(getattr(D, name)(np.asfortranarray(x), *rest), whole)
        np.testing.assert_array_equal(getattr(D, name)(expanded, *rest), getattr(D, name)(expanded.copy(), *rest))


def test_arrays_of_other_sizes_are_never_read() -> None:
    run = made(trace(Backend.rms_norm, (full("float32"), Input(Extent.ROW, "float32")), (1,), 0.1))
    x, weight = np.ones((64, 80), np.float32), np.ones(80, np.float32)
    for wrong in ([x, weight[:79]], [x[:63], weight], [x, weight.astype(np.float64)]):
        with pytest.raises(ProgramError, match="kernel rms_norm got"):
            run(wrong, (), 64, 80)


@pytest.mark.parametrize("shared_from", [1, 1 << 18])
def test_strided_inputs_are_copied_and_strided_outputs_refused(
    shared_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_SHARED", shared_from)
    monkeypatch.setattr(launch, "COUNT", 2)
    run = made(trace(lambda b, x, y: b.mul(x, y), (full("float32"), Input(Extent.COLUMN, "float32"))))
    x, y = np.arange(60, dtype="f4").reshape(5, 12), np.float32(2.0)
    out = np.zeros((1, 6), np.float32)
    run.into([x[1:2, ::2], y, out], (), 1, 6)
    np.testing.assert_array_equal(out, x[1:2, ::2] * y)
    with pytest.raises(ProgramError, match="memory for an output"):
        run.into([out, y, x[1:2, ::2]], (), 1, 6)
    np.testing.assert_array_equal(x, np.arange(60).reshape(5, 12))


def test_scalars_of_numpy_are_no_arrays() -> None:
    x = np.random.default_rng(0).standard_normal(5000)
    losses, total = D.cross_entropy(x, np.int64(7), 0)
    np.testing.assert_allclose(losses, np.log(np.exp(x).sum()) - x[7])
    gradient = D.cross_entropy_backward(np.float64(1.0), x, total, np.int64(7), 0)
    wanted = np.exp(x) / np.exp(x).sum()
    wanted[7] -= 1
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)


def test_a_kernel_of_a_template_refuses_a_size_that_is_no_int() -> None:
    from burnpy_numpy.kernels.pooling import avg_pool

    kernel = template_kernel(avg_pool, "float32", 2, 2, False)
    assert kernel is not None
    x, shares, out = (np.zeros(16, np.float32) for _ in range(3))
    sizes: list[Any] = [4, 4, 2, 2, 2, 2, 0, 0, 1, "1"]
    with pytest.raises(TypeError):
        kernel((x, shares, out), sizes, 0, 1)
    assert not out.any()


def test_instructions_that_a_loop_does_not_change_are_written_once_before_it() -> None:
    w = Loops(4, 1, 2)
    first, second = w.sizes
    with w.loop(0, first) as i:
        whole = first * second
        with w.loop(0, second) as j:
            outer = i * 8 + whole
            inner = j + outer
            assert first * second == whole
        assert i * 8 + whole == outer

    def place(text: str) -> int:
        return next(k for k, line in enumerate(w.lines) if line.strip().startswith(text))

    assert (
        place(f"{whole} =") < place("loop1_head:") < place("loop1_body:") < place(f"{outer} =") < place("loop2_head:")
    )
    assert place("loop2_body:") < place(f"{inner} =") < place("loop2_end:")


def test_arithmetic_of_ints_writes_instructions() -> None:
    w = Loops(4, 1, 2)
    x, y = w.sizes
    written: dict[str, Callable[[], str]] = {
        f"add i64 {x}, {y}": lambda: x + y,
        f"add i64 3, {x}": lambda: 3 + x,
        f"add i64 {x}, -3": lambda: x - 3,
        f"sub i64 {x}, {y}": lambda: x - y,
        f"sub i64 3, {x}": lambda: 3 - x,
        f"mul i64 {x}, 8": lambda: x * 8,
        f"mul i64 8, {x}": lambda: 8 * x,
        f"sdiv i64 {x}, {y}": lambda: x // y,
        f"srem i64 {x}, 8": lambda: x % 8,
        f"and i64 {x}, 7": lambda: x & 7,
        f"select i1 {w.icmp('slt', x, y)}, i64 {x}, i64 0": lambda: w.chosen(w.icmp("slt", x, y), x, 0),
    }
    for text, write in written.items():
        name = write()
        assert f"  {name} = {text}" in w.lines
    quotient, rest = divmod(x, 5)
    assert rest == x - quotient * 5


def test_branches_and_divisors_that_may_be_zero_keep_their_instructions() -> None:
    w = Loops(4, 1, 2)
    first, second = w.sizes
    with w.loop(0, first):
        quotients = [first // second for _ in range(2)]
        half = first // 2
        with w.when(f"eq i64 {second}, 0"):
            inside = first + second
        after = first + second
    places = {line.split("=")[0].strip(): k for k, line in enumerate(w.lines)}
    assert quotients[0] != quotients[1]
    assert places[half] < places["loop1_head:"] < places[quotients[0]]
    assert places["when2_body:"] < places[inside] < places["when2_end:"]
    assert places[after] < places["loop1_head:"]
