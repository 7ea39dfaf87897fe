"""Methods and functions that are compositions of operations, named as in PyTorch: values, derivatives and mistakes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, linalg
from burnpy.backend import NumPy
from burnpy.backend.backend import Backend
from burnpy.errors import BurnpyError
from burnpy.func import vmap
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4))
B = RNG.normal(size=(3, 4))
S = RNG.normal(size=(4, 4)) + 3.0 * np.eye(4)
V = RNG.normal(size=4)
W = RNG.normal(size=3)
BATCH = RNG.normal(size=(5, 3, 2))
OTHER = RNG.normal(size=(5, 2, 4))


def written(x: Any, key: Any, value: Any) -> Any:
    out = np.array(x)
    out[key] = value
    return out


def renormed(x: Any) -> Any:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(norms > 1.0, x / (norms + 1e-7), x)


LOWER = np.linalg.cholesky(S @ S.T)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "addmv": (lambda x, m, v: x.addmv(m, v, beta=2.0, alpha=3.0), (W, A, V), 2 * W + 3 * A @ V),
    "addr": (lambda x, v, w: x.addr(v, w, alpha=0.5), (A, W, V), A + 0.5 * np.outer(W, V)),
    "addbmm": (lambda x, p, q: x.addbmm(p, q, beta=0.5), (A, BATCH, OTHER), 0.5 * A + (BATCH @ OTHER).sum(0)),
    "float_power": (lambda x: x.float_power(3), (A,), A**3),
    "ldexp": (lambda x: x.ldexp(IntTensor[Train].from_data([-1, 0, 2, 5])), (A,), np.ldexp(A, [-1, 0, 2, 5])),
    "ldexp of floats": (lambda x, y: x.ldexp(y), (A, B), A * 2.0**B),
    "mantissa": (lambda x: x.frexp().mantissa, (A,), np.frexp(A)[0]),
    "fliplr": (lambda x: x.fliplr(), (A,), A[:, ::-1]),
    "flipud": (lambda x: x.flipud(), (A,), A[::-1]),
    "diagflat": (lambda x: x.diagflat(1), (W,), np.diagflat(W, 1)),
    "select_scatter": (lambda x, s: x.select_scatter(s, 1, -1), (A, W), written(A, (slice(None), -1), W)),
    "slice_scatter": (
        lambda x, s: x.slice_scatter(s, 1, start=-3, end=9, step=2),
        (A, B[:, :2]),
        written(A, (slice(None), slice(1, 4, 2)), B[:, :2]),
    ),
    "diagonal_scatter": (
        lambda x, s: x.diagonal_scatter(s, -1, dim1=1, dim2=0),
        (A, W),
        written(A, (range(3), range(1, 4)), W),
    ),
    "put": (
        lambda x, s: x.put(IntTensor[Train].from_data([[0, -1], [5, 5]]), s),
        (A, S[:2, :2]),
        written(A, ([0, 2, 1], [0, 3, 1]), S[:2, :2].ravel()[[0, 1, 3]]),
    ),
    "put, accumulated": (
        lambda x, s: x.put(IntTensor[Train].from_data([1, 1]), s, accumulate=True),
        (V, W[:2]),
        written(V, 1, V[1] + W[0] + W[1]),
    ),
    "renorm": (lambda x: x.renorm(2.0, 0, 1.0), (A,), renormed(A)),
    "gradient": (lambda x: burnpy.gradient(x, spacing=0.5, dim=1)[0], (A,), np.gradient(A, 0.5, axis=1)),
    "gradient at uneven points": (
        lambda x, v: burnpy.gradient(x, spacing=[v.cumsum(0)], dim=1, edge_order=2)[0],
        (A, V),
        np.gradient(A, V.cumsum(), axis=1, edge_order=2),
    ),
    "gradient along all dims": (
        lambda x: burnpy.stack(burnpy.gradient(x, edge_order=2)),
        (A,),
        np.array(np.gradient(A, edge_order=2)),
    ),
    "unique_consecutive": (
        lambda x: burnpy.cat([x, x[1:]]).unique_consecutive(dim=0),
        (A[:2],),
        A[:2],
    ),
    "combinations": (lambda x: burnpy.combinations(x, 3), (V,), np.array([*itertools.combinations(V, 3)])),
    "column_stack": (lambda x, y: burnpy.column_stack([x, y]), (W, A), np.column_stack([W, A])),
    "vander": (lambda x: burnpy.vander(x), (V,), np.vander(V)),
    "linalg.vander": (lambda x: linalg.vander(x, N=3), (A,), A[..., None] ** np.arange(3)),
    "linalg.vecdot": (lambda x, y: linalg.vecdot(x, y, dim=0), (A, B), (A * B).sum(0)),
    "linalg.inv_ex": (lambda x: linalg.inv_ex(x).inverse, (S,), np.linalg.inv(S)),
    "linalg.cholesky_inverse": (
        lambda x: linalg.cholesky_inverse(x),
        (LOWER,),
        np.linalg.inv(S @ S.T),
    ),
    "logaddexp2": (lambda x, y: x.logaddexp2(y), (A, B), np.logaddexp2(A, B)),
}
"""The call, its float arguments, and the result."""


@pytest.mark.slow
@every_row("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    call, arrays, expected = CASES[name]
    xs = [Tensor[Train].from_data(array.copy()).require_grad() for array in arrays]
    np.testing.assert_allclose(call(*xs).to_numpy(), expected, rtol=1e-10, atol=1e-12)
    plain = [x.inner() for x in xs]
    if name not in PLAIN:
        np.testing.assert_array_equal(call(*plain).to_numpy(), call(*xs).to_numpy())
    smooth = name != "unique_consecutive"  # a small change makes neighbours differ
    if smooth:
        gradcheck(call, tuple(xs))
        gradgradcheck(call, tuple(xs))


PLAIN = ("ldexp", "put", "put, accumulated")
"""Cases with another tensor, which is on the differentiated backend."""


def test_ints_and_bools() -> None:
    x = IntTensor[NumPy].from_data([[1, 2], [3, 4]])
    assert x.addr(x[0], x[1]).tolist() == [[4, 6], [9, 12]]
    assert x.float_power(IntTensor[NumPy].from_data(-1)).tolist() == [[1.0, 0.5], [1 / 3, 0.25]]
    assert burnpy.vander(x[0], 4, increasing=True).tolist() == [[1, 1, 1, 1], [1, 2, 4, 8]]
    assert burnpy.vander(x[0], 0).shape == (2, 0)
    values, inverse, counts = IntTensor[NumPy].from_data([[2, 2], [5, 2]]).unique_consecutive(True, True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([2, 5, 2], [[0, 0], [1, 2]], [2, 1, 1])
    truth = BoolTensor[NumPy].from_data([True, True, False])
    assert truth.unique_consecutive(return_counts=True)[1].tolist() == [2, 1]
    assert truth.put(IntTensor[NumPy].from_data([0]), BoolTensor[NumPy].from_data([False])).tolist() == [
        False,
        True,
        False,
    ]
    assert burnpy.combinations(truth, 2, with_replacement=True).shape == (6, 2)
    assert burnpy.combinations(truth, 0).shape == (0,)
    assert x.zeros_like().select_scatter(x[0], 0, 1).tolist() == [[0, 0], [1, 2]]


@pytest.mark.parametrize("dim", [None, 0])
def test_runs_of_nothing_and_runs_in_one_order(dim: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumPy, "arange", None)  # whose elements are their own places
    empty = Tensor[NumPy].zeros((0,)).unique_consecutive(True, True, dim)
    assert [part.tolist() for part in empty] == [[], [], []]
    assert [part.dtype for part in empty] == ["float32", "int64", "int64"]
    found = Tensor[NumPy].from_data([1.0, 1.0, 2.0, 1.0]).unique_consecutive(True, True, dim)
    assert [part.tolist() for part in found] == [[1.0, 2.0, 1.0], [0, 0, 1, 2], [2, 1, 1]]


@every_row("dtype", ("float16", "float32", "float64"))
def test_the_next_number_has_the_bits_of_numpy(dtype: str) -> None:
    """By NumPy's own function, and by the default of other backends."""
    info = np.finfo(dtype)
    ends = [
        0.0,
        1.0,
        float(info.tiny),
        float(info.smallest_subnormal),
        float(info.max),
        np.inf,
        np.nan,
        float(info.tiny) * 4,
    ]
    bits = (
        np.random.default_rng(1).integers(0, 1 << (8 * info.dtype.itemsize - 1), 500).astype(f"u{info.dtype.itemsize}")
    )
    values = np.concatenate([bits.view(dtype), np.array([*ends, *[-x for x in ends]], dtype)])
    x, y = (np.ascontiguousarray(each) for each in np.broadcast_arrays(values[:, None], values[-40:]))
    with np.errstate(all="ignore"):
        expected = np.nextafter(x, y)
        for found in (NumPy().nextafter(x, y), Backend.nextafter(NumPy(), x, y)):
            np.testing.assert_array_equal(found, expected)


