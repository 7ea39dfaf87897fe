"""Products of matrices and sums of products, as operators and as rules of operations."""

from __future__ import annotations

from typing import Any

from burnpy.interop.onnx.operators.table import (
    Conditional,
    GraphWriter,
    Operand,
    Value,
    common_dtype,
    operator,
)
from burnpy.nn import functional
from burnpy.tensor.einsum import einsum as sum_of_products
from burnpy.tensor.tensor import IntTensor


@operator("Einsum")
def einsum(*xs: Value, equation: str) -> Value:
    """Return the sum of products of an equation."""
    return sum_of_products(equation, *xs)


@operator("Linear")
def linear(x: Value, weight: Value, bias: Value) -> Value:
    """Return x @ weight + bias: no operator of ONNX, but how `burnpy.interop.onnx.graph` joins two."""
    return functional.linear(x, weight, bias)


@operator("Gemm")
def gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 1,
    trans_a: int = 0,
    trans_b: int = 0,
) -> Value:
    """Return alpha · a @ b + beta · c, of matrices that may be transposed."""
    out = (a.T if trans_a else a) @ (b.T if trans_b else b)
    out = out if alpha == 1.0 else out * (alpha if not isinstance(out, IntTensor) else int(alpha))
    if c is None:
        return out
    return out + (c if beta == 1.0 else c * (beta if not isinstance(out, IntTensor) else int(beta)))


def write_matmul(g: GraphWriter, x: Operand, y: Operand) -> Any:
    """Write a product of operands of one dtype."""
    dtype = common_dtype(x, y)
    return g.node("MatMul", g.cast(x, dtype), g.cast(y, dtype))


write_det = Conditional("Det")
