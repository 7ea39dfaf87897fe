"""The operations that run as kernels give what they give without, forward and backward."""

from __future__ import annotations

import re
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend import operations as declared
from burnpy.nn.functional import hardtanh

pytest.importorskip("llvmlite")

import burnpy_numpy
from burnpy_array.pointwise import BINARY, UNARY
from burnpy_numpy import pointwise, programs
from burnpy_numpy.kernels import kernel
from tests.kernels import multiplies
from tests.programs.switched import one_by_one, without_kernels
from tests.rows import every_row

D: Any = NumPy()
BY_NAME = declared()
RNG = np.random.default_rng(11)


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return RNG.uniform(low, high, shape)


INDEX = RNG.integers(0, 60, (100,))
CASES: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {
    **{name: (name, (x(70, 90, low=0.1),), (name,)) for name in ("expm1", "log1p", "tanh", "sin", "cos", "sign")},
    **{f"pow {power}": ("pow", (x(70, 90, low=0.1), power), ("pow",)) for power in (3, 4, -2)},
    "pow -0.5": ("pow", (x(70, 90, low=0.1), -0.5), ("rsqrt",)),
    **{name: (name, (x(70, 90, low=0.1),), (name,)) for name in ("exp", "rsqrt", "reciprocal")},
    "logsumexp": ("logsumexp", (x(7, 10, 90), (1, 2), False), ("logsumexp",)),
    **{
        name: (name, (x(70, 90, low=-0.9, high=0.9),), (name,))
        for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh")
    },
    "acosh": ("acosh", (x(70, 90, low=1.1),), ("acosh",)),
    **{name: (name, (x(70, 90), x(70, 90)), (name,)) for name in ("atan2", "hypot", "logaddexp", "logaddexp2")},
    "sigmoid": ("sigmoid", (x(70, 90),), ("sigmoid",)),
    "erf": ("erf", (x(70, 90),), ("erf",)),
    "relu": ("relu", (x(70, 90),), ("relu",)),
    "relu_backward": ("relu_backward", (x(70, 90), np.maximum(x(70, 90), 0)), ("relu_backward",)),
    "gelu": ("gelu", (x(70, 90), False), ("gelu",)),
    "gelu, approximate": ("gelu", (x(70, 90), True), ("gelu",)),
    "gelu_backward": ("gelu_backward", (x(70, 90), x(70, 90), False), ("gelu_backward",)),
    "silu": ("silu", (x(7, 10, 90),), ("silu",)),
    "silu_backward": ("silu_backward", (x(70, 90), x(70, 90)), ("silu_backward",)),
    "softplus": ("softplus", (x(70, 90), 2.0), ("softplus",)),
    **{
        name: (name, (x(70, 90, low=-0.9, high=0.9),), (name,))
        for name in ("erfc", "erfinv", "sinc", "hardswish", "mish")
    },
    "igamma_slope": ("igamma_slope", (x(70, 90, low=0.5), x(70, 90, low=0.5), 1), ("igamma_slope",)),
    "gamma_quantile_slope": (
        "gamma_quantile_slope",
        (x(200, 90, low=0.1), x(200, 90, low=0.1), False),
        ("slope_of_gamma_quantile",),
    ),
    "beta_quantile_slope": (
        "beta_quantile_slope",
        (x(200, 90), x(200, 90, low=0.1), x(200, 90, low=0.1)),
        ("slope_of_beta_quantile",),
    ),
    **{
        name: (name, (x(70, 90, low=0.01, high=0.99), *(x(70, 90, low=0.1, high=60.0) for _ in range(2))), (name,))
        for name in ("betainc", "betainc_density")
    },
    **{
        name: (name, (x(70, 90, low=-9.0, high=12.0),), (name,))
        for name in ("lgamma", "digamma", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "normal_ratio")
    },
    "ndtri_exp": ("ndtri_exp", (x(70, 90, low=-900.0, high=-0.01),), ("ndtri_exp",)),
    **{name: (name, (x(70, 90, low=0.01, high=0.99),), (name,)) for name in ("entr", "ndtri")},
    "erfcx": ("erfcx", (x(70, 90, low=-5.0, high=9.0),), ("erfcx",)),
    "erfcx_slope": ("erfcx_slope", (x(70, 90, low=-5.0, high=9.0), 1), ("erfcx_slope",)),
    "bessel_ratio": ("bessel_ratio", (x(70, 90, low=-9.0, high=12.0), 2, True), ("bessel_ratio",)),
    **{
        name: (name, (x(70, 90, low=0.1, high=60.0), x(70, 90, low=0.1, high=60.0)), (name,))
        for name in ("igamma", "igammac", "igamma_density")
    },
    "igamma of rows": ("igamma", (x(70, 90, low=0.1, high=60.0), x(90, low=0.1, high=60.0)), ("igamma",)),
    "igamma of a number": ("igamma", (x(70, 90, low=0.1, high=60.0), 3.5), ("igamma",)),
    "zeta": ("zeta", (x(70, 90, low=1.1, high=9.0), x(70, 90, low=0.1, high=9.0)), ("zeta",)),
    "squared_difference": ("squared_difference", (x(70, 90), x(70, 90, low=-0.9)), ("squared_difference",)),
    "nextafter": ("nextafter", (x(70, 90), x(70, 90, low=-0.9)), ("nextafter",)),
    "xlog1py": ("xlog1py", (x(70, 90), x(70, 90, low=-0.9)), ("xlog1py",)),
    "clamp": ("clamp", (x(70, 90), -1.0, 0.5), ("clamped",)),
    "clamp without a bound": ("clamp", (x(70, 90), None, 0.5), ("clamped",)),
    "clamp_between": ("clamp_between", (x(70, 90), x(70, 90, high=0.0), x(70, 90)), ("_between",)),
    "clamp_between of rows": ("clamp_between", (x(70, 90), x(90, high=0.0), x(90)), ("_between",)),
    "leaky_relu": ("leaky_relu", (x(70, 90), 0.25), ("leaky_relu",)),
    "elu": ("elu", (x(70, 90), 2.0, 0.5, 3.0), ("weighted_elu",)),
    "hardtanh": ("hardtanh", (x(70, 90), -1.0, 0.5), ("clamped",)),
    "softmax": ("softmax", (x(7, 10, 90), 2), ("softmax",)),
    "softmax of a vector": ("softmax", (x(5000), 0), ("softmax",)),
    "softmax_backward": ("softmax_backward", (x(70, 90), x(70, 90), 1), ("softmax_backward",)),
    "softmax of few columns": ("softmax", (x(20, 50), 0), ("softmax",)),
    "softmax of short rows, backward": (
        "softmax_backward",
        (x(9, 90, 12), x(9, 90, 12), 1),
        ("transposed_copy", "transposed_copy", "softmax_backward", "transposed_copy"),
    ),
    "log_softmax of short rows": (
        "log_softmax",
        (x(9, 90, 12), 1),
        ("transposed_copy", "log_softmax", "transposed_copy"),
    ),
    "log_softmax": ("log_softmax", (x(70, 90), 1), ("log_softmax",)),
    "log_softmax_backward": ("log_softmax_backward", (x(70, 90), x(70, 90, high=0.0), 1), ("log_softmax_backward",)),
    "cross_entropy": ("cross_entropy", (x(100, 60), INDEX, 1), ("cross_entropy",)),
    "cross_entropy of sequences": ("cross_entropy", (x(10, 10, 60), INDEX.reshape(10, 10), 2), ("cross_entropy",)),
    "cross_entropy_backward": (
        "cross_entropy_backward",
        (x(100), x(100, 60), x(100, 1, low=3.0, high=4.0), INDEX, 1),
        ("cross_entropy_gradient",),
    ),
    "masked_scale": ("masked_scale", (x(70, 90), x(70, 90) > 0, 1.25), ("masked_scale",)),
    "layer norm": ("normalize", (x(70, 90), x(90), x(90), (1,), 0.1), ("normalize",)),
    "layer norm of two dimensions": ("normalize", (x(8, 7, 90), x(7, 90), x(7, 90), (1, 2), 0.1), ("normalize",)),
    "layer norm, backward": (
        "normalize_backward",
        (x(700, 9), x(700, 9), x(9), x(700, 1), x(700, 1, low=0.5), (1,), 0.1),
        ("normalize_backward",),
    ),
    "batch norm": (
        "normalize",
        (x(12, 9, 6, 30), x(9, 1, 1), x(9, 1, 1), (0, 2, 3), 0.1),
        ("group_normalization",),
    ),
    "batch norm, backward": (
        "normalize_backward",
        (
            *(x(12, 9, 6, 30), x(12, 9, 6, 30), x(9, 1, 1), x(1, 9, 1, 1), x(1, 9, 1, 1, low=0.5)),
            *((0, 2, 3), 0.1),
        ),
        ("group_normalization_backward",),
    ),
    "batch norm of a matrix": ("normalize", (x(70, 90), x(90), x(90), (0,), 0.1), ("normalize",)),
    "batch norm of a matrix, backward": (
        "normalize_backward",
        (x(70, 90), x(70, 90), x(90), x(1, 90), x(1, 90, low=0.5), (0,), 0.1),
        ("normalize_backward",),
    ),
    "group norm": (
        "normalize",
        (x(12, 3, 5, 41), x(3, 5, 1), x(3, 5, 1), (2, 3), 0.1),
        ("group_normalization",),
    ),
    "group norm, backward": (
        "normalize_backward",
        (
            *(x(12, 3, 5, 41), x(12, 3, 5, 41), x(3, 5, 1), x(12, 3, 1, 1), x(12, 3, 1, 1, low=0.5)),
            *((2, 3), 0.1),
        ),
        ("group_normalization_backward",),
    ),
    "rms_norm": ("rms_norm", (x(70, 90), x(90), (1,), 0.1), ("rms_norm",)),
    "rms_norm_backward": ("rms_norm_backward", (x(70, 90), x(70, 90), x(90), (1,), 0.1), ("rms_norm_backward",)),
    **{
        f"norm {name}": ("vector_norm", (x(*shape), 2.0, dims, keep), ("sum_of_squares",))
        for name, shape, dims, keep in (
            ("of rows", (70, 90), (1,), False),
            ("of two dims", (9, 10, 90), (1, 2), True),
            ("of all", (3, 40, 70), (0, 1, 2), False),
            ("of all of many", (20, 4096), (0, 1), True),
        )
    },
    "norm of a transposed array": ("vector_norm", (x(70, 90).T, 2.0, (0, 1), False), ("sum_of_squares",)),
    "norm of transposed columns": ("vector_norm", (x(70, 90).T, 2.0, (0,), False), ("sum_of_squares",)),
    "var": ("var", (x(70, 90), (1,), False, 1), ("variance_of_rows",)),
    "std of all": ("std", (x(7, 9, 10), (0, 1, 2), True, 0), ("variance_of_rows",)),
    "attention": ("attention", (x(2, 3, 40, 8), x(2, 3, 40, 8), x(2, 3, 40, 5), None, 0, 0.3), ("attention_weights",)),
    "attention_backward": (
        "attention_backward",
        (x(6, 40, 7), *(x(6, 40, 7) for _ in range(3)), x(6, 40, 7), x(6, 40, low=3.0, high=3.5), None, 0, 0.3),
        ("attention_weights_again", "attention_scores_gradient"),
    ),
}


