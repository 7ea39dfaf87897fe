"""Code type checkers must reject of `burnpy.fft`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, fft
from burnpy.backend import NumPy

x = Tensor[NumPy].from_data([1.0, 2.0, 3.0, 4.0])
ints = IntTensor[NumPy].from_data([1, 2, 3, 4])
z = fft.fft(x)
on_graph = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()


def the_spectrum_of_ints() -> None:
    """convert it with x.float()"""
    fft.fft(ints)  # E


def half_the_spectrum_of_complex_numbers() -> None:
    """write fft()"""
    fft.rfft(z)  # E


def a_real_signal_of_no_spectrum() -> None:
    """istft() takes a ComplexTensor"""
    fft.istft(x, 2)  # E


def complex_numbers_and_ints() -> None:
    """convert the IntTensor with .complex()"""
    z + ints  # E


def complex_numbers_and_floats() -> None:
    """convert the Tensor with .complex()"""
    z + x  # E


def floats_and_complex_numbers() -> None:
    """convert the Tensor with .complex()"""
    x * z  # E


def a_float_tensor_and_a_complex_number() -> None:
    """as in x.complex()"""
    x + 1j  # E


def a_complex_loss() -> None:
    """complex numbers have no backward()"""
    fft.fft(on_graph).sum().backward()  # E


def complex_numbers_in_order() -> None:
    """complex numbers have no order"""
    bool(z < z)  # E


def parts_on_two_devices() -> None:
    """NumPy"""
    burnpy.complex(x, Tensor[Autodiff[NumPy]].from_data([1.0]))  # E


def a_window_by_its_name() -> None:
    """expected a float Tensor"""
    fft.stft(x, 4, window="hann")  # E


def a_float_of_a_complex_number() -> None:
    """take z.real"""
    float(z[0])  # E
