"""Examples of decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.linalg import positive
from burnpy.testing.cases.samples import x
from burnpy.testing.cases.table import Example, row

_POSITIVE: list[Example] = [(positive(1, 3, 3),), (positive(2, 2, 2),), (x(1, 1, low=0.5),), (x(0, 0),), (x(0, 2, 2),)]
_ANY: list[Any] = [x(1, 3, 3), x(2, 4, 2), x(2, 1, 2, 3), x(1, 1, low=0.5), x(1, 0, 3), x(1, 2, 0), x(0, 2, 2)]


def _qr(x: Any, complete: bool) -> Any:
    if 0 not in x.shape[-2:]:
        return tuple(np.linalg.qr(x, "complete" if complete else "reduced"))
    rows, columns = x.shape[-2:]
    k = rows if complete else 0
    return np.broadcast_to(np.eye(rows, k), (*x.shape[:-2], rows, k)), np.zeros((*x.shape[:-2], k, columns))


def _lu_factor(x: Any) -> Any:
    """The decomposition of each matrix by Gaussian elimination."""
    *batch, rows, columns = x.shape
    count = min(rows, columns)
    factors, order = x.copy(), np.broadcast_to(np.arange(rows), (*batch, rows)).copy()
    pivots = np.zeros((*batch, count), np.int64)
    for index in np.ndindex(*batch):
        for k in range(count):
            a, p = factors[index], order[index]
            largest = k + int(np.abs(a[k:, k]).argmax())
            pivots[(*index, k)] = largest + 1
            a[[k, largest]], p[[k, largest]] = a[[largest, k]], p[[largest, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return factors, pivots, order


row("cholesky", np.linalg.cholesky, _POSITIVE, loose=8)
row("eigh", lambda x: tuple(np.linalg.eigh(x)), _POSITIVE, loose=64, up_to_sign=True)
row("eigvalsh", np.linalg.eigvalsh, _POSITIVE, loose=16)
row(
    "svd",
    lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    [*((a, False) for a in _ANY), (x(1, 2, 2), True), (x(1, 0, 0), True)],
    loose=64,
    up_to_sign=True,
)
row("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), [(a,) for a in _ANY], loose=16)
row("qr", _qr, [*((a, False) for a in _ANY), (x(1, 2, 3), True), (x(1, 0, 2), True)], loose=64)
row("lu_factor", _lu_factor, [(a,) for a in _ANY], loose=64)