@every_row("dtype", ("float16", "float32", "float64"))
def test_ldexp_rounds_once(dtype: str) -> None:
    """Also where a power of two alone is infinite or 0, and where the result is subnormal."""
    x = np.array(
        [1.0, -1.5, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max, 1 + np.finfo(dtype).eps, 0.0, np.inf],
        dtype,
    )
    n = np.array([0, 1, -1, -24, 200, -140, -149, 1100, -1060, -1074, 2000, -3000, 2**62, -(2**62)])
    found = Tensor[NumPy].from_data(x[:, None]).ldexp(IntTensor[NumPy].from_data(n)).to_numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, np.ldexp(x[:, None], np.clip(n, -5000, 5000)))
    assert Tensor[NumPy].from_data(1.0).ldexp(10**30).item() == np.inf


def test_ldexp_of_short_floats_takes_one_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    factors, multiply = [], NumPy.mul
    monkeypatch.setattr(NumPy, "mul", lambda b, x, y: factors.append(y) or multiply(b, x, y))
    for dtype, count in (("bfloat16", 1), ("float32", 2), ("float64", 5)):
        x = Tensor[NumPy].from_data([3.0, -0.5, 1.0], dtype=dtype)
        assert x.ldexp(IntTensor[NumPy].from_data([4, -1, -300])).float().tolist() == [48.0, -0.25, 0.0]
        assert len(factors) == count


