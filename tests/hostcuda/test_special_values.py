"""NaN, infinities, zeros of both signs, subnormals and extremes: what CuPy makes of them, beside the NumPy backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import FLOATS, INTS, dtype_of, kind_of
from tests.hostcuda import simulator

simulator.require()

ULPS = 4
LOOSE = {"gelu": 16, "silu": 4, "softmax": 4, "logsumexp": 4, "sum": 2, "pow": 2, "sigmoid": 4}
"""By how much more than `ULPS` units in the last place an operation may differ: both backends round several times."""
EITHER_ZERO = {"maximum", "minimum", "relu", "sign"}
"""Operations whose zeros may have either sign, as NumPy's have in some dtypes and not in others."""


def _exact_sigmoid(x: Any, dtype: Any) -> Any:
    """In the dtype that kernels compute in, as sigmoids of large negative numbers are subnormal."""
    return (1 / (1 + np.exp(-x))).astype(dtype if dtype.itemsize > 2 else np.float32)


def _exact_gelu(x: Any, dtype: Any) -> Any:
    return x * _exact_sigmoid(np.sqrt(8 / np.longdouble(np.pi)) * (x + 0.044715 * x**3), dtype)


EXACT: dict[tuple[str, bool], Callable[[Any, Any], Any]] = {
    ("sigmoid", False): _exact_sigmoid,
    ("silu", False): lambda x, dtype: x * _exact_sigmoid(x, dtype),
    ("gelu", True): _exact_gelu,
}
"""References by name, and whether approximate, where NumPy's tanh loses the digits of small results of small arrays."""
_UNARY = "neg abs sign floor ceil round exp expm1 log log1p sqrt sin cos tanh square reciprocal rsqrt sigmoid erf isnan"
UNARY = [*_UNARY.split(), "isinf", "isfinite", "relu", "silu", "to_bool"]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "floor_divide",
    "remainder",
    "pow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]
INT_UNARY = ["neg", "abs", "sign", "square", "bitwise_not"]
INT_BINARY = ["add", "sub", "mul", "maximum", "minimum", "eq", "lt", "bitwise_and", "bitwise_or", "bitwise_xor"]


def floats(dtype: Any) -> np.ndarray[Any, Any]:
    """Values of a float dtype where functions are not smooth, and at its limits."""
    plain = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.3, -7.3, 1e-3, 0.1, 100.0, -100.0]
    edges = [np.nan, np.inf, -np.inf]
    if dtype.name == "bfloat16":
        return np.array([*edges, *plain, 3e38, -3e38, 1e-38]).astype(dtype)
    limits = np.finfo(dtype)
    return np.array([*edges, *plain, limits.max, limits.min, limits.tiny, limits.smallest_subnormal], dtype)


def ints(dtype: Any) -> np.ndarray[Any, Any]:
    """Small values of an int dtype and its limits."""
    limits = np.iinfo(dtype)
    negative = [-1, -2, -3, limits.min, limits.min + 1] if limits.min else []
    return np.array([0, 1, 2, 3, 5, 100, limits.max - 1, limits.max, *negative], dtype)


