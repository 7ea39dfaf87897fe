"""The work of making one batch, which threads and processes do alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.errors import BurnpyError, LoadingError
from burnpy.data.collate import Collator, Samples
from burnpy.data.dataset import Dataset
from burnpy.data.randomness import SAMPLES, BatchRandom

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Task(NamedTuple):
    """A batch that is to be made."""

    number: int
    indices: NDArray[np.int64]
    repeats: NDArray[np.int64] | None


class MakeBatch:
    """Makes the arrays of a batch: takes the samples from the dataset, and gives them to the collator."""

    def __init__(self, dataset: Dataset[Any], collator: Collator[Any], seed: int, epoch: int) -> None:
        self.dataset, self.collator, self.seed, self.epoch = dataset, collator, seed, epoch

    def __call__(self, task: Task, stopped: Callable[[], bool]) -> Any:
        """Return what the collator's ``arrays`` returns; None if ``stopped`` says that nobody waits any more.

        Raises:
            LoadingError: a sample, or the transform, raised an exception, which is the cause.
        """
        rng = BatchRandom(self.seed, self.epoch, task.indices, task.repeats)
        try:
            columns = self.dataset.columns(task.indices)
        except Exception as error:
            raise self._error(task, f"samples {listed(task.indices)}", error) from error
        items: list[Any] = []
        if columns is None:
            for j, (i, generator) in enumerate(zip(task.indices.tolist(), self._generators(task), strict=True)):
                if stopped():
                    return None
                try:
                    items.append(self.dataset.draw(i, generator))
                except Exception as error:
                    raise self._error(task, f"sample {task.indices[j]}", error, i) from error
        try:
            return self.collator.arrays(Samples(task.indices, items, columns, rng))
        except BurnpyError:
            raise  # which says itself what is wrong with which samples
        except Exception as error:
            raise self._error(task, f"the collation of samples {listed(task.indices)}", error) from error

    def _generators(self, task: Task) -> Any:
        if not self.dataset.is_random:
            return [None] * len(task.indices)
        return BatchRandom(self.seed, self.epoch, task.indices, task.repeats, purpose=SAMPLES).generators()

    def _error(self, task: Task, what: str, error: Exception, index: int | None = None) -> LoadingError:
        said = f": {error}" if str(error) else ""
        return LoadingError(
            f"{what} of batch {task.number} of epoch {self.epoch} raised {type(error).__name__}{said}",
            index=index,
            batch=task.number,
            epoch=self.epoch,
        )


def listed(indices: NDArray[np.int64]) -> str:
    """Return indices for a message: all of a few, or the first ones."""
    shown = ", ".join(map(str, indices[:4].tolist()))
    return shown if len(indices) <= 4 else f"{shown}, … ({len(indices)} in all)"
