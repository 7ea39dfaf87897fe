"""Tensors of three kinds, generic over their backend."""
from burnpy.tensor.bool_tensor import BoolTensor
from burnpy.tensor.tensor import Tensor
__all__ = ["BoolTensor", "Tensor"]
