"""Code type checkers must accept of `burnpy.fft`, with the types they must infer. Runs, too."""

from __future__ import annotations

from typing import TypeVar, assert_type

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, fft
from burnpy.backend import Backend, NumPy
from burnpy.fft import ComplexTensor
from burnpy.func import grad
from burnpy.nn import functional

B = TypeVar("B", bound=Backend)

x = Tensor[NumPy].from_data([1.0, 2.0, 3.0, 4.0])
on_graph = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
z = fft.fft(x)

assert_type(z, ComplexTensor[NumPy])
assert_type(fft.fft(on_graph), ComplexTensor[Autodiff[NumPy]])
assert_type(fft.ifft(z, 4, -1, "ortho"), ComplexTensor[NumPy])
assert_type(fft.irfft(fft.rfft(x), 4, norm="forward"), Tensor[NumPy])
assert_type(fft.fftn(z, (2,), dim=(0,)), ComplexTensor[NumPy])
assert_type(fft.fftshift(x), Tensor[NumPy])
assert_type(fft.fftshift(z), ComplexTensor[NumPy])
assert_type(fft.fftfreq(4, 0.5, device=Autodiff[NumPy]), Tensor[Autodiff[NumPy]])
assert_type(fft.fftconvolve(x, x, "same"), Tensor[NumPy])
assert_type(fft.fftconvolve(x, z), ComplexTensor[NumPy])
assert_type(fft.fftconvolve(z, x, "valid"), ComplexTensor[NumPy])

# Arithmetic of complex and float tensors, and of numbers.
assert_type(z.real, Tensor[NumPy])
assert_type(z * z + x.complex() - 2.0, ComplexTensor[NumPy])
assert_type(x.complex() * z, ComplexTensor[NumPy])
assert_type(1j * z / (1 + 2j), ComplexTensor[NumPy])
assert_type(2 / z, ComplexTensor[NumPy])
assert_type(abs(z), Tensor[NumPy])
assert_type(z.exp().conj().angle(), Tensor[NumPy])
assert_type(z == z, BoolTensor[NumPy])
assert_type(z[0].item(), complex)
assert_type(z.reshape(2, 2) @ z.reshape(2, 2).mH, ComplexTensor[NumPy])
assert_type(x.complex().reshape(2, 2) @ z.reshape(2, 2), ComplexTensor[NumPy])
assert_type([w for w in z], list[ComplexTensor[NumPy]])  # noqa: C416  # the type of the loop's variable

# Making and moving.
assert_type(burnpy.complex(x, x), ComplexTensor[NumPy])
assert_type(ComplexTensor[NumPy].from_data([1j]), ComplexTensor[NumPy])
assert_type(ComplexTensor.from_data([1j], device=Autodiff[NumPy]), ComplexTensor[Autodiff[NumPy]])
assert_type(fft.fft(on_graph).inner(), ComplexTensor[NumPy])
assert_type(z.to_device(Autodiff[NumPy]), ComplexTensor[Autodiff[NumPy]])
assert_type(fft.view_as_complex(fft.view_as_real(z)), ComplexTensor[NumPy])
assert_type(fft.polar(z.abs(), z.angle()), ComplexTensor[NumPy])

# Layers as functions, and distances, of both kinds.
row, real_row = z.reshape(1, 1, 4), x.reshape(1, 1, 4)
assert_type(functional.conv1d(row, row, z[:1]), ComplexTensor[NumPy])
assert_type(functional.conv1d(real_row, real_row, padding=1), Tensor[NumPy])
assert_type(functional.conv2d(row.unsqueeze(2), row.unsqueeze(2)), ComplexTensor[NumPy])
assert_type(functional.conv3d(row.reshape(1, 1, 1, 2, 2), row.reshape(1, 1, 1, 2, 2)), ComplexTensor[NumPy])
assert_type(functional.conv_transpose1d(row, row), ComplexTensor[NumPy])
assert_type(functional.conv_transpose2d(row.unsqueeze(2), row.unsqueeze(2)), ComplexTensor[NumPy])
assert_type(functional.conv_transpose2d(real_row.unsqueeze(2), real_row.unsqueeze(2)), Tensor[NumPy])
assert_type(functional.linear(z, row.reshape(4, 1)), ComplexTensor[NumPy])
assert_type(functional.embedding(IntTensor[NumPy].from_data([0]), row[0]), ComplexTensor[NumPy])
assert_type(functional.embedding(IntTensor[NumPy].from_data([0]), real_row[0]), Tensor[NumPy])
assert_type(functional.triplet_margin_loss(z, z, z), Tensor[NumPy])
assert_type(burnpy.pairwise_distance(z, z), Tensor[NumPy])
assert_type(ComplexTensor[NumPy].linspace(0, 1j, 3), ComplexTensor[NumPy])
assert_type(fft.stft(x, 2, window=z[:2]), ComplexTensor[NumPy])
assert_type(fft.istft(fft.stft(z, 2), 2, return_complex=True), ComplexTensor[NumPy])

# Derivatives.
loss = fft.fft(on_graph).abs().sum()
assert_type(on_graph.grad(loss.backward()), Tensor[NumPy] | None)


def energy(w: ComplexTensor[NumPy]) -> Tensor[NumPy]:
    return w.abs().square().sum()


assert_type(grad(energy)(z), ComplexTensor[NumPy])


# Generic code.
def spectrogram(signal: Tensor[B], device: B | type[B]) -> Tensor[B]:
    return fft.stft(signal, 2, window=fft.hann_window(2, device=device)).abs()


def again(w: ComplexTensor[B]) -> Tensor[B]:
    return fft.istft(w, 2)


assert_type(spectrogram(x, NumPy), Tensor[NumPy])
assert_type(again(fft.stft(x, 2)), Tensor[NumPy])
