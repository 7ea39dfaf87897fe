"""The pictures of the examples that generate, forecast, fit and listen, and of the examples of vmap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extras import imported, require

require("matplotlib")  # now, not after a training
Array = npt.NDArray[Any]


def figure(width: float, height: float) -> Any:  # matplotlib is only partly typed
    """Return an empty figure of a size in inches."""
    return imported("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def saved(picture: Any, path: Path) -> Path:
    """Write a figure as PNG, in a folder that is made if there is none; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=110)
    return path


def draw_latent_plane(means: Array, labels: Array, decoded: Array, path: Path) -> Path:
    """Draw where images lie in the plane, (n, 2), coloured by label, (n,), and images decoded on a grid.

    Args:
        means: the points of the images.
        labels: the labels of the images, from 0 to 9.
        decoded: images in rows from above and in columns from the left, (rows, columns, height, width).
        path: the file to write.
    """
    picture = figure(11, 5.4)
    scatter, grid = picture.subplots(1, 2)
    points = scatter.scatter(means[:, 0], means[:, 1], c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=12)
    scatter.set(title="held-out digits in the latent plane", aspect="equal")
    picture.colorbar(points, ax=scatter, ticks=range(10))
    tiles = np.pad(decoded, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows, columns, height, width = tiles.shape
    grid.imshow(tiles.transpose(0, 2, 1, 3).reshape(rows * height, columns * width), cmap="gray_r")
    grid.set(title="images decoded from a grid, from -2.2 to 2.2", xticks=[], yticks=[])
    return saved(picture, path)


def draw_points(stages: list[tuple[str, Array, Array]], path: Path) -> Path:
    """Draw generated points, (n, 2), over real ones, (m, 2), for each stage of training, with its title.

    Args:
        stages: title, real points and generated points.
        path: the file to write.
    """
    picture = figure(3.4 * len(stages), 3.7)
    for axes, (title, real, generated) in zip(picture.subplots(1, len(stages)), stages, strict=True):
        axes.scatter(*real.T, s=3, color="0.75", label="real")
        axes.scatter(*generated.T, s=3, color="tab:red", label="generated")
        axes.set(title=title, xlim=(-6, 6), ylim=(-6, 6), aspect="equal", xticks=[], yticks=[])
    picture.get_axes()[0].legend(loc="upper right", fontsize=8, markerscale=3)
    return saved(picture, path)


def draw_series(years: Array, values: Array, first: int, forecasts: Array, alone: Array, path: Path) -> Path:
    """Draw a series, the forecasts of its values from ``first`` on, each a year before, and a run of forecasts alone.

    Args:
        years: the years, (n,).
        values: the values, (n,).
        first: the index of the first year held out.
        forecasts: the forecasts of those from ``first`` on, (n - first,).
        alone: forecasts from ``first`` on that were fed back, (m,).
        path: the file to write.
    """
    picture = figure(11, 4.2)
    axes = picture.subplots()
    axes.axvspan(years[first] - 0.5, years[-1] + 0.5, color="0.94", label="held out")
    axes.plot(years[first - 100 :], values[first - 100 :], color="0.3", label="sunspots")
    axes.plot(years[first:], forecasts, color="tab:red", label="forecasts a year before")
    axes.plot(years[first] + np.arange(len(alone)), alone, "--", color="tab:blue", label="on its own from here")
    axes.set(xlim=(years[first - 100], years[-1] + 0.5), ylim=(0, None), xlabel="year", ylabel="sunspots in a year")
    axes.legend(loc="upper left", ncols=4, fontsize=9)
    return saved(picture, path)


def draw_process(times: Array, values: Array, at: Array, mean: Array, spread: Array, path: Path) -> Path:
    """Draw measurements, and a forecast with the interval of 95 %.

    Args:
        times: the times of the measurements, (n,).
        values: the measurements, (n,).
        at: the times of the forecast, (m,).
        mean: the forecast, (m,).
        spread: its standard deviation, (m,).
        path: the file to write.
    """
    picture = figure(11, 4.5)
    whole, near = picture.subplots(1, 2)
    for axes in (whole, near):
        axes.fill_between(
            at, mean - 1.96 * spread, mean + 1.96 * spread, color="tab:red", alpha=0.25, label="95 %", lw=0
        )
        axes.plot(at, mean, color="tab:red", lw=1, label="forecast")
        axes.plot(times, values, ".", color="0.2", ms=3, label="measured")
        axes.set(xlabel="year")
    low, high = at[0] - 3, times[-1] + 2
    seen = values[times > low]
    near.set(xlim=(low, high), ylim=(seen.min() - 3, seen.max() + 6))
    whole.set(ylabel="CO₂ at Mauna Loa (ppm)")
    whole.legend(loc="upper left")
    return saved(picture, path)


def draw_populations(years: Array, pelts: Array, at: Array, best: Array, curves: Array, path: Path) -> Path:
    """Draw pelts of hares and lynxes, a curve through each, and the middle 90 % of other curves.

    Args:
        years: the years of the pelts, (n,).
        pelts: the pelts of both, (n, 2).
        at: the times of the curves, (m,).
        best: the curves, (m, 2).
        curves: other curves, (samples, m, 2).
        path: the file to write.
    """
    picture = figure(9, 4.5)
    axes = picture.subplots()
    for k, (name, color) in enumerate((("hares", "tab:blue"), ("lynxes", "tab:orange"))):
        low, high = np.quantile(curves[..., k], (0.05, 0.95), axis=0)
        axes.fill_between(at, low, high, color=color, alpha=0.25, lw=0)
        axes.plot(at, best[:, k], color=color, label=name)
        axes.plot(years, pelts[:, k], "o", color=color, ms=4)
    axes.set(xlabel="year", ylabel="thousands of pelts", ylim=(0, None))
    axes.legend()
    return saved(picture, path)


def draw_sounds(power: Array, kinds: Sequence[str], chances: Array, highest: float, path: Path) -> Path:
    """Draw the spectrogram of one sound of each kind, over the chances that the network gives to all kinds.

    Args:
        power: the logarithms of the power of a second, (kinds, frequencies, frames).
        kinds: the names of the kinds.
        chances: the network's for each sound, (kinds, kinds).
        highest: the highest frequency, in Hz.
        path: the file to write.
    """
    picture = figure(13, 4.6)
    rows = picture.subplots(2, len(kinds), height_ratios=[2, 1])
    for kind, name in enumerate(kinds):
        above, below = rows[0, kind], rows[1, kind]
        above.imshow(power[kind], origin="lower", aspect="auto", extent=(0, 1, 0, highest), cmap="magma")
        above.set(title=name, xlabel="seconds", ylabel="Hz" if not kind else "", yticks=[0, 1000, 2000])
        below.barh(
            range(len(kinds)), chances[kind], color=["tab:red" if k == kind else "0.6" for k in range(len(kinds))]
        )
        below.set(xlim=(0, 1), yticks=range(len(kinds)), yticklabels=kinds if not kind else [])
        below.invert_yaxis()
    return saved(picture, path)


def draw_ensemble(
    data: tuple[Array, Array], at: Array, true: Array, members: Array, mean: Array, spread: Array, path: Path
) -> Path:
    """Draw the predictions of networks, and the mean of all with error bars of two standard deviations.

    Args:
        data: the points, (n, 1) and (n,).
        at: where the networks predict, (m,).
        true: the function there, (m,).
        members: the predictions of each network, (networks, m).
        mean: the mean of all networks, (m,).
        spread: its standard deviation, (m,).
        path: the file to write.
    """
    picture = figure(11, 4.2)
    each, together = picture.subplots(1, 2, sharey=True)
    each.plot(at, members.T, color="tab:blue", alpha=0.4, lw=1)
    each.set(title="each network", ylabel="y")
    together.fill_between(at, mean - 2 * spread, mean + 2 * spread, color="tab:red", alpha=0.25, lw=0, label="± 2 σ")
    together.plot(at, mean, color="tab:red", label="mean of all")
    together.set(title="the ensemble")
    for axes in (each, together):
        axes.plot(at, true, "--", color="0.3", label="function")
        axes.plot(data[0][:, 0], data[1], "o", color="0.1", ms=3, label="data")
        axes.set(xlabel="x", xlim=(at[0], at[-1]), ylim=(-2.5, 2.5))
    together.legend(loc="upper left", ncols=2)
    return saved(picture, path)


def draw_private(curve: Sequence[tuple[float, float]], images: Array, titles: Sequence[str], path: Path) -> Path:
    """Draw accuracy over privacy, and images with large gradients.

    Args:
        curve: pairs of ε and accuracy.
        images: 24 images, (24, height, width).
        titles: their titles.
        path: the file to write.
    """
    picture = figure(12, 4.6)
    left, right = picture.subfigures(1, 2, width_ratios=[1, 1.6])
    axes = left.subplots()
    axes.plot(*zip(*curve, strict=True), "o-", color="tab:blue")
    axes.set(xlabel="ε", ylabel="accuracy of held-out digits", title="less privacy, more accuracy", ylim=(0, 1))
    right.suptitle("the digits with the largest gradients")
    for tile, image, title in zip(right.subplots(4, 6).flat, images, titles, strict=True):
        tile.imshow(image, cmap="gray_r")
        tile.set(xticks=[], yticks=[])
        tile.set_title(title, fontsize=8)
    return saved(picture, path)


def draw_chains(chains: Array, names: Sequence[str], means: Array, spreads: Array, path: Path) -> Path:
    """Draw the samples of each parameter as a histogram for each chain, over its exact mean and deviation.

    Args:
        chains: the samples, (chains, n, parameters).
        names: the parameters.
        means: their exact means.
        spreads: their exact standard deviations.
        path: the file to write.
    """
    columns = 4
    rows = -(-len(names) // columns)
    picture = figure(12, 2.3 * rows)
    for k, axes in enumerate(picture.subplots(rows, columns).flat):
        if k >= len(names):
            axes.set_axis_off()
            continue
        for chain in chains[:, :, k]:
            axes.hist(chain, bins=40, density=True, histtype="step", linewidth=0.8)
        axes.axvline(means[k], color="k")
        axes.axvspan(means[k] - spreads[k], means[k] + spreads[k], color="0.9", zorder=0)
        axes.set(title=names[k], yticks=[])
    return saved(picture, path)
