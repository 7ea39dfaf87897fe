"""Rotary and sinusoidal position encoding as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.errors import KindError, a
from burnpy.nn.argument_checks import above_zero
from burnpy.nn.functional.rotary import positional_encoding, rotary_encoding
from burnpy.nn.module import Unplaced
from burnpy.nn.rotary_scaling import RotaryScaling
from burnpy.tensor.call_errors import inherit_methods
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor


@inherit_methods
class RotaryEncoding(Unplaced):
    """Rotary position encoding of queries and keys: see `burnpy.nn.functional.rotary_encoding`.

    Args:
        base: the base of the angles.
        interleaved: whether pairs are neighbours, as in the paper, or an element of either half, as in Llama.
        scaling: the scaling for contexts longer than those of the training: `LinearScaling`, `DynamicScaling`,
            `YarnScaling` or `Llama3Scaling`.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.

    >>> RotaryEncoding()(Tensor[NumPy].ones((2, 5, 8)), offset=3).shape
    (2, 5, 8)
    """

    def __init__(
        self, *, base: float = 10000.0, interleaved: bool = True, scaling: RotaryScaling | None = None
    ) -> None:
        above_zero("RotaryEncoding", base=base)
        if scaling is not None and not isinstance(scaling, RotaryScaling):  # pyright: ignore[reportUnnecessaryIsInstance]  # as untyped code passes
            raise KindError(
                f"RotaryEncoding() takes as scaling a value such as Llama3Scaling(...), got {a(type(scaling).__name__)}"
            )
        self.base, self.interleaved, self.scaling = base, interleaved, scaling

    def forward(self, x: Tensor[B], *, offset: int | IntTensor[B] = 0, length: int | None = None) -> Tensor[B]:
        """Return x (…, T, E), rotated by its positions. The first is ``offset``: see `functional.rotary_encoding`."""
        return rotary_encoding(
            x, offset=offset, base=self.base, interleaved=self.interleaved, scaling=self.scaling, length=length
        )

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int | IntTensor[B] = 0, length: int | None = None) -> Tensor[B]:
            """Return the result of `forward`."""
            ...


@inherit_methods
class PositionalEncoding(Unplaced):
    """Sinusoidal position encoding of tokens: see `burnpy.nn.functional.positional_encoding`.

    Args:
        base: the base of the angles.

    Raises:
        ArgumentError: ``base`` is not above 0.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> PositionalEncoding()(Tensor[NumPy].zeros((3, 5, 8)), offset=2).shape
    (3, 5, 8)
    """

    def __init__(self, *, base: float = 10000.0) -> None:
        above_zero("PositionalEncoding", base=base)
        self.base = base

    def forward(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
        """Return x (…, T, E) plus the sines and cosines of its positions. The first one is ``offset``."""
        return positional_encoding(x, offset=offset, base=self.base)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor[B], *, offset: int = 0) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
