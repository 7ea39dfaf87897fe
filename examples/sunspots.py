"""A gated recurrent network forecasts the yearly number of sunspots: ``python examples/sunspots.py``.

The numbers from 1700 to 2008 come with statsmodels. From the years before, the network foretells each next one; it
learns the years up to 1949, and what it says of those from 1950 on is compared with the numbers, with a linear
autoregression, and with taking each year for the next. It also runs on its own for forty years, fed with what it said
itself. It takes some fifteen seconds on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, Tensor, linalg
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.nn import Gru, Linear, Module, rebound
from burnpy.optim import AdamW, OneCycleLr
from burnpy.train import ByGlobalNorm, Learner, Step
from extras import imported
from pictures import draw_series

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I]
Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]

SPLIT = 1950  # the first year of those held out
WINDOW = 64  # years in a sample
LAGS = 9  # years that the linear autoregression looks back


class Windows(Batch[B]):
    """Windows of consecutive years, (n, years): square roots of the sunspots' numbers, scaled."""

    x: Tensor[B]


class Forecaster(Module[B]):
    """A recurrent network that foretells how the next value differs from the last."""

    def __init__(self, device: B | type[B]) -> None:
        self.gru = Gru(1, 24, device=device)
        self.out = Linear(24, 1, device=device)

    def forward(self, x: Tensor[B], hidden: Tensor[B] | None = None) -> tuple[Tensor[B], Tensor[B]]:
        """From values (n, years) to the forecasts of each one's successor, (n, years), and the state at the end."""
        output, hidden = self.gru(x.unsqueeze(-1), hidden)
        return x + self.out(output).squeeze(-1), hidden

    def valid(self: Forecaster[Autodiff[I]]) -> Forecaster[I]:
        """Return the same weights on the inner backend."""
        return rebound(self)


def train_step(model: Forecaster[Train], batch: Windows[Train]) -> Step[Train]:
    """Return the mean squared error of the forecasts, but for those of the first years, which have little to go by."""
    forecasts, _ = model(batch.x[:, :-1])
    return Step((forecasts - batch.x[:, 1:])[:, LAGS:].square().mean())


def autoregression(x: npt.NDArray[np.float64], first: int) -> npt.NDArray[np.float64]:
    """Forecasts of x[first:] by a linear function of the values before, fitted to x[:first] by least squares."""
    lags = np.stack([*(x[LAGS - 1 - k : len(x) - 1 - k] for k in range(LAGS)), np.ones(len(x) - LAGS)], 1)
    a, b = (Tensor[NumPy].from_data(y[: first - LAGS]) for y in (lags, x[LAGS:, None]))
    weights = linalg.lstsq(a, b).solution
    return (Tensor[NumPy].from_data(lags[first - LAGS :]) @ weights).to_numpy()[:, 0]


def continued(model: Forecaster[I], x: Tensor[I], years: int) -> Tensor[I]:
    """Return the years that follow on x, (1, years before), each foretold from the forecast of the one before:
    (years,).
    """
    forecasts, hidden = model(x)
    said = [forecasts[:, -1:]]
    while len(said) < years:
        forecast, hidden = model(said[-1], hidden)
        said.append(forecast)
    return burnpy.cat(said, dim=1)[0]


def train(epochs: int, seed: int, out: Path) -> None:
    """Train on the years before the split, print the errors on those after it, and draw the forecasts."""
    burnpy.manual_seed(seed)
    table: Any = imported("statsmodels.datasets.sunspots").load().data
    years, spots = table["YEAR"].to_numpy().astype(int), table["SUNACTIVITY"].to_numpy()
    first = int(np.searchsorted(years, SPLIT))
    x = np.sqrt(spots) / 5 - 1  # as the numbers vary the more the higher they are

    data = ArrayDataset(x=x[:first].astype(np.float32)).window(WINDOW)
    loader = Loader(data, collate(Windows[Train]), batch_size=32, shuffle=True, seed=seed)
    rate = OneCycleLr(1e-2, steps=epochs * len(loader))
    learner: Learner[Forecaster[Train], Windows[Train], Any, Any] = Learner(
        train_step, optim=AdamW(weight_decay=0.1), lr=rate, clip=ByGlobalNorm(1.0)
    )
    result = learner.fit(Forecaster(Train), loader, epochs=epochs)
    model = result.model.valid()
    print(f"after {epochs} epochs the mean squared error of scaled values is {result.history[-1]['train/loss']:.4f}")

    whole = Tensor[NumPy].from_data(x[None].astype(np.float32))
    forecasts: dict[str, npt.NDArray[Any]] = {
        "network": model(whole)[0].to_numpy()[0, first - 1 : -1],
        f"linear, of {LAGS} years": autoregression(x, first),
        "the year before": x[first - 1 : -1],
    }
    said: dict[str, npt.NDArray[Any]] = {
        name: 25 * (np.maximum(values, -1) + 1) ** 2 for name, values in forecasts.items()
    }
    print(f"root mean squared error of the {len(x) - first} years from {SPLIT} on, each foretold a year before:")
    for name, values in said.items():
        print(f"  {name}: {float(((values - spots[first:]) ** 2).mean()) ** 0.5:.1f}")
    alone = 25 * (continued(model, whole[:, :first], 40).to_numpy().clip(-1) + 1) ** 2
    print(f"see {draw_series(years, spots, first, said['network'], alone, out / 'sunspots.png')}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Forecast the yearly number of sunspots by a recurrent network.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the order")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="folder for the picture")
    options = parser.parse_args(arguments)
    train(options.epochs, options.seed, options.out)


if __name__ == "__main__":
    main()
