"""Sorting, ranks, scans and statistics as methods: derivatives of compositions, views, dtypes, levels, and messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, func
from burnpy.backend import Checked, NumPy, Profiled, errors
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

NAN, INF = math.nan, math.inf
F = Callable[..., Any]
rng = np.random.default_rng(3)


def floats(*values: Any, device: Any = NumPy) -> Any:
    return Tensor.from_data(np.array(values[0] if len(values) == 1 else values), dtype="float64", device=device)


def ints(*values: int, device: Any = NumPy) -> Any:
    return IntTensor.from_data(np.array(values, np.int64), device=device)


SMOOTH: dict[str, F] = {
    "sort": lambda x: x.sort(dim=0, descending=True).values,
    "unique": lambda x: x.unique(),
    "unique rows": lambda x: x.unique(dim=0),
    "median": lambda x: x.median() + x.nanmedian(dim=1).values,
    "mode": lambda x: x.mode().values,
    "aminmax": lambda x: x.aminmax(dim=0)[0] * x.aminmax(dim=0)[1],
    "nanmean": lambda x: x.nanmean(dim=1) * x.nansum(dim=1),
    "quantile": lambda x: x.quantile(0.3, dim=1) * x.quantile(0.8, dim=1, interpolation="midpoint"),
    "quantiles by q": lambda x: x.quantile(x.detach().sigmoid()[0] * 0 + floats(0.1, 0.4, 0.77, device=x.device), 1),
    "norm": lambda x: x.norm(dim=1) * x.norm(3.0, dim=1) * x.norm(0.7, dim=1),
    "dist": lambda x: x.dist(x.flip(dims=(0,)) * 0.3, 1.7),
    "cov": lambda x: x.cov(),
    "cov by weights": lambda x: x.cov(fweights=ints(1, 2, 1, device=x.device), aweights=x[0].sigmoid()),
    "corrcoef": lambda x: x.corrcoef()[0, 1],
    "bincount by weights": lambda x: ints(2, 0, 2, device=x.device).bincount(x[0].square()),
    "diff": lambda x: x.diff(prepend=x * x, append=x[:, :1].sin()),
    "trapezoid": lambda x: burnpy.trapezoid(x, x.exp()),
    "cumulative_trapezoid": lambda x: burnpy.cumulative_trapezoid(x, x[0].exp(), dim=1),
    "std_mean": lambda x: burnpy.std_mean(x, 0)[0] * burnpy.var_mean(x, 0)[1],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    x = Tensor[NumPy].from_data(rng.permutation(6).reshape(2, 3) + rng.uniform(0.1, 0.4, (2, 3)), dtype="float64")
    assert gradcheck(SMOOTH[name], x)
    assert gradgradcheck(SMOOTH[name], x)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 1e3), ("float16", 1e-3), ("bfloat16", 1e30), ("float32", 1e-30), ("float64", 1e200)]
)
def test_correlations_do_not_depend_on_the_scale(dtype: str, size: float) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 40))
    x = Tensor[NumPy].from_data(rows * size, dtype=dtype)
    expected = np.corrcoef(x.to_numpy().astype(float) / size)
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 1e-6)
    np.testing.assert_allclose(x.corrcoef().to_numpy().astype(float), expected, atol=tolerance)
    for shape in ((3, 0), (2, 1), ()):
        assert Tensor[NumPy].zeros(shape, dtype=dtype).corrcoef().isnan().all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_places_in_histograms_are_not_rounded(dtype: str) -> None:
    x = Tensor[NumPy].from_data(np.random.default_rng(0).random(2000), dtype=dtype)
    counts = np.histogram(x.to_numpy().astype(float), 300, (0.0, 1.0))[0]
    assert x.histc(300, 0.0, 1.0).tolist() == counts.tolist()
    assert Tensor[NumPy].full((3,), 4096.0, dtype=dtype).histc(2).tolist() == [0.0, 3.0]
    top = Tensor[NumPy].from_data([0.1, 0.3], dtype=dtype)
    assert top.histc(2, 0.1, 0.3).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("q", [0.25, 0.5, 0.6])
def test_quantiles_between_infinite_and_distant_numbers(q: float) -> None:
    """A quantile between a number and infinity is infinite; the distance of two numbers may overflow."""
    for values, expected in (
        ([-math.inf, 1.0], -math.inf),
        ([1.0, math.inf], math.inf),
        ([-math.inf, math.inf], math.nan),
        ([math.inf, math.inf], math.inf),
        ([-1.5e308, 1.5e308], (2.0 * q - 1.0) * 1.5e308),
    ):
        x = floats(*values)
        assert x.quantile(q).item() == pytest.approx(expected, rel=1e-15, nan_ok=True)
        assert x.quantile(q, interpolation="midpoint").item() == pytest.approx(
            0.0 if math.isfinite(expected) else expected, nan_ok=True
        )
        assert func.grad(lambda x: x.quantile(q))(x).sum().item() == pytest.approx(1.0)
    ends = floats(-math.inf, 0.0, math.inf)
    assert [ends.quantile(p).item() for p in (0.0, 0.5, 1.0)] == [-math.inf, 0.0, math.inf]


def test_quantiles_are_differentiable_by_their_probabilities() -> None:
    values = np.array([3.0, 1.0, 2.0, 7.0])
    assert gradcheck(lambda q: floats(values, device=q.device).quantile(q), floats(0.2, 0.5))


def test_levels_mix() -> None:
    """Within `burnpy.func`, sequences and probabilities may be of a level beneath."""
    edges, x = floats(0.0, 1.0, 2.0), floats(0.5, 1.5)
    derivative = func.grad(lambda x: (x * burnpy.searchsorted(edges, x).float().to_dtype("float64")).sum())
    assert derivative(x).tolist() == [1.0, 2.0]
    hessian: Any = func.hessian(lambda x: x.sort().values.square().cumprod(0).sum())
    found = hessian(floats(2.0, 1.0)).to_numpy()
    assert found.tolist() == [[2.0, 8.0], [8.0, 10.0]]


@pytest.mark.parametrize("device", [Checked[NumPy], Profiled[NumPy], Autodiff[Autodiff[NumPy]]])
def test_devices_that_wrap(device: Any) -> None:
    x = floats(3.0, 1.0, 2.0, device=device)
    assert x.topk(2).values.tolist() == [3.0, 2.0]
    assert x.median().item() == 2.0
    assert x.quantile(0.5).item() == 2.0
    assert x.unique(return_counts=True)[1].tolist() == [1, 1, 1]


@every_row("span", [1, (1 << 16) - 1, 1 << 16, (1 << 32) - 1, 1 << 32])
@every_row("low", [0, -(1 << 20), -(1 << 63), (1 << 63) - (1 << 32) - 1])
def test_ints_of_small_and_large_ranges_are_sorted(low: int, span: int) -> None:
    values = np.random.default_rng(0).integers(low, low + span, (2, 900), endpoint=True)
    values[0, :3] = low, low + span, low
    x = IntTensor[NumPy].from_data(values)
    for dim in (0, 1):
        np.testing.assert_array_equal(x.argsort(dim).to_numpy(), np.argsort(values, dim, kind="stable"))
        np.testing.assert_array_equal(
            x.argsort(dim, descending=True).to_numpy(), np.argsort(np.invert(values), dim, kind="stable")
        )
    found, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    wanted = np.unique(values, return_inverse=True, return_counts=True)
    for ours, theirs in zip((found, inverse, counts), wanted, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)
    np.testing.assert_array_equal(x.unique().to_numpy(), wanted[0])


@every_row("method", ["sort", "argsort", "mode", "median", "kthvalue", "topk", "quantile"])
@every_row("size", [6, 600])
def test_tensors_of_as_many_dimensions_as_there_can_be_are_sorted(method: str, size: int) -> None:
    values = np.random.default_rng(0).standard_normal((size, 2)).astype("float32")
    args: Any = {"kthvalue": (2,), "topk": (2,), "quantile": (0.5,)}.get(method, ())
    wanted = getattr(Tensor[NumPy].from_data(values), method)(*args, 0)
    found = getattr(Tensor[NumPy].from_data(values.reshape((*(1,) * 40, size, *(1,) * 22, 2))), method)(*args, 40)
    for ours, theirs in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
        np.testing.assert_array_equal(ours.to_numpy().ravel(), theirs.to_numpy().ravel())


@every_row("size", [5, 3000])
@every_row("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint32", "uint64"])
def test_sorts_are_stable(dtype: str, size: int) -> None:
    """Of few elements, and of many, which are sorted by packed keys; with NaN and zeros of both signs."""
    kind: Any = Tensor if dtype.startswith("f") else IntTensor
    values = np.random.default_rng(size).integers(0, 9, (2, size)).astype(dtype)
    if kind is Tensor:
        values = np.where(values == 3, np.array(NAN, dtype), np.where(values == 4, np.array(-0.0, dtype), values))
        values = np.where(values == 5, np.array(-INF, dtype), values)
        values = np.where(values == 6, np.copysign(np.array(NAN, dtype), np.array(-1, dtype)), values)
    elif dtype.startswith("i"):
        values -= 4
    for array, dim in ((values, 1), (values.T, 0), (values[:, ::-1], -1)):
        x = kind[NumPy].from_data(array)
        assert (x.argsort(dim).to_numpy() == np.argsort(array, dim, kind="stable")).all()
        turned = np.flip(np.argsort(np.flip(array, dim), dim, kind="stable"), dim)
        assert (x.argsort(dim, descending=True).to_numpy() == array.shape[dim] - 1 - turned).all()
        found, index = x.topk(3, dim)
        wanted = x.sort(dim, descending=True)
        first = tuple(slice(0, 3) if d == dim % 2 else slice(None) for d in range(2))
        assert np.array_equal(index.to_numpy(), wanted.indices.to_numpy()[first])
        assert np.array_equal(found.to_numpy(), wanted.values.to_numpy()[first], equal_nan=kind is Tensor)
    distinct = kind[NumPy].from_data(np.random.default_rng(1).permutation(100).astype(dtype).reshape(2, 50))
    repeated = burnpy.cat([distinct] * 12, dim=0)
    for largest in (False, True):
        assert repeated.topk(4, 1, largest).values[5].tolist() == distinct.topk(4, 1, largest).values[1].tolist()


def test_bools() -> None:
    x = BoolTensor[NumPy].from_data([True, False, True])
    assert x.sort().values.tolist() == [False, True, True]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1]
    assert x.argsort().tolist() == [1, 0, 2]
    assert x.unique(return_counts=True)[1].tolist() == [1, 2]
    assert x.diff().tolist() == [True, True]
    assert x.count_nonzero().item() == 2


def test_results_are_named() -> None:
    x = floats(2.0, 1.0)
    for found in (x.sort(), x.topk(1), x.kthvalue(1), x.median(0), x.mode(), x.cummax(0), x.cummin(0), x.max(0)):
        assert found._fields == ("values", "indices")
        assert found.indices.dtype == np.int64
    assert x.aminmax()._fields == ("min", "max")


def test_norms_neither_overflow_nor_underflow() -> None:
    for p in (2.0, 3.0, 1.5, 0.5, -2.0):
        for scale in (1e-300, 1e300):
            x = floats(3.0, -4.0)
            assert math.isclose((x * scale).norm(p).item(), x.norm(p).item() * scale, rel_tol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_is_a_probability_of_more_digits_than_16_bits_have(dtype: str) -> None:
    """0.3 of 16 bits is another rank among 2,001 elements."""
    pytest.importorskip("ml_dtypes")
    steps = (IntTensor[NumPy].arange(2001) > 600).float().to_dtype(dtype)
    assert steps.quantile(0.3).item() < 1e-3


EMPTY = floats([])
MISTAKES: list[tuple[F, type[Exception], str]] = [
    (lambda x: x.topk(4), errors.ShapeError, "k=4 along a dimension of size 3"),
    (lambda x: x.topk(-1), errors.ShapeError, "from 0 to 3"),
    (lambda x: x.topk(1.5), errors.ArgumentError, "which is not an int"),
    (lambda x: x.kthvalue(0), errors.ShapeError, "from 1 to 3"),
    (lambda x: x.sort(2), errors.DimError, "dim 2"),
    (lambda x: x.sort(descending=1), errors.ArgumentError, "descending=1"),
    (lambda x: x.quantile(1.5), errors.ArgumentError, "from 0 to 1"),
    (lambda x: x.quantile(floats(0.5, -0.1)), errors.ArgumentError, "not from 0 to 1"),
    (lambda x: x.quantile(floats([[0.5]])), errors.ShapeError, r"shape \(1, 1\)"),
    (lambda x: x.quantile(floats(0.5).float()), errors.DTypeError, "float32"),
    (lambda x: x.quantile("half"), errors.KindError, "number or a Tensor"),
    (lambda x: x.quantile(0.5, interpolation="cubic"), errors.ArgumentError, "linear, lower"),
    (lambda x: EMPTY.quantile(0.5), errors.ShapeError, "no elements"),
    (lambda x: EMPTY.median(0), errors.ShapeError, "no element"),
    (lambda x: EMPTY.mode(), errors.ShapeError, "no element"),
    (lambda x: EMPTY.norm(INF), errors.ShapeError, "no element"),
    (lambda x: x.norm("nuc"), errors.ArgumentError, "number or 'fro'"),
    (lambda x: x.diff(-1), errors.ArgumentError, "n=-1"),
    (lambda x: floats(1.0).sum().diff(), errors.ShapeError, "0-d"),
    (lambda x: x.histc(0), errors.ArgumentError, "0 bins"),
    (lambda x: x.histc(3, 2.0, 1.0), errors.ArgumentError, "from 2.0 to 1.0"),
    (lambda x: (x / 0.0).histc(3), errors.ArgumentError, "give min= and max="),
    (lambda x: burnpy.cat([x, -x]).mul(1e308).histc(3), errors.ArgumentError, "too far apart"),
    (lambda x: x.histogram(0), errors.ArgumentError, "0 bins"),
    (lambda x: x.histogram(1.5), errors.ArgumentError, "number of bins"),
    (lambda x: x.histogram(2, range=(2.0, 1.0)), errors.ArgumentError, "from 2.0 to 1.0"),
    (lambda x: x.histogram(2, range=3.0), errors.ArgumentError, "two numbers"),
    (lambda x: (x / 0.0).histogram(2), errors.ArgumentError, "give range="),
    (lambda x: x.histogram(floats(2.0, 1.0)), errors.ArgumentError, "do not ascend"),
    (lambda x: x.histogram(floats(2.0)), errors.ShapeError, "vector of 2 or more"),
    (lambda x: x.histogram(ints(1, 2)), errors.KindError, "takes edges as a Tensor"),
    (lambda x: x.histogram(2, weight=x[:2]), errors.ShapeError, r"samples have shape \(3,\)"),
    (lambda x: x.histogram(2, weight=x.float()), errors.DTypeError, "weight of dtype float32"),
    (lambda x: x.histogram(2, density=1), errors.ArgumentError, "density=1"),
    (lambda x: burnpy.histogramdd(x, 2), errors.ShapeError, r"\(…, variables\)"),
    (lambda x: burnpy.histogramdd(x[None], [2, 2]), errors.ArgumentError, "for 3 variables"),
    (lambda x: burnpy.histogramdd(x[None], 2, range=(0.0, 1.0)), errors.ArgumentError, "give 6 numbers"),
    (lambda x: floats([[[1.0]]]).cov(), errors.ShapeError, "variables, samples"),
    (lambda x: x.cov(aweights=floats(1.0, -1.0, 1.0)), errors.DTypeError, "negative aweights"),
    (lambda x: x.cov(fweights=ints(1, 2)), errors.ShapeError, "3 samples"),
    (lambda x: x.cov(fweights=x), errors.KindError, "fweights as ints"),
    (lambda x: ints(1, -2).bincount(), errors.DTypeError, "-2"),
    (lambda x: ints(1, 2).reshape(1, 2).bincount(), errors.ShapeError, "1-d"),
    (lambda x: ints(1, 2).bincount(x), errors.ShapeError, r"weights of shape \(3,\)"),
    (lambda x: ints(1, 2).bincount(minlength=-1), errors.ArgumentError, "minlength=-1"),
    (lambda x: burnpy.searchsorted(x, ints(1)), errors.KindError, "kinds do not mix"),
    (lambda x: burnpy.searchsorted(x.reshape(1, 3), x), errors.ShapeError, "1-d"),
    (lambda x: burnpy.searchsorted(x, 1.0, side="middle"), errors.ArgumentError, "'left' or 'right'"),
    (lambda x: burnpy.searchsorted(x, 1.0, side="left", right=True), errors.ArgumentError, "give one"),
    (lambda x: burnpy.bucketize(x, x.reshape(1, 3)), errors.ShapeError, "1-d"),
    (lambda x: burnpy.trapezoid(x, x, dx=1.0), errors.ArgumentError, "give one"),
    (lambda x: burnpy.trapezoid(x, x[:2]), errors.ShapeError, "3 samples"),
    (lambda x: burnpy.trapezoid(x[None, :2], x[None, :1]), errors.ShapeError, "2 samples .* 1 places"),
    (lambda x: burnpy.cumulative_trapezoid(x[None, :1], x[None]), errors.ShapeError, "1 samples .* 3 places"),
    (lambda x: burnpy.var_mean(ints(1)), errors.KindError, "takes a Tensor"),
]


@every_row("number", range(len(MISTAKES)))
def test_mistakes(number: int) -> None:
    f, error, said = MISTAKES[number]
    with pytest.raises(error, match=said):
        f(floats(1.0, 2.0, 3.0))


@every_row(
    "shape, dim",
    [
        ((7,), 0),
        ((3, 5), 1),
        ((3, 5), 0),
        ((2, 4, 3), 1),
        ((2, 4, 1), 1),
        ((1, 4, 1), 1),
        ((2, 9000), 1),
        ((9000, 2), 0),
    ],
)
def test_trapezoid_is_that_of_numpy(shape: tuple[int, ...], dim: int) -> None:
    y, x = rng.standard_normal(shape), np.sort(rng.standard_normal(shape[dim]))
    samples, places = (Tensor[NumPy].from_data(a, dtype="float64") for a in (y, x))
    for found, wanted in (
        (burnpy.trapezoid(samples, dim=dim), np.trapezoid(y, axis=dim)),
        (burnpy.trapezoid(samples, dx=0.25, dim=dim), np.trapezoid(y, dx=0.25, axis=dim)),
        (burnpy.trapezoid(samples, places, dim=dim), np.trapezoid(y, x, axis=dim)),
    ):
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_trapezoid_of_two_dtypes() -> None:
    y, x = floats(1.0, 2.0, 4.0), floats(0.0, 1.0, 3.0).half()
    assert burnpy.trapezoid(y, x).dtype == y.dtype
    gradient = burnpy.func.grad(lambda x: burnpy.trapezoid(y, x))(x)
    assert gradient.dtype == "float16"
    assert gradient.tolist() == [-1.5, -1.5, 3.0]


def test_trapezoid_of_infinite_samples_and_of_one() -> None:
    y = floats(math.inf, 1.0, 2.0)
    assert burnpy.trapezoid(y).item() == math.inf
    assert burnpy.trapezoid(y, floats(0.0, 1.0, 3.0)).item() == math.inf
    assert math.isnan(burnpy.trapezoid(floats(math.inf, 1.0, -math.inf)).item())
    assert burnpy.trapezoid(y[:1]).item() == burnpy.trapezoid(y[:1], floats(2.0, 3.0)[:1]).item() == 0.0


REPEATED = [0.0, 0.25, 0.25, 1.0, 1.0]


@every_row("weighted", [False, True])
@every_row("bins", [3, [0.0, 0.25, 0.75, 1.0], REPEATED])
def test_histograms_are_those_of_numpy(bins: Any, weighted: bool) -> None:
    """Of samples on edges, and beyond them; of NaN too, where the edges are given."""
    values = np.concatenate([rng.uniform(-0.5, 1.5, 60), np.arange(5) / 4]).reshape(5, 13)
    weights = rng.uniform(-1.0, 1.0, values.shape) if weighted else None
    x = Tensor[NumPy].from_data(values, dtype="float64")
    edges: Any = floats(*bins) if isinstance(bins, list) else bins
    weight = None if weights is None else Tensor[NumPy].from_data(weights, dtype="float64")
    cases: list[tuple[bool, Any]] = [(False, None)]
    if bins != REPEATED:  # NumPy warns of 0 / 0
        cases.append((True, (0.0, 1.0)))
    for density, ends in cases:
        found = x.histogram(edges, range=ends, weight=weight, density=density)
        wanted = np.histogram(values, bins, range=ends, weights=weights, density=density)
        np.testing.assert_allclose(found.hist.to_numpy(), wanted[0], rtol=1e-12)
        np.testing.assert_allclose(found.bin_edges.to_numpy(), wanted[1], rtol=1e-12, atol=1e-15)
    if isinstance(bins, list):
        beside = burnpy.cat([x.flatten(), floats([NAN])], dim=0)
        assert beside.histogram(edges).hist.tolist() == x.histogram(edges).hist.tolist()


def test_histograms_of_few_and_of_equal_samples() -> None:
    found = floats([]).histogram(2)
    assert (found.hist.tolist(), found.bin_edges.tolist()) == ([0.0, 0.0], [0.0, 0.5, 1.0])
    found = floats(3.0).histogram(2)
    assert (found.hist.tolist(), found.bin_edges.tolist()) == ([0.0, 1.0], [2.5, 3.0, 3.5])
    low = np.float32(1.0)
    near = Tensor[NumPy].from_data([low, np.nextafter(low, np.float32(2.0))]).histogram(7)
    assert near.hist.sum().item() == 2.0
    assert (near.bin_edges.diff() >= 0.0).all().item()


@pytest.mark.long
def test_histograms_count_in_ints_and_round_once() -> None:
    many = Tensor[NumPy].ones((2**24 + 1,)).histogram(1, range=(0.0, 2.0))
    assert many.hist.item() == 2.0**24


def test_histograms_of_several_variables() -> None:
    values, weights = rng.normal(size=(2, 20, 3)), rng.uniform(size=(2, 20))
    x = Tensor[NumPy].from_data(values, dtype="float64")
    for ours, theirs in ((4, 4), ([1, 2, 3], [1, 2, 3]), ([floats(-1.0, 0.0, 2.0)] * 3, [[-1.0, 0.0, 2.0]] * 3)):
        bins: Any = ours
        found = burnpy.histogramdd(x, bins, weight=Tensor[NumPy].from_data(weights, dtype="float64"), density=True)
        wanted, edges = np.histogramdd(values.reshape(-1, 3), theirs, weights=weights.ravel(), density=True)
        np.testing.assert_allclose(found.hist.to_numpy(), wanted, rtol=1e-12)
        for a, b in zip(found.bin_edges, edges, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, rtol=1e-12)
    limited = burnpy.histogramdd(x, 2, range=(-1.0, 1.0, 0.0, 1.0, -2.0, 2.0))
    wanted, _ = np.histogramdd(values.reshape(-1, 3), 2, range=[(-1.0, 1.0), (0.0, 1.0), (-2.0, 2.0)])
    np.testing.assert_array_equal(limited.hist.to_numpy(), wanted)


def test_the_gradient_of_a_histogram_goes_to_the_weights() -> None:
    x = floats(0.5, 2.5, 0.25, device=Autodiff[NumPy]).require_grad()
    weight = x.detach().require_grad()
    factors = floats(3.0, 5.0, device=Autodiff[NumPy])
    grads = (x.histogram(2, range=(0.0, 2.0), weight=weight).hist * factors).sum().backward()
    assert grads[weight].tolist() == [3.0, 0.0, 3.0]
    assert x.grad(grads) is None
    gradcheck(lambda w: floats(0.5, 2.5, 0.25, device=w.device).histogram(2, weight=w, density=True).hist, (weight,))
