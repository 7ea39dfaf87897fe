"""Rules of convolution, pooling, normalization and attention."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import bool_, int8, int32, int64
from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, only


def convolution(g: GraphWriter, x: Operand, weight: Operand, *rest: Any) -> Any:
    """Write a Conv with or without a bias."""
    *bias, stride, padding, dilation, groups = rest
    pads = [*padding, *padding]
    return g.node("Conv", x, weight, *bias, strides=list(stride), pads=pads, dilations=list(dilation), group=groups)


def transposed_convolution(
    g: GraphWriter, grad: Operand, weight: Operand, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Write a ConvTranspose, with as much padding of the output as the shape has."""
    extra = [
        g.each(
            lambda out, size, k=weight.shape[2 + d], s=stride[d], p=padding[d], e=dilation[d]: (
                out - ((size - 1) * s - 2 * p + e * (k - 1) + 1)
            ),
            shape[2 + d],
            grad.shape[2 + d],
        )
        for d in range(len(stride))
    ]
    settings: dict[str, Any] = {
        "strides": list(stride),
        "pads": [*padding, *padding],
        "dilations": list(dilation),
        "group": groups,
    }
    return g.node("ConvTranspose", grad, weight, output_padding=extra, **settings)


@only(when=lambda *args: not args[5])
def max_pool(g: GraphWriter, x: Operand, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """Write a MaxPool."""
    shape: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(stride), "pads": [*padding, *padding]}
    return g.node("MaxPool", x, dilations=list(dilation), **shape)


@only(when=lambda *args: not args[4] and args[6] is None)
def avg_pool(
    g: GraphWriter, x: Operand, kernel: Any, stride: Any, padding: Any, _: bool, inside: bool, *rest: Any
) -> Any:
    """Write an AveragePool."""
    shape: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(stride), "pads": [*padding, *padding]}
    return g.node("AveragePool", x, count_include_pad=int(inside), **shape)


@only(when=lambda x, size: size == (1, 1))
def mean_of_planes(g: GraphWriter, x: Operand, size: Any) -> Any:
    """Write the adaptive pooling to one element."""
    return g.node("ReduceMean", x, g.sizes((2, 3)), keepdims=1)


def is_trailing(x: Any, weight: Any, dims: Any) -> bool:
    """Return whether ``dims`` are the last ones of x, and a weight has their shape."""
    return tuple(dims) == tuple(range(len(x.shape) - len(dims), len(x.shape))) and weight.shape == x.shape[-len(dims) :]


@only(when=lambda x, weight, bias, dims, eps: is_trailing(x, weight, dims))
def layer_norm(g: GraphWriter, x: Operand, weight: Operand, bias: Operand, dims: Any, eps: float) -> Any:
    """Write a LayerNormalization, which does not give the variance."""
    out, mean = g.node("LayerNormalization", x, weight, bias, axis=-len(dims), epsilon=eps, results=2)
    return out, mean, None


@only(since=23, when=lambda x, weight, dims, eps: is_trailing(x, weight, dims))
def rms_norm(g: GraphWriter, x: Operand, weight: Operand, dims: Any, eps: float) -> Any:
    """Write an RMSNormalization."""
    return g.node("RMSNormalization", x, weight, axis=-len(dims), epsilon=eps)


def has_heads(q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> bool:
    """Return whether the leading dimensions are those of `attention`'s operator, or there is no mask that has them."""
    return len(q.shape) == 4 or mask is None


@only(since=23, when=has_heads)
def attention(g: GraphWriter, q: Operand, k: Operand, v: Operand, mask: Any, offset: int | None, scale: float) -> Any:
    """Write an Attention, which does not give the logsumexp; rows without a key are 0."""
    lead = q.shape[:-2]
    causal = offset == 0
    if offset is not None and not causal:
        ones = g.node("Expand", g.constant(True, bool_), g.sizes((q.shape[-2], k.shape[-2])))
        allowed = g.node("Trilu", ones, g.constant(offset, int64), upper=0)
        mask = allowed if mask is None else g.node("And", mask, allowed)
    if len(lead) != 2:  # the operator has a batch and heads
        q, k, v = [x._replace(name=g.node("Reshape", x, g.sizes(_of_heads(g, x.shape)))) for x in (q, k, v)]
    spread = mask
    if isinstance(mask, Operand) and mask.shape[-2:] != (q.shape[-2], k.shape[-2]):  # runtimes broadcast the lead alone
        spread = g.node("Expand", mask, g.sizes((*mask.shape[:-2], q.shape[-2], k.shape[-2])))
    out = g.node("Attention", q, k, v, spread, scale=scale, is_causal=int(causal))
    if mask is not None:
        number = g.node("Cast", mask, to=int32)
        some = g.node("Cast", g.node("ReduceMax", number, g.sizes((-1,)), keepdims=1), to=bool_)
        out = g.node("Where", some, out, g.constant(0.0, q.dtype))
    return (out if len(lead) == 2 else g.node("Reshape", out, g.sizes((*lead, q.shape[-2], v.shape[-1])))), None


def _of_heads(g: GraphWriter, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a shape with two leading dimensions and as many elements."""
    *lead, length, size = shape
    heads = g.each(lambda *sizes: math.prod(sizes), *lead[1:]) if len(lead) > 1 else 1
    return (lead[0] if lead else 1), heads, length, size


@only(since=21, when=lambda x, weight, scale: weight.dtype == int8)
def quantized_matmul(g: GraphWriter, x: Operand, weight: Operand, scale: Operand) -> Any:
    """Write a product with a matrix of int8 that a DequantizeLinear makes floats, by rows or by groups of a row."""
    groups = scale.shape[1]
    if groups == 1:
        matrix = g.node("DequantizeLinear", weight, g.node("Squeeze", scale, g.sizes((1,))), axis=0)
    else:
        matrix = g.node("DequantizeLinear", weight, scale, axis=1, block_size=weight.shape[1] // groups)
    return g.node("MatMul", x, g.node("Transpose", matrix, perm=[1, 0]))