POOLED = np.round(x(3, 5, 20, 13))
"""Numbers with many equal ones, some NaN, and some windows all -inf."""
POOLED[0, 0, 3, 4], POOLED[1, 2, 5:12, 3:9] = np.nan, -np.inf


def _max_pool(
    kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool = True
) -> tuple[str, tuple[Any, ...], tuple[str, ...]]:
    """The gradient of max pooling."""
    out = D.max_pool2d(POOLED, kernel, stride, padding, dilation, ceil_mode)
    used = "max_pool_backward" if ceil_mode else "tiled_max_pool_backward"
    return "max_pool2d_backward", (x(*out.shape), POOLED, out, kernel, stride, padding, dilation), (used,)


CASES |= {
    "linear": ("linear", (x(70, 90), x(90, 37), x(37)), ("product",)),
    "linear, transposed weight": ("linear", (x(5, 14, 90), x(37, 90).T, x(37)), ("product",)),
    "outer products": ("matmul", (x(3, 5, 21, 1), x(3, 5, 1, 37)), ("outer_products",)),
    "outer products of short rows": ("matmul", (x(400, 1, 9).swapaxes(1, 2), x(400, 1, 3)), ("outer_products",)),
}
TILES = ((2, 2), (3, 1), (1, 3), (4, 13), (5, 12))
CASES |= {
    **{
        f"max_pool2d, tiles of {tile}": ("max_pool2d", (POOLED, tile, tile, (0, 0), (1, 1), False), ("tiled_max_pool",))
        for tile in TILES
    },
    **{f"max_pool2d, tiles of {t}, backward": _max_pool(t, t, (0, 0), (1, 1), ceil_mode=False) for t in TILES},
    "max_pool2d, backward": _max_pool((2, 2), (2, 2), (0, 0), (1, 1)),
    "max_pool2d, overlapping, backward": _max_pool((3, 3), (2, 1), (1, 1), (1, 1)),
    "max_pool2d, few windows": ("max_pool2d", (POOLED[:1, :2], (3, 4), (2, 3), (1, 2), (1, 1), True), ("max_pool",)),
    "avg_pool2d": ("avg_pool2d", (x(3, 5, 20, 13), (2, 2), (2, 2), (0, 0), False, True, None), ("tiled_avg_pool",)),
    "avg_pool2d, backward": (
        "avg_pool2d_backward",
        (x(3, 5, 10, 6), (3, 5, 20, 13), (2, 2), (2, 2), (0, 0), True, 3),
        ("tiled_avg_pool_backward",),
    ),
    "avg_pool2d, padded": ("avg_pool2d", (x(3, 5, 20, 13), (3, 4), (2, 3), (1, 2), True, False, None), ("avg_pool",)),
    "avg_pool2d, padded, backward": (
        "avg_pool2d_backward",
        (x(3, 5, 11, 6), (3, 5, 20, 13), (3, 4), (2, 3), (1, 2), True, None),
        ("avg_pool_backward",),
    ),
    "max_pool2d, dilated, backward": _max_pool((2, 3), (3, 2), (1, 0), (2, 3)),
}
LENGTHS = np.array([3, 0, 5, 1, 2, 5, 4])


