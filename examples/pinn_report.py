"""The reference solution of the pinn example, by finite differences, and a plot of both solutions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from extras import imported, require

require("matplotlib")  # now, not after a training
Array: TypeAlias = npt.NDArray[np.float64]


def finite_differences(
    viscosity: float, cells: int = 2000, shown: int = 200, times: int = 101
) -> tuple[Array, Array, Array]:
    """Solve Burgers' equation by central differences in x and explicit third-order steps in t (Shu and Osher 1988).

    Args:
        viscosity: the viscosity ν.
        cells: the number of cells in x; few enough to be fast, and ten or more across the width of the steepest slope.
        shown: the number of cells to return.
        times: the number of times, from 0 to 1.

    Returns:
        The times, the places, and the solution there, (times, shown + 1).
    """
    x = np.linspace(-1.0, 1.0, cells + 1)
    dx = 2.0 / cells
    interval = 1.0 / (times - 1)
    steps = math.ceil(
        interval / min(0.5 * dx, 0.5 * dx * dx / viscosity)
    )  # the stability limits of advection and diffusion
    dt = interval / steps

    def change(u: Array) -> Array:
        du = np.zeros_like(u)  # the boundary values are fixed
        flux = u * u / 2
        du[1:-1] = (flux[:-2] - flux[2:]) / (2 * dx) + viscosity * (u[2:] - 2 * u[1:-1] + u[:-2]) / dx**2
        return du

    u = -np.sin(np.pi * x)
    u[[0, -1]] = 0.0
    solution = [u]
    for _ in range(times - 1):
        for _ in range(steps):
            u1 = u + dt * change(u)
            u2 = (3 * u + u1 + dt * change(u1)) / 4
            u = (u + 2 * (u2 + dt * change(u2))) / 3
        solution.append(u)
    every = cells // shown
    return np.linspace(0.0, 1.0, times), x[::every], np.array(solution)[:, ::every]


def relative_error(computed: Array, expected: Array) -> float:
    """Return the norm of the difference divided by the norm of the expected solution."""
    return float(np.linalg.norm(computed - expected) / np.linalg.norm(expected))


def plot(times: Array, places: Array, learned: Array, expected: Array, losses: list[float], path: Path) -> Path:
    """Plot both solutions, their difference, three moments and the loss to a PNG file; return its path."""
    figure: Any = imported("matplotlib.figure").Figure(figsize=(11, 6.8), layout="constrained")
    above, below = figure.subfigures(2, 1)

    difference = learned - expected
    widest = float(np.abs(difference).max())
    panels = (
        ("the network's solution", learned, 1.0),
        ("finite differences", expected, 1.0),
        ("difference", difference, widest),
    )
    for axes, (title, values, limit) in zip(above.subplots(1, 3, sharey=True), panels, strict=True):
        image = axes.pcolormesh(times, places, values.T, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="gouraud")
        axes.set(title=title, xlabel="t")
        above.colorbar(image, ax=axes)
        if title.startswith("the"):
            axes.set_ylabel("x")

    *slices, curve = below.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
    for axes, moment in zip(slices, (0.25, 0.5, 1.0), strict=True):
        row = int(np.argmin(np.abs(times - moment)))
        axes.plot(places, expected[row], label="finite differences")
        axes.plot(places, learned[row], "--", label="network")
        axes.set(title=f"u at t = {moment:g}", xlabel="x")
    slices[0].legend(fontsize=8, loc="upper right")
    curve.plot(range(1, len(losses) + 1), losses)
    curve.set(title="loss", xlabel="epoch", yscale="log")
    error = relative_error(learned, expected)
    figure.suptitle(f"Burgers' equation; relative L2 error {error:.2%}, largest difference {widest:.3f}")

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path
