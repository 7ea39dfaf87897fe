"""The names of `burnpy.interop.onnx`, made from its table by ``make generated``."""

from burnpy.interop.onnx.model import Difference, OnnxModel, export, load, verify
from burnpy.interop.onnx.source_text import source, weights

__all__ = [
    "Difference", "OnnxModel", "export", "load", "source", "verify", "weights",
]  # fmt: skip
