"""Tensors of three kinds, generic over their backend."""

from __future__ import annotations

from burnpy.tensor.bool_tensor import BoolTensor
from burnpy.tensor.generator import Generator, default_generator, manual_seed
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.kinds import explain_missing_methods
from burnpy.tensor.tensor import Tensor

explain_missing_methods()

__all__ = ["BoolTensor", "Generator", "IntTensor", "Tensor", "default_generator", "manual_seed"]
