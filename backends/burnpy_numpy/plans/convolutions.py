"""The launches of convolutions on NumPy with what follows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import dtype_of, float32, float64, int8, int32, uint8
from burnpy.backend.plans.executor import Number
from burnpy.backend.plans.group_program import Signature
from burnpy.backend.plans.recording import Node, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import Shape
from burnpy.backend.programs import Extent, Program
from burnpy.backend.programs.program import ELEMENTWISE
from burnpy_numpy.convolution import has_few_windows
from burnpy_numpy.kernels.kernel import family_kernels, program_kernel
from burnpy_numpy.plans.launches import NumPyLaunch

if TYPE_CHECKING:
    from burnpy_numpy.kernels.convolution.channel_blocks import Planned
    from burnpy_numpy.kernels.convolution.depthwise_and_few_windows import FewWindows
    from burnpy_numpy.kernels.launch import Kernel
    from burnpy_numpy.kernels.plans import KernelCall

CONVOLUTIONS = ("conv2d", "conv2d_bias")


def convolution(device: Any, node: Node, values: Mapping[int, Any]) -> ConvolutionLaunch | None:
    """Return the launch of a convolution that nothing follows; None if Python has to call its kernels."""
    planned = _few_windows(node) or _planes(node, values)
    return None if planned is None else ConvolutionLaunch(device, node, planned)


def _planes(node: Node, values: Mapping[int, Any]) -> Planned | None:
    """Return a depthwise convolution whose weight is the same in each replay; None for another one."""
    (x, *given), (*where, groups) = refs_in(node.args), node.args[-4:]
    kernels = family_kernels("convolution.depthwise_and_few_windows")
    weight, *bias = [values.get(ref.number) for ref in given]
    usual = all(ref.dtype == x.dtype for ref in given) and x.dtype in (float32, float64)
    if kernels is None or not usual or 0 in x.shape or weight is None or (bias and bias[0] is None):
        return None
    like, shape = np.broadcast_to(np.empty((), dtype_of(x.dtype.name)), x.shape), node.results.shape
    if not kernels.is_by_planes(like, weight, where, groups) or shape[3] == 1 < shape[2]:  # a column is swapped first
        return None
    planned: Planned | None = kernels.planned_planes(like, weight, bias[0] if bias else None, shape, tuple(where))
    return planned and planned._replace(calls=lambda arrays, room: planned.calls([arrays[0], arrays[-1]], room))


def _few_windows(node: Node) -> FewWindows | None:
    """Return a convolution of one image with a few windows; None for another one."""
    (x, weight, *_), (stride, padding, dilation, groups) = refs_in(node.args), node.args[-4:]
    kernels, count = family_kernels("convolution.depthwise_and_few_windows"), math.prod(node.results.shape[2:])
    usual = all(ref.dtype == x.dtype for ref in refs_in(node.args)) and x.dtype in (float32, float64)
    if kernels is None or not usual or x.shape[0] != 1 or not 0 < count <= kernels.MOST_WINDOWS or 0 in weight.shape:
        return None
    where, number = (stride, padding, dilation), np.empty((), dtype_of(x.dtype.name))
    like, factors = (np.broadcast_to(number, ref.shape) for ref in (x, weight))
    if not has_few_windows(like, factors, where, groups):
        return None
    from burnpy_numpy.kernels.convolution.channel_blocks import Uncompiled

    try:
        found: FewWindows = kernels.FewWindows(x.shape, weight.shape, where, number.dtype)
        return found
    except Uncompiled:
        return None


def _work_of(shape: Shape, weight: Shape) -> float:
    """Return the number of elements whose work a convolution with a result and a weight of some shapes takes."""
    from burnpy_numpy.kernels.convolution.channel_blocks import PRODUCTS

    return math.prod(shape) * math.prod(weight[1:]) / PRODUCTS


class ConvolutionLaunch(NumPyLaunch):
    """A convolution by itself.

    Args:
        device: the device, a `NumPy`.
        node: the convolution.
        planned: its calls of kernels, given the operands and the result.
    """

    def __init__(self, device: Any, node: Node, planned: Planned | FewWindows) -> None:
        self.operands, self.scratch = refs_in(node.args), planned.scratch
        self._operation, self._settings, self._planned = getattr(device, node.name), node.args[-4:], planned
        self._shape = node.results.shape

    def _work(self) -> float:
        return _work_of(self._shape, self.operands[1].shape)

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        return self._planned.calls(arrays, scratch)

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the operation."""
        source.write(f"{source.bind(self._run, 'f')}({', '.join(arrays)})")

    def _run(self, *arrays: Any) -> None:
        *given, out = arrays
        out[...] = self._operation(*given, *self._settings)


def finished_convolution(
    device: Any, node: Node, signature: Signature, values: Mapping[int, Any]
) -> FinishedConvolution | None:
    """Return the launch of a convolution and the group that follows it; None without a kernel for both."""
    program, place, dtype = signature.program, signature.arrays.index(node.results), node.results.dtype
    usual = all(ref.dtype in (dtype, int8, uint8, int32) for ref in (*signature.arrays, *signature.outputs))
    if program is None or not usual or not has_convolution(node) or not _follows(program, signature, place):
        return None
    kernel = program_kernel(program)
    return None if kernel is None else FinishedConvolution(device, node, signature, kernel, place, values)


