"""Records: checkpoints as safetensors files, weights from PyTorch's files and for PyTorch, and adapters in PEFT's.

>>> from burnpy.nn import Linear
>>> from burnpy.record import load, save
>>> model = Linear(2, 3, device=NumPy)
>>> save("run.safetensors", model=model, epoch=3)
>>> load("run.safetensors").epoch
3
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.record.fitting": "DTypePolicy Remap",
    "burnpy.record.peft_adapters": "from_peft to_peft",
    "burnpy.record.record": "Record load save",
    "burnpy.record.torch_file": "read_torch",
    "burnpy.record.torch_weights": "Columns from_torch save_torch to_torch",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
