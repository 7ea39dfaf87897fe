"""The examples that generate, forecast and listen learn, to a tolerance, and draw their pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(example: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs an example, which must draw its picture to a new folder, and returns its output."""

    def drawing(name: str, *options: Any) -> str:
        out = tmp_path / "deep" / "out"
        output = example(name, *options, "--out", out)
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        return output

    return drawing


def numbers(pattern: str, output: str) -> list[float]:
    found = [float(number) for number in re.findall(pattern, output)]
    assert found, output
    return found


@pytest.mark.slowest
def test_the_autoencoder_describes_images_better_than_their_mean(run: Callable[..., str]) -> None:
    output = run("vae", "--epochs", "8")
    (mean,) = numbers(r"describes in ([\d.]+) nats", output)
    bounds = numbers(r"held out ([\d.]+) nats,", output)
    assert bounds[-1] < mean - 0.8, "0.6 nats are what a posterior that ignores the image loses by not being sure"
    assert numbers(r"([\d.]+) of them in z", output)[-1] > 1, "the latent point says something of the image"


@pytest.mark.slowest
@pytest.mark.parametrize(("steps", "found", "near"), [(500, 0, 20), pytest.param(900, 6, 50, marks=pytest.mark.long)])
def test_the_generator_finds_most_of_the_mixture(steps: int, found: int, near: int, run: Callable[..., str]) -> None:
    output = run("gan", "--steps", steps)
    modes, shares = numbers(r"(\d) of 8", output), numbers(r"([\d.]+)% of the points", output)
    assert modes[0] <= 1
    assert modes[-1] >= found
    assert shares[0] < 5
    assert shares[-1] > near, "of points anywhere on the circle 38 %"


def test_the_discriminator_has_the_penalty_on_its_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    import burnpy
    from burnpy import Autodiff, Tensor
    from burnpy.backend import NumPy
    from gan import PENALTY, Mlp, discriminator_loss, real_points

    burnpy.manual_seed(0)
    net = Mlp(2, 1, Autodiff[NumPy]).astype("float64")
    real = real_points(16, Autodiff[NumPy]).double()
    found = discriminator_loss(net, real, real)

    x, h, squares = real.inner(), 1e-5, 0.0
    plain = net.valid()
    for column in range(2):
        moved = Tensor[NumPy].eye(2, dtype="float64")[column] * h
        squares = squares + ((plain(x + moved) - plain(x - moved)) / (2 * h)).square().mean().item()
    entropy = ((-plain(x)).softplus() + plain(x).softplus()).mean().item()
    assert found.item() == pytest.approx(entropy + PENALTY / 2 * squares, rel=1e-8)
    assert len(found.backward()) == 6, "every weight matters"


@pytest.mark.heavy("statsmodels")
def test_the_network_forecasts_sunspots_better_than_persistence(run: Callable[..., str]) -> None:
    output = run("sunspots", "--epochs", "20")
    network, linear, persistence = numbers(r"  [a-z].*: ([\d.]+)", output)
    assert network < 0.75 * persistence
    assert linear < 0.6 * persistence, "16.4 of 33.2, as for any program that fits this regression"


@pytest.mark.slowest
def test_the_network_tells_sounds_apart_by_their_spectrograms(run: Callable[..., str]) -> None:
    output = run("sounds", "--sounds", "400", "--epochs", "4")
    spectra, network = numbers(r"([\d.]+)%", output)
    assert spectra < 80, "rising and falling tones have the same spectra"
    assert network > spectra + 8


def test_the_process_is_the_normal_distribution_that_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    import math

    import numpy as np
    from scipy.stats import multivariate_normal

    from burnpy import Tensor
    from burnpy.backend import NumPy
    from gaussian_process import START, kernel, log_likelihood, predicted

    parameters = {name: Tensor[NumPy].from_data(math.log(x), dtype="float64") for name, x in START.items()}
    rng = np.random.default_rng(0)
    t, y, at = rng.uniform(0, 9, 12), rng.normal(size=12), rng.uniform(0, 9, 5)
    ours = [Tensor[NumPy].from_data(x) for x in (t, y, at)]
    noise = START["noise"] ** 2
    own = kernel(parameters, ours[0], ours[0]).to_numpy() + noise * np.eye(12)
    expected = multivariate_normal(np.zeros(12), own).logpdf(y)
    assert log_likelihood(parameters, *ours[:2]).item() == pytest.approx(expected, rel=1e-9)

    across, there = (kernel(parameters, x, ours[2]).to_numpy() for x in (ours[0], ours[2]))
    mean, deviation = predicted(parameters, *ours)
    np.testing.assert_allclose(mean.to_numpy(), across.T @ np.linalg.solve(own, y), rtol=1e-7)
    variance = np.diag(there) + noise - np.diag(across.T @ np.linalg.solve(own, across))
    np.testing.assert_allclose(deviation.to_numpy() ** 2, variance, rtol=1e-7)


@pytest.mark.heavy("statsmodels")
def test_the_process_finds_its_parameters_and_foretells(run: Callable[..., str]) -> None:
    output = run("gaussian_process", "--iterations", "20")
    first, *_, last = numbers(r"likelihood (-[\d.]+)", output)
    assert last > first + 5
    (error,) = numbers(r"squared error ([\d.]+) ppm", output)
    assert error < 3.5, "of numbers that grow by 17 in that time"


@pytest.mark.long
def test_the_rates_of_hares_and_lynxes_are_the_published_ones(run: Callable[..., str]) -> None:
    output = run("hare_and_lynx", "--samples", "30")
    for name, fit, deviation, mean, spread in re.findall(r"(\w+) +([\d.]+) ± ([\d.]+) +([\d.]+) ± ([\d.]+)", output):
        assert abs(float(fit) - float(mean)) < float(spread), name
        assert 0.4 < float(deviation) / float(spread) < 1.6, name


@pytest.mark.slowest
def test_four_chains_agree_with_each_other_and_with_the_exact_posterior(run: Callable[..., str]) -> None:
    output = run("hmc", "--samples", "250")
    assert max(numbers(r"R-hat ([\d.]+)", output)) < 1.05
    assert min(numbers(r"effective size (\d+)", output)) > 400
    assert numbers(r"within ([\d.]+) standard errors", output)[0] < 4.5
    for deviation, exact in re.findall(r"deviation ([\d.]+) \(exact ([\d.]+)\)", output):
        assert float(deviation) == pytest.approx(float(exact), rel=0.15)