def has_convolution(node: Node) -> bool:
    """Return whether there is a kernel for a convolution with what follows it."""
    x, weight = node.args[:2]
    kernels = family_kernels("convolution.conv2d")
    usual = all(ref.dtype == x.dtype for ref in refs_in(node.args)) and x.dtype in (float32, float64)
    if kernels is None or not usual or 0 in x.shape:
        return False
    *where, groups = node.args[-4:]
    arrays = [np.broadcast_to(np.empty((), dtype_of(x.dtype.name)), ref.shape) for ref in (x, weight)]
    return bool(kernels.has_kernel(*arrays, tuple(where), groups, node.results.shape[2:]))


def _follows(program: Program, signature: Signature, place: int) -> bool:
    """Return whether a program is elementwise, with inputs of the result's shape, or of one value for each channel."""
    channels = (1, signature.group.domain[1], 1, 1)
    others = ("input", "constant", "cast", "expand")
    steps = all(step.op in ELEMENTWISE or step.op in others for step in program.instructions)
    return steps and all(
        extent is Extent.FULL
        or (extent is Extent.COLUMN and k != place and (1,) * (4 - len(ref.shape)) + ref.shape == channels)
        for k, ((extent, _), ref) in enumerate(zip(program.inputs, signature.arrays, strict=True))
    )


class FinishedConvolution(NumPyLaunch):
    """A convolution and a program of its result.

    Args:
        device: the device, a `NumPy`.
        node: the convolution; its result may be larger than the padding gives, by zeros after its input.
        signature: the signature of the group that follows it.
        kernel: the kernel of the group by itself, for weights that the kernels of convolutions do not take.
        place: the position of the convolution's result among the inputs of the program.
        values: the primitives that are the same in each replay, by the numbers of their values.
    """

    def __init__(
        self, device: Any, node: Node, signature: Signature, kernel: Kernel, place: int, values: Mapping[int, Any]
    ) -> None:
        self._device, given = device, refs_in(node.args)
        others = [ref for k, ref in enumerate(signature.arrays) if k != place]
        self.operands = [*given, *others]
        self._count, self._name, self._settings = len(given), node.name, node.args[-4:]
        self._kernel, self._place, self._shape = kernel, place, signature.group.domain
        sizes = zip(self._shape[2:], *[ref.shape[2:] for ref in given[:2]], *self._settings[:3], strict=True)
        self._after = [max(0, (n - 1) * s + (k - 1) * d + 1 - size - p) for n, size, k, s, p, d in sizes]
        self._full = [given.extent is Extent.FULL for k, given in enumerate(kernel.program.inputs) if k != place]
        self._planned = self._planned_with(values)
        self.scratch = () if self._planned is None else self._planned.scratch

    def _planned_with(self, values: Mapping[int, Any]) -> Planned | None:
        """Return the calls of kernels; None if the weight or the bias changes, or Python has to make them."""
        from burnpy_numpy.kernels.convolution.channel_blocks import Epilogue
        from burnpy_numpy.kernels.convolution.channel_lanes import planned_convolution

        x, *given = self.operands[: self._count]
        if not all(ref.number in values for ref in given):
            return None
        dtype, (*where, groups) = dtype_of(x.dtype.name), self._settings
        weight, bias = [values[ref.number] for ref in given] if len(given) == 2 else (values[given[0].number], None)
        like, out = np.empty(x.shape, dtype), np.empty(self._shape, dtype)
        epilogue = Epilogue(self._kernel.program, self._place, ())
        return planned_convolution(like, weight, bias, out, tuple(where), groups, self._is_longer, epilogue)

    @property
    def _is_longer(self) -> bool:
        """True if there are more zeros after the input than the padding."""
        return any(n > p for n, p in zip(self._after, self._settings[1], strict=True))

    def _work(self) -> float:
        return _work_of(self._shape, self.operands[1].shape)

    def _calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        """Return the calls; None if Python makes them."""
        if self._planned is None:
            return None
        return self._planned.calls([arrays[0], *arrays[self._count :]], scratch)

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call."""
        source.write(f"{source.bind(self._run, 'f')}({', '.join(arrays)})")

    def _run(self, *arrays: Any) -> None:
        """Write the result for the operands into the last array."""
        from burnpy_numpy.kernels.convolution.channel_blocks import Epilogue
        from burnpy_numpy.kernels.convolution.conv2d import convolve

        *given, out = arrays
        (x, weight, *bias), others = given[: self._count], given[self._count :]
        *where, groups = self._settings
        flat = [y if full else y.reshape(-1) for y, full in zip(others, self._full, strict=True)]
        epilogue = Epilogue(self._kernel.program, self._place, tuple(flat))
        added, beyond = bias[0] if bias else None, self._is_longer
        counts = (self._shape[2], self._shape[3]) if beyond else None
        if convolve(self._device, x, weight, added, tuple(where), groups, out, epilogue, counts) is not None:
            return
        if beyond:
            x = np.pad(x, [(0, 0), (0, 0), *zip(where[1], self._after, strict=True)])
            where[1] = (0, 0)
        result = getattr(self._device, self._name)(x, weight, *bias, *where, groups)
        members, channels, *plane = self._shape
        given = [np.repeat(y[None], members, 0) if y.ndim == 1 else y for y in flat]
        given.insert(self._place, np.ascontiguousarray(result))
        self._kernel.into([*given, out], (), members * channels, math.prod(plane))
