"""What type checkers must reject: every line marked ``# E``, and no other. At run time each raises a TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants its docstring's words in the error.
"""

from __future__ import annotations

from typing import TypeAlias

from burnpy import Autodiff, Gradients, IntTensor, Tensor, func
from burnpy.backend import NumPy

Train: TypeAlias = Autodiff[NumPy]
Twice: TypeAlias = Autodiff[Train]

plain = Tensor[NumPy].ones((2,))
leaf = Tensor[Train].ones((2,)).require_grad()
twice = Tensor[Twice].ones((2,)).require_grad()
ints = IntTensor[NumPy].arange(2)
grads: Gradients[NumPy] = leaf.sum().backward()


def backward_on_plain() -> None:
    """records no graph"""
    plain.sum().backward()  # E


def grad_on_plain() -> None:
    """records no graph"""
    plain.grad(grads)  # E


def inner_of_plain() -> None:
    """records no graph"""
    plain.inner()  # E


def mixing_backends() -> None:
    """tensors on"""
    leaf + plain  # E


def mixing_backends_by_method() -> None:
    """tensors on"""
    plain.maximum(leaf)  # E


def mixing_kinds() -> None:
    """kinds do not mix"""
    plain + ints  # E


def float_number_with_ints() -> None:
    """convert the tensor first"""
    ints + 0.5  # E


def gradients_of_the_wrong_level() -> None:
    """these gradients are of leaves on"""
    twice.grad(grads)  # E


def gradient_argument_of_the_wrong_level() -> None:
    """gradients live one level below"""
    leaf.backward(leaf)  # E


def require_grad_of_ints() -> None:
    """only float tensors"""
    ints.require_grad().backward()  # E


def item_assignment() -> None:
    """x.at[...].set(v)"""
    plain[0] = 1.0  # E


def text_as_operand() -> None:
    """must be a Tensor or a number"""
    plain * "2"  # E


def bounds_of_another_kind() -> None:
    """clamp() was asked of"""
    plain.clamp(ints)  # E


def a_tensor_as_the_dim() -> None:
    """the larger of two tensors is x.maximum(y)"""
    plain.max(plain)  # E


def an_int_tensor_as_the_dim() -> None:
    """dims are Python ints"""
    plain.sum(ints)  # E


def a_rounded_quotient_of_ints_and_a_float() -> None:
    """convert the tensor first"""
    ints.div(0.5, rounding_mode="floor")  # E


def gradient_of_a_number() -> None:
    """it returned float"""
    func.grad(Tensor.item)(plain.sum())  # E


def gradient_by_ints() -> None:
    """only float tensors have derivatives"""
    func.grad(Tensor.sum)(ints)  # E


def tangent_on_another_backend() -> None:
    """jvp() was asked of tensors on"""
    func.jvp(Tensor.exp, plain, leaf)  # E
