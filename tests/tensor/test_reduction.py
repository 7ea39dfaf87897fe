"""Reductions against NumPy, over shapes, dims and dtypes; the dtypes they give; and what they do of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, compiled, func
from burnpy.backend import NumPy
from tests.rows import every_row

Array = np.ndarray[Any, Any]
Train = Autodiff[NumPy]
CASES: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((5,), None),
    ((5,), 0),
    ((3, 4), -1),
    ((3, 4), (0, 1)),
    ((3, 4), ()),
    ((2, 3, 4), (2, 0)),
    ((2, 3, 4), [1]),
    ((2, 3, 4), None),
    ((0, 3), 1),
]
rng = np.random.default_rng(2)


def axis(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def logsumexp(a: Array, axis: Any, keepdims: Any) -> Array:
    return np.asarray(np.log(np.exp(a).sum(axis=axis, keepdims=keepdims)))


FLOATS: dict[str, Callable[..., Any]] = {
    **{n: getattr(np, n) for n in ("sum", "prod", "mean", "amax", "amin", "any", "all")},
    "var": lambda a, axis, keepdims: a.var(axis=axis, keepdims=keepdims, ddof=1),
    "std": lambda a, axis, keepdims: a.std(axis=axis, keepdims=keepdims, ddof=1),
    "logsumexp": logsumexp,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, about variances of one element
@every_row("keepdim", [False, True])
@every_row("shape, dim", CASES)
@every_row("name", FLOATS)
def test_floats(name: str, shape: tuple[int, ...], dim: Any, keepdim: bool) -> None:
    a = rng.standard_normal(shape)
    wanted = np.asarray(FLOATS[name](a, axis=axis(dim), keepdims=keepdim))
    for x in (Tensor[NumPy].from_data(a), Tensor[Train].from_data(a).require_grad()):
        found = getattr(x, name)(dim, keepdim)
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.to_numpy(), wanted, 1e-9)


@every_row("keepdim", [False, True])
@every_row("shape, dim", CASES)
@every_row("name", ["sum", "prod", "amax", "amin", "any", "all"])
def test_ints_and_bools(name: str, shape: tuple[int, ...], dim: Any, keepdim: bool) -> None:
    a = rng.integers(-3, 4, shape).astype(np.int32)
    wanted = getattr(np, name)(a, axis=axis(dim), keepdims=keepdim)
    found = getattr(IntTensor[NumPy].from_data(a), name)(dim, keepdim)
    assert found.tolist() == wanted.tolist()
    assert found.dtype == {"sum": np.int64, "prod": np.int64, "amax": np.int32, "amin": np.int32}.get(name, np.bool_)
    if name in ("sum", "any", "all"):
        found = getattr(BoolTensor[NumPy].from_data(a > 0), name)(dim, keepdim)
        assert found.tolist() == getattr(np, name)(a > 0, axis=axis(dim), keepdims=keepdim).tolist()
        assert type(found) is (IntTensor if name == "sum" else BoolTensor)


@pytest.mark.parametrize("kind", [Tensor, IntTensor, BoolTensor])
def test_reduced_dims_are_left_out_by_default(kind: Any) -> None:
    x = kind[NumPy].ones((2, 3))
    numbers = () if kind is BoolTensor else ("prod", "amax", "amin", "argmax", "argmin")
    for name in ("sum", "any", "all", *numbers):
        assert getattr(x, name)(0).shape == (3,), name


@every_row("dim", [0, -1])
@every_row("keepdim", [False, True])
@every_row("shape", [(4,), (3, 4), (2, 3, 4)])
def test_extremes_with_indices(shape: tuple[int, ...], keepdim: bool, dim: int) -> None:
    a = rng.integers(0, 3, shape)  # many ties: the first counts
    for cls, values in ((Tensor, a.astype(np.float32)), (IntTensor, a)):
        x: Any = cls[NumPy].from_data(values)
        for name in ("max", "min"):
            found = getattr(x, name)(dim, keepdim)
            indices = getattr(np, f"arg{name}")(a, axis=dim, keepdims=keepdim)
            assert found.values.tolist() == getattr(np, name)(values, axis=dim, keepdims=keepdim).tolist()
            assert found.indices.tolist() == indices.tolist()
            assert type(found.indices) is IntTensor
            assert found.indices.dtype == np.int64
            assert getattr(x, f"arg{name}")(dim, keepdim).tolist() == indices.tolist()
            assert getattr(x, name)().item() == getattr(np, name)(values)
            assert getattr(x, f"arg{name}")().item() == getattr(np, f"arg{name}")(a)
    assert Tensor[NumPy].from_data(a, dtype="float32").argmax(keepdim=True).shape == (1,) * len(shape)


def test_a_nan_is_extreme() -> None:
    x = Tensor[NumPy].from_data([1.0, np.nan, 3.0])
    assert np.isnan([x.amax().item(), x.amin().item(), x.max(0).values.item(), x.min().item()]).all()
    assert x.argmax().item() == x.argmin().item() == 1


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_a_dimension(dim: int) -> None:
    a = rng.standard_normal((3, 4)) * 5
    x = Tensor[NumPy].from_data(a)
    e = np.exp(a)
    np.testing.assert_allclose(x.softmax(dim).to_numpy(), e / e.sum(dim, keepdims=True), 1e-9, 1e-12)
    np.testing.assert_allclose(x.log_softmax(dim).to_numpy(), np.log(e / e.sum(dim, keepdims=True)), 1e-9, 1e-12)
    np.testing.assert_allclose(x.cumsum(dim).to_numpy(), a.cumsum(dim), 1e-9, 1e-12)
    assert IntTensor[NumPy].ones((3, 4), dtype="int8").cumsum(dim).dtype == np.int64


def test_huge_logits() -> None:
    x = Tensor[NumPy].from_data([1e4, 0.0, -np.inf])
    assert x.softmax(0).tolist() == [1.0, 0.0, 0.0]
    assert x.log_softmax(0).tolist() == [0.0, -1e4, -np.inf]
    assert x.logsumexp().item() == 1e4
    assert (x - np.inf).logsumexp().item() == -np.inf


def test_of_nothing() -> None:
    x = Tensor[NumPy].zeros((2, 0))
    assert x.sum(1).tolist() == [0.0, 0.0]
    assert x.prod(1).tolist() == [1.0, 1.0]
    assert np.isnan(x.mean(1).to_numpy()).all()
    assert x.logsumexp(1).tolist() == [-np.inf, -np.inf]
    assert x.any(1).tolist() == [False, False]
    assert x.all(1).tolist() == [True, True]
    assert x.amax(0).shape == x.argmin(0).shape == (0,)
    assert x.softmax(1).shape == (2, 0)


def test_corrections_and_dtypes() -> None:
    a = rng.standard_normal((3, 4))
    x = Tensor[NumPy].from_data(a)
    np.testing.assert_allclose(x.var(1, correction=0).to_numpy(), a.var(1), 1e-9)
    np.testing.assert_allclose(x.std((0, 1), correction=2).item(), a.std(ddof=2), 1e-9)
    assert np.isinf(x.var(0, correction=3).to_numpy()).all()
    assert Tensor[NumPy].ones((70000,), dtype="float16").sum(dtype="float32").item() == 70000
    assert IntTensor[NumPy].ones((300,), dtype="uint8").sum(dtype="int16").dtype == np.int16


LONG: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "rows": (lambda x: x, 0),
    "rows of a transposed matrix": (lambda x: x.T, 1),
    "a dim between others": (lambda x: x.reshape(2, -1, 2), 1),
    "dims that are not beside each other": (lambda x: x.reshape(-1, 2, 2), (0, 2)),
    "each second row": (lambda x: x[::2], 0),
    "a repeated row": (lambda x: x[0].expand(x.shape), 0),
    "repeated columns": (lambda x: x[:, :1].expand(x.shape), 0),
}


@every_row("name", LONG)
def test_sums_of_many_rows_are_as_exact_as_those_of_columns(name: str) -> None:
    """Each row added to the sum of all before it would make some of these means wrong by a quarter percent."""
    arranged, dim = LONG[name]
    mean: Callable[[Any], Any] = lambda x: x.mean(dim)  # noqa: E731
    shifted: Callable[[Any, Any], Any] = lambda b, x: (x + b).mean()  # noqa: E731
    ways: list[Callable[[Any], Any]] = [mean, compiled(mean), lambda x: x.mean(dim, keepdim=True)]
    for dtype in ("float16", "float32", "float64"):
        x = arranged(Tensor[NumPy].from_data(np.tile([0.1, 0.3], (300_000, 1)), dtype=dtype))
        want = x.to_dtype("float64").to_numpy().mean(axis=dim)
        for f in ways:
            found = f(x).to_numpy()
            assert found.dtype == dtype
            np.testing.assert_allclose(found.reshape(want.shape), want, rtol=1e-3 if dtype == "float16" else 1e-4)
        gradient = func.grad(shifted)(Tensor[NumPy].ones((), dtype=dtype), x).item()
        assert gradient == pytest.approx(1.0, rel=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["at once", "compiled"])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_variances_of_numbers_that_are_large_beside_their_deviations(dim: int | None, wrap: Any) -> None:
    array = (np.random.default_rng(3).normal(size=(64, 2048)) + 1e6).astype(np.float32)
    exact = array.astype(np.float64)
    centered, count = exact - exact.mean(dim, keepdims=True), exact.shape[dim] if dim is not None else exact.size
    for name, slope in (("var", 2.0), ("std", 1.0 / exact.std(dim, ddof=1, keepdims=True))):
        y, by_x = wrap(func.value_and_grad(lambda x, name=name: getattr(x, name)(dim=dim).sum()))(
            Tensor[NumPy].from_data(array)
        )
        expected = getattr(exact, name)(dim, ddof=1).sum()
        np.testing.assert_allclose(y.item(), expected, rtol=2e-5)
        np.testing.assert_allclose(by_x.to_numpy(), centered * slope / (count - 1), rtol=1e-4, atol=1e-5 / count)
    covariance = Tensor[NumPy].from_data(array[:3]).cov().to_numpy()
    np.testing.assert_allclose(covariance, np.cov(exact[:3]), rtol=1e-5, atol=1e-6)
