"""Code type checkers must reject of `burnpy.distributions`: every line marked ``# E``, and no other. At run time each
raises a TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from typing import TypeAlias

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.distributions import Categorical, Normal, Poisson

Train: TypeAlias = Autodiff[NumPy]

scale = Tensor[Train].ones((2,)).require_grad()
normal = Normal(0.0, scale)


def recording_on_the_inner_backend() -> None:
    """records no graph"""
    normal.valid().log_prob(scale.inner()).sum().backward()  # E


def values_of_another_backend() -> None:
    """tensors on"""
    normal.log_prob(scale.inner())  # E


def parameters_of_two_backends() -> None:
    """tensors on"""
    Normal(scale, scale.inner())  # E


def floats_as_classes() -> None:
    """expected an IntTensor"""
    Categorical(scale).log_prob(scale)  # E


def ints_as_counts() -> None:
    """expected a float Tensor"""
    Poisson(scale).log_prob(IntTensor[Train].from_data([1, 2]))  # E


def gradients_through_counts() -> None:
    """Poisson has no rsample"""
    Poisson(scale).rsample()  # E


def gradients_through_an_independent_batch_of_counts() -> None:
    """Independent has no rsample"""
    Poisson(scale).independent(1).rsample()  # E
