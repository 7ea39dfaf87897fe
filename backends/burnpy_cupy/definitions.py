"""The arguments that kernels of CuPy are made from."""

from __future__ import annotations

from typing import NamedTuple

INDEX = "typedef int index_t;\n"
"""A part of the preamble of kernels that count elements with ``int32`` arguments, as division is faster in 32 bits."""

_LONG_INDEX = "typedef long long index_t;\n"


class Elementwise(NamedTuple):
    """The arguments of `cupy.ElementwiseKernel`."""

    inputs: str
    outputs: str
    code: str
    preamble: str = ""

    def for_many(self) -> Elementwise:
        """The same kernel for arrays of 2³¹ elements and more, which counts them in 64 bits."""
        inputs, preamble = self.inputs.replace("int32", "int64"), self.preamble.replace(INDEX, _LONG_INDEX)
        return self._replace(inputs=inputs, preamble=preamble)


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
