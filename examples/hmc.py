"""Four chains of Hamiltonian Monte Carlo sample a Bayesian regression: ``python examples/hmc.py``.

The data are 442 patients of scikit-learn: ten measurements, and the progress of diabetes a year later. The model is
y = w · x + noise of precision λ. The prior of λ is a gamma distribution, and the prior of w a normal one, whose
deviation is WIDTH times the noise's. They are conjugate: the posterior is known, and the samples are compared with it.

A step of all chains is one compiled plan: `compiled` of `vmap` over chains of a trajectory by `func.grad` of the
logarithm of the posterior's density. Half of the warm-up finds the covariance of the parameters, in whose coordinates
the rest samples. It takes about fifteen seconds on one core.

Sources: Neal, MCMC Using Hamiltonian Dynamics, 2011; Vehtari et al., Rank-Normalization, Folding, and Localization: An
Improved R-hat, 2021 (R-hat of split chains, effective sample size).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from burnpy import Generator, Tensor, compiled, func
from burnpy.backend import NumPy
from burnpy.distributions import Gamma, MultivariateNormal, Normal
from extras import imported
from pictures import draw_chains

Array = npt.NDArray[Any]
Vector = Tensor[NumPy]

CHAINS, STEPS = 4, 8  # STEPS of each trajectory
SHAPE, RATE, WIDTH = 2.0, 2.0, 3.0  # of the priors: λ ~ Gamma(SHAPE, RATE), w ~ Normal(0, WIDTH / √λ)


def log_posterior(x: Vector, y: Vector) -> Callable[[Vector], Vector]:
    """Return the logarithm of the posterior's density, up to a constant, of the parameters (w, log λ)."""

    def log_density(parameters: Vector) -> Vector:
        w, log_precision = parameters[:-1], parameters[-1]
        scale = (-0.5 * log_precision).exp()
        prior = Gamma(SHAPE, RATE, device=x.device).log_prob(log_precision.exp()) + log_precision  # of log λ
        prior = prior + Normal(0.0, WIDTH * scale, validate=False).log_prob(w).sum()
        return prior + Normal(x @ w, scale, validate=False).log_prob(y).sum()

    return log_density


def trajectory(log_density: Callable[[Vector], Vector], z: Vector, p: Vector, size: Vector) -> tuple[Vector, Vector]:
    """Follow Hamilton's equations from a place z and a momentum p by the leapfrog method.

    Returns:
        The place at the end, and the logarithm of the probability to accept it, at most 0.
    """
    slope = func.value_and_grad(log_density)
    start, gradient = slope(z)
    energy = 0.5 * p.square().sum() - start
    value = start
    for _ in range(STEPS):
        p = p + 0.5 * size * gradient
        z = z + size * p
        value, gradient = slope(z)
        p = p + 0.5 * size * gradient
    return z, (energy - 0.5 * p.square().sum() + value).clamp(None, 0.0)


def sampler(log_density: Callable[[Vector], Vector]) -> Any:
    """Return the compiled function of all chains' places, momenta, uniform numbers and of the size of steps."""

    def step(z: Vector, p: Vector, uniform: Vector, size: Vector) -> tuple[Vector, Vector]:
        proposal, log_accept = trajectory(log_density, z, p, size)
        return proposal.where(uniform.log() < log_accept, z), log_accept.exp()

    return compiled(func.vmap(step, in_dims=(0, 0, 0, None)))


def run(
    log_density: Callable[[Vector], Vector], start: Array, count: int, size: float, generator: Generator, adapt: bool
) -> tuple[Array, float, float]:
    """Sample all chains.

    Returns:
        The samples, (chains, count, parameters), the last size of steps and the mean probability to accept.
    """
    step, z = sampler(log_density), Tensor[NumPy].from_data(start)
    samples, accepted = np.empty((CHAINS, count, start.shape[1])), np.empty(count)
    for k in range(count):
        p = Tensor[NumPy].normal(z.shape, dtype="float64", generator=generator)
        uniform = Tensor[NumPy].uniform((CHAINS,), dtype="float64", generator=generator)
        share = Tensor[NumPy].uniform((), 0.2, 1.0, dtype="float64", generator=generator)
        z, accept = step(z, p, uniform, size * share)  # trajectories of one length may come back to where they began
        samples[:, k], accepted[k] = z.to_numpy(), accept.mean().item()
        if adapt:  # towards an acceptance of 80 %
            size *= float(np.exp((accepted[k] - 0.8) / (k + 10) ** 0.6))
    return samples, size, float(accepted.mean())