def recurrence(gates: int, kept: int, *, lengths: Any = None, reverse: bool = False) -> dict[str, Any]:
    """Arguments of recurrences of 7 sequences of 5 elements, whose hidden size is no multiple of a vector's."""
    h = 21
    shapes = {"x": (7, 5, gates * h), "hidden": (7, h), "cell": (7, h), "weight": (h, gates * h), "bias": (gates * h,)}
    shapes |= dict.fromkeys(("grad", "grad_cells", "states", "cells"), (7, 5, h))
    floats = {name: x(*shape, low=-0.5, high=0.5) for name, shape in shapes.items()}
    return floats | {"gates": x(7, 5, kept * h, low=0.1, high=0.9), "lengths": lengths, "reverse": reverse}


def _recurrences() -> dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]]:
    cases: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {}
    for how, lengths in (("", None), (", lengths", LENGTHS)):
        for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
            given = recurrence(gates, 4, lengths=lengths, reverse=bool(how)) | {"relu": bool(how)}
            for suffix, kernel_name in (("", "recurrence_forward"), ("_backward", "recurrence_backward")):
                arguments = [given[a.name] for a in BY_NAME[name + suffix].arguments]
                cases[f"{name}{suffix}{how}"] = (name + suffix, tuple(arguments), (kernel_name,))
    return cases