@every_row("dtype", ("float16", "float32", "float64"))
def test_frexp_is_that_of_numpy(dtype: str) -> None:
    """Of all exponents, of numbers next to powers of two, of subnormal numbers, of infinities and NaN."""
    info = np.finfo(dtype)
    powers = np.ldexp(1.0, np.arange(info.minexp - info.nmant, info.maxexp)).astype(dtype)
    values = np.concatenate([powers, np.nextafter(powers, np.zeros((), dtype)), powers * 1.5])
    values = np.concatenate([values, -values, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])
    found = Tensor[NumPy].from_data(values).frexp()
    mantissa, exponent = np.frexp(values)
    np.testing.assert_array_equal(found.mantissa.to_numpy(), mantissa)
    np.testing.assert_array_equal(found.exponent.to_numpy(), exponent)
    assert (found.mantissa.dtype.name, found.exponent.dtype.name) == (dtype, "int32")
    back = found.mantissa.ldexp(found.exponent).to_numpy()
    np.testing.assert_array_equal(
        back.view(f"u{info.dtype.itemsize}")[:-1], values.view(f"u{info.dtype.itemsize}")[:-1]
    )


def test_singular_matrices_are_named_by_inv_ex() -> None:
    x = (
        Tensor[Train]
        .from_data([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 1.0]]])
        .require_grad()
    )
    inverse, info = linalg.inv_ex(x)
    assert (info.tolist(), str(info.dtype)) == ([0, 2, 1], "int32")
    assert inverse[0].tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert inverse[1:].isnan().all().item()
    assert inverse[0].sum().backward()[x].isfinite().all().item()
    with pytest.raises(linalg.LinAlgError):
        linalg.inv_ex(x, check_errors=True)
    assert linalg.inv_ex(x[:0]).info.shape == (0,)
    assert linalg.inv_ex(x[:, :0, :0]).info.tolist() == [0, 0, 0]


def test_failures_are_reported() -> None:
    x = np.array([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]])
    factors, info = linalg.cholesky_ex(Tensor[Train].from_data(x))
    assert info.tolist() == [0, 2, 1]
    assert factors[0].tolist() == np.linalg.cholesky(x[0]).tolist()
    assert factors[1:].isnan().all().item()
    plan = burnpy.compiled(lambda a: tuple(linalg.cholesky_ex(a)))
    for k, number in ((0, 0), (1, 2), (2, 1), (0, 0)):
        for each in (linalg.cholesky_ex, plan):
            assert each(Tensor[NumPy].from_data(x[k : k + 1]))[1].tolist() == [number]
    function: Any = linalg.cholesky_ex
    ours, numbers = vmap(function)(Tensor[NumPy].from_data(x))
    assert (numbers.tolist(), ours.isnan().any(dim=-1).any(dim=-1).tolist()) == ([0, 2, 1], [False, True, True])
    singular = Tensor[NumPy].from_data([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 4.0]]])
    for b in (Tensor[NumPy].ones((2, 2, 1)), Tensor[NumPy].ones((2, 2))):
        solved = linalg.solve_ex(singular, b)
        assert (solved.result[0].flatten().tolist(), solved.info.tolist()) == ([0.5, 0.25], [0, 2])
        assert solved.result[1].isnan().all().item()
    assert linalg.lu_factor_ex(singular).info.tolist() == [0, 2]
    for call in (linalg.cholesky_ex, linalg.lu_factor_ex, linalg.inv_ex):
        with pytest.raises(linalg.LinAlgError):
            call(Tensor[NumPy].from_data(x) * 0.0, check_errors=True)


