"""The covariance and correlation of variables."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import DTypeError, KindError, ShapeError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.index_checks import refuse_unless
from burnpy.tensor.operands import together


def covariance(x: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    """Return the covariance matrix of the rows of a float tensor; of a vector its variance.

    Source: `numpy.cov`: the weights of samples are the products of both; the divisor is Σ w - correction · Σ w a / Σ w.
    """
    if x.ndim > 2:
        raise ShapeError(f"cov() got shape {x.shape}; expected (variables, samples), or the samples of one")
    samples = x.shape[-1] if x.ndim else 1
    x, frequency = _weights(x, fweights, "fweights", "int", samples)
    x, importance = _weights(x, aweights, "aweights", "float", samples)
    b = x._backend
    rows = b.reshape(x._primitive, (1, samples)) if x.ndim < 2 else x._primitive
    if frequency is None and importance is None:
        centered = b.center(rows, (1,)) if samples else rows
        weighted, divisor = centered, float(max(samples - correction, 0))
    else:
        w = frequency if importance is None else importance if frequency is None else b.mul(frequency, importance)
        total = b.sum(w, (0,), False)
        mean = b.div(b.sum(b.mul(rows, w), (1,), True), total)
        centered = b.sub(rows, mean)
        weighted = b.mul(centered, w)
        share = total if importance is None else b.sum(b.mul(w, importance), (0,), False)
        lost = b.mul(b.div(share, total), float(correction))
        divisor = b.maximum(b.sub(total, lost), 0.0)
    out = b.div(b.matmul(weighted, b.mT(centered)), divisor)
    return x._like(b.reshape(out, ()) if rows.shape[0] == 1 else out)


def correlation(x: Any) -> Any:
    """Return the correlation coefficients of the rows of a float tensor: the covariance over both deviations."""
    if x.ndim > 2:
        raise ShapeError(f"corrcoef() got shape {x.shape}; expected (variables, samples), or those of one")
    out = covariance(x, 1, None, None)
    b, matrix = out._backend, out._primitive
    if not out.ndim:
        return out._like(b.div(matrix, matrix))
    count = matrix.shape[0]
    variances = b.slice(b.reshape(matrix, (count * count,)), (slice(None, None, count + 1),))
    deviation = b.sqrt(variances)
    matrix = b.div(b.div(matrix, b.reshape(deviation, (count, 1))), deviation)
    return out._like(b.clamp(matrix, -1.0, 1.0))


def _weights(x: Any, weights: Any, name: str, kind: str, samples: int) -> tuple[Any, Float | None]:
    """Return x, and the weights of the samples as floats of x's dtype, on one device.

    Raises:
        KindError: they are of another kind.
        ShapeError: they have another shape.
        DTypeError: one is negative.
    """
    if weights is None:
        return x, None
    if not isinstance(weights, TensorBase) or weights.kind != kind:
        raise KindError(f"cov() takes {name} as {kind}s, got {describe(weights)}")
    if weights.shape != (samples,):
        raise ShapeError(f"cov() got {name} of shape {weights.shape}; there are {samples} samples")
    if kind == "float":
        x, weights = together("cov", x, weights)
    else:
        together("cov", x, weights)
    b, value = weights._backend, weights._primitive
    refuse_unless(x.device, b.ge(value, 0), DTypeError(f"cov() got negative {name}"))
    return x, x._backend.to_float(value, x.dtype) if kind == "int" else b.cast(value, x.dtype)
