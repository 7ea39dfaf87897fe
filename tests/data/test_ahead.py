"""Batches for a device that copies beside other work: the next one is on its way while the present one is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Dataset, Loader, collate
from burnpy.errors import LoadingError

T = TypeVar("T")


class Ahead(NumPy):
    """The CPU, as a device that makes batches ahead and notes it."""

    noted: list[str] = []  # noqa: RUF012  # cleared by each test

    @property
    def copies_ahead(self) -> bool:
        return True

    def ahead(self, make: Callable[[], T]) -> Callable[[], T]:
        made = make()
        self.noted.append("started")

        def take() -> T:
            self.noted.append("taken")
            return made

        return take


@pytest.fixture(autouse=True)
def _empty() -> None:
    Ahead.noted.clear()


def loader(workers: int = 0, device: Any = Ahead) -> Loader[Any]:
    return Loader(ArrayDataset(y=np.arange(5)), collate(device=device), batch_size=2, workers=workers)


def test_the_next_batch_is_started_before_one_is_given() -> None:
    epoch = iter(loader())
    assert next(epoch).y.tolist() == [0, 1]
    assert Ahead.noted == ["started", "started", "taken"]
    assert [batch.y.tolist() for batch in epoch] == [[2, 3], [4]]
    assert Ahead.noted == ["started", "started", "taken", "started", "taken", "taken"]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_and_positions_are_those_of_other_devices(workers: int) -> None:
    mine, other = loader(workers).epoch(0), loader(0, NumPy).epoch(0)
    for batch, wanted in zip(mine, other, strict=True):
        assert batch.y.tolist() == wanted.y.tolist()
        assert (mine.position, len(mine)) == (other.position, len(other))


class Broken(Dataset[Any]):
    """Its third sample cannot be made."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            raise ValueError("no sample")
        return {"y": np.int64(index)}


def test_an_error_is_that_of_its_own_batch() -> None:
    epoch = Loader(Broken(), collate(device=Ahead), batch_size=1).epoch(0)
    assert [next(epoch).y.tolist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(LoadingError, match="no sample"):
        next(epoch)


def test_a_closed_epoch_gives_nothing_that_was_started() -> None:
    with loader(2).epoch(0) as epoch:
        next(epoch)
    with pytest.raises(StopIteration):
        next(epoch)


def test_on_the_cpu_nothing_is_made_ahead() -> None:
    made: list[int] = []

    def noted(columns: Any, rng: Any) -> Any:
        made.append(len(columns["y"]))
        return columns

    epoch = iter(Loader(ArrayDataset(y=np.arange(5)), collate(device=NumPy, transform=noted), batch_size=2))
    next(epoch)
    assert made == [2]
