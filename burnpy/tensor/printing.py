"""The string representations of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.tensor.conversion import Conversion
from burnpy.typevars import B

_THRESHOLD = 1000  # as in PyTorch and NumPy: tensors with more elements are summarized


class Printing(Conversion[B]):
    """The implementation of ``repr(x)``, ``str(x)`` and ``f"{x:.3f}"``."""

    __slots__ = ()

    def __repr__(self) -> str:
        name = type(self).__name__
        array = self._backend.to_numpy(self._primitive)
        if array.dtype.kind == "V":  # bfloat16, which array2string would format as objects
            array = array.astype(float32)
        values = np.array2string(array, separator=", ", prefix=f"{name}(", threshold=_THRESHOLD, floatmode="maxprec")
        attributes = [f"shape={self.shape}", f"dtype={self.dtype}", f"device={self.device}"]
        if self.kind == "float" and self._backend.is_require_grad(self._primitive):
            attributes.append("tracked")
        separator = ",\n" + " " * (len(name) + 1) if "\n" in values else ", "
        return f"{name}({values}{separator}{', '.join(attributes)})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        element: Any = self._only(f"format {spec!r}")
        return format(element, spec)
