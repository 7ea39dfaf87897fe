"""Discrete Fourier transforms of real and complex tensors, named as in ``torch.fft``, and spectra of signals.

A spectrum is a `ComplexTensor`. All functions are differentiable twice, in reverse and forward mode. On NumPy pocketfft
computes them, SciPy's where SciPy is installed, on CuPy cuFFT; other backends with complex arrays copy to the host and
back, unless they override the operation. The spectra of float32 are complex64, as are those of float16 and bfloat16.

>>> from burnpy import fft
>>> fft.rfft(Tensor[NumPy].from_data([0.0, 1.0, 0.0, -1.0])).abs().tolist()
[0.0, 2.0, 0.0]
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.tensor.complex_numbers_lazy": "polar view_as_complex view_as_real",
    "burnpy.tensor.tensor": "ComplexTensor",
    "burnpy.fft.signal": "fftconvolve istft stft",
    "burnpy.fft.transforms": (
        "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 "
        "irfftn rfft rfft2 rfftfreq rfftn"
    ),
    "burnpy.fft.windows": (
        "bartlett_window blackman_window cosine_window gaussian_window hamming_window hann_window kaiser_window "
        "nuttall_window"
    ),
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
