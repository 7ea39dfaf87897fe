"""NumPy alone: the cost of the operations without a framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers import EXPRESSIONS, Array, Peer


class Plain(Peer):
    package = "numpy"
    expressions = EXPRESSIONS | {
        "sin": "np.sin(x)",
        "exp": "np.exp(x)",
        "relu": "np.maximum(x, 0.0)",
        "softmax": "softmax(m)",
    }

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: array.copy() for name, array in arrays.items()} | {"np": np, "softmax": softmax}


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PEER = Plain()
