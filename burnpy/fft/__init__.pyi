"""The names of `burnpy.fft`, made from its table by ``make generated``."""

from burnpy.fft.signal import fftconvolve, istft, stft
from burnpy.fft.transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
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
from burnpy.tensor.complex_numbers_lazy import polar, view_as_complex, view_as_real
from burnpy.tensor.tensor import ComplexTensor

__all__ = [
    "ComplexTensor", "bartlett_window", "blackman_window", "cosine_window", "fft", "fft2", "fftconvolve", "fftfreq",
    "fftn", "fftshift", "gaussian_window", "hamming_window", "hann_window", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "istft", "kaiser_window",
    "nuttall_window", "polar", "rfft", "rfft2", "rfftfreq", "rfftn", "stft", "view_as_complex", "view_as_real",
]  # fmt: skip
