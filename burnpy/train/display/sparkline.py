"""`sparkline`: a curve in a line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Return a curve of ``width`` characters at most; more values are averaged, values that are not finite are blanks.

    >>> sparkline([1.0, 2.0, 3.0, 8.0]), sparkline([5.0, float("nan"), 5.0]), sparkline([])
    ('▁▂▃█', '▁ ▁', '')
    """
    if len(values) > width:
        bounds = [round(k * len(values) / width) for k in range(width + 1)]
        values = [_mean(values[a:b]) for a, b in pairwise(bounds)]
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return " " * len(values)
    low, high = min(finite), max(finite)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((v - low) * scale)] if math.isfinite(v) else " " for v in values)


def _mean(values: Sequence[float]) -> float:
    finite = [v for v in values if math.isfinite(v)]
    return sum(finite) / len(finite) if finite else math.nan
