"""Rotary position encoding as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.rotary import rotary_encoding
from burnpy.nn.module import Unplaced
from burnpy.tensor.call_errors import inherit_methods
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@inherit_methods
class RotaryEncoding(Unplaced):
    """Rotary position encoding of queries and keys: see `burnpy.nn.functional.rotary_encoding`.

    Args:
        base: the base of the angles.
        interleaved: whether pairs are neighbours, as in the paper, or consist of an element of either half.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> RotaryEncoding()(Tensor[NumPy].ones((2, 5, 8)), offset=3).shape
    (2, 5, 8)
    """

    def __init__(self, *, base: float = 10000.0, interleaved: bool = True) -> None:
        if not base > 0.0:
            raise ArgumentError(f"RotaryEncoding() got base={base!r:.80}; expected a number above 0")
        self.base, self.interleaved = base, interleaved

    def forward(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
        """Return x (…, T, E), rotated by its positions. The first position is ``offset``."""
        return rotary_encoding(x, offset=offset, base=self.base, interleaved=self.interleaved)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