@np.errstate(invalid="ignore")
def calls(dtype: Any) -> list[tuple[Any, ...]]:
    """Operations and their arguments."""
    if kind_of(dtype) == "int":
        return _int_calls(dtype)
    x = floats(dtype)
    every, other = (side.ravel().copy() for side in np.meshgrid(x, x))
    finite = x[np.isfinite(x)][:16]
    rows = np.stack([x, np.roll(x, 3)])
    ties = np.array([[1, 3, 3, 2, 3]], dtype).repeat(300, 1)
    nans = ties.copy()
    nans[0, [700, 900]] = np.nan
    found: list[tuple[Any, ...]] = [(name, x) for name in UNARY]
    found += [(name, every, other) for name in BINARY]
    found += [("pow", x, power) for power in (2, 3, 0.5, -1, 3.7)]
    found += [("floor_divide", x, 0.1), ("remainder", x, 0.1), ("remainder", x, -3), ("mul", x, float("inf"))]
    found += [("maximum", x, 0.0), ("where", every > 0, every, other), ("where", x > 0, x, 0.0)]
    found += [(name, rows, (1,), False) for name in ("amax", "amin", "sum")]
    found += [
        (name, row, 1, keepdim) for name in ("argmax", "argmin") for row in (rows, ties, nans) for keepdim in (0, 1)
    ]
    found += [("cumsum", finite[None, :10], 1), ("logsumexp", rows, (1,), False), ("softmax", finite[None, :10], 1)]
    found += [("gelu", x, False), ("gelu", x[:-1], True)]  # half of the least subnormal number would be a tie
    found += [("cast", finite[:10], np.dtype(np.int32))]
    return found


def _int_calls(dtype: Any) -> list[tuple[Any, ...]]:
    x = ints(dtype)
    every, other = (side.ravel().copy() for side in np.meshgrid(x, x))
    power, by = (other >= 0) & (other < 64), other != 0
    if np.iinfo(dtype).min:
        by &= (every != np.iinfo(dtype).min) | (other != -1)  # a processor's division traps there; a GPU's does not
    found: list[tuple[Any, ...]] = [(name, x) for name in INT_UNARY]
    found += [(name, every, other) for name in INT_BINARY]
    found += [(name, every[by], other[by]) for name in ("floor_divide", "remainder")]
    found += [(name, x, 3) for name in ("floor_divide", "remainder", "pow", "eq")]
    found += [("pow", every[power], other[power]), ("sum", x, (0,), False), ("prod", x, (0,), False), ("cumsum", x, 0)]
    found += [("argmax", x, 0, False), ("argmin", x, 0, False), ("amax", x, (0,), False)]
    return found


CASES = [(dtype_of(name), k) for name in (*FLOATS, *INTS) for k in range(len(calls(dtype_of(name))))]


def difference(got: Any, want: Any, ulps: float, signs: bool) -> str | None:
    """Where results differ by more than rounding, in the sign of a zero too where ``signs``; None where they do not."""
    if kind_of(want.dtype) != "float":
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        spacing = 2.0**-7 if want.dtype.name == "bfloat16" else float(np.finfo(want.dtype).eps)
        tiny = 2.0**-133 if want.dtype.name == "bfloat16" else float(np.finfo(want.dtype).smallest_subnormal)
        with np.errstate(all="ignore"):
            alike = (np.signbit(a) == np.signbit(b)) | (not signs)
            same = (a == b) & alike | np.isnan(a) & np.isnan(b)
            wrong = ~(same | (np.abs(a - b) <= ulps * spacing * np.abs(b) + (tiny if ulps else 0)) & (b != 0))
    places = [tuple(map(int, place)) for place in np.argwhere(wrong)[:4]]
    return "; ".join(f"at {p}: {got[p]!s}, not {want[p]!s}" for p in places) or None


@pytest.mark.parametrize(("dtype", "k"), CASES, ids=lambda x: getattr(x, "name", None))
def test_special_values_give_what_numpy_gives(dtype: Any, k: int) -> None:
    name, *arguments = calls(dtype)[k]

    def computed(device: Any) -> Any:
        given = [device.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return np.asarray(device.to_numpy(getattr(device, name)(*given)))

    got, want = computed(CuPy()), computed(NumPy())
    exact = EXACT.get((name, arguments[-1] is True))
    if exact is not None:
        with np.errstate(all="ignore"):
            want = exact(arguments[0].astype(np.longdouble), dtype).astype(np.float64).astype(dtype)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wrong = difference(got, want, ULPS * LOOSE.get(name, 1), name not in EITHER_ZERO)
    assert wrong is None, f"{name} of {arguments}: {wrong}"
