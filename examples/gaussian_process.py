"""A Gaussian process learns the CO₂ in the air over Hawaii and foretells it: ``python examples/gaussian_process.py``.

The monthly means from 1958 to 2001 at Mauna Loa come with statsmodels. The kernel, after Rasmussen and Williams (2006,
section 5.4.3), is a sum of a smooth trend, a yearly cycle that changes slowly, irregularities of a year, others of some
weeks, and noise. Its ten parameters are found from the months before 1990 by maximising the log marginal likelihood,
whose gradient goes through a Cholesky decomposition. What it says of the months from 1990 on is compared with the data:
the growth then slowed down, and the process is surer than it should be. It takes about five seconds on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from burnpy import Autodiff, Gradients, Tensor, linalg
from burnpy.backend import Backend, NumPy
from burnpy.distributions import MultivariateNormal
from burnpy.optim import LBfgs
from extras import imported
from pictures import draw_process

B = TypeVar("B", bound=Backend)
Train: TypeAlias = Autodiff[NumPy]

SPLIT = 1990.0  # the first month held out
START = {  # of the parameters: lengths in years, sizes in ppm
    "trend size": 50.0, "trend length": 50.0,
    "cycle size": 2.0, "cycle life": 100.0, "cycle length": 1.0,
    "irregular size": 0.5, "irregular length": 1.0,
    "error size": 0.2, "error length": 0.2, "noise": 0.2,
}  # fmt: skip


def kernel(parameters: Mapping[str, Tensor[B]], s: Tensor[B], t: Tensor[B]) -> Tensor[B]:
    """Return the covariances of the process at times s, (n,), and t, (m,), without noise: (n, m)."""
    p = {name: value.exp() for name, value in parameters.items()}  # logarithms are stored, as all are positive
    distance = s.unsqueeze(1) - t.unsqueeze(0)
    cycle = -2.0 * ((distance * math.pi).sin() / p["cycle length"]).square()
    exponents = {
        "trend": -0.5 * (distance / p["trend length"]).square(),
        "cycle": cycle - 0.5 * (distance / p["cycle life"]).square(),
        "irregular": -0.5 * (distance / p["irregular length"]).square(),
        "error": -0.5 * (distance / p["error length"]).square(),
    }
    return sum((p[f"{name} size"] ** 2 * x.exp() for name, x in exponents.items()), start=distance.zeros_like())


def factor(parameters: Mapping[str, Tensor[B]], t: Tensor[B]) -> Tensor[B]:
    """Return the Cholesky factor of the covariance of observations at times t, (n, n)."""
    noise = (2.0 * parameters["noise"]).exp()
    return linalg.cholesky(kernel(parameters, t, t) + noise * Tensor.eye(len(t), dtype="float64", device=t.device))


def log_likelihood(parameters: Mapping[str, Tensor[B]], t: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Return the logarithm of the density of observations y, (n,), at times t, the process itself integrated
    out; 0-d.
    """
    process = MultivariateNormal(y.zeros_like(), scale_tril=factor(parameters, t), validate=False)
    return process.log_prob(y)


def predicted(
    parameters: Mapping[str, Tensor[B]], t: Tensor[B], y: Tensor[B], at: Tensor[B]
) -> tuple[Tensor[B], Tensor[B]]:
    """Mean and standard deviation of observations at other times, (m,) each, given y at times t."""
    lower = factor(parameters, t)
    across = linalg.solve_triangular(lower, kernel(parameters, t, at), upper=False)
    mean = across.T @ linalg.solve_triangular(lower, y.unsqueeze(1), upper=False)
    alone = (kernel(parameters, at, at).diagonal() + (2.0 * parameters["noise"]).exp()) - across.square().sum(dim=0)
    return mean.squeeze(1), alone.sqrt()


def measurements() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return times in years and CO₂ in ppm, the means of the months that have measurements."""
    weeks: Any = imported("statsmodels.datasets.co2").load().data["co2"].dropna()
    months: Any = weeks.resample("MS").mean().dropna()
    return months.index.year.to_numpy() + (months.index.month.to_numpy() - 0.5) / 12, months.to_numpy()


def train(iterations: int, out: Path) -> None:
    """Find the parameters, print how well the process foretells, and draw it."""
    times, co2 = measurements()
    known = times < SPLIT
    mean = co2[known].mean()
    t, y = (Tensor[Train].from_data(values[known]) for values in (times - SPLIT, co2 - mean))

    def loss_and_grads(parameters: dict[str, Tensor[Train]]) -> tuple[Tensor[Train], Gradients[NumPy]]:
        loss = -log_likelihood(parameters, t, y) / len(t)
        return loss, loss.backward()

    parameters = {name: Tensor[Train].from_data(math.log(x), dtype="float64") for name, x in START.items()}
    parameters = {name: value.require_grad() for name, value in parameters.items()}
    optim = LBfgs(max_iter=10)
    print(f"{len(t)} months; log marginal likelihood {log_likelihood(parameters, t, y).item():.1f}")
    for done in range(10, iterations + 1, 10):
        parameters, loss = optim.minimize(1.0, parameters, loss_and_grads)
        print(f"iteration {done}: log marginal likelihood {-loss.item() * len(t):.1f}", flush=True)
    fitted = {name: value.inner() for name, value in parameters.items()}
    print(", ".join(f"{name} {value.exp().item():.3g}" for name, value in fitted.items()))

    at = np.concatenate([times[~known], np.arange(times[-1], 2012, 1 / 12)])
    expected, deviation = predicted(fitted, t.inner(), y.inner(), Tensor[NumPy].from_data(at - SPLIT))
    forecast, spread = expected.to_numpy() + mean, deviation.to_numpy()
    errors = forecast[: (~known).sum()] - co2[~known]
    inside = float((abs(errors) < 1.96 * spread[: len(errors)]).mean())
    print(f"{len(errors)} months from 1990 on: root mean squared error {float((errors**2).mean()) ** 0.5:.2f} ppm,")
    print(f"{inside:.1%} of them within the interval of 95 %; see", end=" ")
    print(draw_process(times, co2, at, forecast, spread, out / "gaussian_process.png"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Fit a Gaussian process to the CO₂ measured at Mauna Loa.")
    parser.add_argument("--iterations", type=int, default=20, help="number of steps of L-BFGS, in tens")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.iterations, options.out)


if __name__ == "__main__":
    main()
