"""Each family beside SciPy: densities and distribution functions to the tails, moments, samples, derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from burnpy import Autodiff, Generator, Tensor, compiled, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from burnpy.distributions import formulas
from burnpy.errors import ArgumentError
from burnpy.testing import gradcheck
from tests.distributions.families import FAMILIES, Family
from tests.interrupting import LONG
from tests.programs.switched import without_kernels
from tests.rows import every_row

Array = npt.NDArray[Any]
LEAST = 1e-4
"""The probability of a sample as far off as it may be. All tests have fixed seeds, so none fails by chance."""
PROBABILITIES = (1e-20, 1e-6, 0.1, 0.5, 0.9, 0.999)


def of_family(family: Family, dtype: str) -> tuple[Any, Any]:
    """Return a batch of distributions of a family, and SciPy's of the same parameters, in float64."""
    columns = [np.array(column, dtype) for column in zip(*family.parameters, strict=True)]
    tensors = [Tensor[NumPy].from_data(column) for column in columns]
    return family.make(*tensors), family.scipy(*[column.astype(np.float64) for column in columns])


def close(found: Tensor[NumPy], expected: Array, rtol: float, atol: float) -> None:
    """Assert that numbers agree, where what overflows the dtype may be infinite."""
    got = found.to_numpy()
    limit = float(np.finfo(got.dtype).max)
    with np.errstate(over="ignore"):
        rounded = np.where(np.abs(expected) > limit, np.sign(expected) * np.inf, expected)
    np.testing.assert_allclose(got, np.broadcast_to(rounded, got.shape), rtol, atol)


@pytest.fixture
def kernels_in_float64(dtype: str) -> Iterator[None]:
    """Compute float32 without kernels: compiling one for each formula and dtype takes longer than all else."""
    with nullcontext() if LONG or dtype == "float64" else without_kernels():
        yield


@pytest.mark.slow
@every_row("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"),
    [("float64", 1e-11, 1e-13), pytest.param("float32", 2e-5, 4e-6, marks=pytest.mark.slowest)],
)
def test_densities_and_distribution_functions(
    family: Family, dtype: str, rtol: float, atol: float, kernels_in_float64: None
) -> None:
    ours, theirs = of_family(family, dtype)
    x = np.array(family.values, dtype)[:, None]
    with np.errstate(all="ignore"):
        expected = (theirs.logpmf if family.discrete else theirs.logpdf)(x.astype(np.float64))
        close(ours.log_prob(Tensor[NumPy].from_data(x)), expected, rtol, atol)
        if family.has(ours, "_cdf"):
            below = theirs.cdf(x.astype(np.float64))
            close(ours.cdf(Tensor[NumPy].from_data(x)), below, rtol, 1e-290 if dtype == "float64" else 1e-37)
        if family.has(ours, "_icdf"):
            p = np.array(PROBABILITIES, dtype)[:, None]
            quantiles = theirs.ppf(p.astype(np.float64))
            quantiles = np.maximum(quantiles, 0.0) if family.discrete else quantiles  # SciPy's of a certain 0 is -1
            close(ours.icdf(Tensor[NumPy].from_data(p)), quantiles, rtol, atol)
    assert ours.log_prob(Tensor[NumPy].from_data(np.array(np.nan, dtype))).exp().nan_to_num(0.0).eq(0.0).all()


@pytest.mark.slow
@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_moments_and_entropies(family: Family) -> None:
    ours, theirs = of_family(family, "float64")
    with np.errstate(all="ignore"):
        if family.has(ours, "mean"):
            none = np.isinf(theirs.mean()) & np.isinf(theirs.support()[0])
            close(ours.mean, np.where(none, np.nan, theirs.mean()), 1e-11, 1e-14)
            if family.name != "von Mises":  # whose variance is the circular one
                close(ours.variance, theirs.var(), 1e-9, 1e-14)
                close(ours.stddev, theirs.std(), 1e-9, 1e-14)
        if family.has(ours, "entropy"):
            expected = theirs.entropy()
            certain = np.isnan(expected)  # SciPy's of a distribution of one value
            close(ours.entropy(), np.where(certain, 0.0, expected), 1e-8, 1e-12)


