"""Activation functions and softmax, as programs."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import Dims
from burnpy_cupy.kernels.kernel import CuPyPrograms, along_method, elementwise_method
from burnpy_cupy.kernels.row_geometry import along


class CuPyActivation(CuPyPrograms):
    """Activation functions, and softmax along any dimension, in one launch each."""

    relu = elementwise_method("relu")
    sigmoid, gelu, silu = elementwise_method("sigmoid"), elementwise_method("gelu"), elementwise_method("silu")
    mish, elu, softplus = elementwise_method("mish"), elementwise_method("elu"), elementwise_method("softplus")
    hardswish, hardtanh = elementwise_method("hardswish"), elementwise_method("hardtanh")
    leaky_relu, relu_backward = elementwise_method("leaky_relu"), elementwise_method("relu_backward", 2)
    gelu_backward, silu_backward = elementwise_method("gelu_backward", 2), elementwise_method("silu_backward", 2)
    softmax, softmax_backward = along_method("softmax"), along_method("softmax_backward", 2)
    log_softmax, log_softmax_backward = along_method("log_softmax"), along_method("log_softmax_backward", 2)

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        geometry = along(x.shape, dims) if dims else None
        kernel = None if geometry is None else self._operation_kernel("logsumexp", ("full",), x.dtype, ((1,), True))
        if geometry is None or kernel is None:
            return super().logsumexp(x, dims, keepdim)
        shape = tuple([1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims])
        return self._call(kernel, [x], (), geometry, x.shape, shape)[0]
