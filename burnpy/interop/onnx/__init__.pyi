"""The names of `burnpy.interop.onnx`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.interop.onnx.exporting import export
from burnpy.interop.onnx.model import OnnxModel, load
from burnpy.interop.onnx.source_text import source, weights
from burnpy.interop.onnx.verification import Difference, verify

__all__ = [
    "Difference",
    "OnnxModel",
    "export",
    "load",
    "source",
    "verify",
    "weights",
]
