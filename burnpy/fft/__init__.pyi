"""The names of `burnpy.fft`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.fft.complex_tensor import ComplexTensor, polar, view_as_complex, view_as_real
from burnpy.fft.convolution import fftconvolve
from burnpy.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from burnpy.fft.short_time import istft, stft
from burnpy.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from burnpy.fft.windows import (
    bartlett_window,
    blackman_window,
    cosine_window,
    gaussian_window,
    hamming_window,
    hann_window,
    kaiser_window,
    nuttall_window,
)

__all__ = [
    "ComplexTensor",
    "bartlett_window",
    "blackman_window",
    "cosine_window",
    "fft",
    "fft2",
    "fftconvolve",
    "fftfreq",
    "fftn",
    "fftshift",
    "gaussian_window",
    "hamming_window",
    "hann_window",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "kaiser_window",
    "nuttall_window",
    "polar",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "stft",
    "view_as_complex",
    "view_as_real",
]