@pytest.mark.slowest
@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_samples(family: Family) -> None:
    ours, _ = of_family(family, "float64")
    count = 4000 if LONG else 1500
    sample = ours.sample((count,), generator=Generator(1))
    assert sample.shape == (count, len(family.parameters))
    for k, parameters in enumerate(family.parameters):
        with np.errstate(all="ignore"):
            matches(family, sample.to_numpy()[:, k], parameters)


def matches(family: Family, column: Array, parameters: tuple[float, ...]) -> None:
    """Assert that a sample is distributed as SciPy says: by Kolmogorov and Smirnov, or by χ² for whole numbers."""
    from scipy import stats

    theirs = family.scipy(*parameters)
    if not family.discrete:
        assert stats.kstest(column, theirs.cdf).pvalue > LEAST, parameters
        return
    ends = np.unique(theirs.ppf(np.linspace(0.05, 0.95, 12)))  # cells of enough numbers each
    expected = np.diff([0.0, *theirs.cdf(ends), 1.0]) * len(column)
    counts = np.diff([0, *[(column <= end).sum() for end in ends], len(column)])
    rare = expected < 1e-6
    assert counts[rare].sum() == 0, parameters
    if (~rare).sum() > 1:
        expected = expected[~rare] * (len(column) / expected[~rare].sum())
        assert stats.chisquare(counts[~rare], expected).pvalue > LEAST, parameters


@pytest.mark.slowest
@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_derivatives(family: Family) -> None:
    """Of log_prob by value and parameters, twice; and of samples by the parameters where they have one."""
    parameters = [np.array(p) for p in family.checked]
    inputs = [Tensor[NumPy].from_data(p) for p in parameters]
    values = np.array(family.inside)[:, None]
    if not family.discrete:
        inputs = [Tensor[NumPy].from_data(values), *inputs]

    def log_prob(*args: Any) -> Any:
        if family.discrete:
            return family.make(*args, validate=False).log_prob(Tensor.from_data(values, device=args[0].device))
        return family.make(*args[1:], validate=False).log_prob(args[0])

    assert gradcheck(log_prob, inputs, eps=1e-6, atol=1e-4)

    def slope(*args: Any) -> Any:
        return func.grad(lambda first: log_prob(first, *args[1:]).sum())(args[0])

    assert gradcheck(slope, inputs, atol=1e-4, fast_mode=True)


@pytest.mark.slowest
@every_row("name", ["gamma", "beta", "student's t"])
def test_quantiles_without_a_closed_form_are_differentiable(name: str) -> None:
    """By the probability, twice, and by a parameter, as the inverse of `cdf`; both ends are those of the support."""
    family = next(each for each in FAMILIES if each.name == name)
    inputs = p, first, *rest = [Tensor[NumPy].from_data(np.array(p)) for p in ((0.2, 0.7), *family.checked)]

    def quantile(p: Any, first: Any) -> Any:
        return family.make(first, *rest, validate=False).icdf(p)

    def cdf(first: Any) -> Any:
        return family.make(first, *rest, validate=False).cdf(x).sum()

    x = quantile(p, first)
    density = family.make(first, *rest).log_prob(x).exp()
    steepness = func.grad(lambda x: family.make(first, *rest).log_prob(x).sum())(x)
    by_p, by_first = func.grad(lambda *args: quantile(*args).sum(), argnums=(0, 1))(p, first)
    assert by_p.allclose(density.reciprocal(), rtol=1e-9)
    assert by_first.allclose(-func.grad(cdf)(first) / density, rtol=1e-8)
    twice = func.grad(lambda p: func.grad(lambda p: quantile(p, first).sum())(p).sum())(p)
    assert twice.allclose(-steepness / density.square(), rtol=1e-7)
    ends = family.make(*inputs[1:]).icdf(Tensor[NumPy].from_data([[0.0], [1.0], [1.5]], dtype="float64"))
    low, high = family.scipy(*[p[0] for p in family.checked]).support()
    assert ends[:2, 0].tolist() == [low, high]
    assert ends[2].isnan().all()


