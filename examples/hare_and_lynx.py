"""Hares, and the lynxes that eat them, fitted by a differential equation: ``python examples/hare_and_lynx.py``.

The pelts that the Hudson's Bay Company bought from 1900 to 1920, in thousands (Howard, Modeling basics, 2009), rise and
fall every ten years. Lotka and Volterra's equations have four rates: hares multiply and are eaten, lynxes die and
multiply by eating. These and both numbers of 1900 are found by least squares of logarithms, through the solver. Then
the fit is repeated for 100 sets of data that were drawn around it, all at once by vmap, compiled: their spread is the
uncertainty, and agrees with the posterior of Carpenter's analysis by Hamiltonian Monte Carlo (Predator-Prey Population
Dynamics, 2018), which is printed beside it. It takes about ten seconds on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from burnpy import Generator, Tensor, compiled, func, stack
from burnpy.backend import Backend, NumPy
from pictures import draw_populations

B = TypeVar("B", bound=Backend)

HARES = (
    *(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1),
    *(40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7),
)
LYNXES = (
    *(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4),
    *(8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6),
)
START = {"birth": 1.0, "hunting": 0.05, "death": 1.0, "feeding": 0.05, "hares": 30.0, "lynxes": 4.0}
PUBLISHED = {  # mean and deviation of the posterior
    "birth": (0.55, 0.07), "hunting": (0.028, 0.004), "death": (0.80, 0.10), "feeding": (0.024, 0.004),
    "hares": (34.0, 3.0), "lynxes": (5.9, 0.5),
}  # fmt: skip


def populations(logs: Tensor[B], times: Sequence[float]) -> Tensor[B]:
    """Return the logarithms of hares and lynxes at times, (len(times), 2), for the logarithms of the
    parameters, (6,).
    """
    birth, hunting, death, feeding, *_ = logs.exp().unbind()

    def change(t: Tensor[B], y: Tensor[B]) -> Tensor[B]:
        hares, lynxes = y.exp().unbind()  # of logarithms, so that both stay positive
        return stack([birth - hunting * lynxes, feeding * hares - death])

    return func.odeint(change, logs[4:], times, rtol=1e-6, atol=1e-6).y


def fitted(observed: Tensor[B], first: Tensor[B]) -> Tensor[B]:
    """Return the logarithms of the parameters, (6,), that fit logarithms of both numbers at 0, 1, 2, … years, (years,
    2).
    """
    times = [float(year) for year in range(observed.shape[0])]
    return func.least_squares(lambda logs: populations(logs, times) - observed, first, tol=1e-6).x


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, fit, and draw."""
    parser = argparse.ArgumentParser(description="Fit Lotka and Volterra's equations to pelts of hares and lynxes.")
    parser.add_argument("--samples", type=int, default=100, help="number of sets of data to draw")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    observed = Tensor[NumPy].from_data(np.log([HARES, LYNXES]).T)
    first = Tensor[NumPy].from_data([math.log(value) for value in START.values()], dtype="float64")
    logs = fitted(observed, first)
    years = [float(year) for year in range(len(HARES))]
    noise = (populations(logs, years) - observed).square().mean().sqrt()

    start = perf_counter()
    drawn = Tensor[NumPy].normal((options.samples, *observed.shape), dtype="float64", generator=Generator(0))
    samples = populations(logs, years) + drawn * noise
    refits = compiled(func.vmap(fitted, in_dims=(0, None)))(samples, logs)
    print(f"{options.samples} fits of drawn data in {perf_counter() - start:.1f} s")
    spread = refits.exp().std(0)
    print(f"{'':10}{'fit':>15}{'published':>18}")
    for name, value, error in zip(START, logs.exp().tolist(), spread.tolist(), strict=True):
        mean, deviation = PUBLISHED[name]
        print(f"{name:10}{value:8.3f} ± {error:.3f}{mean:10.3f} ± {deviation:.3f}")
    print(f"the noise of the logarithms is {noise.item():.2f}, published 0.25")

    fine = [k / 10 for k in range(10 * len(HARES))]

    def curve(logs: Tensor[NumPy]) -> Tensor[NumPy]:
        return populations(logs, fine)

    curves = func.vmap(curve)(refits).exp().to_numpy()
    best, pelts = curve(logs).exp().to_numpy(), observed.exp().to_numpy()
    times, path = 1900 + np.array(fine), options.out / "hare_and_lynx.png"
    print("see", draw_populations(1900 + np.array(years), pelts, times, best, curves, path))


if __name__ == "__main__":
    main()
