"""Recurrent cells and networks whose state is one tensor: what `Gru` and `Rnn` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.nn.layers.recurrent import Recurrent, RecurrentCell
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


class HiddenStateCell(RecurrentCell[B]):
    """The base class of cells whose state is their output. A subclass sets `gates` and writes `_states`."""

    def forward(self, x: Tensor[B], hidden: Tensor[B] | None = None) -> Tensor[B]:
        """Return the next hidden state, which is the output.

        Args:
            x: shape (N, inputs) or (inputs,).
            hidden: the hidden state, shape (N, hidden) or (hidden,); zeros by default.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a float tensor.
            DTypeError: x or the state is wider than the weights.
        """
        return self._once(x, None if hidden is None else (hidden,), ("hidden",))[0]


class HiddenStateNetwork(Recurrent[B]):
    """The base class of stacks of such cells. A subclass writes `_cell`."""

    def forward(
        self,
        x: Tensor[B],
        hidden: Tensor[B] | None = None,
        *,
        lengths: Ints[B] | Sequence[int] | None = None,
    ) -> tuple[Tensor[B], Tensor[B]]:
        """Return the outputs of the last layer for all elements, and the final hidden state.

        Args:
            x: shape (N, T, inputs), T at least 1.
            hidden: the initial hidden state, shape (layers · directions, N, hidden); zeros by default.
            lengths: of padded sequences, how many elements of each count, shape (N,). Outputs after those are 0, the
                final state is that after the last of them, and the reverse direction begins there.

        Returns:
            Outputs of shape (N, T, directions · hidden), and the final hidden state.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a float tensor, or the lengths are not ints.
            ArgumentError: a length is not from 0 to T, on devices that check values at once.
            DTypeError: x or the state is wider than the weights.
        """
        output, last = self._outputs(x, None if hidden is None else (hidden,), ("hidden",), lengths)
        return output, last[0]
