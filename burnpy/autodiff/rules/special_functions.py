"""Rules of special functions."""

from __future__ import annotations

import math

from burnpy.autodiff.rules.algebra import pointwise
from burnpy.backend.backend import Backend

pointwise(Backend.erfc, lambda i, g, x: i.mul(g, i.mul(i.exp(i.neg(i.mul(x, x))), -2 / math.sqrt(math.pi))))
pointwise(Backend.erfinv, lambda i, g, out: i.mul(g, i.mul(i.exp(i.mul(out, out)), math.sqrt(math.pi) / 2)))
pointwise(Backend.lgamma, lambda i, g, x: i.mul(g, i.digamma(x)))
pointwise(Backend.digamma, lambda i, g, x: i.mul(g, i.polygamma(x, 1)))
pointwise(Backend.polygamma, lambda i, g, x, n: i.mul(g, i.polygamma(x, n + 1)))
pointwise(Backend.sinc, lambda i, g, x: i.sinc_backward(g, x, 1))
pointwise(
    Backend.sinc_backward,
    lambda i, g, x, order: i.sinc_backward(g, x, order),
    lambda i, g, grad, x, order: i.sinc_backward(i.mul(g, grad), x, order + 1),
)
