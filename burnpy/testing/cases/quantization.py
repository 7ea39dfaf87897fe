"""Examples of products with quantized matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import int8, uint8
from burnpy.testing.cases.samples import Large, Sample, x
from burnpy.testing.cases.table import row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType, Shape


@dataclass(frozen=True)
class Quantized(Sample):
    """A primitive of int8, or of uint8, with all their values, independent of the dtype of the case."""

    shape: Shape
    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits {self.shape}"

    def array(self, dtype: DType, seed: int) -> NDArray[Any]:
        """Return random ints."""
        low, high, own = (-128, 128, int8) if self.bits == 8 else (0, 256, uint8)
        return np.random.default_rng([seed, *self.shape]).integers(low, high, self.shape, own)


def _quantized_matmul(x: Any, weight: Any, scale: Any) -> Any:
    outputs, groups = scale.shape
    parts = weight.reshape(outputs, groups, weight.shape[1] // groups).astype(np.int64)
    if weight.dtype == uint8:
        parts = np.concatenate([parts % 16, parts // 16], 2) - 8
    return x @ (parts * scale[:, :, None]).reshape(outputs, -1).T


def _scale(*shape: int) -> Any:
    return x(*shape, low=0.01, high=0.02)


row(
    "quantized_matmul",
    _quantized_matmul,
    [
        (x(2, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (x(2, 6), Quantized((4, 6), 8), _scale(4, 3)),
        (x(2, 8), Quantized((3, 4), 4), _scale(3, 2)),
        (x(8), Quantized((3, 4), 4), _scale(3, 1)),
        (x(2, 1, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (x(0, 6), Quantized((4, 6), 8), _scale(4, 1)),
        (Large((1, 333), -1.0, 1.0), Quantized((37, 333), 8), _scale(37, 1)),
        (Large((3, 2, 160), -1.0, 1.0), Quantized((65, 160), 8), _scale(65, 5)),
        (Large((1, 320), -1.0, 1.0), Quantized((37, 160), 4), _scale(37, 10)),
        (Large((7, 176), -1.0, 1.0), Quantized((37, 88), 4), _scale(37, 4)),
        (Large((70, 64), -1.0, 1.0), Quantized((65, 32), 4), _scale(65, 2)),
    ],
    loose=8,
)