def r_hat(chains: Array) -> float:
    """How much wider all samples of (chains, n) lie than those of each half of a chain: 1 if they have mixed."""
    halves = chains[:, : chains.shape[1] // 2 * 2].reshape(2 * len(chains), -1)
    within, n = halves.var(axis=1, ddof=1).mean(), halves.shape[1]
    return float(np.sqrt((n - 1) / n + halves.mean(axis=1).var(ddof=1) / within))


def effective_size(chains: Array) -> float:
    """Return the number of independent samples that determine the mean as well as (chains, n) correlated ones do."""
    count, n = chains.shape
    centered = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centered, 2 * n)) ** 2
    covariance = np.fft.irfft(spectrum)[:, :n].mean(axis=0) / n
    within = chains.var(axis=1, ddof=1).mean()
    total = within * (n - 1) / n + chains.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance) / total
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)  # Geyer: positive, and decreasing
    length = int(np.argmax(pairs < 0.0)) if (pairs < 0.0).any() else len(pairs)
    return float(count * n / max(2.0 * np.minimum.accumulate(pairs[:length]).sum() - 1.0, 1.0 / np.log10(count * n)))


def exact(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the posterior's means and standard deviations of w and λ, by its conjugate form."""
    precision = x.T @ x + np.eye(x.shape[1]) / WIDTH**2
    mean = np.linalg.solve(precision, x.T @ y)
    shape, rate = SHAPE + len(y) / 2, RATE + 0.5 * (y @ y - mean @ precision @ mean)
    spread = np.sqrt(np.diag(np.linalg.inv(precision)) * rate / (shape - 1))  # of Student's t distribution
    return np.append(mean, shape / rate), np.append(spread, np.sqrt(shape) / rate)


def sample(count: int, out: Path) -> None:
    """Sample the posterior, print how well the chains agree with each other and with it, and draw them."""
    data: Any = imported("sklearn.datasets").load_diabetes()
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    y = (data.target - data.target.mean()) / data.target.std()
    size = x.shape[1] + 1
    density = log_posterior(Tensor[NumPy].from_data(x), Tensor[NumPy].from_data(y))
    generator = Generator(0)
    start = Tensor[NumPy].normal((CHAINS, size), dtype="float64", generator=generator).to_numpy()
    warm, step_size, _ = run(density, start, count // 2, 0.01, generator, adapt=True)
    known = warm[:, count // 4 :].reshape(-1, size)
    found = MultivariateNormal(
        Tensor[NumPy].from_data(known.mean(axis=0)),
        Tensor[NumPy].from_data(np.cov(known.T) + 1e-6 * np.eye(size)),
    )

    def whitened(z: Vector) -> Vector:
        return density(found.loc + found.scale_tril @ z)

    places = Tensor[NumPy].normal((CHAINS, size), dtype="float64", generator=generator).to_numpy()
    _, step_size, _ = run(whitened, places, count // 2, 0.3, generator, adapt=True)
    z, _, accepted = run(whitened, places, count, step_size, generator, adapt=False)
    chains = z @ found.scale_tril.to_numpy().T + found.loc.to_numpy()
    chains[..., -1] = np.exp(chains[..., -1])
    print(f"{CHAINS} chains of {count} samples, steps of {step_size:.2f}, {accepted:.0%} accepted")
    means, spreads = exact(x, y)
    worst = 0.0
    names = [*data.feature_names, "precision"]
    for k, name in enumerate(names):
        of_one = chains[:, :, k]
        independent = effective_size(of_one)
        error = (of_one.mean() - means[k]) / (spreads[k] / np.sqrt(independent))
        worst = max(worst, abs(error))
        print(
            f"{name:>9}: mean {of_one.mean():7.3f} (exact {means[k]:7.3f}), deviation {of_one.std():.3f} "
            f"(exact {spreads[k]:.3f}), R-hat {r_hat(of_one):.3f}, effective size {independent:.0f}"
        )
    print(f"the means are within {worst:.1f} standard errors of the exact ones; see", end=" ")
    print(draw_chains(chains, names, means, spreads, out / "hmc.png"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and sample."""
    parser = argparse.ArgumentParser(description="Sample a Bayesian regression by Hamiltonian Monte Carlo.")
    parser.add_argument("--samples", type=int, default=1000, help="samples of each chain, after the warm-up")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    sample(options.samples, options.out)


if __name__ == "__main__":
    main()
