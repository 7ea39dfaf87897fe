"""The namespace's functions beside array-api-strict: equal dtypes, shapes and values on the same calls.

A row is a call ``f(xp, x, y)`` with two arrays of one dtype. It runs for each dtype of its kinds, and for several
shapes, 0-d and empty ones too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from burnpy import BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy import array_api as ours
from tests.rows import every_row

DTYPES = {
    "complex": ("complex64", "complex128"),
    "float": ("float32", "float64"),
    "int": ("int8", "uint16", "int64"),
    "bool": ("bool",),
}
REALS, FLOATING, BITS = ("float", "int"), ("float", "complex"), ("int", "bool")
NUMBERS, ALL = ("float", "int", "complex"), ("float", "int", "bool", "complex")
SHAPES = ((), (3,), (0, 2), (2, 3))

Call = Callable[[Any, Any, Any], Any]


def elementwise() -> Iterator[tuple[str, tuple[str, ...], Call]]:
    table = {
        FLOATING: "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt "
        "tan tanh / divide",
        ("float",): "signbit / atan2 copysign hypot logaddexp nextafter",
        ("complex",): "imag /",
        NUMBERS: "abs negative positive sign square round isfinite isinf isnan conj real / add multiply subtract",
        REALS: "ceil floor trunc / maximum minimum greater greater_equal less less_equal",
        BITS: "bitwise_invert / bitwise_and bitwise_or bitwise_xor",
        ("bool",): "logical_not / logical_and logical_or logical_xor",
        ALL: "/ equal not_equal",
    }
    for kinds, names in table.items():
        one, _, two = names.partition("/")
        for name in one.split():
            yield name, kinds, lambda xp, x, y, name=name: getattr(xp, name)(x)  # type: ignore[misc]  # by its default
        for name in two.split():
            yield name, kinds, lambda xp, x, y, name=name: getattr(xp, name)(x, y)  # type: ignore[misc]


REDUCTIONS: dict[tuple[str, ...], str] = {
    ALL: "all any count_nonzero",
    NUMBERS: "sum prod cumulative_sum cumulative_prod",
    FLOATING: "mean",
    ("float",): "var std",
}


def reductions() -> Iterator[tuple[str, tuple[str, ...], Call]]:
    for kinds, names in REDUCTIONS.items():
        for name in names.split():
            if "cumulative" not in name:
                yield name, kinds, lambda xp, x, y, name=name: getattr(xp, name)(x)  # type: ignore[misc]
                yield name, kinds, lambda xp, x, y, name=name: getattr(xp, name)(x, axis=(), keepdims=True)  # type: ignore[misc]
            yield f"{name} axis", kinds, lambda xp, x, y, name=name: getattr(xp, name)(axes(x), axis=-1)  # type: ignore[misc]


def axes(x: Any) -> Any:
    """An array with at least one axis."""
    return x if x.ndim else x[None]


def square(xp: Any, x: Any) -> Any:
    """Two well-conditioned matrices."""
    base = xp.asarray([[[3.0, 1.0], [1.0, 2.0]], [[2.0, 0.5], [0.5, 1.0]]], dtype=x.dtype)
    return base if x.size else base[:0, ...]


ROWS: list[tuple[str, tuple[str, ...], Call]] = [
    *elementwise(),
    *reductions(),
    ("floor_divide", REALS, lambda xp, x, y: xp.floor_divide(x, xp.abs(y) + 1)),
    ("remainder", REALS, lambda xp, x, y: xp.remainder(x, xp.abs(y) + 1)),
    ("shifts", ("int",), lambda xp, x, y: (xp.bitwise_left_shift(x, xp.abs(y)), xp.bitwise_right_shift(x, 1))),
    ("pow", REALS, lambda xp, x, y: xp.pow(xp.abs(x), 2)),
    ("complex pow", ("complex",), lambda xp, x, y: (xp.pow(x, 2), xp.pow(xp.exp(x), y), xp.add(x, xp.real(y)))),
    ("clip", REALS, lambda xp, x, y: (xp.clip(x, 0, 2), xp.clip(x, max=1), xp.clip(x))),
    ("numbers", FLOATING, lambda xp, x, y: (xp.add(x, 1), xp.multiply(2.5, x), xp.equal(x, 1), xp.multiply(x, 2j))),
    ("max", REALS, lambda xp, x, y: (xp.max(x), xp.min(x)) if x.size else ()),
    ("max axis", REALS, lambda xp, x, y: (xp.max(axes(x), axis=-1, keepdims=True), xp.min(axes(x), axis=-1))),
    ("argmax", REALS, lambda xp, x, y: (xp.argmax(x), xp.argmin(axes(x), axis=-1)) if x.size else ()),
    ("sum dtype", REALS, lambda xp, x, y: xp.sum(x, dtype=xp.float64)),
    ("var correction", ("float",), lambda xp, x, y: xp.var(axes(x), axis=-1, correction=0.5)),
    ("initial", NUMBERS, lambda xp, x, y: xp.cumulative_sum(axes(x), axis=0, include_initial=True)),
    ("diff", NUMBERS, lambda xp, x, y: (xp.diff(axes(x)), xp.diff(axes(x), axis=0, prepend=axes(y)))),
    ("searchsorted", REALS, lambda xp, x, y: xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), y, side="right")),
    ("sort", REALS, lambda xp, x, y: (xp.sort(axes(x)), xp.sort(axes(x), axis=0, descending=True))),
    ("argsort", REALS, lambda xp, x, y: (xp.argsort(axes(x)), xp.argsort(axes(x), descending=True))),
    ("nonzero", ALL, lambda xp, x, y: xp.nonzero(axes(x))),
    ("where", ALL, lambda xp, x, y: xp.where(xp.equal(x, y), x, y)),
    ("unique", ALL, lambda xp, x, y: (xp.unique_values(x), xp.unique_counts(x), xp.unique_inverse(x))),
    ("unique_all", ALL, lambda xp, x, y: xp.unique_all(x)),
    ("isin", BITS[:1], lambda xp, x, y: (xp.isin(x, 1), xp.isin(x, y))),
    (
        "astype",
        (*REALS, "bool"),
        lambda xp, x, y: [xp.astype(x, to) for to in (xp.float32, xp.bool, xp.int64)],
    ),
    (
        "broadcast",
        ALL,
        lambda xp, x, y: (xp.broadcast_to(x, (2, *x.shape)), xp.broadcast_arrays(x, xp.expand_dims(y, axis=0))),
    ),
    ("concat", ALL, lambda xp, x, y: (xp.concat([axes(x), axes(y)]), xp.concat([x, y], axis=None))),
    ("stack", ALL, lambda xp, x, y: (xp.stack([x, y], axis=-1), xp.unstack(axes(x)))),
    ("expand_dims", ALL, lambda xp, x, y: (xp.expand_dims(x, axis=-1), xp.squeeze(xp.expand_dims(x, axis=0), axis=0))),
    ("flip", ALL, lambda xp, x, y: (xp.flip(x), xp.flip(axes(x), axis=0), xp.roll(x, 1), xp.roll(axes(x), 1, axis=-1))),
    ("permute", ALL, lambda xp, x, y: (xp.permute_dims(x, tuple(range(x.ndim))[::-1]), xp.moveaxis(axes(x), 0, -1))),
    ("repeat", ALL, lambda xp, x, y: (xp.repeat(x, 2), xp.repeat(axes(x), 2, axis=0), xp.tile(x, (2, 1)))),
    ("take", ALL, lambda xp, x, y: xp.take(axes(x), xp.asarray([0, -1]), axis=-1)),
    ("take_along", ALL, lambda xp, x, y: xp.take_along_axis(axes(x), xp.zeros_like(axes(x), dtype=xp.int64))),
    ("tril", ALL, lambda xp, x, y: (xp.tril(x, k=-1), xp.triu(x)) if x.ndim > 1 else ()),
    ("meshgrid", ALL, lambda xp, x, y: xp.meshgrid(x, y) if x.ndim == 1 else ()),
    ("complex astype", ALL, lambda xp, x, y: xp.astype(x, xp.complex128)),
    ("like", ALL, lambda xp, x, y: (xp.zeros_like(x), xp.ones_like(x, dtype=xp.int8), xp.full_like(x, 1))),
    ("matmul", NUMBERS, lambda xp, x, y: xp.matmul(axes(x), axes(y).mT if x.ndim > 1 else axes(y))),
    ("vecdot", NUMBERS, lambda xp, x, y: (xp.vecdot(axes(x), axes(y)), xp.tensordot(x, y, axes=0))),
    ("transpose", ALL, lambda xp, x, y: (xp.matrix_transpose(x), x.T) if x.ndim == 2 else ()),
    ("outer", NUMBERS, lambda xp, x, y: xp.linalg.outer(xp.reshape(x, (-1,)), xp.reshape(y, (-1,)))),
    ("diagonal", NUMBERS, lambda xp, x, y: (xp.linalg.diagonal(x), xp.linalg.trace(x)) if x.ndim > 1 else ()),
    ("norms", FLOATING, lambda xp, x, y: (xp.linalg.vector_norm(x), xp.linalg.vector_norm(axes(x), axis=0, ord=1))),
    ("cross", NUMBERS, lambda xp, x, y: xp.linalg.cross(x, y) if x.shape[-1:] == (3,) else ()),
    ("det", FLOATING, lambda xp, x, y: (xp.linalg.det(square(xp, x)), xp.linalg.slogdet(square(xp, x)))),
    ("inv", FLOATING, lambda xp, x, y: (xp.linalg.inv(square(xp, x)), xp.linalg.pinv(square(xp, x)))),
    ("cholesky", FLOATING, lambda xp, x, y: xp.linalg.cholesky(square(xp, x), upper=True)),
    ("eigvalsh", FLOATING, lambda xp, x, y: (xp.linalg.eigvalsh(square(xp, x)), xp.linalg.svdvals(square(xp, x)))),
    (
        "rank",
        FLOATING,
        lambda xp, x, y: (xp.linalg.matrix_norm(square(xp, x)), xp.linalg.matrix_power(square(xp, x), 3)),
    ),
    ("solve", FLOATING, lambda xp, x, y: xp.linalg.solve(square(xp, x), xp.asarray([1.0, 2.0], dtype=x.dtype))),
    ("eig", FLOATING, lambda xp, x, y: (xp.linalg.eigvals(square(xp, x)), xp.linalg.eig(square(xp, x)).eigenvalues)),
    (
        "fft",
        ("complex",),
        lambda xp, x, y: (xp.fft.fft(x), xp.fft.ifftn(x), xp.fft.irfft(x, n=4)) if x.ndim and x.size else (),
    ),
    ("rfft", ("float",), lambda xp, x, y: (xp.fft.rfft(x), xp.fft.ihfft(x)) if x.ndim and x.size else ()),
    ("shift", FLOATING, lambda xp, x, y: (xp.fft.fftshift(axes(x)), xp.fft.ifftshift(axes(x), axes=(0,)))),
]

CREATION: list[tuple[str, Callable[[Any], Any]]] = [
    (
        "arange",
        lambda xp: (xp.arange(3), xp.arange(1, 2, 0.25, dtype=xp.float64), xp.arange(5, 1, -2), xp.arange(3, 1)),
    ),
    ("asarray", lambda xp: (xp.asarray([[1, 2]]), xp.asarray(True), xp.asarray([1.5], dtype=xp.float32))),
    ("eye", lambda xp: (xp.eye(2, 3, k=1, dtype=xp.int8), xp.eye(0, dtype=xp.bool), xp.eye(2, k=-5, dtype=xp.float32))),
    ("full", lambda xp: (xp.full((2, 0), 3), xp.full((), True), xp.full(2, 1.5, dtype=xp.float64))),
    ("ones", lambda xp: (xp.ones((), dtype=xp.bool), xp.zeros(3, dtype=xp.uint8), xp.empty((0, 2), dtype=xp.int32))),
    (
        "complex",
        lambda xp: (
            xp.full(2, 1j, dtype=xp.complex64),
            xp.eye(2, dtype=xp.complex128),
            xp.linspace(0, 1j, 3, dtype=xp.complex64),
        ),
    ),
    (
        "linspace",
        lambda xp: (xp.linspace(0, 1, 3, dtype=xp.float64), xp.linspace(1, 2, 4, endpoint=False, dtype=xp.float32)),
    ),
    ("fftfreq", lambda xp: (xp.fft.fftfreq(5, d=0.5, dtype=xp.float64), xp.fft.rfftfreq(4, dtype=xp.float64))),
    (
        "dtypes",
        lambda xp: (
            xp.result_type(xp.int8, xp.uint8) == xp.int16,
            xp.can_cast(xp.int8, xp.int16),
            xp.can_cast(xp.int64, xp.int8),
            xp.result_type(xp.complex64, xp.float64) == xp.complex128,
            xp.finfo(xp.complex64).eps,
        ),
    ),
    ("isdtype", lambda xp: [xp.isdtype(xp.int8, kind) for kind in ("bool", "integral", "numeric", ("bool", xp.int8))]),
    (
        "complex kinds",
        lambda xp: [xp.isdtype(xp.complex64, f"{k} floating") for k in ("complex", "real")],
    ),
    (
        "iinfo",
        lambda xp: (
            xp.iinfo(xp.uint16).max,
            xp.iinfo(xp.int8).min,
            xp.finfo(xp.float32).eps,
            xp.finfo(xp.float64).bits,
        ),
    ),
    ("shapes", lambda xp: xp.broadcast_shapes((2, 1), (3,), ())),
    ("constants", lambda xp: (xp.pi, xp.e, xp.inf, xp.newaxis)),
    ("promotion", lambda xp: xp.add(xp.asarray(1.0, dtype=xp.float64), xp.ones(2, dtype=xp.float32))),
]


def values(shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    generator = np.random.default_rng(3)
    low = 0 if dtype.startswith("u") or dtype == "bool" else -2
    drawn = [generator.integers(low, 4, shape) for _ in range(2)]
    if dtype.startswith("complex"):
        drawn = [x + 0.3j * generator.integers(low, 4, shape) for x in drawn]
    scale = 0.4 if dtype.startswith(("float", "complex")) else 1
    return tuple(np.asarray(x * scale).astype(dtype) for x in drawn)  # type: ignore[return-value]  # two


def compare(name: str, got: Any, expected: Any) -> None:
    if expected.__class__ in (tuple, list) or hasattr(expected, "_fields"):
        assert len(got) == len(expected), name
        for one, other in zip(got, expected, strict=True):
            compare(name, one, other)
    elif hasattr(expected, "dtype"):
        assert got.__class__ in (Tensor, ComplexTensor, IntTensor, BoolTensor), name
        assert (str(got.dtype), got.shape) == (str(expected.dtype).rpartition(".")[2], expected.shape), name
        tolerance = 1e-5 if got.dtype in (ours.float32, ours.complex64) else 1e-12
        np.testing.assert_allclose(got.to_numpy(), np.asarray(expected), tolerance, tolerance, err_msg=name)
    else:
        assert got == expected, name


@pytest.mark.slowest
@every_row(("name", "kinds", "call"), ROWS)
def test_functions_agree_with_array_api_strict(name: str, kinds: tuple[str, ...], call: Call) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of means of no elements
        for dtype in (dtype for kind in kinds for dtype in DTYPES[kind]):
            for shape in SHAPES:
                arrays = values(shape, dtype)
                expected = call(strict, *[strict.asarray(x) for x in arrays])
                got = call(ours, *[ours.asarray(x) for x in arrays])
                compare(f"{name} {dtype} {shape}", got, expected)


@every_row(("name", "call"), CREATION)
def test_creation_agrees_with_array_api_strict(name: str, call: Callable[[Any], Any]) -> None:
    compare(name, call(ours), call(strict))