CASES |= _recurrences()


def results(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    found = getattr(D, name)(*args)
    return found if type(found) is tuple else (found,)


def test_every_elementwise_kernel_is_in_the_table() -> None:
    asked = re.compile(r"\belementwise_kernel\(\"(\w+)\"")
    package = Path(str(burnpy_numpy.__file__)).parent
    found = {name for path in package.rglob("*.py") for name in asked.findall(path.read_text(encoding="utf-8"))}
    missing = found - {name for name, _, _ in CASES.values()}
    assert not missing, f"{sorted(missing)} have no example: give them rows in tests/programs/test_operations.py"


EQUAL = {**dict.fromkeys(("square+sum", "mul+sum"), "sum_of_squares"), "div": "reciprocal", "sqrt+div": "rsqrt"}
"""The names of plans' programs that share a kernel with the program of an operation: it has the name of the first."""


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slowest)])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slowest if case.endswith("_slope") or case == "betainc" else ())
        for case in CASES
    ],
)
def test_kernels_agree_with_numpy(case: str, dtype: str, noted: list[Any]) -> None:
    name, args, used = CASES[case]
    given = tuple(a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a for a in args)
    before = [a.copy() for a in given if isinstance(a, np.ndarray)]
    found = results(name, given)
    file = BY_NAME[name].function.__module__.rpartition(".")[2]
    ran = tuple([EQUAL.get(k.program.name, k.program.name) for k in noted])
    used = tuple([kernel for kernel in used if kernel != "product" or multiplies()])
    assert ran == used, f"ask for them in backends/burnpy_numpy/{file}.py"
    for a, b in zip([a for a in given if isinstance(a, np.ndarray)], before, strict=True):
        np.testing.assert_array_equal(a, b)
    noted.clear()
    with without_kernels():
        wanted = results(name, given)
    assert not noted
    rough = 3e-5 if dtype == "float32" else 1e-12
    for a, b in zip(found, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rough, atol=rough)
        assert not any(np.shares_memory(a, g) for g in given if isinstance(g, np.ndarray))


