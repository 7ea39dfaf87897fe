"""The shared implementation of the NumPy and CuPy backends: every operation, written for an array module ``xp``."""

from burnpy_array.backend import ArrayBackend

__all__ = ["ArrayBackend"]
