"""Code type checkers must reject of `burnpy.data`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from burnpy import IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, StreamLoader, collate

B = TypeVar("B", bound=Backend)


class Digits(Batch[B]):
    x: Tensor[B]
    y: IntTensor[B]


data = ArrayDataset(x=np.ones((2, 3), np.float32), y=np.arange(2))


def a_batch_on_another_backend() -> None:
    """NumPy"""
    batch = next(Loader(data, collate(Digits[NumPy]), batch_size=2).epoch(0))
    batch.x.backward()  # E


def a_column_that_is_assigned() -> None:
    """batches do not change"""
    batch = next(Loader(data, collate(Digits[NumPy]), batch_size=2).epoch(0))
    batch.x = 3  # E


def a_device_that_is_none() -> None:
    """not a backend"""
    collate(device=3)  # E


def a_dataset_that_is_a_number() -> None:
    """a dataset has len"""
    Loader(3, collate(device=NumPy), batch_size=2)  # E


def a_stream_that_is_a_list() -> None:
    """expected a burnpy.data.Stream"""
    StreamLoader([1, 2], list, batch_size=2)  # E
