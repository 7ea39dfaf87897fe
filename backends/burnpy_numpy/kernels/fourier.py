"""Half the spectra of the frames of a signal, by a kernel with another frame in each element of a vector.

A frame of even size is transformed as complex numbers, its even and its odd samples, whose spectrum gives the frame's.
The complex transform goes from one buffer to another, pass by pass, each with a factor of its size.
Sources: Stockham, High-Speed Convolution and Correlation, 1966; Sorensen et al., Real-Valued Fast Fourier Transform
Algorithms, 1987.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import Scratch

Complex = tuple[Vector, Vector]
"""The real and the imaginary part."""
_MAX_CACHED_FRAME = 4096
"""The size of a frame up to which the buffers of all frames of a vector stay in the cache."""
_ODD_FACTORS = (3, 5, 7)


def spectra_of_frames(x: Any, window: Any, step: int, factor: float) -> Any:
    """Return half the spectra of weighted frames, complex, (…, frames, frequencies); None without a kernel for it.

    Args:
        x: signals, of shape (…, samples).
        window: the weights of a frame, which is as long.
        step: the distance of one frame and the next.
        factor: what spectra are multiplied by.
    """
    size, dtype = window.shape[0], x.dtype
    if not (dtype is float32 or dtype is float64) or window.dtype is not dtype or size % 2 or size > _MAX_CACHED_FRAME:
        return None
    width, count = target().vector // dtype.itemsize, (x.shape[-1] - size) // step + 1
    if count < width or size // 2 + 1 < width or _factors(size // 2) is None:
        return None
    kernel = template_kernel(frame_spectra, dtype, width, size)
    if kernel is None:
        return None
    signals, frequencies = np.ascontiguousarray(x).reshape((-1, x.shape[-1])), size // 2 + 1
    out = np.empty((len(signals), count, frequencies), np.complex64 if dtype is float32 else np.complex128)
    table = (window * dtype.type(0.5 * factor), _turns(size, dtype))
    scratch = Scratch(4, 4 * frequencies * width * dtype.itemsize)
    for signal, result in zip(signals, out, strict=True):
        kernel.run((signal, result, *table), (count, step), -(-count // width), width * frequencies * 16, scratch)
    return out.reshape((*x.shape[:-1], count, frequencies))


def _factors(size: int) -> list[int] | None:
    """Return the factors of the passes of a transform; None if there are other prime factors."""
    twos = (size & -size).bit_length() - 1
    rest = size >> twos
    fours = 0 if twos % 3 == 0 else 1 if twos % 3 == 2 else 2 if twos > 1 else 0
    eights = (twos - 2 * fours) // 3
    factors = [8] * eights + [4] * fours + [2] * (twos - 3 * eights - 2 * fours)
    for prime in _ODD_FACTORS:
        while rest % prime == 0:
            factors.append(prime)
            rest //= prime
    return factors if rest == 1 else None


@lru_cache(maxsize=64)
def _turns(size: int, dtype: Any) -> Any:
    """Return the factors of absolute value 1 that the kernel reads, as pairs: of each pass, and of the frame."""
    parts, left = [], size // 2
    for factor in _factors(size // 2) or []:
        parts.append(np.outer(np.arange(left // factor), np.arange(1, factor)).ravel() / left)
        left //= factor
    parts.append(np.arange(1, size // 4 + 1) / size)
    angles = -2 * np.pi * np.concatenate(parts)
    return np.stack([np.cos(angles), np.sin(angles)], -1).astype(dtype)


def frame_spectra(dtype: str, width: int, size: int) -> str:
    """Return the text of the kernel of half the spectra of frames of an even size.

    The table: x, the spectra (frames, frequencies, 2), half the window, `_turns`, and two buffers as one. The sizes:
    the numbers of frames, and of samples from one to the next. ``begin`` and ``end`` count vectors of frames.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, each of another frame.
        size: the number of samples of a frame.
    """
    w = _Spectra(dtype, width)
    x, out, window, turns, source = w.table
    goal = w.element(source, (size + 2) * width, dtype)
    count, step = w.sizes
    half, final = size // 2, count - width
    with w.loop(w.begin, w.end) as block:
        first = w.smaller(block * width, final)  # the last vector may have frames of the one before
        frames = [first + k for k in range(width)]
        lines = w.lanes(x, [frame * step for frame in frames], dtype)
        with w.loop(0, -(-size // width)) as tile:
            start = w.smaller(tile * width, size - width)
            weights = w.load_at(window, start, dtype)
            samples = [w.mul(w.load_at(line, start, dtype), weights) for line in lines]
            for k, sample in enumerate(w.transposed(samples)):
                w.store_at(sample, source, (start + k) * width)
        left, stride, place = half, 1, 0
        now, then = source, goal
        for factor in _factors(half) or []:
            w.one_pass(now, then, w.element(turns, 2 * place, dtype), factor, left, stride)
            now, then = then, now
            place += left // factor * (factor - 1)
            left, stride = left // factor, stride * factor
        w.unpack(now, then, w.element(turns, 2 * place, dtype), half)
        rows = w.lanes(out, [frame * (2 * (half + 1)) for frame in frames], dtype)
        with w.loop(0, -(-(half + 1) // width)) as tile:
            start = w.smaller(tile * width, half + 1 - width)
            values = [w.complex_at(then, start + k) for k in range(width)]
            for real, imag, row in zip(*map(w.transposed, zip(*values, strict=True)), rows, strict=True):
                at = w.element(row, start * 2, dtype)
                w.store_pairs(real, imag, at)
    return w.function()


class _Spectra(Loops):
    """The kernel of `frame_spectra`, whose buffers have the real parts of a vector of frames before the imaginary."""

    def __init__(self, dtype: str, width: int) -> None:
        super().__init__(width, 5, 2)
        self.dtype = dtype

    def complex_at(self, buffer: str, index: Int | int) -> Complex:
        """Load a vector of complex numbers."""
        at = self.element(buffer, index * (2 * self.width), self.dtype)
        return self.load(at, self.dtype), self.load_at(at, self.width, self.dtype)

    def set_complex(self, z: Complex, buffer: str, index: Int | int) -> None:
        """Store a vector of complex numbers."""
        at = self.element(buffer, index * (2 * self.width), self.dtype)
        self.store(z[0], at)
        self.store_at(z[1], at, self.width)

    def store_pairs(self, real: Vector, imag: Vector, at: str) -> None:
        """Store real and imaginary parts in turns."""
        self.store(self.merged(real, imag, 0), at)
        self.store_at(self.merged(real, imag, self.width // 2), at, self.width)

    def turn(self, table: str, index: Int | int) -> Complex:
        """Load one complex number, for all elements of a vector."""
        at = self.element(table, index * 2, self.dtype)
        return self.load_one(at, self.dtype), self.load_one_at(at, 1, self.dtype)

    def one_pass(self, source: str, goal: str, turns: str, factor: int, size: int, stride: int) -> None:
        """Write a pass of the transforms of ``size`` elements that lie ``stride`` apart."""
        rest = size // factor
        with self.loop(0, rest) as p:
            factors = [self.turn(turns, p * (factor - 1) + k) for k in range(factor - 1)]
            with self.loop(0, stride) as q:
                start = q + p * stride
                values = [self.complex_at(source, start + k * rest * stride) for k in range(factor)]
                target = q + p * (stride * factor)
                for k, z in enumerate(self.transform(values)):
                    turned = z if k == 0 or rest == 1 else self.complex_product(z, factors[k - 1])
                    self.set_complex(turned, goal, target + k * stride)

    def transform(self, values: list[Complex]) -> list[Complex]:
        """Transform a few complex numbers: the even and the odd ones on their own, or all by the formula."""
        count = len(values)
        if count == 1:
            return values
        if count % 2:
            return self._of_odd_size(values)
        even, odd = self.transform(values[::2]), self.transform(values[1::2])
        turned = [self._turned(z, k, count) for k, z in enumerate(odd)]
        pairs = list(zip(even, turned, strict=True))
        return [self.complex_sum(a, b) for a, b in pairs] + [self.complex_difference(a, b) for a, b in pairs]

    def _of_odd_size(self, values: list[Complex]) -> list[Complex]:
        """Compute results k and count - k together, which differ in the sign of their odd part."""
        count, first = len(values), values[0]
        sums = [self.complex_sum(values[j], values[-j]) for j in range(1, count // 2 + 1)]
        differences = [self.complex_difference(values[j], values[-j]) for j in range(1, count // 2 + 1)]
        total = first
        for each in sums:
            total = self.complex_sum(total, each)
        out = [total] * count
        for k in range(1, count // 2 + 1):
            even, odd = first, None
            for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
                angle = 2 * math.pi * (j * k % count) / count
                even = self._grown(even, s, math.cos(angle))
                odd = self._scaled(d, math.sin(angle)) if odd is None else self._grown(odd, d, math.sin(angle))
            assert odd is not None
            turned = odd[1], self.neg(odd[0])  # -i times the odd part
            out[k], out[count - k] = self.complex_sum(even, turned), self.complex_difference(even, turned)
        return out

    def _turned(self, z: Complex, k: int, count: int) -> Complex:
        """z · exp(-2πi k / count)."""
        if k == 0:
            return z
        if 4 * k == count:
            return z[1], self.neg(z[0])
        angle = -2 * math.pi * k / count
        return self.complex_product(
            z, (self.constant(math.cos(angle), self.dtype), self.constant(math.sin(angle), self.dtype))
        )

    def _scaled(self, z: Complex, factor: float) -> Complex:
        c = self.constant(factor, self.dtype)
        return self.mul(z[0], c), self.mul(z[1], c)

    def _grown(self, total: Complex, z: Complex, factor: float) -> Complex:
        c = self.constant(factor, self.dtype)
        return self.fma(z[0], c, total[0]), self.fma(z[1], c, total[1])

    def complex_sum(self, a: Complex, b: Complex) -> Complex:
        """Return a + b."""
        return self.add(a[0], b[0]), self.add(a[1], b[1])

    def complex_difference(self, a: Complex, b: Complex) -> Complex:
        """Return a - b."""
        return self.sub(a[0], b[0]), self.sub(a[1], b[1])

    def complex_product(self, a: Complex, b: Complex) -> Complex:
        """Return a · b."""
        real = self.fma(a[0], b[0], self.neg(self.mul(a[1], b[1])))
        return real, self.fma(a[0], b[1], self.mul(a[1], b[0]))

    def unpack(self, source: str, goal: str, turns: str, half: int) -> None:
        """Write twice the spectrum of real numbers from the one of their even and odd ones as complex numbers."""
        real, imag = self.complex_at(source, 0)
        zero, two = self.constant(0.0, self.dtype), self.constant(2.0, self.dtype)
        self.set_complex((self.mul(self.add(real, imag), two), zero), goal, 0)
        self.set_complex((self.mul(self.sub(real, imag), two), zero), goal, half)
        with self.loop(1, half // 2 + 1) as k:
            opposite = half - k
            (a, b), (c, d) = self.complex_at(source, k), self.complex_at(source, opposite)
            even = self.add(a, c), self.sub(b, d)
            odd = self.complex_product((self.add(b, d), self.sub(c, a)), self.turn(turns, k - 1))
            self.set_complex(self.complex_sum(even, odd), goal, k)
            real, imag = self.complex_difference(even, odd)
            self.set_complex((real, self.neg(imag)), goal, opposite)
