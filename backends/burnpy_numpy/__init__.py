"""The NumPy backend: tensors on the CPU."""

from burnpy_numpy.backend import NumPy

__all__ = ["NumPy"]
