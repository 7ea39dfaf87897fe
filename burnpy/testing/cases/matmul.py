"""Examples of products of matrices and the linear map of layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Large, x
from burnpy.testing.cases.table import row

row(
    "matmul",
    np.matmul,
    [
        (x(2, 3), x(3, 4)),
        (x(1, 3), x(3, 1)),
        (x(2, 2, 3), x(3, 2)),
        (x(2, 3), x(2, 3, 2)),
        (x(2, 1, 2, 3), x(3, 3, 2)),
        (x(0, 3), x(3, 2)),
        (x(2, 0), x(0, 3)),
        (x(2, 3), x(3, 0)),
        (x(0, 2, 3), x(3, 2)),
        (x(3), x(3, high=1.9)),
        (x(3), x(3, 2)),
        (x(2, 3), x(3)),
        (x(3), x(2, 3, 2)),
        (x(2, 1, 2, 3), x(3)),
        (x(0), x(0)),
        (x(0), x(0, 2)),
        (x(2, 2, 3), x(3)),
        (Large((40, 30), -1.0, 1.0), Large((30, 50), -1.0, 1.0)),
    ],
    loose=4,
)
row(
    "matmul_nt",
    lambda x, y: np.matmul(x, np.swapaxes(y, -1, -2)),
    [
        (x(2, 3), x(4, 3)),
        (x(1, 3), x(1, 3)),
        (x(2, 2, 3), x(2, 3)),
        (x(2, 3), x(2, 2, 3)),
        (x(2, 1, 2, 3), x(3, 2, 3)),
        (x(0, 3), x(2, 3)),
        (x(2, 0), x(3, 0)),
        (Large((40, 30), -1.0, 1.0), Large((50, 30), -1.0, 1.0)),
    ],
    loose=4,
)
row(
    "matmul_tn",
    lambda x, y: np.matmul(np.swapaxes(x, -1, -2), y),
    [
        (x(3, 2), x(3, 4)),
        (x(3, 1), x(3, 1)),
        (x(2, 3, 2), x(3, 2)),
        (x(3, 2), x(2, 3, 2)),
        (x(2, 1, 3, 2), x(3, 3, 2)),
        (x(3, 0), x(3, 2)),
        (x(0, 2), x(0, 3)),
        (Large((30, 40), -1.0, 1.0), Large((30, 50), -1.0, 1.0)),
    ],
    loose=4,
)


def _linear_backward(grad: Any, x: Any) -> Any:
    leading = tuple(range(x.ndim - 1))
    return np.tensordot(x, grad, (leading, leading)), grad.sum(leading)


row(
    "linear",
    lambda x, weight, bias: x @ weight + bias,
    [
        (x(2, 3), x(3, 4), x(4)),
        (x(2, 2, 3), x(3, 2), x(2)),
        (x(3), x(3, 2), x(2)),
        (x(0, 3), x(3, 2), x(2)),
        (Large((40, 30), -1.0, 1.0), Large((30, 50), -1.0, 1.0), Large((50,))),
    ],
    loose=4,
)


row(
    "linear_backward",
    _linear_backward,
    [
        (x(2, 4), x(2, 3)),
        (x(2, 2, 2), x(2, 2, 3)),
        (x(2), x(3)),
        (x(0, 2), x(0, 3)),
        (x(2, 0), x(2, 3)),
        (x(2, 3), x(2, 0)),
        (Large((40, 50), -1.0, 1.0), Large((40, 30), -1.0, 1.0)),
    ],
    loose=4,
)
