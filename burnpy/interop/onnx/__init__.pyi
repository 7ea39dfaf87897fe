"""The names of `burnpy.interop.onnx`, made from its table by ``make generated``."""

from burnpy.interop.onnx.exporting import Difference, export, verify
from burnpy.interop.onnx.importing import OnnxModel, load, source, weights

__all__ = [
    "Difference", "OnnxModel", "export", "load", "source", "verify", "weights",
]  # fmt: skip
