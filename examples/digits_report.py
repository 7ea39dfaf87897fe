"""The surroundings of the training loop of digits.py: the command line, the data, the progress bar and the picture."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import IntTensor, Tensor
from extras import imported, require

if TYPE_CHECKING:  # imported where they are first used, as they take long
    from rich.console import Console
    from rich.progress import Progress

SECONDS = 0.3  # that an epoch takes on one core of a CPU; what comes before and after takes two


def command_line() -> argparse.Namespace:
    """Return the options; and on the terminal, before anything that takes long, what is about to happen."""
    parser = argparse.ArgumentParser(description="Train a convolutional network on scikit-learn's handwritten digits.")
    parser.add_argument("--backend", choices=["numpy", "cupy"], default="numpy", help="where to compute")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights, the order and the dropout")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args()
    require("sklearn", "matplotlib", "rich")
    how_long = f", in about {round(2 + SECONDS * options.epochs)} seconds" if options.backend == "numpy" else ""
    print(f"A convolutional network learns to read handwritten digits{how_long} …", flush=True)
    return options


def load_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the images, (1797, 1, 8, 8) with pixels in 0 … 1, and what they show, (1797,)."""
    digits: Any = imported("sklearn.datasets").load_digits()
    return (digits.images[:, None] / 16).astype(np.float32), digits.target.astype(np.int64)


@dataclass
class Curves:
    """The loss and the accuracy of every epoch."""

    loss: list[float] = field(default_factory=list[float])
    accuracy: list[float] = field(default_factory=list[float])

    def append(self, losses: list[Tensor[Any]], accuracies: list[Tensor[Any]]) -> None:
        """Add an epoch, by the means over its batches."""
        self.loss.append(burnpy.stack(losses).mean().item())
        self.accuracy.append(burnpy.stack(accuracies).mean().item())


class Report:
    """On a terminal a bar that moves with every batch, elsewhere one plain line for every epoch; at the end a picture.

    Args:
        epochs: how many there will be.
        folder: where the picture goes.
        console: where to print; the terminal, unless given.
    """

    def __init__(self, epochs: int, folder: Path, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._epochs, self._path = epochs, folder / "digits.png"
        self._learned, self._tested = Curves(), Curves()
        self._losses: list[Tensor[Any]] = []  # of the batches of this epoch
        self._accuracies: list[Tensor[Any]] = []
        self._bar = bar(self._console) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def start(self, title: str, batches: int) -> None:
        """Print a title, and begin to show the progress over so many batches an epoch."""
        self._console.print(title, soft_wrap=True)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=self._epochs * batches, epoch=f"epoch 1/{self._epochs}")
            self._bar.start()

    def batch(self, loss: Tensor[Any], accuracy: Tensor[Any]) -> None:
        """Move on by a batch. No value is asked for before the epoch ends, so that a GPU is not waited for."""
        self._losses.append(loss.detach())
        self._accuracies.append(accuracy)
        if self._bar is not None:
            self._bar.advance(self._task)

    def epoch(self, loss: Tensor[Any], accuracy: Tensor[Any]) -> None:
        """Show how well the epoch's batches were learned, and the images held out are read after it."""
        self._learned.append(self._losses, self._accuracies)
        self._tested.append([loss], [accuracy])
        self._losses, self._accuracies = [], []
        number, learned, tested = len(self._learned.loss), self._learned.loss[-1], self._tested.loss[-1]
        reads = f"accuracy {self._tested.accuracy[-1]:.1%}"
        text = f"loss {learned:.3f}, held out {tested:.3f}, {reads}"
        if self._bar is None:
            self._console.print(f"epoch {number}/{self._epochs}: {text}", soft_wrap=True)
            return
        if self._console.width < 100:  # the number of the epoch and the time come first, then the bar
            text = reads if self._console.width >= 60 else ""
        following = min(number + 1, self._epochs)
        self._bar.update(self._task, description=text, epoch=f"epoch {following}/{self._epochs}")

    def finish(self, accuracy: Tensor[Any], images: Tensor[Any], labels: IntTensor[Any], read: IntTensor[Any]) -> None:
        """Draw the curves and the images that were misread, and print the accuracy on all that were held out."""
        self._stop()
        plot(self._learned, self._tested, images.to_numpy(), labels.to_numpy(), read.to_numpy(), self._path)
        counts = f"{(read == labels).sum().item()} of {len(labels)}"
        print(f"held-out accuracy {accuracy.item():.2%} ({counts}); curves and misread digits are in {self._path}")


def bar(console: Console) -> Progress:
    """Return the number of the epoch, a bar that takes what room there is, the scores, and the time that is left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.fields[epoch]}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
        TextColumn("left", table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, expand=True)


def plot(
    learned: Curves,
    tested: Curves,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    read: npt.NDArray[np.int64],
    path: Path,
    shown: int = 6,
) -> None:
    """Draw the loss, the accuracy and up to ``shown`` misread images to a PNG file."""
    figure: Any = imported("matplotlib.figure").Figure(figsize=(10, 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[2, 1])

    epochs = range(1, len(learned.loss) + 1)
    loss, accuracy = above.subplots(1, 2)
    loss.plot(epochs, learned.loss, label="learned from, with dropout and smoothed labels")
    loss.plot(epochs, tested.loss, label="held out")
    loss.set(title="loss (cross-entropy)", xlabel="epoch", yscale="log")
    accuracy.plot(epochs, [100 * a for a in learned.accuracy])
    accuracy.plot(epochs, [100 * a for a in tested.accuracy])
    accuracy.set(title="accuracy (%)", xlabel="epoch")
    loss.legend()
    for axes in (loss, accuracy):
        axes.xaxis.get_major_locator().set_params(integer=True)

    wrong = np.flatnonzero(read != labels)
    which = f", the first {shown} of them" if len(wrong) > shown else ""
    below.suptitle(f"{len(wrong)} of {len(labels)} held-out digits misread{which}")
    for axes, index in zip(below.subplots(1, shown), [*wrong[:shown], *[None] * shown], strict=False):
        axes.set_axis_off()
        if index is not None:
            axes.imshow(images[index, 0], cmap="gray_r")
            axes.set_title(f"{labels[index]} read as {read[index]}", fontsize=10)

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