def test_equations_of_tensors() -> None:
    a = RNG.normal(size=(2, 6, 3, 4))
    x = Tensor[Train].from_data(a).require_grad()
    np.testing.assert_allclose(linalg.tensorinv(x).to_numpy(), np.linalg.tensorinv(a), rtol=1e-9)
    b = RNG.normal(size=(2, 6))
    found = linalg.tensorsolve(x, Tensor[Train].from_data(b))
    np.testing.assert_allclose(found.to_numpy(), np.linalg.tensorsolve(a, b), rtol=1e-9)
    small = Tensor[Train].from_data(RNG.normal(size=(2, 2, 4)))
    gradcheck(lambda x: linalg.tensorinv(x, ind=2), (small.require_grad(),))
    with pytest.raises(BurnpyError, match="other products"):
        linalg.tensorinv(x, ind=1)
    with pytest.raises(BurnpyError, match="expected"):
        linalg.tensorsolve(x, Tensor[Train].from_data(b[:, :2]))


X: Any = Tensor[NumPy].ones((2, 3))
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "addr() cannot add": (lambda: X.addr(X[0], X[0]), "multiplies (n,) and (m,)"),
    "addmv() cannot add": (lambda: X.addmv(X, X), "multiplies (n, k) and (k,)"),
    "addbmm() cannot add": (lambda: X.addbmm(X, X), "multiplies (b, n, k) and (b, k, m)"),
    "fliplr() got shape (3,)": (lambda: X[0].fliplr(), "two dimensions"),
    "flipud() got a 0-d": (lambda: X[0, 0].flipud(), "one dimension"),
    "select_scatter() got src of shape (3,)": (lambda: X.select_scatter(X[0], 1, 0), "expected (2,)"),
    "select_scatter()": (lambda: X.select_scatter(X[0], 0, 2), "index 2 along dim 0"),
    "slice_scatter() got step=0": (lambda: X.slice_scatter(X, step=0), "give 1 or more"),
    "slice_scatter() got src of shape (2, 3)": (lambda: X.slice_scatter(X, start=1), "expected (1, 3)"),
    "diagonal_scatter() got src": (lambda: X.diagonal_scatter(X[0]), "expected (2,)"),
    "put() got a source of shape (3,)": (lambda: X.put(IntTensor[NumPy].from_data([0]), X[0]), "index of shape (1,)"),
    "put()": (lambda: X.put(IntTensor[NumPy].from_data([6]), X[0, :1]), "6"),
    "put() takes its indices": (lambda: X.put(X, X), "IntTensor"),
    "renorm() got p=0": (lambda: X.renorm(0.0, 0, 1.0), "p above 0"),
    "gradient() got shape (2, 3)": (lambda: burnpy.gradient(X, edge_order=2), "needs 3 or more"),
    "gradient() got edge_order=3": (lambda: burnpy.gradient(X, edge_order=3), "expected 1 or 2"),
    "gradient() got spacing=": (lambda: burnpy.gradient(X, spacing=[1.0]), "one number or vector for each"),
    "gradient() got coordinates": (lambda: burnpy.gradient(X, spacing=[X[0], X[0]]), "expected (2,)"),
    "combinations() takes a vector": (lambda: burnpy.combinations(X), "(2, 3)"),
    "combinations() got r=-1": (lambda: burnpy.combinations(X[0], -1), "0 or more"),
    "vander() takes a vector": (lambda: burnpy.vander(X), "(2, 3)"),
    "vander() got N=-1": (lambda: burnpy.vander(X[0], -1), "0 or more"),
    "ldexp() got shapes": (lambda: X.ldexp(IntTensor[NumPy].from_data([1, 2])), "do not broadcast"),
    "float_power() takes floats and ints": (lambda: X.float_power(X > 0), "BoolTensor"),
}


@every_row("start", MISTAKES)
def test_mistakes(start: str) -> None:
    call, part = MISTAKES[start]
    with pytest.raises(BurnpyError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert part in str(caught.value)
