"""Gated recurrent units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.layers.recurrent import Recurrent, RecurrentCell
from burnpy.nn.module import rebound

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class GruCell(RecurrentCell[B]):
    """A gated recurrent unit, which reads one element of each sequence. Gates are in PyTorch's order, r, z, n.

    The matrices are the transposes of PyTorch's.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        bias: whether the cell has biases.
        device: the device of the cell.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> cell = GruCell(3, 4, device=NumPy)
    >>> hidden = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), hidden).shape
    (2, 4)
    """

    gates = 3
    one_bias = False  # the reset gate scales the bias of the hidden state

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

    def _step(
        self, projected: Tensor[B], state: tuple[Tensor[B], ...], weight: Tensor[B], bias: Tensor[B] | None
    ) -> tuple[Tensor[B], ...]:
        """Return the next hidden state: see `RecurrentCell._step`."""
        (hidden,) = state
        recurrent = hidden @ weight if bias is None else hidden @ weight + bias
        size = 2 * self.hidden
        r, z = (projected[..., :size] + recurrent[..., :size]).sigmoid().chunk(2, -1)
        n = (projected[..., size:] + r * recurrent[..., size:]).tanh()
        return (n + z * (hidden - n),)

    def valid(self: GruCell[Autodiff[I]]) -> GruCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Gru(Recurrent[B]):
    """A multi-layer network of gated recurrent units. The batch dimension comes first.

    Parameter paths are those of `burnpy.nn.Lstm`.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        count: the number of stacked layers.
        bidirectional: whether each layer reads the sequence in both directions; its output size is then 2 · hidden.
        dropout: the dropout probability, in training, of each layer's output but the last's.
        bias: whether the layers have biases.
        device: the device of the layers.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation,
    2014.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> output, hidden = Gru(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)), lengths=[5, 2])
    >>> output.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> GruCell[B]:
        """Return a new cell."""
        return GruCell(inputs, hidden, **settings)

    def forward(
        self,
        x: Tensor[B],
        hidden: Tensor[B] | None = None,
        *,
        lengths: IntTensor[B] | Sequence[int] | None = None,
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

    def valid(self: Gru[Autodiff[I]]) -> Gru[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
