"""Formats of other systems: `burnpy.interop.onnx`."""

from burnpy.interop import onnx as onnx

__all__ = ["onnx"]


def __dir__() -> list[str]:
    return __all__
