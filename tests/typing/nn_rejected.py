"""Code type checkers must reject of `burnpy.nn`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.nn import Buffer, Embedding, IntBuffer, Linear, MseLoss, Param, Relu, Sequential

Train: TypeAlias = Autodiff[NumPy]

layer = Linear(2, 3, device=Train)
plain = Linear(2, 3, device=NumPy)
x = Tensor[Train].ones((1, 2))


def validating_twice() -> None:
    """records no graph"""
    layer.valid().valid()  # E


def validating_a_plain_model() -> None:
    """records no graph"""
    plain.valid()  # E


def a_model_that_trains_on_plain_input() -> None:
    """tensors on"""
    layer(x.inner())  # E


def a_plain_model_on_tracked_input() -> None:
    """tensors on"""
    plain(x)  # E


def backward_through_valid() -> None:
    """records no graph"""
    layer.valid()(x.inner()).sum().backward()  # E


def an_argument_that_forward_does_not_take() -> None:
    """does not take scale"""
    layer(x, scale=2.0)  # E


def too_many_arguments() -> None:
    """takes x by position"""
    layer(x, x)  # E


def floats_for_an_embedding() -> None:
    """takes its indices as an IntTensor"""
    Embedding(4, 6, device=Train)(x)  # E


def layers_of_two_backends() -> None:
    """a module is on one device"""
    Sequential(Linear(2, 2, device=Train), Relu(), Linear(2, 2, device=NumPy))  # E


def a_function_among_layers() -> None:
    """which is not a module"""
    Sequential(layer, len)  # E


def a_parameter_of_an_array() -> None:
    """holds one Tensor"""
    Param(np.ones(3))  # E


def a_parameter_of_ints() -> None:
    """holds one Tensor"""
    Param(IntTensor[NumPy].zeros((2,)))  # E


def ints_in_a_float_buffer() -> None:
    """holds one Tensor"""
    Buffer(IntTensor[NumPy].zeros((2,)))  # E


def floats_in_an_int_buffer() -> None:
    """holds one IntTensor"""
    IntBuffer(x)  # E


def assigning_the_value_of_a_parameter() -> None:
    """never changes"""
    layer.weight.value = x  # E


def a_loss_of_two_backends() -> None:
    """tensors on"""
    MseLoss()(x, x.inner())  # E


def a_model_with_ints_of_another_size() -> None:
    """expected 'int8' or 'int4'"""
    Sequential(plain).quantized("int5")  # E
