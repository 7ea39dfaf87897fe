"""Kernels written by hand: parts of their sources, and `Kernels`, which finds them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from burnpy.backend.primitives import DType
from burnpy_cupy.kernels.elementwise import C_NAMES, Elementwise, ElementwiseKernel, with_headers

MINUS_INFINITY = "#define MINUS_INFINITY __int_as_float(0xff800000)\n"
"""A part of the preamble; NVRTC does not know C's INFINITY."""

SUM = """
template <typename T> struct burnpy_sum { typedef float type; };
template <> struct burnpy_sum<double> { typedef double type; };
"""
"""A part of the preamble: the type in which sums of T are accumulated, float32 for 16-bit floats."""

SUM_TYPE = "typedef typename burnpy_sum<T>::type F;\n"


class Raw(NamedTuple):
    """The source of a `cupy.RawKernel` with one function, for types and constants that it names by capital letters."""

    source: str

    def typed(self, constants: Mapping[str, int], types: Mapping[str, str]) -> str:
        """Return the whole source for types of CUDA."""
        body = "".join(
            [
                *[f"typedef {t} {letter};\n" for letter, t in types.items()],
                *[f"#define {constant} {value}\n" for constant, value in constants.items()],
                MINUS_INFINITY,
                self.source,
            ]
        )
        return with_headers(body)


_OPTIONS = ("--fmad=false",)
"""Options of raw kernels: a score is rounded before its maximum is subtracted, as it was when the maximum was found."""
_NONE: Mapping[str, int] = {}
_SHARED = 48 << 10
"""The bytes of shared memory that a block can have without asking for more."""


class Kernels(dict[str, ElementwiseKernel]):
    """The kernels by name, created on first access, and compiled for the dtypes they are called with.

    Args:
        xp: the module cupy.
        elementwise: the elementwise kernels of all families.
        raw: their raw kernels.
    """

    def __init__(self, xp: Any, elementwise: Mapping[str, Elementwise], raw: Mapping[str, Raw]) -> None:
        super().__init__()
        self._xp, self._elementwise, self._raw = xp, elementwise, raw
        self._typed: dict[tuple[Any, ...], Any] = {}

    def __missing__(self, name: str) -> ElementwiseKernel:
        # two threads at once may create it twice, which is harmless: the kernels are equal
        kernel = self[name] = ElementwiseKernel(self._xp, name, self._elementwise[name])
        return kernel

    def typed(self, name: str, constants: Mapping[str, int] = _NONE, shared: int = 0, **types: DType) -> Any:
        """Return a raw kernel for the constants and dtypes that its source names.

        Args:
            name: the name of the kernel.
            constants: the values of the constants.
            shared: the bytes of shared memory that a launch asks for.
            types: the dtypes by letter.
        """
        key = (name, *types.values(), *constants.values())
        kernel = self._typed.get(key)
        if kernel is None:
            names = {letter: C_NAMES.get(t.name, t.name) for letter, t in types.items()}
            source = self._raw[name].typed(constants, names)
            kernel = self._xp.RawKernel(source, name, _OPTIONS)
            if shared > _SHARED:
                kernel.max_dynamic_shared_size_bytes = shared
            self._typed[key] = kernel
        return kernel
