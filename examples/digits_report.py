"""What the digits example shows: the data it reads, the progress of the training, and the picture at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # what takes long to import waits until it is needed
    from rich.console import Console
    from rich.progress import Progress as Bar


def load_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The images, (1797, 1, 8, 8) with pixels in 0 … 1, and what they show, (1797,)."""
    digits: Any = import_module("sklearn.datasets").load_digits()  # which has no types
    return (digits.images[:, None] / 16).astype(np.float32), digits.target.astype(np.int64)


@dataclass(frozen=True)
class Score:
    """How well a model reads: the mean loss, and the share that it reads right."""

    loss: float
    accuracy: float


@dataclass
class Curves:
    """The scores of every epoch, on the images that are learned from and on those held out."""

    learned: list[Score] = field(default_factory=list[Score])
    tested: list[Score] = field(default_factory=list[Score])

    def append(self, learned: Score, tested: Score) -> None:
        """Add an epoch."""
        self.learned.append(learned)
        self.tested.append(tested)


class Progress:
    """On a terminal a bar that moves with every batch; elsewhere one plain line for every epoch."""

    def __init__(self, epochs: int, batches: int, title: str, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._epochs, self._title = epochs, title
        self._bar = bar(self._console) if self._console.is_terminal else None
        if self._bar is not None:
            self._task = self._bar.add_task("", total=epochs * batches, epoch=f"epoch 1/{epochs}")

    def __enter__(self) -> Self:
        self._console.print(self._title, soft_wrap=True)
        if self._bar is not None:
            self._bar.start()
        return self

    def batch(self) -> None:
        """Move on by a batch."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def epoch(self, number: int, learned: Score, tested: Score) -> None:
        """Show the scores of an epoch, the first of which is number 1."""
        text = f"loss {learned.loss:.3f}, held out {tested.loss:.3f}, accuracy {tested.accuracy:.1%}"
        if self._bar is None:
            self._console.print(f"epoch {number}/{self._epochs}: {text}", soft_wrap=True)
            return
        if self._console.width < 100:  # the number of the epoch and the time come first, then the bar
            text = f"accuracy {tested.accuracy:.1%}" if self._console.width >= 60 else ""
        following = min(number + 1, self._epochs)
        self._bar.update(self._task, description=text, epoch=f"epoch {following}/{self._epochs}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def bar(console: Console) -> Bar:
    """The number of the epoch, a bar that takes what room there is, the scores, and the time that is left."""
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
    curves: Curves,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    read: npt.NDArray[np.int64],
    path: Path,
    shown: int = 6,
) -> Path:
    """Draw the loss, the accuracy and up to ``shown`` misread images to a PNG file, whose path is returned."""
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(10, 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[2, 1])

    epochs = range(1, len(curves.learned) + 1)
    loss, accuracy = above.subplots(1, 2)
    loss.plot(epochs, [s.loss for s in curves.learned], label="learned from, with noise and smoothed labels")
    loss.plot(epochs, [s.loss for s in curves.tested], label="held out")
    loss.set(title="loss (cross-entropy)", xlabel="epoch", yscale="log")
    accuracy.plot(epochs, [100 * s.accuracy for s in curves.learned])
    accuracy.plot(epochs, [100 * s.accuracy for s in curves.tested])
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
    return path