def test_rows_that_attend_to_nothing_have_no_weight() -> None:
    q = x(6, 40, 8)
    mask = np.ones((40, 40), bool)
    mask[3] = False
    out, _ = D.attention(q, q, q, mask, None, 0.3)
    assert (out[:, 3] == 0).all()
    assert np.isfinite(out).all()


@pytest.mark.parametrize("wrong", [60, -1, 1 << 60])
def test_a_target_out_of_range_is_never_read(wrong: int) -> None:
    logits, index = x(100, 60), INDEX.copy()
    index[7] = wrong
    losses, total = D.cross_entropy(logits, index, 1)
    right, same = D.cross_entropy(logits, INDEX, 1)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [7]
    np.testing.assert_array_equal(np.delete(losses, 7), np.delete(right, 7))
    np.testing.assert_array_equal(total, same)


@every_row("name, gates", [("lstm", 4), ("gru", 3)])
def test_the_states_of_a_recurrence_take_no_memory_for_gates(name: str, gates: int) -> None:
    """They are the same to the bit, also without kernels."""
    for how in (recurrence(gates, 4), recurrence(gates, 4, lengths=LENGTHS, reverse=True)):
        given = [how[a.name] for a in BY_NAME[name].arguments]
        wanted, peaks, found = getattr(D, name)(*given)[:-1], list[int](), D.recurrent_states(name, *given)
        for call in (partial(getattr(D, name), *given), partial(D.recurrent_states, name, *given)):
            tracemalloc.start()
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        assert peaks[1] < peaks[0] - how["gates"].nbytes // 2
        with without_kernels():
            for a, b in zip(D.recurrent_states(name, *given), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_recurrence_is_the_same_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences are divided among threads, and those of two blocks are computed by two of them."""
    given = recurrence(4, 4, lengths=LENGTHS)
    forward = [given[a.name] for a in BY_NAME["lstm"].arguments]
    backward = [given[a.name] for a in BY_NAME["lstm_backward"].arguments]
    wanted = [*D.lstm(*forward), *D.lstm_backward(*backward)]
    divided = one_by_one(monkeypatch)
    for a, b in zip([*D.lstm(*forward), *D.lstm_backward(*backward)], wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(divided) == 2
    assert min(divided) > 1


@every_row("dtype", ["float32", "float64"])
@every_row("name", [*sorted(pointwise.COMPILED - {"logaddexp", "logaddexp2"})])
def test_special_values_of_functions_are_those_of_numpy(name: str, dtype: str) -> None:
    limits: Any = np.finfo(dtype)
    high = float(np.log(limits.max))
    sizes = [0.0, limits.smallest_subnormal, limits.tiny, 1e-3, 0.5, 1.0, 1.5, 1e5, limits.max / 4, limits.max, np.inf]
    sizes += [high - 0.5, high + 0.1, high + 0.5, high + 1.0, np.nan]
    values = np.array([*sizes, *(-s for s in sizes)], dtype)
    pairs = [np.resize(a, 4 * values.size**2) for a in (np.repeat(values, values.size), np.tile(values, values.size))]
    function: Any = getattr(np, {**UNARY, **BINARY}[name])
    args = pairs if name in BINARY else pairs[:1]
    with np.errstate(all="ignore"):
        wanted = function(*args)
    result = getattr(D, name)(*args)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(wanted[known]))
    np.testing.assert_allclose(result, wanted, rtol=8 * limits.eps, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_hardtanh_is_one_kernel(dtype: str, noted: list[Any]) -> None:
    values = np.resize(np.array([-np.inf, -2.0, -1.0, -0.0, 0.5, 6.0, 7.0, np.inf, np.nan], dtype), (64, 90))
    x = Tensor[Autodiff[NumPy]].from_data(values).require_grad()
    grad = np.asarray(RNG.standard_normal(values.shape), dtype)
    grad[0, 0] = np.inf  # at a bound or outside it is not multiplied by 0
    found = hardtanh(x, -1.0, 6.0).backward(gradient=Tensor[NumPy].from_data(grad))[x]
    assert [k.program.name for k in noted] == ["clamped", "hardtanh_gradient"]
    inside = ~((values <= -1.0) | (values >= 6.0))
    np.testing.assert_array_equal(found.to_numpy(), np.where(inside, grad, 0.0))


@every_row(
    "name, numbers",
    [("softplus", (2.0,)), ("leaky_relu", (0.25,)), ("elu", (2.0, 0.5, 3.0)), ("hardtanh", (-1.0, 0.5))],
)
def test_one_kernel_serves_all_numbers(name: str, numbers: tuple[float, ...]) -> None:
    """A number that changes at each step, as one that is annealed, compiles nothing."""
    values = x(70, 90).astype(np.float32)
    getattr(D, name)(values, *numbers)
    before = len(kernel._programs)
    getattr(D, name)(values, *[number + 0.125 for number in numbers])
    assert len(kernel._programs) == before


def test_plans_of_normalization_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of sequences of many lengths do not add up in memory."""
    monkeypatch.setattr(programs, "_MOST_PLANS", 4)
    monkeypatch.setattr(programs, "_plans", {})
    for rows in range(2, 12):
        given = x(rows, 9), x(9), x(9)
        out, mean, _ = D.normalize(*given, (1,), 1e-5)
        np.testing.assert_allclose(mean[:, 0], given[0].mean(1), atol=1e-12)
        np.testing.assert_allclose(out, Backend.normalize(D, *given, (1,), 1e-5)[0], atol=1e-12)
        assert 1 <= len(programs._plans) <= 4


@every_row("dtype", [np.float32, np.float64])
@every_row("axes", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_elementwise_kernels_keep_the_order_in_memory(axes: Any, dtype: Any, noted: list[Any]) -> None:
    x, y = (RNG.normal(size=(20, 30, 40)).astype(dtype).transpose(axes) for _ in range(2))
    x[0, 1, :6] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).smallest_subnormal, 0.0]
    plain_x, plain_y = np.array(x, order="C"), np.array(y, order="C")
    noted.clear()
    for name, arrays, plain, numbers in (
        ("exp", (x,), (plain_x,), ()),
        ("hypot", (x, y), (plain_x, plain_y), ()),
        ("clamp", (x,), (plain_x,), (-1.0, 0.5)),
        ("fused", (_shifted, (x, y)), (_shifted, (plain_x, plain_y)), ((0.5,),)),
    ):
        found, wanted = np.asarray(getattr(D, name)(*arrays, *numbers)), np.asarray(getattr(D, name)(*plain, *numbers))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    assert D.exp(x).strides == x.strides
    assert len(noted) == 9
    mixed = D.hypot(x, np.array(y, order="C"))  # no order in common: copied
    np.testing.assert_array_equal(mixed, D.hypot(plain_x, plain_y))
    part = x[:, ::2]  # with gaps
    np.testing.assert_array_equal(D.exp(part), D.exp(np.array(part, order="C")))


def _shifted(b: Any, x: Any, y: Any, number: Any) -> tuple[Any, Any]:
    return b.add(b.mul(x, y), number), b.sub(x, number)
