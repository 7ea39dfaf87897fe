"""Examples of connectionist temporal classification, whose reference sums over all alignments one by one."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, EmptyIndex, Index, Large
from burnpy.testing.cases.table import row


def _paths(log_p: Any, labels: Any, step: int, length: int, blank: int) -> Any:
    """Yield each alignment of one sequence, (steps,), and its probability."""
    for path in product(range(log_p.shape[1]), repeat=step):
        if [label for label, _ in groupby(path) if label != blank] == [*labels[:length]]:
            yield path, np.exp(sum(log_p[t, label] for t, label in enumerate(path)))


def _ctc_loss(log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    with np.errstate(divide="ignore"):
        totals = [
            sum(p for _, p in _paths(log_p[:, n], labels[n], int(steps[n]), int(lengths[n]), blank))
            for n in range(log_p.shape[1])
        ]
        return -np.log(np.array(totals, "float64"))


def _ctc_loss_backward(grad: Any, log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    out = np.zeros(log_p.shape)
    for n in range(log_p.shape[1]):
        paths = list(_paths(log_p[:, n], labels[n], int(steps[n]), int(lengths[n]), blank))
        for path, p in paths:
            out[range(len(path)), n, path] -= grad[n] * p / sum(q for _, q in paths)
    return out


_EXAMPLES: list[tuple[Any, ...]] = [  # shape of log_p, labels, steps, lengths, blank
    ((4, 2, 3), Index(((1, 2), (2, 2))), Index((4, 3)), Index((2, 2)), 0),
    ((3, 3, 3), Index(((0, 1), (1, 1), (0, 0))), Index((3, 2, 2)), Index((2, 2, 0)), 2),
    ((3, 2, 2), Index(((1,), (1,))), Index((1, 0)), Index((1, 0)), 0),
    ((2, 1, 3), EmptyIndex((1, 0)), Index((2,)), Index((0,)), 1),
]

row(
    "ctc_loss",
    _ctc_loss,
    [((Array if k < 1 else Large)(shape, -2.0, 0.0), *how) for k, (shape, *how) in enumerate(_EXAMPLES)],
    loose=16,
)
row(
    "ctc_loss_backward",
    _ctc_loss_backward,
    [
        ((Array if k < 1 else Large)(shape[1:2], -1.0, 1.0), (Array if k < 1 else Large)(shape, -2.0, 0.0), *how)
        for k, (shape, *how) in enumerate(_EXAMPLES)
    ],
    loose=32,
)
