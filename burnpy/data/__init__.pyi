"""The names of `burnpy.data`, made from its table by ``make generated``."""

from burnpy.data import sources as sources
from burnpy.data import transforms as transforms
from burnpy.data.batch import Batch, Indexable, Sample
from burnpy.data.collate import Collator, Samples, Transform, collate, pad_collate
from burnpy.data.dataset import ArrayDataset, Dataset, from_sequence
from burnpy.data.epochs import Epoch, StreamEpoch
from burnpy.data.loader import Loader
from burnpy.data.order_and_randomness import (
    Balanced,
    BatchRandom,
    BucketByLength,
    InOrder,
    Plan,
    Sampler,
    Shuffled,
    Weighted,
)
from burnpy.data.streams import Stream, StreamLoader

__all__ = [
    "ArrayDataset", "Balanced", "Batch", "BatchRandom", "BucketByLength", "Collator", "Dataset", "Epoch", "InOrder",
    "Indexable", "Loader", "Plan", "Sample", "Sampler", "Samples", "Shuffled", "Stream", "StreamEpoch", "StreamLoader",
    "Transform", "Weighted", "collate", "from_sequence", "pad_collate",
]  # fmt: skip
