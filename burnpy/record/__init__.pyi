"""The names of `burnpy.record`, made from its table by ``make generated``."""

from burnpy.record.fitting import DTypePolicy, Remap
from burnpy.record.peft_adapters import from_peft, to_peft
from burnpy.record.record import Record, load, save
from burnpy.record.torch_file import read_torch
from burnpy.record.torch_weights import Columns, from_torch, save_torch, to_torch

__all__ = [
    "Columns", "DTypePolicy", "Record", "Remap", "from_peft", "from_torch", "load", "read_torch", "save", "save_torch",
    "to_peft", "to_torch",
]  # fmt: skip
