"""The CuPy backend: tensors on an NVIDIA GPU. CuPy itself is imported when the first device is created."""

from burnpy_cupy.backend import CuPy

__all__ = ["CuPy"]