@pytest.mark.slowest
@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_plans_and_examples_at_once(family: Family) -> None:
    """In plans densities are the same, and `vmap` of one distribution at a time gives the batch's."""
    parameters = [Tensor[NumPy].from_data(np.array(p), dtype="float32") for p in family.checked]
    x = Tensor[NumPy].from_data(np.resize(np.array(family.inside, np.float32), 2 * len(family.checked[0])))
    x = x.reshape(2, -1)
    make = family.make
    batch = make(*parameters).log_prob(x)
    one = func.vmap(lambda x, *ps: make(*ps).log_prob(x), in_dims=(1, *[0] * len(parameters)), out_dims=1)
    assert one(x, *parameters).allclose(batch, rtol=1e-5)
    plan = compiled(lambda x, *ps: make(*ps).log_prob(x))
    assert plan(x, *parameters).allclose(batch, rtol=1e-5)


def test_a_density_with_its_gradients_is_one_kernel_of_a_plan() -> None:
    x, mean, scale = (Tensor[NumPy].from_data(np.linspace(low, 3.0, 4096, dtype=np.float32)) for low in (0.2, 0.1, 0.5))
    if not NumPy().fuses([x._primitive]):
        pytest.skip("without llvmlite, plans call operations one by one")

    def loss(parameters: Any) -> Any:
        return d.Normal(*parameters, validate=False).log_prob(x).sum()

    plan = compiled(lambda *parameters: func.value_and_grad(loss)(parameters))
    assert "1 kernel of" in str(plan.explain(mean, scale))
    assert "0 single operations" in str(plan.explain(mean, scale))


@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_trainable_and_valid(family: Family) -> None:
    """Training starts from the parameters, keeps their constraints, and ends on a plain backend."""
    ours = family.make(*[Tensor[Autodiff[NumPy]].from_data(np.array(p)) for p in family.checked])
    model = ours.trainable()
    x = Tensor[Autodiff[NumPy]].from_data(np.array(family.inside)[:, None])
    assert model.log_prob(x).allclose(ours.log_prob(x), rtol=1e-9)
    grads = model.log_prob(x).sum().backward()
    assert all(p.value.grad(grads) is not None for p in model.params() if not p.frozen)
    assert any(not p.frozen for p in model.params())
    inner = model.valid()
    assert inner.device is NumPy()
    assert inner.batch_shape == ours.batch_shape
    wide = ours.expand((2, len(family.checked[0])))
    assert wide.batch_shape == (2, len(family.checked[0]))
    assert wide.sample((3,)).shape == (3, *wide.batch_shape)


def test_binomials_of_several_counts_have_their_entropies() -> None:
    counts = Tensor[NumPy].from_data(np.array([0.0, 3.0, 30.0]))
    p = Tensor[NumPy].from_data(np.array([[0.3], [0.8]]))
    assert gradcheck(lambda p: d.Binomial(counts.to_device(p.device), p).entropy(), p)
    assert d.Binomial(counts[:0], p).entropy().shape == (2, 0)


def test_a_formula_is_one_function_so_that_it_is_compiled_once() -> None:
    made = [
        family.make(*[Tensor[NumPy].from_data(x[:1]) for x in zip(*family.parameters, strict=True)])
        for family in FAMILIES
    ]
    x = Tensor[NumPy].from_data([0.5])
    calls = [
        partial(getattr(p, name), x)
        for p in made
        for name in ("log_prob", "cdf", "log_cdf")
        if not isinstance(p, d.Categorical)
    ]
    calls += [p.entropy for p in made] + [partial(d.kl, p, q) for p in made for q in made]
    passes = []
    for _ in range(2):
        for call in calls:
            with suppress(ArgumentError, NotImplementedError):  # families lack methods, and pairs divergences
                call()
        passes.append(formulas._of_results.cache_info().misses)
    assert passes[0] == passes[1]
