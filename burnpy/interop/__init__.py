"""Formats of other systems: `burnpy.interop.onnx`."""

from __future__ import annotations

from burnpy.interop import onnx as onnx
