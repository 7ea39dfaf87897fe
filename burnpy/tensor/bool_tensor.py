"""`BoolTensor`: tensors of truth values."""

from __future__ import annotations

from typing import final

from burnpy.tensor.base import B, TensorBase


@final
class BoolTensor(TensorBase[B]):
    """A tensor of truth values."""

    __slots__ = ()
    kind = "bool"
