"""The names of `burnpy.interop.onnx`, made from its table by ``make generated``."""

from burnpy.interop.onnx.exporting import Difference, export, verify
from burnpy.interop.onnx.model import OnnxModel, load
from burnpy.interop.onnx.source_text import source, weights

__all__ = [
    "Difference", "OnnxModel", "export", "load", "source", "verify", "weights",
]  # fmt: skip
