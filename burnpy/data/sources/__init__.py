"""Datasets from files and from other libraries. Each source imports its packages when it is used.

| source | needs |
|---|---|
| `ImageFolder` | Pillow |
| `read_parquet`, `read_csv`, `ParquetStream` | pyarrow |
| `from_hugging_face`, `HuggingFaceStream` | datasets |
| `from_torch` | torch |

``pip install "burnpy[data]"`` installs Pillow and pyarrow.
"""

from __future__ import annotations

from burnpy.data.sources.files import ImageFolder, ParquetStream, TableDataset, read_csv, read_parquet
from burnpy.data.sources.frameworks import HuggingFaceStream, from_hugging_face, from_torch

__all__ = [
    "HuggingFaceStream",
    "ImageFolder",
    "ParquetStream",
    "TableDataset",
    "from_hugging_face",
    "from_torch",
    "read_csv",
    "read_parquet",
]
