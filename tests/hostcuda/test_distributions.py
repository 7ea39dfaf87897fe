"""Densities, samples and divergences of distributions on CuPy, beside the NumPy backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy import distributions as d
from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import float16, float32, float64, int8, int32
from burnpy.errors import ArgumentError
from tests.hostcuda import simulator

simulator.require()

CASES: dict[str, tuple[Any, tuple[float, ...], bool]] = {
    "normal": (d.Normal, (0.3, 1.5), False),
    "gamma": (d.Gamma, (2.5, 1.5), False),
    "poisson": (d.Poisson, (2.5,), True),
}


@pytest.mark.parametrize("size", [5, 3000])
@pytest.mark.parametrize("name", CASES)
def test_densities_with_gradients(name: str, size: int) -> None:
    make, parameters, whole = CASES[name]
    values = np.linspace(0.1, 9.0, size)
    values = np.floor(values) if whole else values

    def computed(device: Any) -> list[Any]:
        leaves = [Tensor.full((), p, dtype="float64", device=device).require_grad() for p in parameters]
        logs = make(*leaves).log_prob(Tensor.from_data(values, device=device))
        grads = logs.sum().backward()
        return [logs.to_numpy(), *[grads[leaf].to_numpy() for leaf in leaves]]

    for found, expected in zip(computed(Autodiff[CuPy]), computed(Autodiff[NumPy]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_samples_divergences_and_checks() -> None:
    p, q = d.Normal(0.0, 2.0, device=CuPy), d.Normal(1.0, 2.0, device=CuPy)
    assert p.sample((3,)).shape == (3,)
    assert d.kl(p, q).item() == pytest.approx(0.125)
    broken = d.Normal(Tensor[CuPy].zeros((2,)), Tensor[CuPy].from_data([1.0, -1.0]))
    with pytest.raises(ArgumentError, match="got scale of shape"):  # late
        broken.scale.to_numpy()


def draw(device: CuPy) -> list[Any]:
    generator = np.random.default_rng(7)
    drawn = [
        device.random_uniform(generator, (3, 4), float32),
        device.random_uniform(generator, (), float64),
        device.random_uniform(generator, (1000,), float16),
        device.random_normal(generator, (3,), float64),
        device.random_normal(generator, (3,), float16),
        device.random_integers(generator, -2, 3, (50,), int8),
        device.random_permutation(generator, 9, int32),
        device.random_exponential(generator, (3,), float32),
    ]
    return [device.to_numpy(d) for d in drawn]


def test_random_numbers_follow_the_generator() -> None:
    first, again = draw(CuPy()), draw(CuPy(1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [a.dtype for a in first] == [float32, float64, float16, float64, float16, int8, int32, float32]
    assert first[2].max() < 1
    assert set(first[5].tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(first[6].tolist()) == list(range(9))


def test_probabilities_out_of_range_are_told_when_the_device_is_waited_for() -> None:
    zeros = Tensor[CuPy].zeros((2, 3))
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: (zeros + 9.0).bernoulli(), r"bernoulli\(\) takes probabilities"),
        (lambda: (zeros / 0.0).categorical(), r"categorical\(\).*no distribution"),
    ]
    for mistake, words in mistakes:
        out = mistake()
        with pytest.raises(ArgumentError, match=words):
            out.tolist()
        out.tolist()  # told once
