"""Convolution of volumes by kernels, else of their planes."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations.volume_convolution import Triple
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import family_kernels


class NumPyVolumes(ArrayBackend):
    """Convolution of volumes; what has no kernel is a convolution of images, as by default."""

    def conv3d(self, x: Any, weight: Any, stride: Triple, padding: Triple, dilation: Triple, groups: int) -> Any:
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.convolve_volumes(self, x, weight, None, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d(x, weight, stride, padding, dilation, groups)

    def conv3d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.convolve_volumes(self, x, weight, bias, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_bias(x, weight, bias, stride, padding, dilation, groups)

    def conv3d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.volume_input_gradient(self, grad, weight, shape, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_input(grad, weight, shape, stride, padding, dilation, groups)

    def conv3d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.volume_weight_gradient(self, grad, x, shape, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_weight(grad, x, shape, stride, padding, dilation, groups)
