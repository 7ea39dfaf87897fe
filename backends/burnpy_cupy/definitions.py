"""The arguments that kernels of CuPy are made from."""

from __future__ import annotations

from typing import NamedTuple

INDEX = "typedef int index_t;\n"
"""A part of the preamble of kernels that count elements with ``int32`` arguments, as division is faster in 32 bits."""

MINUS_INFINITY = "#define MINUS_INFINITY __int_as_float(0xff800000)\n"
"""A part of the preamble; NVRTC does not know C's INFINITY."""

SUM = """
template <typename T> struct burnpy_sum { typedef float type; };
template <> struct burnpy_sum<double> { typedef double type; };
"""
"""A part of the preamble: the type in which sums of T are accumulated, float32 for 16-bit floats."""

SUM_TYPE = "typedef typename burnpy_sum<T>::type F;\n"

_LONG_INDEX = "typedef long long index_t;\n"


class Elementwise(NamedTuple):
    """The arguments of `cupy.ElementwiseKernel`."""

    inputs: str
    outputs: str
    code: str
    preamble: str = ""
    reduce_dims: bool = True  #: whether CuPy may join dimensions of contiguous arrays, so that ``_ind`` has fewer

    def for_many(self) -> Elementwise:
        """The same kernel for arrays of 2³¹ elements and more, which counts them in 64 bits."""
        inputs, preamble = self.inputs.replace("int32", "int64"), self.preamble.replace(INDEX, _LONG_INDEX)
        return self._replace(inputs=inputs, preamble=preamble)


class Raw(NamedTuple):
    """The source of a `cupy.RawKernel` with one function, for types that it names by capital letters."""

    source: str

    def typed(self, **types: str) -> str:
        """Return the whole source for types of CUDA."""
        return "".join(
            [*_HEADERS, *(f"typedef {t} {letter};\n" for letter, t in types.items()), MINUS_INFINITY, self.source]
        )


_HEADERS = [f"#include <cupy/{name}.cuh>\n" for name in ("carray", "float16", "bfloat16")]


class Reduction(NamedTuple):
    """The arguments of `cupy.ReductionKernel`."""

    inputs: str
    outputs: str
    map: str
    reduce: str
    post: str
    identity: str
    type: str
    preamble: str
