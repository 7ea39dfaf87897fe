"""The examples that generate and forecast learn, to a tolerance, and draw their pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path, *options: str) -> str:
    """What an example prints; it must have drawn its picture to a new folder."""
    out = folder / "deep" / "out"
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *options, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout


def numbers(pattern: str, output: str) -> list[float]:
    found = [float(number) for number in re.findall(pattern, output)]
    assert found, output
    return found


def test_the_autoencoder_describes_images_better_than_their_mean(tmp_path: Path) -> None:
    output = run("vae", tmp_path, "--epochs", "15")
    (mean,) = numbers(r"describes in ([\d.]+) nats", output)
    bounds = numbers(r"held out ([\d.]+) nats,", output)
    assert bounds[-1] < mean - 0.8, "0.6 nats are what a posterior that ignores the image loses by not being sure"
    assert numbers(r"([\d.]+) of them in z", output)[-1] > 1, "the latent point says something of the image"


def test_the_generator_finds_most_of_the_mixture(tmp_path: Path) -> None:
    output = run("gan", tmp_path, "--steps", "900")
    modes, shares = numbers(r"(\d) of 8", output), numbers(r"([\d.]+)% of the points", output)
    assert modes[0] <= 1
    assert modes[-1] >= 6
    assert shares[-1] > 50, "of points anywhere on the circle 38 %"


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


def test_the_network_forecasts_sunspots_better_than_persistence(tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    output = run("sunspots", tmp_path, "--epochs", "20")
    network, linear, persistence = numbers(r"  [a-z].*: ([\d.]+)", output)
    assert network < 0.75 * persistence
    assert linear < 0.6 * persistence, "16.4 of 33.2, as of any program that fits this regression"
