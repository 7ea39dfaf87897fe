"""Datasets, batches and loaders: from samples to tensors, in an order that two integers determine.

>>> from burnpy.data import ArrayDataset, Loader, collate
>>> data = ArrayDataset(x=np.eye(4, dtype=np.float32), y=np.array([0, 1, 0, 1]))
>>> train, held = data.split(0.5, seed=0, stratify="y")
>>> loader = Loader(train, collate(device=NumPy), batch_size=2, shuffle=True, seed=0)
>>> for batch in loader.epoch(0):
...     batch.x.shape, sorted(batch.y.tolist())
((2, 4), [0, 1])
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.data.batch": "Batch Indexable Sample",
    "burnpy.data.collate": "Collator Samples Transform collate pad_collate",
    "burnpy.data.dataset": "ArrayDataset Dataset from_sequence",
    "burnpy.data.epochs": "Epoch StreamEpoch",
    "burnpy.data.loader": "Loader",
    "burnpy.data.order_and_randomness": "Balanced BatchRandom BucketByLength InOrder Plan Sampler Shuffled Weighted",
    "burnpy.data.sources": "",
    "burnpy.data.streams": "Stream StreamLoader",
    "burnpy.data.transforms": "",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES, now=("burnpy.data.collate",))
