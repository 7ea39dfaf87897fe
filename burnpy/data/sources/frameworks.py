"""Datasets of other libraries: Hugging Face's ``datasets``, PyTorch and torchvision."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import CallError, a
from burnpy.data.dataset import ArrayDataset, Dataset, from_sequence
from burnpy.data.sample_source import Arrays, Sample, checked_index
from burnpy.data.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HuggingFaceDataset(Dataset[Sample]):
    """The rows of a ``datasets.Dataset``; `from_hugging_face` returns it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset.with_format("numpy")
        self._is_numeric = all(_is_number(feature) for feature in dataset.features.values())

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        row: Sample = self._dataset[checked_index(index, len(self))]
        return row

    def columns(self, indices: NDArray[np.int64]) -> Arrays | None:
        """Return the rows at some indices, read at once, where all columns are numbers."""
        if not self._is_numeric:
            return None
        rows: Arrays = self._dataset[indices.tolist()]
        return {name: np.array(column) for name, column in rows.items()}


def from_hugging_face(dataset: Any) -> Dataset[Sample]:
    """Return the rows of a ``datasets.Dataset`` as a dataset of mappings, with numbers and lists of them as arrays.

    Raises:
        CallError: it is another object, such as a dictionary of splits (choose one), or an iterable dataset (use
            `HuggingFaceStream`).
    """
    if isinstance(dataset, dict):
        raise CallError(f"from_hugging_face() got a dict of {', '.join(dataset)}; choose one, as splits['train']")
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        hint = "; for an iterable dataset there is HuggingFaceStream" if hasattr(dataset, "state_dict") else ""
        raise CallError(f"from_hugging_face() got {a(type(dataset).__name__)}; expected a datasets.Dataset{hint}")
    return HuggingFaceDataset(dataset)


class HuggingFaceStream(Stream[Sample]):
    """The rows of a ``datasets.IterableDataset``, whose ``state_dict()`` is the state.

    Raises:
        CallError: it is another object, or one without a state.
    """

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "load_state_dict") and hasattr(dataset, "__iter__")):
            raise CallError(
                f"HuggingFaceStream() got {a(type(dataset).__name__)}; expected a datasets.IterableDataset; for "
                "a datasets.Dataset use from_hugging_face()"
            )
        self._dataset = dataset

    def samples(self, epoch: int, state: Any) -> Iterator[tuple[Sample, Any]]:
        """Yield the rows of an epoch after a state, each with the state after it."""
        dataset = copy.deepcopy(self._dataset)
        dataset.set_epoch(epoch)
        if state is not None:
            dataset.load_state_dict(state)
        for row in dataset:
            yield row, dataset.state_dict()


def _is_number(feature: Any) -> bool:
    """Return whether a feature is a number, so that NumPy's format gives one array for several rows."""
    dtype = getattr(feature, "dtype", None)
    return isinstance(dtype, str) and dtype.startswith(("int", "uint", "float", "bool"))


def from_torch(dataset: Any, *, names: Sequence[str] = ("x", "y")) -> Dataset[Sample]:
    """Return a map-style dataset of PyTorch as a dataset of mappings.

    A ``TensorDataset`` becomes an `ArrayDataset` that shares its memory. What a transform of torchvision gives, such as
    a tensor of floats, becomes an array in the batch.

    Args:
        dataset: anything with ``len`` and ``[i]``, whose samples are tuples, or mappings, which keep their names.
        names: names for the parts of samples that are tuples.

    Raises:
        CallError: the dataset can only be iterated, or the names do not fit the tensors.
    """
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple) and type(dataset).__name__ == "TensorDataset":
        if len(tensors) != len(names):
            raise CallError(f"from_torch() got {len(tensors)} tensors and the names {', '.join(names)}")
        return ArrayDataset(**{name: tensor.detach().numpy() for name, tensor in zip(names, tensors, strict=True)})
    if not hasattr(dataset, "__len__"):
        raise CallError(
            f"from_torch() got {type(dataset).__name__}, which has no length; write a burnpy.data.Stream that reads it"
        )
    return from_sequence(dataset, names)
