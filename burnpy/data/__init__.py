"""Datasets, batches and loaders: from samples to tensors, in an order that two integers determine.

>>> import numpy as np
>>> from burnpy.backend import NumPy
>>> data = ArrayDataset(x=np.eye(4, dtype=np.float32), y=np.array([0, 1, 0, 1]))
>>> train, held = data.split(0.5, seed=0, stratify="y")
>>> loader = Loader(train, collate(device=NumPy), batch_size=2, shuffle=True, seed=0)
>>> for batch in loader.epoch(0):
...     batch.x.shape, sorted(batch.y.tolist())
((2, 4), [0, 1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.data.batch import Batch
from burnpy.data.collate import Collator, Samples, Transform, collate
from burnpy.data.dataset import ArrayDataset, Dataset, from_sequence
from burnpy.data.epochs import Epoch, StreamEpoch
from burnpy.data.loader import Loader
from burnpy.data.pad_collate import pad_collate
from burnpy.data.randomness import BatchRandom
from burnpy.data.sample_source import Indexable, Sample
from burnpy.data.samplers import Balanced, BucketByLength, InOrder, Plan, Sampler, Shuffled, Weighted
from burnpy.data.streams import Stream, StreamLoader

__all__ = [
    "ArrayDataset",
    "Balanced",
    "Batch",
    "BatchRandom",
    "BucketByLength",
    "Collator",
    "Dataset",
    "Epoch",
    "InOrder",
    "Indexable",
    "Loader",
    "Plan",
    "Sample",
    "Sampler",
    "Samples",
    "Shuffled",
    "Stream",
    "StreamEpoch",
    "StreamLoader",
    "Transform",
    "Weighted",
    "collate",
    "from_sequence",
    "pad_collate",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with a hint if it is one of PyTorch's."""
        from burnpy.backend.lazy import missing

        return missing(__name__, name)
