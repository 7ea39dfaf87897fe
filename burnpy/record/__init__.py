"""Records: checkpoints as safetensors files, weights from PyTorch's files and for PyTorch, and adapters in PEFT's.

>>> import tempfile
>>> from burnpy.backend import NumPy
>>> from burnpy.nn import Linear
>>> model = Linear(2, 3, device=NumPy)
>>> with tempfile.TemporaryDirectory() as folder:
...     save(f"{folder}/run.safetensors", model=model, epoch=3)
...     load(f"{folder}/run.safetensors").epoch
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import missing
from burnpy.record.checkpoint_file import load, save
from burnpy.record.peft_adapters import from_peft, to_peft
from burnpy.record.record import DTypePolicy, Record, Remap
from burnpy.record.torch_file import read_torch
from burnpy.record.torch_names import Columns
from burnpy.record.torch_weights import from_torch, save_torch, to_torch

__all__ = [
    "Columns",
    "DTypePolicy",
    "Record",
    "Remap",
    "from_peft",
    "from_torch",
    "load",
    "read_torch",
    "save",
    "save_torch",
    "to_peft",
    "to_torch",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with what to write instead."""
        return missing(__name__, name)
