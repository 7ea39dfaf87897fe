"""`Tensor`: tensors of floating point numbers."""

from __future__ import annotations

from typing import final

from burnpy.tensor.arithmetic import Arithmetic
from burnpy.tensor.base import B


@final
class Tensor(Arithmetic[B, float]):
    """A tensor of floating point numbers."""

    __slots__ = ()
    kind = "float"
