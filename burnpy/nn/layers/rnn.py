"""Recurrent cells and networks with a hidden state: GRU and Elman's RNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from burnpy.nn.argument_checks import check_choice, floats
from burnpy.nn.init import Initializer
from burnpy.nn.layers.recurrent import Recurrent, RecurrentCell
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
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


class GruCell(HiddenStateCell[B]):
    """A gated recurrent unit, which reads one element of each sequence. Gates are in PyTorch's order, r, z, n.

    The matrices are the transposes of PyTorch's. The arguments and errors are those of `RnnCell`, without
    ``nonlinearity``.

    >>> cell = GruCell(3, 4, device=NumPy)
    >>> hidden = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), hidden).shape
    (2, 4)
    """

    gates = 3
    one_bias = False  # the reset gate scales the bias of the hidden state

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden states: see `RecurrentCell._states`."""
        weight = self.weight_hh.value
        if bias is None:
            bias = weight.zeros((weight.shape[1],), dtype=weight.dtype, device=weight.device)
        placed = floats("GruCell", 4, x=projected, hidden=state[0], weight_hh=weight, bias_hh=bias)
        device: Any = placed[0].device
        return (placed[0]._like(device.gru(*[x._primitive for x in placed], lengths, reverse)[0]),)

    def valid(self: GruCell[Autodiff[I]]) -> GruCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Gru(HiddenStateNetwork[B]):
    """A multi-layer network of gated recurrent units. The batch dimension comes first.

    The arguments, parameter paths and errors are those of `Lstm`, without ``proj_size``.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation,
    2014.

    >>> output, hidden = Gru(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)), lengths=[5, 2])
    >>> output.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> GruCell[B]:
        """Return a new cell."""
        return GruCell(inputs, hidden, **settings)

    def valid(self: Gru[Autodiff[I]]) -> Gru[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


class RnnCell(HiddenStateCell[B]):
    """A recurrent cell without gates, ``tanh(x @ weight_ih + hidden @ weight_hh + biases)``.

    The matrices are the transposes of PyTorch's.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        nonlinearity: "tanh" or "relu".
        bias: whether the cell has biases.
        device: the device of the cell.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> cell = RnnCell(3, 4, device=NumPy)
    >>> hidden = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), hidden).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_choice("RnnCell", "nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity: Literal["tanh", "relu"] = nonlinearity
        super().__init__(
            inputs,
            hidden,
            bias=bias,
            device=device,
            initializer=initializer,
            generator=generator,
        )

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden states: see `RecurrentCell._states`."""
        placed = floats("RnnCell", 3, x=projected, hidden=state[0], weight_hh=self.weight_hh.value)
        device: Any = placed[0].device
        primitives = [x._primitive for x in placed]
        return (placed[0]._like(device.rnn(*primitives, lengths, reverse, self.nonlinearity == "relu")),)

    def valid(self: RnnCell[Autodiff[I]]) -> RnnCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Rnn(HiddenStateNetwork[B]):
    """A multi-layer recurrent network without gates. The batch dimension comes first.

    ``nonlinearity`` is "tanh" or "relu". Other arguments, parameter paths and errors are those of `Lstm`, without
    ``proj_size``.

    Source: Elman, Finding Structure in Time, 1990.

    >>> output, hidden = Rnn(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)), lengths=[5, 2])
    >>> output.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        count: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_choice("Rnn", "nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity: Literal["tanh", "relu"] = nonlinearity
        super().__init__(
            inputs,
            hidden,
            count=count,
            bidirectional=bidirectional,
            dropout=dropout,
            bias=bias,
            device=device,
            initializer=initializer,
            generator=generator,
        )

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> RnnCell[B]:
        """Return a new cell."""
        return RnnCell(inputs, hidden, nonlinearity=self.nonlinearity, **settings)

    def valid(self: Rnn[Autodiff[I]]) -> Rnn[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
