"""ONNX files, in which a model runs anywhere.

`export` writes a model, `verify` compares the results of a file, run by onnxruntime, with those of its model, and
`load` reads a file as a module, which can be trained. They need the package onnx: ``pip install burnpy[onnx]``.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.interop.onnx.exporting": "Difference export verify",
    "burnpy.interop.onnx.importing": "OnnxModel load source weights",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
