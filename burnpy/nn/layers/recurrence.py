"""Recurrent cells and networks: `Lstm`, `Gru` and `Rnn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

from burnpy.backend.errors import KindError, a
from burnpy.nn.argument_checks import check_choice, floats
from burnpy.nn.layers.recurrence_frame import HiddenStateCell, HiddenStateNetwork, Recurrent, RecurrentCell
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.init import Initializer
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Ints


class LstmState(NamedTuple, Generic[B]):
    """The recurrent state of an `Lstm` or an `LstmCell`."""

    hidden: Tensor[B]  #: the hidden state, shape (layers · directions, N, hidden); of a cell (N, hidden)
    cell: Tensor[B]  #: the cell state, of the same shape


class LstmCell(RecurrentCell[B]):
    """A long short-term memory cell, which reads one element of each sequence.

    Gates are in PyTorch's order, i, f, g, o; the matrices are the transposes of PyTorch's.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        bias: whether the cell has biases.
        device: the device of the cell.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy.backend import NumPy
    >>> cell = LstmCell(3, 4, device=NumPy)
    >>> state = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), state).hidden.shape
    (2, 4)
    """

    gates = 4

    def forward(self, x: Tensor[B], state: LstmState[B] | tuple[Tensor[B], Tensor[B]] | None = None) -> LstmState[B]:
        """Return the next state, whose hidden part is the output.

        Args:
            x: shape (N, inputs) or (inputs,).
            state: the hidden and cell state, shape (N, hidden) or (hidden,) each; zeros by default.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a pair of tensors.
            DTypeError: x or the state is wider than the weights.
        """
        return LstmState(*self._once(x, _pair("LstmCell", state), LstmState._fields))

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden and cell states: see `RecurrentCell._states`."""
        given = {"x": projected, "hidden": state[0], "cell": state[1], "weight_hh": self.weight_hh.value}
        placed = floats(type(self).__name__, 4, **given)
        device: Any = placed[0].device
        states, cells, _ = device.lstm(*[x._primitive for x in placed], lengths, reverse)
        return placed[0]._like(states), placed[0]._like(cells)

    def valid(self: LstmCell[Autodiff[I]]) -> LstmCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Lstm(Recurrent[B]):
    """A multi-layer long short-term memory network. The batch dimension comes first.

    Parameter paths are ``layers.0.0.weight_ih`` and, for the reverse direction, ``layers.0.1.weight_ih``; in PyTorch
    they are ``weight_ih_l0`` and ``weight_ih_l0_reverse``, transposed.

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

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.

    >>> from burnpy.backend import NumPy
    >>> output, state = Lstm(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)))
    >>> output.shape, state.hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> LstmCell[B]:
        """Return a new cell."""
        return LstmCell(inputs, hidden, **settings)

    def forward(
        self,
        x: Tensor[B],
        state: LstmState[B] | tuple[Tensor[B], Tensor[B]] | None = None,
        *,
        lengths: Ints[B] | Sequence[int] | None = None,
    ) -> tuple[Tensor[B], LstmState[B]]:
        """Return the outputs of the last layer for all elements, and the final state.

        Args:
            x: shape (N, T, inputs), T at least 1.
            state: the initial hidden and cell state; zeros by default.
            lengths: of padded sequences, how many elements of each count, shape (N,). Outputs after those are 0, the
                final state is that after the last of them, and the reverse direction begins there.

        Returns:
            Outputs of shape (N, T, directions · hidden), and the final state.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a pair of tensors, or the lengths are not ints.
            ArgumentError: a length is not from 0 to T, on devices that check values at once.
            DTypeError: x or the state is wider than the weights.
        """
        output, last = self._outputs(x, _pair("Lstm", state), LstmState._fields, lengths)
        return output, LstmState(*last)

    def valid(self: Lstm[Autodiff[I]]) -> Lstm[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


def _pair(operation: str, state: object) -> LstmState[Any] | None:
    """Convert a pair of tensors to an `LstmState`."""
    if state is None:
        return None
    if not isinstance(state, tuple) or len(state) != 2 or not all(isinstance(part, Tensor) for part in state):
        raise KindError(f"{operation}() takes a state as LstmState(hidden, cell), got {a(type(state).__name__)}")
    return LstmState(*state)


class GruCell(HiddenStateCell[B]):
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

    Parameter paths are the same as in `burnpy.nn.Lstm`.

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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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

    Parameter paths are the same as in `burnpy.nn.Lstm`.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        nonlinearity: "tanh" or "relu".
        count: the number of stacked layers.
        bidirectional: whether each layer reads the sequence in both directions; its output size is then 2 · hidden.
        dropout: the dropout probability, in training, of each layer's output but the last's.
        bias: whether the layers have biases.
        device: the device of the layers.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Elman, Finding Structure in Time, 1990.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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
