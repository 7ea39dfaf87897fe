"""What the backends of NumPy and CuPy share: every operation, written against an array module ``xp``."""

from burnpy_array.backend import ArrayBackend

__all__ = ["ArrayBackend"]
