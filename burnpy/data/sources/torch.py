"""Datasets of PyTorch: ``torch.utils.data.Dataset`` and those of torchvision and other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.errors import CallError
from burnpy.data.arrays import ArrayDataset
from burnpy.data.base import Sample
from burnpy.data.dataset import Dataset, from_sequence


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
