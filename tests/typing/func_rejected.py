"""Code type checkers must reject of `burnpy.func`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from burnpy import BoolTensor, Tensor, compiled
from burnpy.backend import NumPy
from burnpy.func import cond, grad, scan, while_loop

x = Tensor[NumPy].from_data([1.0, 2.0])


@compiled
def scaled(x: Tensor[NumPy], factor: float) -> Tensor[NumPy]:
    return x * factor


class Holder:
    @compiled
    def scaled(self, x: Tensor[NumPy], factor: float) -> Tensor[NumPy]:
        return x * factor


def halved(x: Tensor[NumPy]) -> Tensor[NumPy]:
    return x / 2.0


def large(x: Tensor[NumPy]) -> BoolTensor[NumPy]:
    return x.max() > 1.0


def an_argument_of_a_compiled_function_left_out() -> None:
    """missing 1 required positional argument"""
    scaled(x)  # E


def an_argument_of_a_compiled_method_left_out() -> None:
    """missing 1 required positional argument"""
    Holder().scaled(x)  # E


def an_argument_of_an_unknown_name() -> None:
    """unexpected keyword argument"""
    scaled(x, factors=2.0)  # E


def compiling_a_tensor() -> None:
    """takes a function"""
    compiled(x)  # E


def donating_by_one_string() -> None:
    """takes a tuple of names"""
    compiled(halved, donate="x")  # E


def a_number_as_condition() -> None:
    """takes a BoolTensor of shape () as predicate"""
    cond(x.sum(), halved, halved, x)  # E


def a_condition_that_gives_a_number() -> None:
    """takes a BoolTensor of shape () as condition"""
    while_loop(lambda x: x.sum(), halved, x)  # E


def a_scan_of_a_tensor() -> None:
    """takes a function"""
    scan(x, x, x)  # E


def a_gradient_without_its_arguments() -> None:
    """missing 1 required positional argument"""
    grad(scaled)(x)  # E


def a_gradient_at_a_list() -> None:
    """only float tensors have derivatives"""
    grad(halved)([1.0])  # E


def a_gradient_of_a_condition() -> None:
    """a function that returns a float tensor of one element"""
    grad(large)(x)  # E
